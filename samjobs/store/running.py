"""Running a shard: start, record its images, end it or give it back.

`attempt` is the fencing token: every write names it, and one of an older attempt changes nothing. Each function says
by its result whether the shard was still the caller's.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from samjobs.decisions.lifecycle import BEGUN
from samjobs.decisions.retry import Verdict
from samjobs.errors import ErrorClass
from samjobs.names import Reason
from samjobs.spec import JobSpec
from samjobs.states import ImageState, JobState, ShardState
from samjobs.store.engine import Connection, as_row, now
from samjobs.store.notify import WOKEN, wake
from samjobs.store.rows import ImageOutcome, Job, Shard, Subject
from samjobs.store.tables import events, images, jobs, shards
from samjobs.store.together import Reader, Statement, together
from samjobs.store.transitions import (
    IllegalTransition,
    Move,
    Why,
    check_move,
    lock_job_of,
    move_images,
    move_shard,
    settle_job,
    tell,
)
from samjobs.store.types import db_now
from samjobs.store.window import open_window
from samjobs.store.workers import count_images


def start(
    conn: Connection, shard_id: UUID, attempt: int, incarnation: UUID, *, last: bool = False
) -> tuple[JobSpec, Shard] | None:
    """Begin to run a claimed shard: dispatched → running. None if it is no longer this attempt's to run.

    Somebody waits for this, so on Postgres it is one statement, and of the job only what a run needs comes back.

    Args:
        last: see `together`.
    """
    check_move(ShardState.DISPATCHED, ShardState.RUNNING)
    asked = {"_id": shard_id, "_attempt": attempt, "_incarnation": incarnation, "_actor": str(incarnation)}
    if conn.dialect.name == "sqlite":
        return _start_step_by_step(conn, asked)
    (started,) = together(conn, (_START_AT_ONCE, asked), last=last)
    return (JobSpec.model_validate_json(started[0][0]), _SHARD(started[0][2:])) if started else None


def _start_step_by_step(conn: Connection, asked: Mapping[str, Any]) -> tuple[JobSpec, Shard] | None:
    job = lock_job_of(conn, asked["_id"])
    row = None if job is None else conn.execute(_START.returning(*shards.c), asked).one_or_none()
    if job is None or row is None:
        return None
    shard = as_row(Shard, row)
    assert shard.started_at is not None, "just written"
    why = Why(Reason.STARTED, asked["_actor"], shard.started_at)
    tell(conn, why, Subject.SHARD, job.id, ShardState.DISPATCHED, ShardState.RUNNING, shard.id)
    if job.started_at is None:
        settle_job(conn, job, why, started_at=shard.started_at)
    return job.spec, shard


_START = (
    shards.update()
    .where(
        shards.c.id == sa.bindparam("_id"),
        shards.c.state == ShardState.DISPATCHED,
        shards.c.attempt == sa.bindparam("_attempt"),
    )
    .values(
        state=ShardState.RUNNING, incarnation=sa.bindparam("_incarnation"), heartbeat_at=db_now(), started_at=db_now()
    )
)


_SHARD = Reader(Shard, shards)


def _start_at_once() -> Statement:
    """All of it: the job's spec as text, nothing, and the fields of Shard.

    The job is locked, the shard moved, then the job if it is its first; each gets its event, and the controllers are
    woken.
    """
    its_job = sa.select(shards.c.job_id).where(shards.c.id == sa.bindparam("_id")).scalar_subquery()
    # NO KEY UPDATE, as everywhere. The update joins with it, so the job is locked before the shard.
    locked = sa.select(jobs).where(jobs.c.id == its_job).with_for_update(key_share=True).cte("locked")
    moved = _START.where(shards.c.job_id == locked.c.id).returning(*shards.c).cte("moved")
    begun = _begun(locked, moved)
    told = _told(locked, moved, begun).returning(events.c.id).cte("told")
    given = [sa.cast(locked.c.spec, sa.Text), WOKEN, *(moved.c[column.name] for column in _SHARD.columns)]
    return Statement(sa.select(*given).join_from(moved, locked, moved.c.job_id == locked.c.id).add_cte(told))


def _begun(locked: sa.CTE, moved: sa.CTE) -> sa.CTE:
    """The start of a job whose first shard this is. One that was suspended meanwhile stays so."""
    queued = locked.c.state == JobState.QUEUED
    return (
        jobs.update()
        .where(jobs.c.id == moved.c.job_id, jobs.c.id == locked.c.id, locked.c.started_at.is_(None))
        .values(
            started_at=moved.c.started_at,
            updated_at=moved.c.started_at,
            state=sa.case((queued, sa.literal(BEGUN.state, jobs.c.state.type)), else_=locked.c.state),
            reason=sa.case((queued, sa.literal(BEGUN.reason, jobs.c.reason.type)), else_=locked.c.reason),
        )
        .returning(jobs.c.id)
        .cte("begun")
    )


def _told(locked: sa.CTE, moved: sa.CTE, begun: sa.CTE) -> sa.Insert:
    """The event of the shard, and the job's if its state changed."""

    def event(subject: Subject, old: StrEnum, new: StrEnum, message: str, shard_id: Any) -> dict[str, Any]:
        words = {"subject": subject, "from_state": old.value, "to_state": new.value, "message": message}
        same = {name: sa.literal(value, events.c[name].type) for name, value in words.items()}
        who = {"reason": sa.literal(BEGUN.reason, events.c.reason.type), "actor": sa.bindparam("_actor", type_=sa.Text)}
        return {"job_id": moved.c.job_id, "shard_id": shard_id, "at": moved.c.started_at, **same, **who}

    of_shard = event(Subject.SHARD, ShardState.DISPATCHED, ShardState.RUNNING, "", moved.c.id)
    of_job = event(Subject.JOB, JobState.QUEUED, BEGUN.state, BEGUN.message, sa.null())
    changed = sa.and_(begun.c.id == moved.c.job_id, locked.c.id == begun.c.id, locked.c.state == JobState.QUEUED)
    both = sa.union_all(sa.select(*of_shard.values()), sa.select(*of_job.values()).where(changed))
    return events.insert().from_select(list(of_shard), both)


