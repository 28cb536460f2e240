"""Read models: the queue for people, and the views that decisions are made from. Nothing here counts finished rows."""

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from samjobs.decisions import dispatch, waiting
from samjobs.settings import Settings
from samjobs.states import JOB_ACTIVE, JobState, ShardState
from samjobs.store import lanes
from samjobs.store.engine import Connection, as_row, now
from samjobs.store.lanes import AtWork, Heads, Position
from samjobs.store.rows import Job, QueueStatus, RegionStatus, WorkerState
from samjobs.store.tables import (
    ACTIVE,
    CLAIM_ORDER_IN_JOB,
    CLAIMABLE,
    QUEUED,
    in_states,
    jobs,
    shards,
    workers,
)
from samjobs.store.types import UtcDateTime

WORKERS_KEPT_S = 1.0


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
        jobs=active_jobs(conn, region),
        shards_due=due,
        shards_waiting=_count(conn, [*claimable, shards.c.available_at > at]),
        shards_held=_count(conn, [QUEUED, shards.c.held, *here]),
        shards_dispatched=by_state[ShardState.DISPATCHED],
        shards_running=by_state[ShardState.RUNNING],
        shards_dead=by_state[ShardState.DEAD],
        oldest_due_age_s=(at - oldest).total_seconds() if due else None,
        at=at,
    )


def active_jobs(conn: Connection, region: str | None = None) -> dict[JobState, int]:
    """How many jobs there are in each active state, over all or in one region."""
    query = sa.select(jobs.c.state, sa.func.count()).where(in_states(jobs.c.state, JOB_ACTIVE)).group_by(jobs.c.state)
    if region is not None:
        query = query.where(jobs.c.region == region)
    counted: dict[JobState, int] = {state: many for state, many in conn.execute(query)}  # noqa: C416 - typed so
    return {state: counted.get(state, 0) for state in sorted(JOB_ACTIVE)}


def _count(conn: Connection, conditions: Iterable[Any]) -> int:
    return conn.execute(sa.select(sa.func.count()).select_from(shards).where(*conditions)).scalar_one()


def regions(conn: Connection) -> list[RegionStatus]:
    """The same by region, for every region with such a shard, by name. Costs as much as is queued."""
    at = now(conn)
    free = {row.region: row for row in conn.execute(_FREE, {"at": at})}
    held = _by_region(conn, QUEUED, shards.c.held)
    counts = {
        state: _by_region(conn, in_states(shards.c.state, [state]))
        for state in (ShardState.DISPATCHED, ShardState.RUNNING, ShardState.DEAD)
    }
    return [
        RegionStatus(
            region=region,
            shards_due=free[region].due if region in free else 0,
            shards_waiting=free[region].waiting if region in free else 0,
            shards_held=held[region],
            shards_dispatched=counts[ShardState.DISPATCHED][region],
            shards_running=counts[ShardState.RUNNING][region],
            shards_dead=counts[ShardState.DEAD][region],
            oldest_due_age_s=(at - free[region].oldest).total_seconds()
            if region in free and free[region].due
            else None,
        )
        for region in sorted(free.keys() | held.keys() | {name for counted in counts.values() for name in counted})
    ]


_DUE = shards.c.available_at <= sa.bindparam("at")
_FREE = (
    sa.select(
        shards.c.region,
        sa.func.count().filter(_DUE).label("due"),
        sa.func.count().filter(sa.not_(_DUE)).label("waiting"),
        sa.func.min(shards.c.available_at).label("oldest"),
    )
    .where(CLAIMABLE)
    .group_by(shards.c.region)
)


def _by_region(conn: Connection, *conditions: sa.ColumnElement[bool]) -> Counter[str]:
    query = sa.select(shards.c.region, sa.func.count()).where(*conditions).group_by(shards.c.region)
    return Counter({region: many for region, many in conn.execute(query)})  # noqa: C416 - typed so


def limits_of(settings: Settings) -> dispatch.Limits:
    """What is set for the dispatch. Here, because decisions know no settings, and who makes a view needs both."""
    return dispatch.Limits(
        region_concurrency=settings.region_concurrency,
        dispatch_window=settings.dispatch_window,
        tenant_concurrency=settings.tenant_concurrency,
        tenant_rate_per_minute=settings.tenant_rate_per_minute,
    )


def dispatch_view(
    conn: Connection, limits: dispatch.Limits, *, alive_within_s: float, heads: Heads | None = None
) -> dispatch.View:
    """What `decisions.dispatch.plan` needs; tenants' minutes are for the caller to add.

    Takes the turn (`lanes.look`): claim by the plan in the same transaction and commit, and no other controller
    gives the same room away. What workers change meanwhile only makes room.

    Args:
        alive_within_s: a worker that was not heard of for longer is gone.
        heads: kept from pass to pass; None looks at the queue in full.
    """
    heads = Heads() if heads is None else heads
    workers = _workers(conn, alive_within_s, heads)
    # As if all workers were of one region with nothing at work: never below the room of any.
    most = dispatch.Region("", ready=sum(row.alive for row in workers)).room(limits)
    seen = lanes.look(conn, per_lane=most, heads=heads, turn=True)
    return dispatch.View(
        at=seen.at,
        limits=limits,
        regions=_regions(workers, seen.at, seen.at_work),
        at_work=Counter((one.region, one.tenant) for one in seen.at_work),
        lanes=tuple(seen.lanes),
    )


