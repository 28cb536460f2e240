"""What makes each alert fire: series minute by minute, from when on it counts, what a person then reads, and the end.

`0x10` is eleven samples of 0, a minute apart; `0+5x10` goes up by 5 each minute.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from samjobs.alerts import THRESHOLDS

Series = Mapping[str, str]  # as in an expression → its samples

CONTROLLER = 'job="samjobs-controller",namespace="samjobs"'
TARGET = f'{CONTROLLER},instance="10.0.0.1:8080",pod="samjobs-controller-0",endpoint="metrics"'
WORKER = 'job="samjobs-workers",namespace="gpu",instance="10.0.0.2:8080",pod="gpu-0",region="eu",pool="gpu"'
EU = {"region": "eu"}
GPU = {"region": "eu", "pool": "gpu"}


def of_controller(name: str, /, **labels: str) -> str:
    return _series(name, TARGET, labels)


def of_worker(name: str, /, **labels: str) -> str:
    return _series(name, WORKER, labels)


def _series(name: str, target: str, labels: Mapping[str, str]) -> str:
    own = "".join(f',{label}="{value}"' for label, value in labels.items())
    return f"{name}{{{target}{own}}}"


THRESHOLD_SERIES: Series = {
    of_controller("samjobs_alert_threshold", alert=name): f"{one.default}x2000" for name, one in THRESHOLDS.items()
}
DATABASE_UP: Series = {of_controller("samjobs_dependency_up", name="database"): "1x2000"}


@dataclass(frozen=True)
class Case:
    """One alert.

    Args:
        since: the minute from which on its condition holds.
        over: a minute at which it is over.
        told: the description at the minute in which it fires.
        labels: what the alert carries, beside the controller's job and namespace.
    """

    series: Series
    since: int
    over: int
    told: str
    labels: Mapping[str, str] = field(default_factory=dict)
    everywhere: bool = False  # not by controller: it carries neither job nor namespace


def bad(calm: object, bad_: object) -> str:
    """Calm for ten minutes, bad for an hour, calm again."""
    return f"{calm}x10 {bad_}x59 {calm}x200"


CASES: Mapping[str, Case] = {
    "SamJobsWorkWaits": Case(
        {of_controller("samjobs_queue_oldest_due_age_seconds", region="eu"): bad(5, 3660)},
        since=11,
        over=71,
        told="The oldest shard of region eu that may run has been waiting for 1h 1m 0s.",
        labels=EU,
    ),
    "SamJobsQueueStalled": Case(
        {of_controller("samjobs_queue_stalled_seconds", region="eu"): bad(20, 960)},
        since=11,
        over=71,
        told="Region eu has had work for 16m 0s without finishing a single image.",
        labels=EU,
    ),
    "SamJobsControllerDown": Case(
        {of_controller("samjobs_controller_last_pass_timestamp_seconds"): "0+60x10 stale _x59 4260+60x60"},
        since=11,
        over=72,
        told="Nothing was scraped from a samjobs controller of namespace samjobs: no job is admitted, dispatched or "
        "ended.",
    ),
    "SamJobsDatabaseDown": Case(
        {of_controller("samjobs_dependency_up", name="database"): bad(1, 0)},
        since=11,
        over=71,
        told="No controller of samjobs-controller can work with Postgres. Workers go on with what they have; nothing "
        "else moves.",
        labels={"name": "database"},
    ),
    "SamJobsPassStalled": Case(
        {of_controller("samjobs_controller_last_pass_timestamp_seconds"): "0+60x10 600x59 4260+60x60", **DATABASE_UP},
        since=13,
        over=72,
        told="The last pass of samjobs-controller went through 5m 0s ago.",
    ),
    "SamJobsControllerErrors": Case(
        {of_controller("samjobs_controller_errors_total", step="heal"): "0x10 0+1x59 60x200"},
        since=12,
        over=88,
        told="Part heal of samjobs-controller failed about 6 times within 15 minutes; its log has the tracebacks.",
        labels={"step": "heal"},
    ),
    "SamJobsQueueDeep": Case(
        {of_controller("samjobs_shards", region="eu", state="due"): bad(100, 101)},
        since=11,
        over=71,
        told="101 shards of region eu are due.",
        labels={**EU, "state": "due"},
    ),
    "SamJobsJobsFail": Case(
        {of_controller("samjobs_jobs_finished_total", result="failed"): "0x60 0+1x59 60x200"},
        since=72,
        over=180,
        told="About 12 jobs failed within the last hour.",
        labels={"result": "failed"},
    ),
    "SamJobsImagesFail": Case(
        {
            of_worker("samjobs_worker_images_total", outcome="done"): "0+10x10 100x59 100+10x200",
            of_worker("samjobs_worker_images_total", outcome="failed"): "0x10 0+10x59 600x200",
            of_worker("samjobs_worker_images_total", outcome="skipped"): "0x300",
        },
        since=19,
        over=90,
        told="100% of the images of region eu fail.",
        labels=EU,
        everywhere=True,
    ),
    "SamJobsWaitLong": Case(
        {
            of_worker("samjobs_worker_pickup_seconds_bucket", le="120"): "0+10x10 100x59 100+10x200",
            of_worker("samjobs_worker_pickup_seconds_bucket", le="300"): "0+10x300",
            of_worker("samjobs_worker_pickup_seconds_bucket", le="+Inf"): "0+10x300",
        },
        since=11,
        over=90,
        told="One of a hundred shards that workers of region eu began lately had waited for 4m 58s or more.",
        labels=EU,
        everywhere=True,
    ),
    "SamJobsDeadShardsGrow": Case(
        {of_controller("samjobs_shards", region="eu", state="dead"): "7x70 18x200"},
        since=71,
        over=135,
        told="11 shards of region eu have died within the last hour: `samjobs dead list` has their errors.",
        labels={**EU, "state": "dead"},
    ),
    "SamJobsWorkersSilent": Case(
        {of_controller("samjobs_workers", region="eu", state="silent"): bad(0, 2)},
        since=11,
        over=71,
        told="2 workers of region eu are silent: killed, frozen, or cut off from the database.",
        labels={**EU, "state": "silent"},
    ),
    "SamJobsLeasesExpire": Case(
        {
            of_controller(
                "samjobs_shard_transitions_total", from_state="running", to_state="queued", reason="WorkerFault"
            ): "0x20 4x100",
            of_controller(
                "samjobs_shard_transitions_total", from_state="dispatched", to_state="queued", reason="MessageLost"
            ): "0+9x120",
        },
        since=21,
        over=40,
        told="About 4 shards were taken back within 15 minutes, since their workers' heartbeats had stopped.",
    ),
    "SamJobsWorkersCrash": Case(
        {of_controller("samjobs_workers_ended_young", region="eu"): bad(2, 4)},
        since=11,
        over=71,
        told="4 workers of region eu that started within 15 minutes have ended without an image.",
        labels=EU,
    ),
    "SamJobsNoWorker": Case(
        {
            of_controller("samjobs_shards", region="eu", state="due"): bad(0, 3),
            of_controller("samjobs_shards", region="eu", state="dispatched"): bad(0, 2),
            of_controller("samjobs_workers", region="eu", state="ready"): "0x300",
            of_controller("samjobs_shards", region="us", state="due"): "3x300",
            of_controller("samjobs_workers", region="us", state="loading"): "1x300",
        },
        since=11,
        over=71,
        told="Region eu has 5 shards to be done and no worker that is alive.",
        labels=EU,
    ),
    "SamJobsPoolAtMaximum": Case(
        {
            of_controller("samjobs_pool_replicas", **GPU, kind="desired"): bad(1, 4),
            of_controller("samjobs_pool_replicas", **GPU, kind="maximum"): "4x300",
            of_controller("samjobs_queue_oldest_due_age_seconds", region="eu"): "60x300",
        },
        since=11,
        over=71,
        told="Pool gpu of region eu has had its maxReplicas of 4 workers for half an hour while work waits.",
        labels=GPU,
    ),
    "SamJobsPoolUnused": Case(
        {
            of_controller("samjobs_pool_replicas", **GPU, kind="ready"): "2x300",
            of_controller("samjobs_pool_replicas", **GPU, kind="busy"): bad(1, 0),
            of_controller("samjobs_pool_replicas", **GPU, kind="minimum"): "0x300",
        },
        since=11,
        over=71,
        told="Pool gpu of region eu has had 2 workers ready and none busy for half an hour.",
        labels=GPU,
    ),
    "SamJobsScalingHeld": Case(
        {of_controller("samjobs_pool_scaling_held", **GPU): bad(0, 1)},
        since=11,
        over=71,
        told="Pool gpu of region eu is neither made larger nor smaller: its spec is refused, or the controller does "
        "not learn how much work there is.",
        labels=GPU,
    ),
    "SamJobsListenerDown": Case(
        {of_controller("samjobs_controller_listener_connected"): bad(1, 0), **DATABASE_UP},
        since=11,
        over=71,
        told="samjobs-controller hears no notifications of the database: what is submitted waits up to a second, and "
        "nobody would notice a second fault.",
        labels={"instance": "10.0.0.1:8080", "pod": "samjobs-controller-0", "endpoint": "metrics"},
    ),
    "SamJobsRedisEvicts": Case(
        {of_controller("samjobs_redis_eviction_unsafe"): bad(0, 1)},
        since=11,
        over=71,
        told="The Redis of samjobs-controller has a maxmemory-policy other than noeviction: messages may be lost, and "
        "are sent again a pass later.",
    ),
    "SamJobsRedisDown": Case(
        {of_controller("samjobs_dependency_up", name="redis"): bad(1, 0)},
        since=11,
        over=71,
        told="No controller of samjobs-controller can work with Redis: nothing new is sent to the workers. No job is "
        "lost.",
        labels={"name": "redis"},
    ),
    "SamJobsKubernetesDown": Case(
        {of_controller("samjobs_dependency_up", name="kubernetes"): bad(1, 0)},
        since=11,
        over=71,
        told="samjobs-controller cannot read SamJobs, tell of them or scale pools: all of it, or a part that is "
        "forbidden. What is in the job table goes on.",
        labels={"name": "kubernetes"},
    ),
    "SamJobsDeadlineAtRisk": Case(
        {of_controller("samjobs_jobs_beyond_deadline", region="eu"): bad(0, 2)},
        since=11,
        over=71,
        told="2 jobs of region eu cannot be done before their activeDeadlineSeconds are over, even by all of its "
        "workers.",
        labels=EU,
    ),
    "SamJobsWebhooksPile": Case(
        {of_controller("samjobs_webhook_overdue_seconds"): bad(0, 600)},
        since=11,
        over=71,
        told="The oldest webhook that is due has been due for 10m 0s.",
    ),
}

# Nobody works and nothing waits: what a cluster costs nothing by. No alert may take it for a fault.
AT_ZERO: Series = {
    **THRESHOLD_SERIES,
    of_controller("samjobs_controller_last_pass_timestamp_seconds"): "0+60x2000",
    of_controller("samjobs_controller_listener_connected"): "1x2000",
    of_controller("samjobs_redis_eviction_unsafe"): "0x2000",
    **{of_controller("samjobs_dependency_up", name=name): "1x2000" for name in ("database", "redis", "kubernetes")},
    **{
        of_controller("samjobs_shards", region="eu", state=state): "0x2000"
        for state in ("due", "waiting", "held", "dispatched", "running")
    },
    # A dead shard of last week, and one that is suspended.
    of_controller("samjobs_shards", region="eu", state="dead"): "1x2000",
    of_controller("samjobs_shards", region="us", state="held"): "500x2000",
    of_controller("samjobs_queue_oldest_due_age_seconds", region="eu"): "0x2000",
    of_controller("samjobs_queue_stalled_seconds", region="eu"): "0x2000",
    of_controller("samjobs_jobs_finished_total", result="failed"): "40x2000",
    of_controller("samjobs_jobs_beyond_deadline", region="eu"): "0x2000",
    **{
        of_controller("samjobs_workers", region="eu", state=state): "0x2000"
        for state in ("loading", "ready", "busy", "draining", "silent")
    },
    of_controller("samjobs_workers_ended_young", region="eu"): "0x2000",
    of_controller("samjobs_controller_errors_total", step="heal"): "3x2000",
    of_controller(
        "samjobs_shard_transitions_total", from_state="running", to_state="queued", reason="WorkerFault"
    ): "7x2000",
    of_controller("samjobs_webhook_overdue_seconds"): "0x2000",
    of_controller("samjobs_pool_scaling_held", **GPU): "0x2000",
    **{
        of_controller("samjobs_pool_replicas", **GPU, kind=kind): f"{number}x2000"
        for kind, number in {"desired": 0, "current": 0, "ready": 0, "busy": 0, "minimum": 0, "maximum": 4}.items()
    },
    # What a worker told before it went.
    of_worker("samjobs_worker_images_total", outcome="failed"): "0+1x5 stale",
    of_worker("samjobs_worker_images_total", outcome="done"): "0x5 stale",
    of_worker("samjobs_worker_pickup_seconds_bucket", le="120"): "0x5 stale",
    of_worker("samjobs_worker_pickup_seconds_bucket", le="+Inf"): "0+1x5 stale",
}
