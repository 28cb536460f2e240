"""The only code that writes a state: from, to, attempt fence, reason → the row, its event, and the job's counters.

The order of locks is job, then shard, then image, everywhere; only a claim takes shards alone, and it waits for
nobody. So two transactions cannot wait for each other, as long as each acts on one job, and a claim is committed
before anything else is done. Who changes a counter of a job holds that job's row from `lock_job` to the commit: keep
such a transaction to a few statements.

A transition that `samjobs.states` does not list raises IllegalTransition, before anything is written. One whose row
is not in the expected state, or has another attempt, writes nothing and says so by its result.

Images: what a row of `images` says itself is not said again by an event. Only a failure and its retry get one, since
the row forgets the first when the second comes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from samjobs.decisions.lifecycle import JobVerdict, job_state
from samjobs.errors import InvalidInput
from samjobs.names import Reason
from samjobs.states import IMAGE_TRANSITIONS, JOB_TERMINAL, ImageState, JobState, ShardState, may_become
from samjobs.store.deliveries import job_ended
from samjobs.store.engine import Connection, as_row
from samjobs.store.rows import ImageOutcome, Job, Shard, Subject
from samjobs.store.tables import events, images, in_states, jobs, shards


class IllegalTransition(ValueError):
    """A fault of the calling code: `samjobs.states` does not allow this change."""


@dataclass(frozen=True)
class Why:
    """What the event of a transition tells; the fields are columns of `events`."""

    reason: Reason
    actor: str
    at: datetime
    message: str = ""


@dataclass(frozen=True)
class Move:
    """A transition of shards: from, to, why, what else is set, and what else must hold of the row."""

    old: ShardState
    new: ShardState
    why: Why
    values: Mapping[str, Any] = field(default_factory=dict)
    only_if: Sequence[sa.ColumnElement[bool]] = ()


_BY_ID = sa.select(jobs).where(jobs.c.id == sa.bindparam("id"))
_BY_SHARD = sa.select(jobs).where(
    jobs.c.id == sa.select(shards.c.job_id).where(shards.c.id == sa.bindparam("id")).scalar_subquery()
)
# NO KEY UPDATE: inserting a row that refers to the job needs not wait.
_LOCK_BY_ID = _BY_ID.with_for_update(key_share=True)
_LOCK_BY_SHARD = _BY_SHARD.with_for_update(key_share=True)


def lock_job(conn: Connection, job_id: UUID) -> Job:
    """The job, locked until the transaction ends (SQLite: the write transaction is the lock).

    Raises:
        InvalidInput: no such job.
    """
    row = conn.execute(_LOCK_BY_ID, {"id": job_id}).one_or_none()
    if row is None:
        raise InvalidInput(f"job {job_id} is not in this database: it never was, or it has been pruned")
    return as_row(Job, row)


def job_of(conn: Connection, shard_id: UUID) -> Job | None:
    """The job of a shard, not locked; None if unknown."""
    row = conn.execute(_BY_SHARD, {"id": shard_id}).one_or_none()
    return None if row is None else as_row(Job, row)


def lock_job_of(conn: Connection, shard_id: UUID) -> Job | None:
    """The job of a shard, locked as by `lock_job`."""
    row = conn.execute(_LOCK_BY_SHARD, {"id": shard_id}).one_or_none()
    return None if row is None else as_row(Job, row)


def verdict_of(job: Job) -> JobVerdict:
    """What `job`'s state follows from now."""
    return job_state(
        job,
        expanded=job.expanded_at is not None,
        started=job.started_at is not None,
        suspend=job.suspend,
        cancel_reason=job.cancel_reason,
        max_failed_images=job.spec.failure_policy.max_failed_images,
    )


_UPDATE_JOB = jobs.update().where(jobs.c.id == sa.bindparam("_id"))


