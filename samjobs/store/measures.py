"""What do the metrics tell of the table: one look, whose cost follows what is queued and what has just ended.

Rows of workers are few: one that is gone is kept for an hour. Jobs that ended are counted once, in the time between
two looks; the last seconds are left to the next one, since a transaction that is open has its time already.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa

from samjobs.decisions.deadlines import Due, is_late
from samjobs.decisions.scaling import Speed
from samjobs.states import JOB_TERMINAL, JobState, ShardState
from samjobs.store import deliveries, views
from samjobs.store.engine import Connection, now
from samjobs.store.rows import RegionStatus, WorkerState
from samjobs.store.tables import CLAIMABLE, OVERDUE, in_states, jobs, pools, shards, workers

COMMITTED_WITHIN = timedelta(seconds=5)  # of the time that a transaction gives its rows
YOUNG = timedelta(minutes=15)
MOST_DEADLINES = 1000  # the next ones


@dataclass(frozen=True)
class WorkerCounts:
    """The worker processes of a region, those of the last hour."""

    states: Mapping[WorkerState, int]  # of those that are heard of
    silent: int  # not heard of within the lease, and never ended
    ended_young: int  # started within YOUNG, and have ended, or fallen silent, without an image
    progressed_at: datetime | None  # when one of them committed an image last
    image_s: float | None  # see `Speed`
    load_s: float | None

    @property
    def taking(self) -> int:
        """Those that take shards."""
        return self.states.get(WorkerState.READY, 0) + self.states.get(WorkerState.BUSY, 0)


NOBODY = WorkerCounts({}, 0, 0, None, None, None)


@dataclass(frozen=True)
class Measured:
    """The table at one time."""

    at: datetime  # the database's clock
    jobs: Mapping[JobState, int]  # active ones
    regions: Sequence[RegionStatus]  # with something that has not ended well
    workers: Mapping[str, WorkerCounts]  # by region
    stalled_s: Mapping[str, float]  # by region with work: for how long no image was finished
    late: Mapping[str, int]  # by region: jobs that will miss their deadlines
    pools: frozenset[str]  # regions with a pool
    deliveries: int  # webhooks to be sent
    overdue_s: float  # of the oldest due one
    ended: Mapping[JobState, int]  # since the look before
    ended_until: datetime  # for the next look


def measure(conn: Connection, *, alive_within_s: float, ended_since: datetime | None) -> Measured:
    """Look.

    Args:
        alive_within_s: a worker that was not heard of for longer is silent.
        ended_since: `ended_until` of the look before; None counts no job that has ended.
    """
    at = now(conn)
    by_region = _workers(conn, at, timedelta(seconds=alive_within_s))
    until = at - COMMITTED_WITHIN
    pending, earliest = deliveries.waiting(conn)
    return Measured(
        at=at,
        jobs=views.active_jobs(conn),
        regions=views.regions(conn),
        workers=by_region,
        stalled_s=_stalled(conn, by_region, at),
        late=_late(conn, by_region, at),
        pools=frozenset(conn.execute(_POOLS).scalars()),
        deliveries=pending,
        overdue_s=0.0 if earliest is None else max(0.0, (at - earliest).total_seconds()),
        ended=_ended(conn, until if ended_since is None else ended_since, until),
        ended_until=until,
    )


_POOLS = sa.select(pools.c.region).distinct()


def _workers(conn: Connection, at: datetime, lease: timedelta) -> dict[str, WorkerCounts]:
    heard, gone = workers.c.heartbeat_at >= at - lease, workers.c.state == WorkerState.GONE
    young = sa.and_(workers.c.started_at >= at - YOUNG, workers.c.images_total == 0)
    query = sa.select(
        workers.c.region,
        *(
            sa.func.count().filter(heard, workers.c.state == state).label(state.value)
            for state in WorkerState
            if state is not WorkerState.GONE
        ),
        sa.func.count().filter(sa.not_(heard), sa.not_(gone)).label("silent"),
        sa.func.count().filter(young, sa.or_(gone, sa.not_(heard))).label("ended_young"),
        sa.func.max(workers.c.progressed_at).label("progressed_at"),
        sa.func.avg(workers.c.image_s).label("image_s"),
        sa.func.avg(workers.c.load_s).label("load_s"),
    ).group_by(workers.c.region)
    return {
        row.region: WorkerCounts(
            states={state: row._mapping[state.value] for state in WorkerState if state is not WorkerState.GONE},
            silent=row.silent,
            ended_young=row.ended_young,
            progressed_at=row.progressed_at,
            image_s=row.image_s,
            load_s=row.load_s,
        )
        for row in conn.execute(query)
    }


def _stalled(conn: Connection, by_region: Mapping[str, WorkerCounts], at: datetime) -> dict[str, float]:
    """Since the last image, or since there is work, whichever is later."""
    since: dict[str, datetime] = {}
    for query in _WORK_SINCE:
        for region, first in conn.execute(query):
            if first <= at:  # what is not due yet waits for its time
                since[region] = min(first, since.get(region, first))
    for region, counts in by_region.items():
        _later(since, region, counts.progressed_at)
    # Another region's workers may have taken over.
    for region, progressed_at in conn.execute(_TAKEN_OVER):
        _later(since, region, progressed_at)
    return {region: max(0.0, (at - last).total_seconds()) for region, last in since.items()}


def _later(since: dict[str, datetime], region: str, at: datetime | None) -> None:
    if at is not None and region in since:
        since[region] = max(since[region], at)


_TAKEN_OVER = (
    sa.select(shards.c.region, sa.func.max(workers.c.progressed_at))
    .join(workers, workers.c.incarnation == shards.c.incarnation)
    .where(in_states(shards.c.state, [ShardState.RUNNING]))
    .group_by(shards.c.region)
)


def _since(column: sa.ColumnElement[datetime], *which: sa.ColumnElement[bool]) -> sa.Select[str, datetime]:
    return sa.select(shards.c.region, sa.func.min(column)).where(*which).group_by(shards.c.region)


_WORK_SINCE = (
    _since(shards.c.available_at, CLAIMABLE),
    _since(shards.c.available_at, in_states(shards.c.state, [ShardState.DISPATCHED])),
    _since(shards.c.started_at, in_states(shards.c.state, [ShardState.RUNNING])),
)


def _late(conn: Connection, by_region: Mapping[str, WorkerCounts], at: datetime) -> Counter[str]:
    late: Counter[str] = Counter()
    for due in (Due(*row) for row in conn.execute(_WITH_DEADLINE)):
        counts = by_region.get(due.region, NOBODY)
        late[due.region] += is_late(due, counts.taking, Speed(counts.image_s, counts.load_s), at)
    return late


_WITH_DEADLINE = (
    sa.select(
        jobs.c.region,
        jobs.c.images_total - jobs.c.images_done - jobs.c.images_failed - jobs.c.images_skipped,
        jobs.c.deadline_at,
    )
    .where(OVERDUE)
    .order_by(jobs.c.deadline_at)
    .limit(MOST_DEADLINES)
)


def _ended(conn: Connection, since: datetime, until: datetime) -> dict[JobState, int]:
    query = (
        sa.select(jobs.c.state, sa.func.count())
        .where(jobs.c.finished_at > since, jobs.c.finished_at <= until)
        .group_by(jobs.c.state)
    )
    counted: dict[JobState, int] = {state: many for state, many in conn.execute(query)}  # noqa: C416 - typed so
    return {state: counted.get(state, 0) for state in JOB_TERMINAL}
