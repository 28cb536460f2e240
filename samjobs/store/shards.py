"""Shards: find and claim them; and, from files of their own, everything else that is done to one.

`running` starts and ends them, `leases` keeps and takes back, `deadlist` lists the dead. All are reached from here.

Says *which* rows and *only if still so*; how many of whom is `decisions/dispatch.py`'s matter, and what a failure
leads to `decisions/retry.py`'s.
"""

from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from samjobs.names import Reason
from samjobs.store.deadlist import dead
from samjobs.store.engine import Connection, as_row, now
from samjobs.store.lanes import claim_lane, dispatched, standing, waiting_in
from samjobs.store.leases import abandoned, at_work, heartbeat, reclaim
from samjobs.store.rows import Shard
from samjobs.store.running import fail, finish, recall, record, release, start
from samjobs.store.tables import CLAIM_ORDER, CLAIM_ORDER_IN_JOB, CLAIMABLE, shards
from samjobs.store.transitions import Why, dispatch

__all__ = [
    "abandoned",
    "at_work",
    "claim",
    "claim_lane",
    "dead",
    "dispatched",
    "fail",
    "finish",
    "get",
    "heartbeat",
    "next_due_at",
    "of_job",
    "recall",
    "reclaim",
    "record",
    "release",
    "standing",
    "start",
    "waiting_in",
]


def _due(limit: int, at: datetime, job_id: UUID | None) -> sa.Select[tuple[Any, ...]]:
    """The shards that a claim takes: in the order of one index, of which it reads `limit` entries and stops."""
    due = sa.select(shards).where(CLAIMABLE, shards.c.available_at <= at)
    if job_id is not None:
        due = due.where(shards.c.job_id == job_id)
    order = CLAIM_ORDER if job_id is None else CLAIM_ORDER_IN_JOB
    return due.order_by(*order).limit(limit).with_for_update(skip_locked=True)


def claim(conn: Connection, *, limit: int, job_id: UUID | None = None, actor: str = "") -> list[Shard]:
    """Take up to `limit` due shards: queued → dispatched, `attempt` + 1. In order of priority, time, job, index.

    Due is what is queued, whose time has come (`not_before`, backoff), and which neither `suspend` nor `parallelism`
    holds. Two claims at once take different shards, and neither waits for the other (on SQLite they take turns).
    On Postgres commit a claim before anything else: it holds shards without their jobs, against the order of locks.
    """
    at = now(conn)
    rows = conn.execute(_due(limit, at, job_id)).all()
    if not rows:
        return []
    return dispatch(conn, [as_row(Shard, row) for row in rows], Why(Reason.CLAIMED, actor, at))


def next_due_at(conn: Connection, job_id: UUID | None = None) -> datetime | None:
    """When the next queued shard that nothing holds comes due (it may be past); None if there is none."""
    query = sa.select(sa.func.min(shards.c.available_at)).where(CLAIMABLE)
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