_WORKERS = sa.select(
    workers.c.region,
    workers.c.state,
    sa.func.count().filter(workers.c.heartbeat_at > sa.bindparam("heard_since", type_=UtcDateTime())).label("alive"),
    sa.func.max(workers.c.heartbeat_at).label("heard_at"),
).group_by(workers.c.region, workers.c.state)


def _workers(conn: Connection, alive_within_s: float, heads: Heads) -> Sequence[Any]:
    """Rows of `_WORKERS`, a second old at most."""
    asked = time.monotonic()
    if asked >= heads.workers_until:
        heads.workers = conn.execute(_WORKERS, {"heard_since": now(conn) - timedelta(seconds=alive_within_s)}).all()
        heads.workers_until = asked + WORKERS_KEPT_S
    return heads.workers


def _regions(workers: Iterable[Any], at: datetime, active: Iterable[AtWork]) -> Mapping[str, dispatch.Region]:
    """Every region that has a worker, had one, or has a shard at work."""
    alive: Counter[tuple[str, WorkerState]] = Counter()
    heard: dict[str, datetime] = {}
    for row in workers:
        alive[row.region, row.state] = row.alive
        if row.state is not WorkerState.LOADING:
            heard[row.region] = max(row.heard_at, heard.get(row.region, row.heard_at))
    taken = Counter((one.region, one.state) for one in active)
    return {
        name: dispatch.Region(
            name,
            ready=alive[name, WorkerState.READY] + alive[name, WorkerState.BUSY],
            loading=alive[name, WorkerState.LOADING],
            draining=alive[name, WorkerState.DRAINING],
            silent_for_s=max(0.0, (at - heard[name]).total_seconds()) if name in heard else None,
            dispatched=taken[name, ShardState.DISPATCHED],
            running=taken[name, ShardState.RUNNING],
        )
        for name in {region for region, _ in (*alive, *taken)}
    }


def waiting_view(
    conn: Connection, job_id: UUID, limits: dispatch.Limits, *, alive_within_s: float
) -> waiting.View | None:
    """What `decisions.waiting.why` needs to say of a job; its tenant's minute is for the caller to add. None: no job.

    Args:
        alive_within_s: a worker that was not heard of for longer is gone.
    """
    row = conn.execute(sa.select(jobs).where(jobs.c.id == job_id)).one_or_none()
    if row is None:
        return None
    job, at = as_row(Job, row), now(conn)
    seen = lanes.look(conn, per_lane=waiting.AHEAD_LIMIT)
    regions = _regions(_workers(conn, alive_within_s, Heads()), at, seen.at_work)
    region = regions.get(job.region, dispatch.Region(job.region))
    following = conn.execute(_NEXT, {"job_id": job.id}).one_or_none()
    sent = conn.execute(_SENT, {"job_id": job.id}).one_or_none()
    return waiting.View(
        at=at,
        state=job.state,
        reason=job.reason,
        error=job.error,
        suspend=job.suspend,
        not_before=job.not_before,
        expanded=job.expanded_at is not None,
        images_total=job.images_total,
        images_open=job.images_open,
        shards_open=job.shards_open,
        running=_count(conn, [shards.c.job_id == job.id, ACTIVE, shards.c.state == ShardState.RUNNING]),
        sent=None if sent is None else waiting.Sent(*sent),
        next=None if following is None else waiting.NextShard(*following[:4]),
        held=_count(conn, [QUEUED, shards.c.held, shards.c.job_id == job.id]),
        parallelism=job.spec.parallelism,
        max_attempts=job.spec.retry_policy.max_attempts,
        tenant=job.tenant,
        region=region,
        tenant_at_work=sum(one.tenant == job.tenant for one in seen.at_work),
        ahead=0 if following is None else _ahead(conn, seen.lanes, job, (following[1], following[4], following[0])),
        limits=limits,
    )


_NEXT = (
    sa.select(shards.c.index, shards.c.available_at, shards.c.failures, shards.c.error, shards.c.job_created_at)
    .where(shards.c.job_id == sa.bindparam("job_id"), CLAIMABLE)
    .order_by(*CLAIM_ORDER_IN_JOB)
    .limit(1)
)
_SENT = (
    sa.select(shards.c.index, shards.c.queue, shards.c.dispatched_at)
    .where(shards.c.job_id == sa.bindparam("job_id"), ACTIVE, shards.c.state == ShardState.DISPATCHED)
    .order_by(shards.c.dispatched_at)
    .limit(1)
)


def _ahead(conn: Connection, waits: Iterable[dispatch.Lane], job: Job, place: Position) -> int:
    """Due shards of the job's region that go before it: of a higher priority, and earlier ones of its own lane."""
    most = waiting.AHEAD_LIMIT
    urgent = [lane.due for lane in waits if lane.region == job.region and lane.priority > job.priority]
    earlier = lanes.due_before(conn, (job.region, job.tenant, job.priority), place, limit=most)
    return min(most, sum(urgent) + earlier)
