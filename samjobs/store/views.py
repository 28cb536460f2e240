"""Read models for people: the whole queue. Nothing here counts finished rows."""

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from samjobs.states import JOB_ACTIVE, JobState, ShardState
from samjobs.store.engine import Connection, now
from samjobs.store.rows import QueueStatus
from samjobs.store.tables import CLAIMABLE, QUEUED, in_states, jobs, shards


def queue_status(conn: Connection, *, region: str | None = None) -> QueueStatus:
    """What is at work and what waits, over all jobs or in one region. Each number is counted in a partial index."""
    at = now(conn)
    here = [] if region is None else [shards.c.region == region]
    claimable = [CLAIMABLE, *here]
    oldest = conn.execute(sa.select(sa.func.min(shards.c.available_at)).where(*claimable)).scalar_one()
    due = _count(conn, [*claimable, shards.c.available_at <= at])
    by_state = {
        state: _count(conn, [in_states(shards.c.state, [state]), *here])
        for state in (ShardState.DISPATCHED, ShardState.RUNNING, ShardState.DEAD)
    }
    return QueueStatus(
        jobs=_active_jobs(conn, region),
        shards_due=due,
        shards_waiting=_count(conn, [*claimable, shards.c.available_at > at]),
        shards_held=_count(conn, [QUEUED, shards.c.held, *here]),
        shards_dispatched=by_state[ShardState.DISPATCHED],
        shards_running=by_state[ShardState.RUNNING],
        shards_dead=by_state[ShardState.DEAD],
        oldest_due_age_s=(at - oldest).total_seconds() if due else None,
        at=at,
    )


def _active_jobs(conn: Connection, region: str | None) -> dict[JobState, int]:
    query = sa.select(jobs.c.state, sa.func.count()).where(in_states(jobs.c.state, JOB_ACTIVE)).group_by(jobs.c.state)
    if region is not None:
        query = query.where(jobs.c.region == region)
    counted: dict[JobState, int] = {state: many for state, many in conn.execute(query)}  # noqa: C416 - typed so
    return {state: counted.get(state, 0) for state in sorted(JOB_ACTIVE)}


def _count(conn: Connection, conditions: Iterable[Any]) -> int:
    return conn.execute(sa.select(sa.func.count()).select_from(shards).where(*conditions)).scalar_one()
