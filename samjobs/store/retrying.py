"""A person's retry: failed images and dead shards go back to work, and their job with them.

Touches only shards that have ended: a worker that holds a shard has its list of images already.
"""

from uuid import UUID

import sqlalchemy as sa
from sqlalchemy import exc as sa_errors

from samjobs.errors import InvalidInput
from samjobs.names import Reason
from samjobs.states import ImageState, JobState, ShardState
from samjobs.store.engine import Connection, now
from samjobs.store.rows import Job, Retried
from samjobs.store.tables import images, in_states, shards
from samjobs.store.transitions import Move, Why, lock_job, move_shards, reopen_images, settle_job
from samjobs.store.window import open_window, starts_held

_ENDED = [ShardState.SUCCEEDED, ShardState.DEAD]
_OF_SHARD = sa.and_(
    images.c.job_id == shards.c.job_id,
    images.c.index >= shards.c.first_index,
    images.c.index < shards.c.first_index + shards.c.images_total,
)


def retry_failed(conn: Connection, job_id: UUID, *, actor: str) -> Retried:
    """Put the failed images of ended shards, and dead shards, back to work with their failures forgiven.

    The job becomes active again, and its merged result files count as not written.

    Raises:
        InvalidInput: no such job, a cancelled one, one past its TTL, or an equal job is active.
    """
    job = lock_job(conn, job_id)
    why = Why(Reason.RETRIED_BY_USER, actor, now(conn))
    if job.state is JobState.CANCELLED:
        raise InvalidInput(f"job {job_id} was cancelled: submit it anew instead of retrying it")
    if job.expires_at is not None and job.expires_at <= why.at:
        raise InvalidInput(f"job {job_id} is past its ttlSecondsAfterFinished and being forgotten: submit it anew")
    _uncount_failed(conn, job)
    ended = sa.exists().where(shards.c.job_id == job.id, in_states(shards.c.state, _ENDED), _OF_SHARD)
    reopened = reopen_images(conn, job, ended, why)
    fresh = {
        "failures": 0,
        "available_at": why.at,
        "held": starts_held(job),
        "error_class": None,
        "error": None,
        "finished_at": None,
    }
    unfinished = [shards.c.images_done < shards.c.images_total]
    succeeded = move_shards(conn, job, Move(ShardState.SUCCEEDED, ShardState.QUEUED, why, fresh, unfinished))
    dead = move_shards(conn, job, Move(ShardState.DEAD, ShardState.QUEUED, why, fresh))
    if not succeeded and not dead:
        return Retried(0, 0)
    open_window(conn, job)
    _settle(conn, job, why, reopened, succeeded, dead)
    return Retried(reopened, succeeded + dead)


def _settle(conn: Connection, job: Job, why: Why, reopened: int, succeeded: int, dead: int) -> None:
    counts = {"images_failed": -reopened, "shards_succeeded": -succeeded, "shards_dead": -dead}
    try:
        settle_job(conn, job, why, counts=counts, told_as=why.reason, published_at=None)
    except sa_errors.IntegrityError as error:
        # The only constraint that a job's coming back can break is the one on active equal jobs.
        raise InvalidInput(
            f"job {job.id} cannot be retried while an equal job is active: wait for that one, or cancel it"
        ) from error


def _uncount_failed(conn: Connection, job: Job) -> None:
    """Take the failed images of ended shards out of the shards' own counters."""
    failed = sa.select(sa.func.count()).where(_OF_SHARD, in_states(images.c.state, [ImageState.FAILED]))
    counted = failed.correlate(shards).scalar_subquery()
    conn.execute(
        shards.update()
        .where(shards.c.job_id == job.id, in_states(shards.c.state, _ENDED), counted > 0)
        .values(images_done=shards.c.images_done - counted)
    )
