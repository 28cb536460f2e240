"""What do the processes count and measure, under which names, with which labels?

One table: registries, `docs/reference/metrics.md`, the dashboard and the tests of the alerts' rules are made from it.
Labels have few values: a region, a state, a reason, a step; never a job, a shard, a pod or a tenant. Where all values
of a metric's labels are known, its series are there from the start, at 0, so that a first event is an increase.

Each process has one registry of its own (`Board`), and with the process its gauges disappear. Queue and jobs are told
by the controllers alone, which read them from the table; several controllers tell the same, so take their maximum.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from samjobs import __version__
from samjobs.errors import InvalidInput
from samjobs.names import Reason
from samjobs.states import JOB_TERMINAL, ImageState, JobState, ShardState

# Its client writes a file for each process that ever ran, and tells of dead ones for ever.
MULTIPROCESS = ("PROMETHEUS_MULTIPROC_DIR", "prometheus_multiproc_dir")

# A second series beside each counter, which nobody asks for.
disable_created_metrics()  # type: ignore[no-untyped-call]


class Kind(StrEnum):
    """How a metric behaves."""

    COUNTER = "counter"  # goes up, and begins again at 0 with its process
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Process(StrEnum):
    """Who tells."""

    CONTROLLER = "controller"
    WORKER = "worker"
    API = "api"


Values = tuple[str, ...]  # of a metric's labels, in their order


@dataclass(frozen=True)
class Metric:
    """One metric.

    Args:
        known: the values of its labels that there are from the start; () where they come and go.
        buckets: upper bounds in seconds, of a histogram.
    """

    name: str
    kind: Kind
    told: str
    labels: tuple[str, ...] = ()
    known: tuple[Values, ...] = ()
    buckets: tuple[float, ...] = ()


def _values(words: Iterator[StrEnum] | Sequence[StrEnum] | type[StrEnum]) -> tuple[Values, ...]:
    return tuple((word.value,) for word in words)


def _each(*words: str) -> tuple[Values, ...]:
    return tuple((word,) for word in words)


# Of every process.
BUILD = Metric("samjobs_build_info", Kind.GAUGE, "1, with the version of a process.", ("version", "process"))

# The controller. What is told by region: regions with a pool or a worker each by its own name, and of others the first
# few; the rest is told together, as OTHER_REGIONS.
OTHER_REGIONS = "(other)"  # no region's name can have brackets
SHARD_STATES = ("due", "waiting", "held", "dispatched", "running", "dead")
SHARDS = Metric(
    "samjobs_shards",
    Kind.GAUGE,
    "Shards that have not ended well. due: may start now; waiting: for their time; held: by suspend or parallelism.",
    ("region", "state"),
)
OLDEST_DUE = Metric(
    "samjobs_queue_oldest_due_age_seconds",
    Kind.GAUGE,
    "For how long the oldest due shard has been due; 0: none is.",
    ("region",),
)
STALLED = Metric(
    "samjobs_queue_stalled_seconds",
    Kind.GAUGE,
    "For how long a region has had work (due, dispatched or running) without finishing an image; 0: it has none.",
    ("region",),
)
QUEUE_WAIT = Metric(
    "samjobs_queue_wait_seconds",
    Kind.HISTOGRAM,
    "Time from when a shard was due until it was sent to the workers.",
    buckets=(0.01, 0.05, 0.25, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 10800),
)
WORKER_STATES = ("loading", "ready", "busy", "draining", "silent")
WORKERS = Metric(
    "samjobs_workers",
    Kind.GAUGE,
    "Worker processes by what they do. silent: heard of within an hour, but not within the lease, and never ended.",
    ("region", "state"),
)
ENDED_YOUNG = Metric(
    "samjobs_workers_ended_young",
    Kind.GAUGE,
    "Worker processes that started within 15 minutes and have ended without an image.",
    ("region",),
)
WINDOW = Metric(
    "samjobs_dispatch_window_shards",
    Kind.GAUGE,
    "Shards of a region that may be sent ahead of its workers.",
    ("region",),
)
JOBS = Metric(
    "samjobs_jobs",
    Kind.GAUGE,
    "Jobs that have not ended.",
    ("state",),
    _values(tuple(state for state in JobState if state not in JOB_TERMINAL)),
)
JOBS_FINISHED = Metric(
    "samjobs_jobs_finished_total",
    Kind.COUNTER,
    "Jobs that ended since this controller started; each controller counts all of them.",
    ("result",),
    _values(tuple(state for state in JobState if state in JOB_TERMINAL)),
)
JOBS_LATE = Metric(
    "samjobs_jobs_beyond_deadline",
    Kind.GAUGE,
    "Jobs that would miss their activeDeadlineSeconds even if their region's workers did nothing else.",
    ("region",),
)
TRANSITIONS = Metric(
    "samjobs_shard_transitions_total",
    Kind.COUNTER,
    "Shards that this controller moved on or back; what workers do with them is samjobs_worker_shards_total.",
    ("from_state", "to_state", "reason"),
    (
        (ShardState.QUEUED.value, ShardState.DISPATCHED.value, Reason.CLAIMED.value),
        (ShardState.DISPATCHED.value, ShardState.QUEUED.value, Reason.MESSAGE_LOST.value),
        (ShardState.DISPATCHED.value, ShardState.QUEUED.value, Reason.FAILOVER.value),
        (ShardState.RUNNING.value, ShardState.QUEUED.value, Reason.WORKER_FAULT.value),
        (ShardState.RUNNING.value, ShardState.DEAD.value, Reason.FAILURES_EXHAUSTED.value),
    ),
)
_REFUSALS = (Reason.NO_WORKER, Reason.REGION_CAP, Reason.TENANT_CAP, Reason.RATE_LIMITED, Reason.WINDOW_FULL)
ACTIONS = Metric(
    "samjobs_controller_actions_total",
    Kind.COUNTER,
    "What the steps of the pass did.",
    ("step", "what"),
    (
        ("expire", "overdue"),
        ("expire", "silent"),
        ("reclaim", "requeued"),
        ("reclaim", "dead"),
        ("heal", "removed"),
        ("heal", "requeued"),
        ("failover", "taken_back"),
        ("admit", "admitted"),
        ("admit", "refused"),
        ("dispatch", "sent"),
        *(("dispatch", f"refused_{reason.value}") for reason in _REFUSALS),
        ("prune", "rows"),
        ("prune", "workers"),
        ("prune", "requests"),
    ),
)
PASS_SECONDS = Metric(
    "samjobs_controller_pass_seconds",
    Kind.HISTOGRAM,
    "Time of a step of the pass.",
    ("step",),
    buckets=(0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10, 30),
)
ERRORS = Metric(
    "samjobs_controller_errors_total",
    Kind.COUNTER,
    "Failures that nobody foresaw, by step or thread.",
    ("step",),
    _each(
        *("expire", "reclaim", "heal", "failover", "admit", "dispatch", "prune", "expand", "deliver", "measure"),
        *("listing", "sending", "kubernetes", "intake", "project"),
    ),
)
LAST_PASS = Metric(
    "samjobs_controller_last_pass_timestamp_seconds", Kind.GAUGE, "When the last pass went through, Unix time."
)
LISTENER = Metric(
    "samjobs_controller_listener_connected",
    Kind.GAUGE,
    "1 while changes wake this controller at once; not there where none could (SAMJOBS_DATABASE_POOLED).",
)
SERVER_UP = Metric(
    "samjobs_dependency_up",
    Kind.GAUGE,
    "1 while a server (database, redis, kubernetes) does what it is asked.",
    ("name",),
)
EVICTION_UNSAFE = Metric(
    "samjobs_redis_eviction_unsafe", Kind.GAUGE, "1 while Redis is set to throw keys away when it is full."
)
DELIVERIES = Metric(
    "samjobs_webhook_deliveries_total",
    Kind.COUNTER,
    "Tries to send a webhook. failed: tried again later; given_up: not any more.",
    ("result",),
    _each("delivered", "failed", "given_up"),
)
WEBHOOKS_PENDING = Metric("samjobs_webhook_pending", Kind.GAUGE, "Webhooks that are still to be sent.")
WEBHOOKS_OVERDUE = Metric(
    "samjobs_webhook_overdue_seconds", Kind.GAUGE, "For how long the oldest due webhook has been due; 0: none is."
)
POOL_REPLICAS = Metric(
    "samjobs_pool_replicas",
    Kind.GAUGE,
    "Workers of a pool on Kubernetes. desired: as decided; current: pods; minimum, maximum: its limits.",
    ("region", "pool", "kind"),
)
POOL_HELD = Metric(
    "samjobs_pool_scaling_held",
    Kind.GAUGE,
    "1 while a pool keeps its number whatever waits: the demand is not known, or the pool is refused.",
    ("region", "pool"),
)
SCALE_DECISIONS = Metric(
    "samjobs_pool_scale_decisions_total",
    Kind.COUNTER,
    "Decisions on the number of workers of a pool, those that change nothing too.",
    ("reason",),
    _values(
        (
            *(Reason.BY_HAND, Reason.UNKNOWN_DEMAND, Reason.ABOVE_MAXIMUM, Reason.SCALED_UP, Reason.BELOW_MINIMUM),
            *(Reason.FIRST_WORKER, Reason.UP_COOLDOWN, Reason.DOWN_COOLDOWN, Reason.SCALED_DOWN),
            *(Reason.BUSY_WORKERS, Reason.AT_MAXIMUM, Reason.REGION_CAP, Reason.AT_MINIMUM, Reason.STEADY),
        )
    ),
)
THRESHOLD = Metric(
    "samjobs_alert_threshold",
    Kind.GAUGE,
    "What an alert compares with: its default, or what SAMJOBS_ALERT_THRESHOLDS says.",
    ("alert",),
)

# A worker. All of them also carry its `region` and `pool`.
WORKER_LABELS = ("region", "pool")
WORKER_IMAGES = Metric(
    "samjobs_worker_images_total",
    Kind.COUNTER,
    "Images committed, by outcome.",
    ("outcome",),
    _values((ImageState.DONE, ImageState.FAILED, ImageState.SKIPPED)),
)
WORKER_INSTANCES = Metric("samjobs_worker_instances_total", Kind.COUNTER, "Masks in the images committed.")
SHARD_ENDS = ("finished", "released", "retry", "dead", "cancelled", "lost", "stale", "critical", "broken")
WORKER_SHARDS = Metric(
    "samjobs_worker_shards_total",
    Kind.COUNTER,
    "Messages of shards, by what came of them. released: given back uncharged; stale: not to be begun any more; "
    "critical: nothing could be written; broken: the process ended by it.",
    ("end",),
    _each(*SHARD_ENDS),
)
WORKER_PICKUP = Metric(
    "samjobs_worker_pickup_seconds",
    Kind.HISTOGRAM,
    "Time from when a shard was due until this worker began it.",
    buckets=QUEUE_WAIT.buckets,
)
STAGES = ("fetch", "decode", "segment", "masks", "write", "commit")
WORKER_STAGE_SECONDS = Metric(
    "samjobs_worker_stage_seconds_total",
    Kind.COUNTER,
    "Time spent on the images done, by stage; stages overlap. segment: the device is busy.",
    ("stage",),
    _each(*STAGES),
)
WORKER_BUSY_SECONDS = Metric("samjobs_worker_busy_seconds_total", Kind.COUNTER, "Time with a shard in hand.")
WORKER_BUSY = Metric("samjobs_worker_busy", Kind.GAUGE, "1 while a shard is in hand.")
WORKER_ENGINE = Metric("samjobs_worker_engine_info", Kind.GAUGE, "1, once it has loaded.", ("engine", "device"))
WORKER_LOAD_SECONDS = Metric("samjobs_worker_model_load_seconds", Kind.GAUGE, "Time of the last load of a model.")
WORKER_REJECTED = Metric(
    "samjobs_worker_rejected_messages_total",
    Kind.COUNTER,
    "Messages that are no shard's id.",
    ("reason",),
    _each("malformed", "undecodable"),
)
WORKER_HEARTBEAT_AGE = Metric(
    "samjobs_worker_heartbeat_age_seconds", Kind.GAUGE, "Age of the last heartbeat that the database heard."
)
WORKER_PROGRESS = Metric(
    "samjobs_worker_last_progress_timestamp_seconds",
    Kind.GAUGE,
    "When the last image was committed, Unix time; 0: none.",
)
WORKER_GATHERED = Metric(
    "samjobs_worker_gathered_jobs_total",
    Kind.COUNTER,
    "Jobs whose results were gathered.",
    ("result",),
    _each("done", "failed"),
)
WORKER_GPU_MEMORY = Metric(
    "samjobs_worker_gpu_memory_bytes",
    Kind.GAUGE,
    "Memory of the GPU, by torch. allocated: in use; reserved: taken from the GPU; peak: most that was ever in use.",
    ("kind",),
)
WORKER_SHRINKS = Metric(
    "samjobs_worker_oom_shrinks_total",
    Kind.COUNTER,
    "Times that work was cut into smaller parts because memory ran out.",
)

# The API.
API_SECONDS = Metric(
    "samjobs_api_request_seconds",
    Kind.HISTOGRAM,
    "Time until the answer to a request began. route: as in the OpenAPI document; status: 2xx, 4xx and so on.",
    ("route", "method", "status"),
    # Few: each is a series for every route, method and class of status.
    buckets=(0.05, 0.5, 5),
)
API_WATCHERS = Metric("samjobs_api_watchers", Kind.GAUGE, "Callers that follow a job's progress.")

TABLE: Mapping[Process, tuple[Metric, ...]] = {
    Process.CONTROLLER: (
        *(BUILD, SHARDS, OLDEST_DUE, STALLED, QUEUE_WAIT, WORKERS, ENDED_YOUNG, WINDOW, JOBS, JOBS_FINISHED, JOBS_LATE),
        *(TRANSITIONS, ACTIONS, PASS_SECONDS, ERRORS, LAST_PASS, LISTENER, SERVER_UP, EVICTION_UNSAFE),
        *(DELIVERIES, WEBHOOKS_PENDING, WEBHOOKS_OVERDUE, POOL_REPLICAS, POOL_HELD, SCALE_DECISIONS, THRESHOLD),
    ),
    Process.WORKER: (
        *(BUILD, WORKER_IMAGES, WORKER_INSTANCES, WORKER_SHARDS, WORKER_PICKUP, WORKER_STAGE_SECONDS),
        *(WORKER_BUSY_SECONDS, WORKER_BUSY, WORKER_ENGINE, WORKER_LOAD_SECONDS, WORKER_REJECTED),
        *(WORKER_HEARTBEAT_AGE, WORKER_PROGRESS, WORKER_GATHERED, WORKER_GPU_MEMORY, WORKER_SHRINKS),
    ),
    Process.API: (BUILD, API_SECONDS, API_WATCHERS),
}

# What is asked at each scrape: a number, or one for each set of labels.
Asked = Callable[[], float | Mapping[Values, float]]


class Board:
    """The metrics of one process, in a registry of their own. Safe to use from several threads.

    Labels are given by their values, in the order of the table.
    """

    def __init__(self, process: Process, **constant: str) -> None:
        """`constant`: labels that every metric of this process carries, but the standard ones of processes.

        Raises:
            InvalidInput: the environment asks for the client's mode of several processes.
        """
        for name in MULTIPROCESS:
            if name in os.environ:
                raise InvalidInput(
                    f"{name}: is {os.environ[name]!r}, but each process of samjobs tells its own metrics: unset it"
                )
        self.registry = CollectorRegistry()
        self._constant = constant
        self._made: dict[str, Counter | Gauge | Histogram] = {}
        self._shown: dict[str, set[Values]] = {}
        ProcessCollector(registry=self.registry)
        for metric in TABLE[process]:
            self._made[metric.name] = self._make(metric)
            for values in metric.known if metric.labels else [()]:
                self._of(metric, values)
        self.set(BUILD, 1, __version__, process.value)

    def inc(self, metric: Metric, amount: float = 1, *values: str) -> None:
        """Add to a counter."""
        one = self._of(metric, values)
        assert isinstance(one, Counter), metric.name
        one.inc(amount)

    def set(self, metric: Metric, value: float, *values: str) -> None:
        """Set a gauge."""
        one = self._of(metric, values)
        assert isinstance(one, Gauge), metric.name
        one.set(value)

    def touch(self, metric: Metric) -> None:
        """Set a gauge to the present time."""
        one = self._of(metric, ())
        assert isinstance(one, Gauge), metric.name
        one.set_to_current_time()

    def observe(self, metric: Metric, seconds: float, *values: str) -> None:
        """Add to a histogram."""
        one = self._of(metric, values)
        assert isinstance(one, Histogram), metric.name
        one.observe(seconds)

    def replace(self, metric: Metric, told: Mapping[Values, float]) -> None:
        """Set a gauge for these values of its labels, and forget all others. From one thread."""
        for gone in self._shown.get(metric.name, set()) - told.keys():
            self._made[metric.name].remove(*self._constant.values(), *gone)
        self._shown[metric.name] = set(told)
        for values, value in told.items():
            self.set(metric, value, *values)

    def watch(self, metric: Metric, ask: Asked) -> None:
        """Ask for a gauge or a counter at each scrape, from the thread that answers it."""
        self.drop(metric)
        self.registry.register(_Watched(metric, self._constant, ask))

    def drop(self, metric: Metric) -> None:
        """Tell nothing of a metric: it has no meaning here."""
        self.registry.unregister(self._made.pop(metric.name))

    def _make(self, metric: Metric) -> Counter | Gauge | Histogram:
        labels = (*self._constant, *metric.labels)
        match metric.kind:
            case Kind.COUNTER:
                return Counter(metric.name, metric.told, labels, registry=self.registry)
            case Kind.GAUGE:
                return Gauge(metric.name, metric.told, labels, registry=self.registry)
            case Kind.HISTOGRAM:
                return Histogram(metric.name, metric.told, labels, registry=self.registry, buckets=metric.buckets)

    def _of(self, metric: Metric, values: Values) -> Counter | Gauge | Histogram:
        made = self._made[metric.name]
        all_values = (*self._constant.values(), *values)
        return made.labels(*all_values) if all_values else made


class _Watched(Collector):
    """A metric whose value somebody else knows."""

    def __init__(self, metric: Metric, constant: Mapping[str, str], ask: Asked) -> None:
        self._metric, self._constant, self._ask = metric, constant, ask

    def describe(self) -> list[Family]:
        return [self._family()]

    def collect(self) -> Iterator[Family]:
        told, family = self._ask(), self._family()
        for values, value in told.items() if isinstance(told, Mapping) else [((), told)]:
            family.add_metric([*self._constant.values(), *values], value)
        yield family

    def _family(self) -> CounterMetricFamily | GaugeMetricFamily:
        kind = CounterMetricFamily if self._metric.kind is Kind.COUNTER else GaugeMetricFamily
        return kind(self._metric.name, self._metric.told, labels=[*self._constant, *self._metric.labels])
