"""Jobs: submit, read, suspend; and, from files of their own, everything else that is done to one.

`expansion` fills it with images, `keeping` says who lists and publishes it, `ending` cancels or stops it, `retrying`
and `deadlist` are a person's second thoughts, `forgetting` deletes it. All are reached from here.

A job is submitted first and filled afterwards, in batches, so that a million images never lie in memory; until
`mark_expanded` it cannot end. Its shards may be claimed meanwhile.
"""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from samjobs.errors import DatabaseUnavailable, InvalidInput
from samjobs.names import DEFAULT_TENANT, Reason
from samjobs.spec import JobSpec
from samjobs.states import JOB_TERMINAL, JobState, ShardState
from samjobs.store.deadlist import purge_dead
from samjobs.store.ending import cancel, overdue, silent, stop
from samjobs.store.engine import Connection, as_row
from samjobs.store.expansion import add_images, mark_expanded
from samjobs.store.forgetting import delete, prune_finished
from samjobs.store.keeping import keep, leave, mark_published, to_list, to_publish
from samjobs.store.notify import wake
from samjobs.store.retrying import retry_failed
from samjobs.store.rows import Event, Job, Subject, Submitted
from samjobs.store.tables import ACTIVE_JOB, in_states, jobs
from samjobs.store.tables import events as event_rows
from samjobs.store.transitions import Move, Why, lock_job, move_shards, settle_job, tell, verdict_of
from samjobs.store.window import close_window, open_window

__all__ = [
    "add_images",
    "cancel",
    "delete",
    "events",
    "find",
    "get",
    "keep",
    "leave",
    "list_jobs",
    "mark_expanded",
    "mark_published",
    "overdue",
    "prune_finished",
    "purge_dead",
    "retry_failed",
    "set_suspend",
    "silent",
    "stop",
    "submit",
    "to_list",
    "to_publish",
    "verdict_of",
]

_SUBMIT_TRIES = 5
_LEAST_PREFIX = 4
_COUNTERS = [column.name for column in jobs.c if column.name.startswith(("images_", "shards_"))]


def submit(
    conn: Connection,
    spec: JobSpec,
    *,
    tenant: str = DEFAULT_TENANT,
    name: str | None = None,
    uid: UUID | None = None,
    submitter: UUID | None = None,
    job_id: UUID | None = None,
    actor: str = "",
) -> Submitted:
    """Put a job into the table, without images yet; or, if `spec.dedupe`, join an equal one that is still active.

    Args:
        uid: of the SamJob in front of it; a job of that uid, in whatever state, is the one that is meant.
        submitter: incarnation of the local process that will add the images.
        job_id: the id to give it; a job that has it already, in whatever state, is the one that is meant.

    Raises:
        DatabaseUnavailable: equal jobs came and went faster than this one could join any.
    """
    row = new_row(spec, tenant, name, uid, submitter, job_id or uuid4(), wake(conn))
    for _ in range(_SUBMIT_TRIES):
        if conn.execute(insert_or_nothing(conn), row).rowcount == 1:
            why = Why(Reason.SUBMITTED, actor, row["created_at"])
            tell(conn, why, Subject.JOB, row["id"], None, row["state"])
            return Submitted(row["id"], created=True)
        equal = _in_its_place(conn, row)
        # None: it ended between the two statements, so the way is free now.
        if equal is not None:
            return Submitted(equal, created=False)
    raise DatabaseUnavailable("an equal job starts and ends again and again: submit once more")


def _in_its_place(conn: Connection, row: dict[str, Any]) -> UUID | None:
    """The job because of which `row` was not inserted: the one that is meant, or an equal one that is active."""
    # One query for each index; an OR over them would use none.
    ways = [jobs.c.id == row["id"]]
    if row["uid"] is not None:
        ways.append(jobs.c.uid == row["uid"])
    if row["dedupe_key"] is not None:
        ways.append(sa.and_(jobs.c.tenant == row["tenant"], jobs.c.dedupe_key == row["dedupe_key"], ACTIVE_JOB))
    for same in ways:
        found: UUID | None = conn.execute(sa.select(jobs.c.id).where(same)).scalar_one_or_none()
        if found is not None:
            return found
    return None


def new_row(
    spec: JobSpec,
    tenant: str,
    name: str | None,
    uid: UUID | None,
    submitter: UUID | None,
    job_id: UUID,
    at: datetime,
) -> dict[str, Any]:
    """The row of a job without images yet."""
    deadline_s = spec.active_deadline_seconds
    return {
        **dict.fromkeys(_COUNTERS, 0),
        "id": job_id,
        "tenant": tenant,
        "name": name,
        "uid": uid,
        "spec": spec,
        "config_hash": spec.config_hash(),
        "dedupe_key": spec.dedupe_key() if spec.dedupe else None,
        "region": spec.region,
        "priority": spec.priority,
        "state": JobState.SUSPENDED if spec.suspend else JobState.QUEUED,
        "reason": Reason.SUSPENDED_BY_USER if spec.suspend else Reason.SUBMITTED,
        "suspend": spec.suspend,
        "submitter": submitter,
        "not_before": spec.not_before,
        "deadline_at": None if deadline_s is None else at + timedelta(seconds=deadline_s),
        "created_at": at,
        "alive_at": alive_from(spec.not_before, at),
        "updated_at": at,
    }