def settle_job(
    conn: Connection,
    job: Job,
    why: Why,
    *,
    counts: Mapping[str, int] | None = None,
    told_as: Reason | None = None,
    message: str = "",
    **changes: Any,
) -> JobVerdict:
    """Write a locked job's counters and wishes, and the state that follows from them. Its end goes to the outbox.

    Args:
        job: as `lock_job` gave it.
        why: `actor` and `at` of the event, if the state changes.
        told_as: the event's reason, where a person's act and not the verdict tells more.
        message: in place of the verdict's, where the caller knows more.
        counts: what to add to which counter, by the names of JobCounts.
        changes: other columns to set.
    """
    added = {name: getattr(job, name) + step for name, step in (counts or {}).items() if step}
    after = replace(job, **added, **changes)
    verdict = verdict_of(after)
    if message:
        verdict = replace(verdict, message=message)
    elif verdict.reason in _FIRST_OF:
        verdict = replace(verdict, message=verdict.message + _first_failure(conn, job.id, verdict.reason))
    values: dict[str, Any] = {"updated_at": why.at, **added, **changes}
    moved = verdict.state is not job.state
    if moved:
        values |= {"state": verdict.state, **_standing_of(verdict), **_times_of(after, verdict, why.at)}
    elif verdict.state in JOB_TERMINAL:
        values |= _standing_of(verdict)
    conn.execute(_UPDATE_JOB.values(**values), {"_id": job.id})
    if moved:
        told = Why(told_as or verdict.reason, why.actor, why.at, verdict.message)
        tell(conn, told, Subject.JOB, job.id, job.state, verdict.state)
        if verdict.state in JOB_TERMINAL:
            job_ended(conn, after, verdict, why.at)
    return verdict


_FAILED_IMAGE = sa.select(images.c.error).where(
    images.c.job_id == sa.bindparam("id"), in_states(images.c.state, [ImageState.FAILED])
)
_DEAD_SHARD = sa.select(shards.c.error).where(
    shards.c.job_id == sa.bindparam("id"), in_states(shards.c.state, [ShardState.DEAD])
)
# What a job failed of, the first of which is told with it: who reads that all failed asks next why one did.
_FIRST_OF = {
    Reason.ALL_IMAGES_FAILED: _FAILED_IMAGE.order_by(images.c.index).limit(1),
    Reason.MAX_FAILED_IMAGES: _FAILED_IMAGE.order_by(images.c.index).limit(1),
    Reason.SHARDS_DEAD: _DEAD_SHARD.order_by(shards.c.index).limit(1),
}
_LONGEST_FIRST = 300  # characters


def _first_failure(conn: Connection, job_id: UUID, reason: Reason) -> str:
    error = conn.execute(_FIRST_OF[reason], {"id": job_id}).scalar()
    return "" if not error else f"; the first: {error[:_LONGEST_FIRST]}"


def _standing_of(verdict: JobVerdict) -> dict[str, Any]:
    return {"reason": verdict.reason, "error": verdict.message if verdict.state is JobState.FAILED else None}


def _times_of(job: Job, verdict: JobVerdict, at: datetime) -> dict[str, Any]:
    """Columns that belong to being, or no longer being, at the end."""
    if verdict.state not in JOB_TERMINAL:
        return {"finished_at": None, "expires_at": None}
    ttl = job.spec.ttl_seconds_after_finished
    return {"finished_at": at, "expires_at": None if ttl is None else at + timedelta(seconds=ttl)}


def tell(
    conn: Connection,
    why: Why,
    subject: Subject,
    job_id: UUID,
    old: JobState | ShardState | None,
    new: JobState | ShardState,
    shard_id: UUID | None = None,
) -> None:
    """Write one event."""
    row = {"subject": subject, "job_id": job_id, "shard_id": shard_id, "from_state": old, "to_state": new}
    conn.execute(events.insert(), {**row, **vars(why)})


def check_move(old: ShardState, new: ShardState) -> None:
    """Raises IllegalTransition if a shard in `old` may not become `new`."""
    if not may_become(old, new):
        raise IllegalTransition(f"a shard that is {old.value} may not become {new.value} (samjobs/states.py)")


