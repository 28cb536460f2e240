"""What a worker counts and measures, for Prometheus. Names are in `samjobs.names`.

One process, one registry of its own; with the process its gauges disappear. No label names a job or a shard.
"""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge

from samjobs import names
from samjobs.execution.shard import End
from samjobs.segmentation.work import Outcome
from samjobs.states import ImageState

# Ends of a message beside those of a run: never begun; given back because nothing can be written; this process broke.
STALE, CRITICAL, BROKEN = "stale", "critical", "broken"


class Metrics:
    """The worker's metrics."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._images = self._counter(names.METRIC_WORKER_IMAGES, "Images committed, by outcome.", "outcome")
        self._instances = self._counter(names.METRIC_WORKER_INSTANCES, "Masks in the images committed.")
        self._shards = self._counter(names.METRIC_WORKER_SHARDS, "Messages of shards, by what came of them.", "end")
        self._busy_seconds = self._counter(names.METRIC_WORKER_BUSY_SECONDS, "Seconds spent on shards.")
        self._rejected = self._counter(names.METRIC_WORKER_REJECTED, "Messages that are no shard's id.", "reason")
        self._gathered = self._counter(names.METRIC_WORKER_GATHERED, "Jobs whose results were gathered.", "result")
        self.busy = Gauge(names.METRIC_WORKER_BUSY, "1 while a shard is in hand.", registry=self.registry)
        self.load_seconds = Gauge(
            names.METRIC_WORKER_LOAD_SECONDS, "Time of the last load of a model.", registry=self.registry
        )
        for state in (ImageState.DONE, ImageState.FAILED, ImageState.SKIPPED):
            self._images.labels(state.value)
        for end in (*(end.value for end in End), STALE, CRITICAL, BROKEN):
            self._shards.labels(end)
        for result in ("done", "failed"):
            self._gathered.labels(result)

    def watch_heartbeat(self, age_s: Callable[[], float]) -> None:
        """Take the age of the last heartbeat that the database heard from `age_s`."""
        gauge = Gauge(names.METRIC_WORKER_HEARTBEAT_AGE, "Age of the last heartbeat.", registry=self.registry)
        gauge.set_function(age_s)

    def image(self, outcome: Outcome) -> None:
        """Note an image that was committed."""
        self._images.labels(outcome.state.value).inc()
        self._instances.inc(outcome.instances or 0)

    def shard(self, end: str, seconds: float = 0.0) -> None:
        """Note what came of a message, and how long it took."""
        self._shards.labels(end).inc()
        self._busy_seconds.inc(seconds)

    def rejected(self, reason: str) -> None:
        """Note a message that is not ours."""
        self._rejected.labels(reason).inc()

    def gathered(self, done: bool) -> None:
        """Note that a job's results were gathered, or could not be."""
        self._gathered.labels("done" if done else "failed").inc()

    def _counter(self, name: str, told: str, *labels: str) -> Counter:
        return Counter(name.removesuffix("_total"), told, labels, registry=self.registry)
