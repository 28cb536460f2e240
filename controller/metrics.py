"""What the controller counts and measures, for Prometheus. Names are in `samjobs.names`.

Several controllers each tell what they did themselves; the gauges of the queue are the same from each of them, since
they are read from the table.
"""

from collections.abc import Mapping, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from samjobs import names
from samjobs.store.rows import RegionStatus

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

_STATES = ("due", "waiting", "held", "dispatched", "running", "dead")


class Metrics:
    """The controller's metrics, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._seconds = Histogram(
            names.METRIC_STEP_SECONDS, "Time of a step of the pass.", ["step"], buckets=_SECONDS, registry=self.registry
        )
        self._actions = self._counter(names.METRIC_ACTIONS, "What the steps did.", "step", "what")
        self._errors = self._counter(names.METRIC_ERRORS, "Unexpected failures, by step or thread.", "step")
        self._up = self._gauge(names.METRIC_SERVER_UP, "1 while a server does what it is asked.", "name")
        self._shards = self._gauge(names.METRIC_SHARDS, "Shards that have not ended well.", "region", "state")
        self._oldest = self._gauge(
            names.METRIC_OLDEST_DUE, "For how long the oldest due shard has been due; 0: none is.", "region"
        )
        self._regions: set[str] = set()
        self.listener = Gauge(
            names.METRIC_LISTENER, "1 while changes wake this controller at once.", registry=self.registry
        )
        self.eviction_unsafe = Gauge(
            names.METRIC_EVICTION_UNSAFE, "1 while a full Redis throws keys away.", registry=self.registry
        )

    def did(self, step: str, seconds: float, counts: Mapping[str, int]) -> None:
        """Note that a step ran, for how long, and what it did."""
        self._seconds.labels(step).observe(seconds)
        for what, count in counts.items():
            self._actions.labels(step, what).inc(count)

    def unexpected(self, where: str) -> None:
        """Note a failure that nobody foresaw."""
        self._errors.labels(where).inc()

    def up(self, server: str, up: bool) -> None:
        """Note whether a server does what it is asked."""
        self._up.labels(server).set(up)

    def queue(self, regions: Sequence[RegionStatus]) -> None:
        """Note what is at work and what waits; a region where nothing does is forgotten."""
        for gone in self._regions - {one.region for one in regions}:
            self._oldest.remove(gone)
            for state in _STATES:
                self._shards.remove(gone, state)
        self._regions = {one.region for one in regions}
        for one in regions:
            for state in _STATES:
                self._shards.labels(one.region, state).set(getattr(one, f"shards_{state}"))
            self._oldest.labels(one.region).set(one.oldest_due_age_s or 0)

    def _counter(self, name: str, told: str, *labels: str) -> Counter:
        return Counter(name, told, labels, registry=self.registry)

    def _gauge(self, name: str, told: str, *labels: str) -> Gauge:
        return Gauge(name, told, labels, registry=self.registry)
