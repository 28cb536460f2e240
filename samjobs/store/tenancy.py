"""What a tenant's own queue looks like, by region, counted from its own active jobs: nothing else is looked at.

Two numbers are exceptions in how they are found, not in what they cost: shards at work are few by the limits of the
dispatch, whoever owns them, and dead ones have an index by tenant.
"""

from collections import Counter
from collections.abc import Collection
from typing import Any

import sqlalchemy as sa

from samjobs.states import JOB_ACTIVE, JobState, ShardState
from samjobs.store.engine import Connection, now
from samjobs.store.rows import RegionStatus
from samjobs.store.tables import ACTIVE_JOB, AT_WORK, CLAIMABLE, QUEUED, in_states, jobs, shards


def regions(conn: Connection, tenants: Collection[str]) -> list[RegionStatus]:
    """What of some tenants waits and is at work, for every region in which something does, by name."""
    at = now(conn)
    mine = shards.c.tenant.in_(sorted(tenants))
    # By job: an index of free shards by tenant would have to be kept by every claim.
    own_jobs = sa.select(jobs.c.id).where(jobs.c.tenant.in_(sorted(tenants)), ACTIVE_JOB).subquery()
    of_own_jobs = shards.join(own_jobs, own_jobs.c.id == shards.c.job_id)
    due = shards.c.available_at <= at
    free = (
        sa.select(
            shards.c.region,
            sa.func.count().filter(due).label("due"),
            sa.func.count().filter(sa.not_(due)).label("waiting"),
            sa.func.min(shards.c.available_at).label("oldest"),
        )
        .select_from(of_own_jobs)
        .where(CLAIMABLE)
        .group_by(shards.c.region)
    )
    found: dict[str, Any] = {row.region: row for row in conn.execute(free)}
    held = _by_region(conn, sa.select(shards.c.region).select_from(of_own_jobs).where(QUEUED, shards.c.held))
    dead = _by_region(conn, sa.select(shards.c.region).where(in_states(shards.c.state, [ShardState.DEAD]), mine))
    at_work: Counter[tuple[str, ShardState]] = Counter()
    query = sa.select(shards.c.region, shards.c.state, sa.func.count()).where(AT_WORK, mine)
    for region, state, many in conn.execute(query.group_by(shards.c.region, shards.c.state)):
        at_work[region, state] = many
    return [
        RegionStatus(
            region=region,
            shards_due=found[region].due if region in found else 0,
            shards_waiting=found[region].waiting if region in found else 0,
            shards_held=held[region],
            shards_dispatched=at_work[region, ShardState.DISPATCHED],
            shards_running=at_work[region, ShardState.RUNNING],
            shards_dead=dead[region],
            oldest_due_age_s=(at - found[region].oldest).total_seconds()
            if region in found and found[region].due
            else None,
        )
        for region in sorted({*found, *held, *dead, *(name for name, _ in at_work)})
    ]


def _by_region(conn: Connection, query: sa.Select[tuple[str]]) -> Counter[str]:
    counted = query.add_columns(sa.func.count()).group_by(shards.c.region)
    return Counter({region: many for region, many in conn.execute(counted)})  # noqa: C416 - typed so


def active_jobs(conn: Connection, tenants: Collection[str] | None) -> dict[JobState, int]:
    """How many jobs of some tenants (None: of all) are in each active state."""
    query = sa.select(jobs.c.state, sa.func.count()).where(ACTIVE_JOB).group_by(jobs.c.state)
    if tenants is not None:
        query = query.where(jobs.c.tenant.in_(sorted(tenants)))
    counted: dict[JobState, int] = {state: many for state, many in conn.execute(query)}  # noqa: C416 - typed so
    return {state: counted.get(state, 0) for state in sorted(JOB_ACTIVE)}
