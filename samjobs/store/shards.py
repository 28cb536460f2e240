"""Shards: find and claim them. Running them is `running.py`, their leases are `leases.py`; all are reached from here.

Says *which* rows and *only if still so*; how many of whom is `decisions/dispatch.py`'s matter, and what a failure
leads to `decisions/retry.py`'s.
"""

from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from samjobs.names import Reason
from samjobs.states import ShardState
from samjobs.store.engine import Connection, as_row, now
from samjobs.store.leases import abandoned, heartbeat, reclaim
from samjobs.store.rows import Shard
from samjobs.store.running import fail, finish, record, release, start
from samjobs.store.tables import in_states, not_held, shards
from samjobs.store.transitions import Why, dispatch

__all__ = [
    "abandoned",
    "claim",
    "fail",
    "finish",
    "get",
    "heartbeat",
    "next_due_at",
    "of_job",
    "reclaim",
    "record",
    "release",
    "start",
]

_CLAIMABLE = sa.and_(in_states(shards.c.state, [ShardState.QUEUED]), not_held(shards.c.held))
_DUE = (
    sa.select(shards)
    .where(_CLAIMABLE, shards.c.available_at <= sa.bindparam("now"))
    .limit(sa.bindparam("limit"))
    .with_for_update(skip_locked=True)
)
# One statement per index: each is in the order of its index, so a claim reads `limit` entries and stops.
_IN_ORDER = (shards.c.priority.desc(), shards.c.available_at, shards.c.job_created_at, shards.c.index)
_DUE_ANY = _DUE.order_by(*_IN_ORDER)
_DUE_IN_REGION = _DUE.where(shards.c.region == sa.bindparam("region")).order_by(*_IN_ORDER)
_DUE_IN_JOB = _DUE.where(shards.c.job_id == sa.bindparam("job_id")).order_by(shards.c.available_at, shards.c.index)


def _due(limit: int, now: datetime, job_id: UUID | None, region: str | None) -> tuple[sa.Select[Any], dict[str, Any]]:
    """The statement by which a claim chooses, with its parameters."""
    parameters: dict[str, Any] = {"now": now, "limit": limit}
    if job_id is not None:
        statement = _DUE_IN_JOB if region is None else _DUE_IN_JOB.where(shards.c.region == sa.bindparam("region"))
        return statement, parameters | {"job_id": job_id} | ({"region": region} if region is not None else {})
    if region is not None:
        return _DUE_IN_REGION, parameters | {"region": region}
    return _DUE_ANY, parameters


def claim(
    conn: Connection, *, limit: int, job_id: UUID | None = None, region: str | None = None, actor: str = ""
) -> list[Shard]:
    """Take up to `limit` due shards: queued → dispatched, `attempt` + 1. In order of priority, time, job, index.

    Due is what is queued, whose time has come (`not_before`, backoff), and which neither `suspend` nor `parallelism`
    holds. Two claims at once take different shards, and neither waits for the other (on SQLite they take turns).
    On Postgres commit a claim before anything else: it holds shards without their jobs, against the order of locks.
    """
    at = now(conn)
    statement, parameters = _due(limit, at, job_id, region)
    rows = conn.execute(statement, parameters).all()
    if not rows:
        return []
    return dispatch(conn, [as_row(Shard, row) for row in rows], Why(Reason.CLAIMED, actor, at))


def next_due_at(conn: Connection, job_id: UUID | None = None) -> datetime | None:
    """When the next queued shard that nothing holds comes due (it may be past); None if there is none."""
    query = sa.select(sa.func.min(shards.c.available_at)).where(_CLAIMABLE)
    if job_id is not None:
        query = query.where(shards.c.job_id == job_id)
    earliest: datetime | None = conn.execute(query).scalar_one()
    return earliest


def get(conn: Connection, shard_id: UUID) -> Shard | None:
    """The shard, or None."""
    row = conn.execute(sa.select(shards).where(shards.c.id == shard_id)).one_or_none()
    return None if row is None else as_row(Shard, row)


def of_job(conn: Connection, job_id: UUID, *, after_index: int = -1, limit: int = 1000) -> list[Shard]:
    """A job's shards by index, from the one after `after_index`."""
    query = (
        sa.select(shards)
        .where(shards.c.job_id == job_id, shards.c.index > after_index)
        .order_by(shards.c.index)
        .limit(limit)
    )
    return [as_row(Shard, row) for row in conn.execute(query)]
