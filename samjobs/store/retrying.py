"""A person's retry: failed images, dead shards, or both go back to work, and their job with them.

Touches only shards that have ended: a worker that holds a shard has its list of images already.
"""

from typing import Any, Literal
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy import exc as sa_errors

from samjobs.errors import InvalidInput
from samjobs.names import Reason
from samjobs.states import JOB_TERMINAL, ImageState, ShardState
from samjobs.store.engine import Connection
from samjobs.store.notify import wake
from samjobs.store.rows import Job, Retried
from samjobs.store.tables import images, in_states, shards
from samjobs.store.transitions import Move, Why, lock_job, move_shards, reopen_images, settle_job
from samjobs.store.window import open_window, starts_held

What = Literal["all", "dead", "images"]

# Of which shards the failed images are reopened, and which go back to work.
_STATES: dict[What, list[ShardState]] = {
    "all": [ShardState.SUCCEEDED, ShardState.DEAD],
    "dead": [ShardState.DEAD],
    "images": [ShardState.SUCCEEDED],
}
_COUNTER = {ShardState.SUCCEEDED: "shards_succeeded", ShardState.DEAD: "shards_dead"}
_OF_SHARD = sa.and_(
    images.c.job_id == shards.c.job_id,
    images.c.index >= shards.c.first_index,
    images.c.index < shards.c.first_index + shards.c.images_total,
)


def retry_failed(conn: Connection, job_id: UUID, *, what: What = "all", actor: str) -> Retried:
    """Put the failed images of ended shards, and dead shards, back to work with their failures forgiven.

    The job becomes active again, and its merged result files count as not written.

    Args:
        what: "dead": only dead shards, with the failed images in them; "images": only the failed images of shards that
            succeeded.

    Raises:
        InvalidInput: no such job, a cancelled or stopped one, one past its TTL, or an equal job is active.
    """
    job = lock_job(conn, job_id)
    why = Why(Reason.RETRIED_BY_USER, actor, wake(conn))
    if job.cancel_reason is not None:
        raise InvalidInput(
            f"job {job_id} is {job.state.value} ({job.cancel_reason.value}): submit it anew instead of retrying it"
        )
    if job.expires_at is not None and job.expires_at <= why.at:
        raise InvalidInput(f"job {job_id} is past its ttlSecondsAfterFinished and being forgotten: submit it anew")
    states = _STATES[what]
    _uncount_failed(conn, job, states)
    ended = sa.exists().where(shards.c.job_id == job.id, in_states(shards.c.state, states), _OF_SHARD)
    reopened = reopen_images(conn, job, ended, why)
    fresh = {
        "failures": 0,
        "available_at": why.at,
        "held": starts_held(job),
        "error_class": None,
        "error": None,
        "finished_at": None,
    }
    unfinished = {ShardState.SUCCEEDED: [shards.c.images_done < shards.c.images_total]}
    moved = {
        state: move_shards(conn, job, Move(state, ShardState.QUEUED, why, fresh, unfinished.get(state, ())))
        for state in states
    }
    if not any(moved.values()):
        return Retried(0, 0)
    open_window(conn, job)
    _settle(conn, job, why, reopened, moved)
    return Retried(reopened, sum(moved.values()))


def _settle(conn: Connection, job: Job, why: Why, reopened: int, moved: dict[ShardState, int]) -> None:
    counts = {"images_failed": -reopened} | {_COUNTER[state]: -many for state, many in moved.items()}
    fresh: dict[str, Any] = {"published_at": None, "alive_at": why.at}
    if job.state in JOB_TERMINAL:
        # A publisher at work learns by this that what it gathers is no longer all.
        fresh |= {"keeper": None, "kept_at": None}
    try:
        settle_job(conn, job, why, counts=counts, told_as=why.reason, **fresh)
    except sa_errors.IntegrityError as error:
        # The only constraint that a job's coming back can break is the one on active equal jobs.
        raise InvalidInput(
            f"job {job.id} cannot be retried while an equal job is active: wait for that one, or cancel it"
        ) from error


def _uncount_failed(conn: Connection, job: Job, states: list[ShardState]) -> None:
    """Take the failed images of ended shards out of the shards' own counters."""
    failed = sa.select(sa.func.count()).where(_OF_SHARD, in_states(images.c.state, [ImageState.FAILED]))
    counted = failed.correlate(shards).scalar_subquery()
    conn.execute(
        shards.update()
        .where(shards.c.job_id == job.id, in_states(shards.c.state, states), counted > 0)
        .values(images_done=shards.c.images_done - counted)
    )