_DISPATCHED = {"state": ShardState.DISPATCHED, "incarnation": None, "heartbeat_at": None, "started_at": None}
_DISPATCH = (
    shards.update()
    .where(shards.c.id == sa.bindparam("_id"))
    .values(
        **_DISPATCHED,
        attempt=sa.bindparam("_attempt"),
        queue=sa.bindparam("_queue"),
        dispatched_at=sa.bindparam("_at"),
    )
)


def dispatch(conn: Connection, claimed: Sequence[Shard], why: Why) -> list[Shard]:
    """Move queued shards, whose rows this transaction has locked, to dispatched with their next attempt.

    `queue` is written as it stands in each: who sends messages sets it before.
    """
    check_move(ShardState.QUEUED, ShardState.DISPATCHED)
    dispatched = [
        replace(
            shard,
            state=ShardState.DISPATCHED,
            incarnation=None,
            heartbeat_at=None,
            started_at=None,
            attempt=shard.attempt + 1,
            dispatched_at=why.at,
        )
        for shard in claimed
    ]
    rows = [{"_id": shard.id, "_attempt": shard.attempt, "_queue": shard.queue, "_at": why.at} for shard in dispatched]
    conn.execute(_DISPATCH, rows)
    for_all = {
        "subject": Subject.SHARD,
        "from_state": ShardState.QUEUED,
        "to_state": ShardState.DISPATCHED,
        **vars(why),
    }
    conn.execute(events.insert(), [for_all | {"job_id": shard.job_id, "shard_id": shard.id} for shard in dispatched])
    return dispatched


def dispatching(taken: sa.Select[Any], *, queue: sa.ColumnElement[str]) -> sa.Select[Any]:
    """A statement that moves the queued shards that `taken` selects and locks to dispatched, with their next attempt,
    tells of each and gives the fields of Shard. Postgres only.

    Its parameters are those of `taken` and `queue`, `at` (the time) and `_actor`.
    """
    ids: Any = sa.func.array(sa.select(taken.cte("taken").c.id).scalar_subquery())
    at = sa.bindparam("at", type_=events.c.at.type)
    moved = (
        shards.update()
        # Not IN, for which Postgres would read the table: it cannot know how few a limit leaves.
        .where(shards.c.id == sa.any_(ids))
        .values(**_DISPATCHED, attempt=shards.c.attempt + 1, queue=queue, dispatched_at=at)
        .returning(*(shards.c[field.name] for field in fields(Shard)))
        .cte("moved")
    )
    same = {
        "subject": Subject.SHARD,
        "from_state": ShardState.QUEUED.value,
        "to_state": ShardState.DISPATCHED.value,
        "reason": Reason.CLAIMED,
        "message": "",
    }
    told: dict[str, sa.ColumnElement[Any]] = {
        "job_id": moved.c.job_id,
        "shard_id": moved.c.id,
        "at": at,
        "actor": sa.bindparam("_actor", type_=events.c.actor.type),
        **{name: sa.literal(value, events.c[name].type) for name, value in same.items()},
    }
    written = events.insert().from_select(list(told), sa.select(*told.values()))
    return sa.select(*moved.c).add_cte(written.returning(events.c.id).cte("told"))


def move_shard(conn: Connection, job: Job, shard_id: UUID, attempt: int, move: Move) -> Shard | None:
    """Move one shard if it still is in `move.old` with `attempt`. None, and nothing written, if it is not.

    Args:
        job: the shard's job; locked whenever the caller goes on to `settle_job`.

    Raises:
        IllegalTransition: see `samjobs.states`.
    """
    check_move(move.old, move.new)
    changed = conn.execute(
        shards.update()
        .where(shards.c.id == shard_id, shards.c.state == move.old, shards.c.attempt == attempt, *move.only_if)
        .values(**_written(move))
        .returning(shards)
    ).one_or_none()
    if changed is None:
        return None
    tell(conn, move.why, Subject.SHARD, job.id, move.old, move.new, shard_id)
    return as_row(Shard, changed)


def _written(move: Move) -> dict[str, Any]:
    """The columns of a transition. A shard that goes back has no message any more."""
    back = {"queue": None} if move.new is ShardState.QUEUED else {}
    return {"state": move.new, **back, **move.values}


