"""Jobs that have an object in front of them (a SamJob): found by its uid, and changed as it is changed.

A `Brief` is a row without its spec's body, so that thousands can be looked at each second.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from samjobs.states import JOB_TERMINAL, JobState, ShardState
from samjobs.store.engine import Connection, as_row, now
from samjobs.store.notify import wake
from samjobs.store.rows import Job, WorkerState
from samjobs.store.tables import ACTIVE_JOB, in_states, jobs, shards, workers
from samjobs.store.transitions import lock_job

UIDS_AT_ONCE = 500
SHARD_OVER = frozenset({ShardState.SUCCEEDED, ShardState.CANCELLED})  # never queued again with its priority


@dataclass(frozen=True)
class Brief:
    """What of a job's row is compared with its object."""

    id: UUID
    uid: UUID
    tenant: str
    name: str | None
    region: str
    state: JobState
    suspend: bool
    priority: int
    ttl_s: int | None
    not_before: datetime | None
    expires_at: datetime | None
    updated_at: datetime


_TTL = sa.type_coerce(jobs.c.spec, sa.JSON)["ttlSecondsAfterFinished"].as_integer()
_BRIEF: sa.Select[Any] = sa.select(
    jobs.c.id,
    jobs.c.uid,
    jobs.c.tenant,
    jobs.c.name,
    jobs.c.region,
    jobs.c.state,
    jobs.c.suspend,
    jobs.c.priority,
    _TTL.label("ttl_s"),
    jobs.c.not_before,
    jobs.c.expires_at,
    jobs.c.updated_at,
)


def briefs(conn: Connection, uids: Collection[UUID]) -> dict[UUID, Brief]:
    """The rows of these uids, as far as there are any; at most UIDS_AT_ONCE."""
    assert len(uids) <= UIDS_AT_ONCE
    return {row.uid: as_row(Brief, row) for row in conn.execute(_BRIEF.where(jobs.c.uid.in_(uids)))}


def active(conn: Connection) -> list[Brief]:
    """The rows of all jobs that have an object and have not ended."""
    return [as_row(Brief, row) for row in conn.execute(_BRIEF.where(ACTIVE_JOB, jobs.c.uid.is_not(None)))]


def by_uid(conn: Connection, uids: Collection[UUID]) -> dict[UUID, Job]:
    """The whole jobs of these uids, as far as there are any; at most UIDS_AT_ONCE."""
    assert len(uids) <= UIDS_AT_ONCE
    rows = conn.execute(sa.select(jobs).where(jobs.c.uid.in_(uids)))
    return {row.uid: as_row(Job, row) for row in rows}


def regions_at_work(conn: Connection, *, within_s: float) -> frozenset[str]:
    """Regions that have a worker: one that was heard of within so many seconds and has not ended in order."""
    past = now(conn) - timedelta(seconds=within_s)
    found = sa.select(workers.c.region).where(workers.c.heartbeat_at > past, workers.c.state != WorkerState.GONE)
    return frozenset(conn.execute(found.distinct()).scalars())


def set_priority(conn: Connection, job_id: UUID, priority: int) -> bool:
    """Let a job go before, or after, others from now on. False if that changes nothing, or it has ended.

    Raises:
        InvalidInput: no such job.
    """
    job = lock_job(conn, job_id)
    if job.state in JOB_TERMINAL or job.priority == priority:
        return False
    at = wake(conn)
    open_shards = sa.and_(shards.c.job_id == job.id, in_states(shards.c.state, set(ShardState) - SHARD_OVER))
    # In its new lane a shard stands behind those that are there: who looks on from a place in it misses none.
    later = sa.case((shards.c.available_at < at, at), else_=shards.c.available_at)
    conn.execute(shards.update().where(open_shards).values(priority=priority, available_at=later))
    spec = job.spec.model_copy(update={"priority": priority})
    conn.execute(jobs.update().where(jobs.c.id == job.id).values(priority=priority, spec=spec, updated_at=at))
    return True


def set_ttl(conn: Connection, job_id: UUID, ttl_s: int | None) -> bool:
    """Say how long a job is kept after its end, also when it has ended. False if that changes nothing.

    Args:
        ttl_s: seconds; None for ever.

    Raises:
        InvalidInput: no such job.
    """
    job = lock_job(conn, job_id)
    if job.spec.ttl_seconds_after_finished == ttl_s:
        return False
    spec = job.spec.model_copy(update={"ttl_seconds_after_finished": ttl_s})
    kept = None if ttl_s is None or job.finished_at is None else job.finished_at + timedelta(seconds=ttl_s)
    changed = {"spec": spec, "expires_at": kept, "updated_at": wake(conn)}
    conn.execute(jobs.update().where(jobs.c.id == job.id).values(changed))
    return True
