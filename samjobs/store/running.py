"""Running a shard: start, record its images, end it or give it back.

`attempt` is the fencing token: every write names it, and one of an older attempt changes nothing. Each function says
by its result whether the shard was still the caller's.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from samjobs.decisions.retry import Verdict
from samjobs.errors import ErrorClass
from samjobs.names import Reason
from samjobs.states import ImageState, ShardState
from samjobs.store.engine import Connection, as_row, now
from samjobs.store.rows import ImageOutcome, Job, Shard
from samjobs.store.tables import images, shards
from samjobs.store.transitions import (
    IllegalTransition,
    Move,
    Why,
    job_of,
    lock_job_of,
    move_images,
    move_shard,
    settle_job,
)
from samjobs.store.window import open_window


def start(conn: Connection, shard_id: UUID, attempt: int, incarnation: UUID) -> Shard | None:
    """Begin to run a claimed shard: dispatched → running. None if it is no longer this attempt's to run."""
    job = job_of(conn, shard_id)
    # The job's row is locked for its very first shard only: later starts change nothing in it.
    if job is not None and job.started_at is None:
        job = lock_job_of(conn, shard_id)
    if job is None:
        return None
    why = Why(Reason.STARTED, str(incarnation), now(conn))
    begun = {"incarnation": incarnation, "heartbeat_at": why.at, "started_at": why.at}
    if not move_shard(conn, job, shard_id, attempt, Move(ShardState.DISPATCHED, ShardState.RUNNING, why, begun)):
        return None
    if job.started_at is None:
        settle_job(conn, job, why, started_at=why.at)
    row = conn.execute(sa.select(shards).where(shards.c.id == shard_id)).one()
    return as_row(Shard, row)


_PENDING = sa.select(images.c.index).where(
    images.c.job_id == sa.bindparam("job_id"),
    images.c.index.in_(sa.bindparam("indices", expanding=True)),
    images.c.index >= sa.bindparam("first"),
    images.c.index < sa.bindparam("end"),
    images.c.state == ImageState.PENDING,
)
_COUNTER = {
    ImageState.DONE: "images_done",
    ImageState.FAILED: "images_failed",
    ImageState.SKIPPED: "images_skipped",
}


def record(conn: Connection, shard_id: UUID, attempt: int, outcomes: Sequence[ImageOutcome]) -> bool:
    """Write what became of some images of a running shard, and count them. It also is a sign of life.

    An image whose outcome is recorded already is left as it is, so a call whose answer got lost may be repeated.

    Returns:
        False, with nothing written, when the lease is lost.
    """
    job = lock_job_of(conn, shard_id)
    shard = None if job is None else _lock_running(conn, shard_id, attempt)
    if job is None or shard is None:
        return False
    at = now(conn)
    fresh = _still_pending(conn, shard, outcomes)
    alive = {"heartbeat_at": at, "images_done": shard.images_done + len(fresh)}
    conn.execute(shards.update().where(shards.c.id == shard_id).values(**alive))
    if fresh:
        move_images(conn, shard.job_id, fresh, shard_id, str(shard.incarnation), at)
        counts = dict.fromkeys(_COUNTER.values(), 0)
        for outcome in fresh:
            counts[_COUNTER[outcome.state]] += 1
        settle_job(conn, job, Why(Reason.PROCESSED, str(shard.incarnation), at), counts=counts)
    return True


def _lock_running(conn: Connection, shard_id: UUID, attempt: int) -> Shard | None:
    query = sa.select(shards).where(
        shards.c.id == shard_id, shards.c.state == ShardState.RUNNING, shards.c.attempt == attempt
    )
    row = conn.execute(query.with_for_update(key_share=True)).one_or_none()
    return None if row is None else as_row(Shard, row)


def _still_pending(conn: Connection, shard: Shard, outcomes: Sequence[ImageOutcome]) -> list[ImageOutcome]:
    place = {"job_id": shard.job_id, "first": shard.first_index, "end": shard.first_index + shard.images_total}
    asked = {"indices": [outcome.index for outcome in outcomes]}
    pending = set(conn.execute(_PENDING, place | asked).scalars())
    return [outcome for outcome in outcomes if outcome.index in pending]


def finish(conn: Connection, shard_id: UUID, attempt: int) -> bool:
    """End a running shard whose images all have an outcome: running → succeeded. False when the lease is lost.

    Raises:
        IllegalTransition: images are still pending (a fault of the caller).
    """
    job = lock_job_of(conn, shard_id)
    shard = None if job is None else _lock_running(conn, shard_id, attempt)
    if job is None or shard is None:
        return False
    if shard.images_done < shard.images_total:
        waiting = shard.images_total - shard.images_done
        raise IllegalTransition(f"shard {shard_id} may not succeed: {waiting} of its images have no outcome")
    why = Why(Reason.FINISHED, str(shard.incarnation), now(conn))
    ended = {"finished_at": why.at, "error_class": None, "error": None}
    moved = move_shard(conn, job, shard_id, attempt, Move(ShardState.RUNNING, ShardState.SUCCEEDED, why, ended))
    assert moved, "the row is locked"
    _place_freed(conn, job)
    settle_job(conn, job, why, counts={"shards_succeeded": 1})
    return True


def _place_freed(conn: Connection, job: Job) -> None:
    if job.spec.parallelism is not None:
        open_window(conn, job)


def release(
    conn: Connection,
    shard_id: UUID,
    attempt: int,
    *,
    reason: Reason,
    message: str = "",
    actor: str = "",
) -> bool:
    """Give a dispatched or running shard back uncharged: → queued, due at once. False when it is lost."""
    job = lock_job_of(conn, shard_id)
    if job is None:
        return False
    why = Why(reason, actor, now(conn), message)
    queued = _queued(job, why.at)
    return any(
        move_shard(conn, job, shard_id, attempt, Move(state, ShardState.QUEUED, why, queued))
        for state in (ShardState.RUNNING, ShardState.DISPATCHED)
    )


def _queued(job: Job, at: datetime) -> dict[str, Any]:
    # Not held by parallelism: it keeps the place that it had.
    return {"available_at": at, "held": job.suspend}


def fail(
    conn: Connection,
    shard_id: UUID,
    attempt: int,
    verdict: Verdict,
    *,
    error_class: ErrorClass,
    error: str,
    actor: str = "",
    only_if: Sequence[sa.ColumnElement[bool]] = (),
) -> bool:
    """Do with a running shard what `decisions.retry` said: → queued or dead, with its error. False when it is lost.

    Args:
        only_if: further conditions on the row, from inside this package.
    """
    job = lock_job_of(conn, shard_id)
    if job is None:
        return False
    why = Why(verdict.reason, actor, now(conn), f"{verdict.message}: {error}")
    dead = verdict.state is ShardState.DEAD
    due_at = why.at + timedelta(seconds=verdict.delay_s)
    values: dict[str, Any] = {"finished_at": why.at} if dead else _queued(job, due_at)
    values |= {"error_class": error_class, "error": error, "failures": shards.c.failures + int(verdict.charged)}
    move = Move(ShardState.RUNNING, verdict.state, why, values, only_if)
    if not move_shard(conn, job, shard_id, attempt, move):
        return False
    if dead:
        _place_freed(conn, job)
        settle_job(conn, job, why, counts={"shards_dead": 1})
    return True