def move_shards(conn: Connection, job: Job, move: Move) -> int:
    """Move all shards of a locked job that are in `move.old`; the number that moved. Three statements for any number.

    Raises:
        IllegalTransition: see `samjobs.states`.
    """
    check_move(move.old, move.new)
    chosen = sa.and_(shards.c.job_id == job.id, in_states(shards.c.state, [move.old]), *move.only_if)
    # Locked first: then the rows that the event is told of are the rows that are updated.
    conn.execute(sa.select(shards.c.id).where(chosen).order_by(shards.c.id).with_for_update())
    _tell_all(conn, move.why, Subject.SHARD, move.old, move.new, {"shard_id": shards.c.id}, shards.c.job_id, chosen)
    return conn.execute(shards.update().where(chosen).values(**_written(move))).rowcount


def _tell_all(
    conn: Connection,
    why: Why,
    subject: Subject,
    old: StrEnum,
    new: StrEnum,
    what: Mapping[str, sa.ColumnElement[Any]],
    job_id: sa.ColumnElement[UUID],
    chosen: sa.ColumnElement[bool],
) -> None:
    """Write one event for each row that `chosen` selects, in the database."""
    same = {"subject": subject, "from_state": old.value, "to_state": new.value, **vars(why)}
    columns: dict[str, sa.ColumnElement[Any]] = {"job_id": job_id, **what}
    columns |= {name: sa.literal(value, events.c[name].type) for name, value in same.items()}
    told = sa.select(*columns.values()).where(chosen)
    conn.execute(events.insert().from_select(list(columns), told, include_defaults=False))


def move_images(
    conn: Connection, job_id: UUID, outcomes: Sequence[ImageOutcome], shard_id: UUID, actor: str, at: datetime
) -> None:
    """Move pending images to their outcome; the caller has locked their shard and knows that they are pending.

    Raises:
        IllegalTransition: an outcome that is no end of a pending image.
    """
    for outcome in outcomes:
        if outcome.state not in IMAGE_TRANSITIONS[ImageState.PENDING]:
            raise IllegalTransition(f"a pending image may not become {outcome.state.value} (samjobs/states.py)")
    rows = [{f"_{name}": value for name, value in vars(outcome).items()} for outcome in outcomes]
    conn.execute(_MOVE_IMAGE, [row | {"_job_id": job_id, "_at": at} for row in rows])
    for_all = {
        "subject": Subject.IMAGE,
        "job_id": job_id,
        "shard_id": shard_id,
        "from_state": ImageState.PENDING,
        "to_state": ImageState.FAILED,
        "actor": actor,
        "at": at,
    }
    failed = [
        for_all | {"image_index": outcome.index, "reason": outcome.reason, "message": outcome.error or ""}
        for outcome in outcomes
        if outcome.state is ImageState.FAILED
    ]
    if failed:
        conn.execute(events.insert(), failed)


_MOVE_IMAGE = (
    images.update()
    .where(images.c.job_id == sa.bindparam("_job_id"), images.c.index == sa.bindparam("_index"))
    .values(
        finished_at=sa.bindparam("_at"),
        **{item.name: sa.bindparam(f"_{item.name}") for item in fields(ImageOutcome) if item.name != "index"},
    )
)


def reopen_images(conn: Connection, job: Job, only_if: sa.ColumnElement[bool], why: Why) -> int:
    """Move a locked job's failed images that fit `only_if` back to pending; the number that moved."""
    chosen = sa.and_(images.c.job_id == job.id, in_states(images.c.state, [ImageState.FAILED]), only_if)
    what = {"image_index": images.c.index}
    _tell_all(conn, why, Subject.IMAGE, ImageState.FAILED, ImageState.PENDING, what, images.c.job_id, chosen)
    cleared = {"reason": None, "error_class": None, "error": None, "finished_at": None}
    return conn.execute(images.update().where(chosen).values(state=ImageState.PENDING, **cleared)).rowcount