def alive_from(not_before: datetime | None, at: datetime) -> datetime:
    """From when on a job is expected to move: now, or when it may begin."""
    return max(at, not_before) if not_before else at


def insert_or_nothing(conn: Connection) -> sa.Insert:
    """An insert that writes no row where the dedupe index has one. Postgres waits for who is just inserting it."""
    insert = sqlite.insert(jobs) if conn.dialect.name == "sqlite" else postgresql.insert(jobs)
    # SQLAlchemy keeps the row count of an insert only when asked to.
    return insert.on_conflict_do_nothing().execution_options(preserve_rowcount=True)


def get(conn: Connection, job_id: UUID) -> Job | None:
    """The job, or None."""
    row = conn.execute(sa.select(jobs).where(jobs.c.id == job_id)).one_or_none()
    return None if row is None else as_row(Job, row)


def find(conn: Connection, prefix_or_name: str) -> Job | None:
    """The job whose id begins so (at least 4 hex digits), else the newest one of that name, else None.

    Raises:
        InvalidInput: the prefix fits several jobs.
    """
    digits = prefix_or_name.replace("-", "").lower()
    if _LEAST_PREFIX <= len(digits) <= 32 and set(digits) <= set("0123456789abcdef"):
        # A range of ids, so that the primary key's index answers.
        low, high = UUID(digits.ljust(32, "0")), UUID(digits.ljust(32, "f"))
        rows = conn.execute(sa.select(jobs).where(jobs.c.id.between(low, high)).limit(2)).all()
        if len(rows) > 1:
            raise InvalidInput(f"job {prefix_or_name} is not unique: give more digits of the id")
        if rows:
            return as_row(Job, rows[0])
    named = sa.select(jobs).where(jobs.c.name == prefix_or_name).order_by(jobs.c.created_at.desc()).limit(1)
    row = conn.execute(named).one_or_none()
    return None if row is None else as_row(Job, row)


def list_jobs(
    conn: Connection,
    *,
    tenant: str | None = None,
    region: str | None = None,
    state: JobState | None = None,
    active_only: bool = False,
    before: datetime | None = None,
    limit: int = 50,
) -> list[Job]:
    """Jobs, newest first.

    Args:
        before: created before this; the last one's `created_at` gives the next page.
    """
    query = sa.select(jobs).order_by(jobs.c.created_at.desc(), jobs.c.id).limit(limit)
    if tenant is not None:
        query = query.where(jobs.c.tenant == tenant)
    if region is not None:
        query = query.where(jobs.c.region == region)
    if state is not None:
        query = query.where(in_states(jobs.c.state, [state]))
    if active_only:
        query = query.where(ACTIVE_JOB)
    if before is not None:
        query = query.where(jobs.c.created_at < before)
    return [as_row(Job, row) for row in conn.execute(query)]


def events(conn: Connection, job_id: UUID, *, after: int = 0, limit: int = 100) -> list[Event]:
    """What happened to a job, its shards and its images, oldest first; `after` is the id of the last one seen."""
    query = (
        sa.select(event_rows)
        .where(event_rows.c.job_id == job_id, event_rows.c.id > after)
        .order_by(event_rows.c.id)
        .limit(limit)
    )
    return [as_row(Event, row) for row in conn.execute(query)]


def set_suspend(conn: Connection, job_id: UUID, suspend: bool, *, actor: str) -> bool:
    """Suspend a job or let it go on. False if that changes nothing, or it has ended.

    Shards that wait for a worker go back to the queue. Running ones learn it by their heartbeat (SUSPENDED) and are
    to release themselves.

    Raises:
        InvalidInput: no such job.
    """
    job = lock_job(conn, job_id)
    if job.state in JOB_TERMINAL or job.suspend == suspend:
        return False
    why = Why(Reason.SUSPENDED_BY_USER if suspend else Reason.RESUMED_BY_USER, actor, wake(conn))
    alive_at = job.alive_at if suspend else alive_from(job.not_before, why.at)
    if suspend:
        # First the queued ones: then no claim can add to the dispatched ones while they are taken back.
        close_window(conn, job)
        held = {"held": True, "available_at": why.at}
        move_shards(conn, job, Move(ShardState.DISPATCHED, ShardState.QUEUED, why, held))
    else:
        open_window(conn, job, suspend=False)
    settle_job(conn, job, why, told_as=why.reason, suspend=suspend, alive_at=alive_at)
    return True