_START_AT_ONCE = _start_at_once()


_PENDING = sa.select(images.c.index).where(
    images.c.job_id == sa.bindparam("job_id"),
    images.c.index.in_(sa.bindparam("indices", expanding=True)),
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
    held = _lock_running(conn, shard_id, attempt)
    if held is None:
        return False
    job, shard = held
    at = now(conn)
    fresh = _still_pending(conn, shard, outcomes)
    alive = {"heartbeat_at": at, "images_done": shard.images_done + len(fresh)}
    conn.execute(shards.update().where(shards.c.id == shard_id).values(**alive))
    if fresh:
        move_images(conn, shard.job_id, fresh, shard_id, str(shard.incarnation), at)
        why = Why(Reason.PROCESSED, str(shard.incarnation), at)
        settle_job(conn, job, why, counts=_counted(fresh), alive_at=at)
        _worker_progressed(conn, shard, fresh, at)
    return True


def _lock_running(conn: Connection, shard_id: UUID, attempt: int) -> tuple[Job, Shard] | None:
    """The shard, if this attempt is running it, and its job; both locked."""
    job = lock_job_of(conn, shard_id)
    query = sa.select(shards).where(
        shards.c.id == shard_id, shards.c.state == ShardState.RUNNING, shards.c.attempt == attempt
    )
    row = None if job is None else conn.execute(query.with_for_update(key_share=True)).one_or_none()
    return None if job is None or row is None else (job, as_row(Shard, row))


def _still_pending(conn: Connection, shard: Shard, outcomes: Sequence[ImageOutcome]) -> list[ImageOutcome]:
    """Of `outcomes` those of images of the shard that have none yet, each once."""
    end = shard.first_index + shard.images_total
    mine = {outcome.index: outcome for outcome in outcomes if shard.first_index <= outcome.index < end}
    if mine and shard.images_done:
        place = {"job_id": shard.job_id, "indices": list(mine)}
        pending = set(conn.execute(_PENDING, place).scalars())
        mine = {index: outcome for index, outcome in mine.items() if index in pending}
    return list(mine.values())


def _counted(outcomes: Sequence[ImageOutcome]) -> Counter[str]:
    return Counter(_COUNTER[outcome.state] for outcome in outcomes)


def _worker_progressed(conn: Connection, shard: Shard, outcomes: Sequence[ImageOutcome], at: datetime) -> None:
    """Last of all, since it is a row of the worker's own: nobody who waits for it holds what this transaction wants."""
    if shard.incarnation is not None:
        count_images(conn, shard.incarnation, len(outcomes), at)


def finish(conn: Connection, shard_id: UUID, attempt: int, outcomes: Sequence[ImageOutcome] = ()) -> bool:
    """End a running shard whose images all have an outcome: running → succeeded. False when the lease is lost.

    Args:
        outcomes: the last ones, recorded with the end as by `record`.

    Raises:
        IllegalTransition: images are still pending (a fault of the caller).
    """
    held = _lock_running(conn, shard_id, attempt)
    if held is None:
        return False
    job, shard = held
    fresh = _still_pending(conn, shard, outcomes)
    done = shard.images_done + len(fresh)
    if done < shard.images_total:
        waiting = shard.images_total - done
        raise IllegalTransition(f"shard {shard_id} may not succeed: {waiting} of its images have no outcome")
    why = Why(Reason.FINISHED, str(shard.incarnation), wake(conn))
    ended = {"finished_at": why.at, "images_done": done, "error_class": None, "error": None}
    moved = move_shard(conn, job, shard_id, attempt, Move(ShardState.RUNNING, ShardState.SUCCEEDED, why, ended))
    assert moved, "the row is locked"
    _place_freed(conn, job)
    alive: dict[str, Any] = {}
    if fresh:
        move_images(conn, shard.job_id, fresh, shard_id, str(shard.incarnation), why.at)
        alive = {"alive_at": why.at}
    settle_job(conn, job, why, counts={"shards_succeeded": 1, **_counted(fresh)}, **alive)
    if fresh:
        _worker_progressed(conn, shard, fresh, why.at)
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
    why = Why(reason, actor, wake(conn), message)
    queued = _queued(job, why.at)
    return any(
        move_shard(conn, job, shard_id, attempt, Move(state, ShardState.QUEUED, why, queued)) is not None
        for state in (ShardState.RUNNING, ShardState.DISPATCHED)
    )


def recall(
    conn: Connection,
    shard_id: UUID,
    attempt: int,
    *,
    reason: Reason,
    message: str = "",
    actor: str = "",
) -> bool:
    """Take a shard back that was sent: dispatched → queued, uncharged, to its old place. False when it has started."""
    job = lock_job_of(conn, shard_id)
    if job is None:
        return False
    why = Why(reason, actor, wake(conn), message)
    back = Move(ShardState.DISPATCHED, ShardState.QUEUED, why, {"held": job.suspend})
    return move_shard(conn, job, shard_id, attempt, back) is not None


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
    why = Why(verdict.reason, actor, wake(conn), f"{verdict.message}: {error}")
    dead = verdict.state is ShardState.DEAD
    due_at = why.at + timedelta(seconds=verdict.delay_s)
    values: dict[str, Any] = {"finished_at": why.at} if dead else _queued(job, due_at)
    values |= {"error_class": error_class, "error": error, "failures": shards.c.failures + int(verdict.charged)}
    move = Move(ShardState.RUNNING, verdict.state, why, values, only_if)
    if move_shard(conn, job, shard_id, attempt, move) is None:
        return False
    if dead:
        _place_freed(conn, job)
        settle_job(conn, job, why, counts={"shards_dead": 1})
    return True
