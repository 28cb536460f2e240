"""What the controller counts and measures, for Prometheus. Names and labels are in `samjobs.metrics`.

Several controllers each tell what they did themselves; the gauges of the queue are the same from each of them, since
they are read from the table. Who submits a job may name any region, so those without a pool or a worker have a name of
their own only as far as MOST_REGIONS: no number of jobs makes a scrape longer.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from samjobs import metrics as table
from samjobs.alerts import thresholds
from samjobs.decisions.dispatch import Limits
from samjobs.metrics import Board, Process, Values
from samjobs.names import Reason
from samjobs.settings import Settings
from samjobs.states import ShardState
from samjobs.store.measures import NOBODY, Measured
from samjobs.store.rows import RegionStatus, WorkerState

MOST_REGIONS = 10  # that are named although nobody works there

# What a step's count means for shards: from where to where they went, and why.
_MOVES: Mapping[tuple[str, str], Values] = {
    ("dispatch", "sent"): (ShardState.QUEUED, ShardState.DISPATCHED, Reason.CLAIMED),
    ("heal", "requeued"): (ShardState.DISPATCHED, ShardState.QUEUED, Reason.MESSAGE_LOST),
    ("failover", "taken_back"): (ShardState.DISPATCHED, ShardState.QUEUED, Reason.FAILOVER),
    ("reclaim", "requeued"): (ShardState.RUNNING, ShardState.QUEUED, Reason.WORKER_FAULT),
    ("reclaim", "dead"): (ShardState.RUNNING, ShardState.DEAD, Reason.FAILURES_EXHAUSTED),
}
_NOTHING = RegionStatus("", 0, 0, 0, 0, 0, 0, None)


@dataclass(frozen=True)
class PoolSize:
    """A pool of workers on Kubernetes, as it was just decided on or refused."""

    region: str
    name: str
    reason: Reason
    replicas: Mapping[str, int]  # by kind


class Metrics:
    """The controller's metrics."""

    def __init__(self, settings: Settings | None = None) -> None:
        """`settings`: tells the alerts' thresholds, and whether anything can be listened to."""
        self._board = Board(Process.CONTROLLER)
        self.registry = self._board.registry
        self._listens = settings is None or not settings.database_pooled
        if not self._listens:
            self._board.drop(table.LISTENER)
        told = thresholds({} if settings is None else settings.alert_thresholds)
        self._board.replace(table.THRESHOLD, {(alert,): number for alert, number in told.items()})

    # The pass.

    def did(self, step: str, seconds: float, counts: Mapping[str, int]) -> None:
        """Note that a step ran, for how long, and what it did."""
        self._board.observe(table.PASS_SECONDS, seconds, step)
        for what, count in counts.items():
            self._board.inc(table.ACTIONS, count, step, what)
            if count and (move := _MOVES.get((step, what))) is not None:
                self._board.inc(table.TRANSITIONS, count, *move)

    def passed(self) -> None:
        """Note that a pass went through."""
        self._board.touch(table.LAST_PASS)

    def unexpected(self, where: str) -> None:
        """Note a failure that nobody foresaw."""
        self._board.inc(table.ERRORS, 1, where)

    def waited(self, seconds: Iterable[float]) -> None:
        """Note for how long shards were due until they were sent."""
        for one in seconds:
            self._board.observe(table.QUEUE_WAIT, max(0.0, one))

    # The servers.

    def up(self, server: str, up: bool) -> None:
        """Note whether a server does what it is asked."""
        self._board.set(table.SERVER_UP, up, server)

    def listening(self, connected: bool) -> None:
        """Note whether changes wake this controller at once."""
        if self._listens:
            self._board.set(table.LISTENER, connected)

    def evicts(self, unsafe: bool) -> None:
        """Note whether Redis throws keys away when it is full."""
        self._board.set(table.EVICTION_UNSAFE, unsafe)

    def delivered(self, result: str) -> None:
        """Note a try to send a webhook: `delivered`, `failed` or `given_up`."""
        self._board.inc(table.DELIVERIES, 1, result)

    # The table.

    def measured(self, found: Measured, limits: Limits) -> None:
        """Note what is at work and what waits; a region where nothing does is forgotten."""
        for state, many in found.jobs.items():
            self._board.set(table.JOBS, many, state.value)
        for state, many in found.ended.items():
            self._board.inc(table.JOBS_FINISHED, many, state.value)
        self._board.set(table.WEBHOOKS_PENDING, found.deliveries)
        self._board.set(table.WEBHOOKS_OVERDUE, found.overdue_s)
        self._regions(found, limits)

    def _regions(self, found: Measured, limits: Limits) -> None:
        sums: dict[table.Metric, dict[Values, float]] = {metric: {} for metric in _BY_REGION}
        waits = {one.region: one for one in found.regions}
        named = _named(found)
        for region in sorted(waits.keys() | found.workers.keys() | found.pools):
            told = region if region in named else table.OTHER_REGIONS
            for metric, values, number in _of_region(region, waits.get(region, _NOTHING), found, limits):
                series, key = sums[metric], (told, *values)
                # The oldest of several is the oldest, and the window of each is its own.
                combined = max if metric in _LARGEST else _plus
                series[key] = combined(series.get(key, 0.0), number)
        for metric, series in sums.items():
            self._board.replace(metric, series)

    # Pools.

    def pools(self, sizes: Iterable[PoolSize]) -> None:
        """Note what was just decided, of all pools."""
        replicas: dict[Values, float] = {}
        held: dict[Values, float] = {}
        for one in sizes:
            refused = one.reason in (Reason.INVALID_SPEC, Reason.REGION_TAKEN)
            held[one.region, one.name] = refused or one.reason is Reason.UNKNOWN_DEMAND
            if not refused:
                self._board.inc(table.SCALE_DECISIONS, 1, one.reason.value)
            replicas |= {(one.region, one.name, kind): number for kind, number in one.replicas.items()}
        self._board.replace(table.POOL_REPLICAS, replicas)
        self._board.replace(table.POOL_HELD, held)


_LARGEST = (table.OLDEST_DUE, table.STALLED, table.WINDOW)
_BY_REGION = (*_LARGEST, table.SHARDS, table.WORKERS, table.ENDED_YOUNG, table.JOBS_LATE)


def _plus(one: float, other: float) -> float:
    return one + other


def _named(found: Measured) -> set[str]:
    """The regions that are told by name."""
    staffed = found.workers.keys() | found.pools
    others = sorted({one.region for one in found.regions} - staffed)
    return staffed | set(others[:MOST_REGIONS])


def _of_region(
    region: str, waits: RegionStatus, found: Measured, limits: Limits
) -> Iterable[tuple[table.Metric, Values, float]]:
    """What is told of a region: metric, labels but the region, number."""
    counts = found.workers.get(region, NOBODY)
    for state in table.SHARD_STATES:
        yield table.SHARDS, (state,), getattr(waits, f"shards_{state}")
    yield table.OLDEST_DUE, (), waits.oldest_due_age_s or 0.0
    yield table.STALLED, (), found.stalled_s.get(region, 0.0)
    for worker_state in (WorkerState.LOADING, WorkerState.READY, WorkerState.BUSY, WorkerState.DRAINING):
        yield table.WORKERS, (worker_state.value,), counts.states.get(worker_state, 0)
    yield table.WORKERS, ("silent",), counts.silent
    yield table.ENDED_YOUNG, (), counts.ended_young
    yield table.WINDOW, (), min(limits.region_concurrency, limits.dispatch_window * max(counts.taking, 1))
    yield table.JOBS_LATE, (), found.late.get(region, 0)
