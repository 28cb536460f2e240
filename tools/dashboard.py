"""The Grafana dashboard, made from the panels below; `make generate` writes it, and `tests/charts` judges it.

Each panel says what it shows, and what its metrics are, in the words of `samjobs.metrics`.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from samjobs.metrics import TABLE

PATH = "charts/samjobs/files/dashboards/overview.json"
UID = "samjobs-overview"
COLUMNS = 24
HEIGHT = 7
Json = dict[str, Any]

TOLD: Mapping[str, str] = {metric.name: metric.told for metrics in TABLE.values() for metric in metrics}

# What is chosen at the top. `{of}` stands for the choice of installation, `{by}` for that of regions too.
OF = 'job=~"$job",namespace=~"$namespace"'
BY = f'{OF},region=~"$region"'
POOL = f'{BY},pool=~"$pool"'
# What every controller tells alike is taken once.
ONCE = "max by (namespace, region, {0})"


@dataclass(frozen=True)
class Panel:
    """One panel; `targets` are expressions with the legend of each."""

    title: str
    unit: str
    told: str
    targets: tuple[tuple[str, str], ...]
    width: int = 8
    kind: str = "timeseries"


def _rate(name: str, selector: str, *labels: str, aggregate: str = "sum") -> str:
    by = f" by ({', '.join(labels)})" if labels else ""
    return f"{aggregate}{by} (rate({name}{{{selector}}}[$__rate_interval]))"


def _quantile(share: float, name: str, selector: str, *labels: str) -> str:
    return f"histogram_quantile({share}, {_rate(name + '_bucket', selector, 'le', *labels)})"


ROWS: Mapping[str, tuple[Panel, ...]] = {
    "Is it healthy": (
        Panel(
            "Alerts that fire",
            "short",
            "Alerts of samjobs that fire now; each has a page in docs/runbooks.",
            (('count(ALERTS{alertname=~"SamJobs.+",alertstate="firing"}) or vector(0)', ""),),
            4,
            "stat",
        ),
        Panel(
            "Time since the last pass",
            "s",
            "Of the controller that passed last. It is seconds, at most the poll.",
            ((f"time() - max(samjobs_controller_last_pass_timestamp_seconds{{{OF}}})", ""),),
            4,
            "stat",
        ),
        Panel(
            "Processes",
            "short",
            "Processes that are scraped, by version.",
            ((f"count by (process, version) (samjobs_build_info{{{OF}}})", "{{process}} {{version}}"),),
        ),
        Panel(
            "Servers",
            "bool_yes_no",
            "Whether Postgres, Redis and Kubernetes do what the controller asks.",
            ((f"min by (name) (samjobs_dependency_up{{{OF}}})", "{{name}}"),),
        ),
        Panel(
            "Time of a step of the pass, 99th percentile",
            "s",
            "What the controller's time goes to.",
            ((_quantile(0.99, "samjobs_controller_pass_seconds", OF, "step"), "{{step}}"),),
        ),
        Panel(
            "Notifications and eviction",
            "bool_yes_no",
            "Notifications are to be heard, and Redis is to evict nothing.",
            (
                (f"min(samjobs_controller_listener_connected{{{OF}}})", "notifications are heard"),
                (f"max(samjobs_redis_eviction_unsafe{{{OF}}})", "Redis evicts"),
            ),
        ),
        Panel(
            "Unforeseen failures",
            "cps",
            "Steps and threads of the controller that failed; the log has the tracebacks.",
            ((_rate("samjobs_controller_errors_total", OF, "step"), "{{step}}"),),
        ),
    ),
    "Is work flowing": (
        Panel(
            "Oldest due shard",
            "s",
            "What users feel. Beside it the threshold at which it pages.",
            (
                (f"max by (region) (samjobs_queue_oldest_due_age_seconds{{{BY}}})", "{{region}}"),
                (f'max(samjobs_alert_threshold{{{OF},alert="SamJobsWorkWaits"}})', "threshold"),
            ),
        ),
        Panel(
            "Time without a finished image",
            "s",
            "Of regions with work. Beside it the threshold at which it pages.",
            (
                (f"max by (region) (samjobs_queue_stalled_seconds{{{BY}}})", "{{region}}"),
                (f'max(samjobs_alert_threshold{{{OF},alert="SamJobsQueueStalled"}})', "threshold"),
            ),
        ),
        Panel(
            "Images",
            "cps",
            "Images a second, by outcome.",
            ((_rate("samjobs_worker_images_total", POOL, "outcome"), "{{outcome}}"),),
        ),
        Panel(
            "Shards by state",
            "short",
            "What waits, what is at work, and what is dead.",
            ((f"sum by (state) ({ONCE.format('state')} (samjobs_shards{{{BY}}}))", "{{state}}"),),
        ),
        Panel(
            "Jobs by state",
            "short",
            "Jobs that have not ended.",
            ((f"sum by (state) (max by (namespace, state) (samjobs_jobs{{{OF}}}))", "{{state}}"),),
        ),
        Panel(
            "Jobs that end",
            "cps",
            "Jobs a second, by result.",
            ((_rate("samjobs_jobs_finished_total", OF, "result", aggregate="max"), "{{result}}"),),
        ),
        Panel(
            "Wait until sent",
            "s",
            "From due to Redis: limits, fairness and room are decided here.",
            (
                (_quantile(0.5, "samjobs_queue_wait_seconds", OF), "median"),
                (_quantile(0.99, "samjobs_queue_wait_seconds", OF), "99th percentile"),
            ),
        ),
        Panel(
            "Wait until begun",
            "s",
            "From due to a worker's hands; what it is longer than the wait until sent is the wait for a free worker.",
            (
                (_quantile(0.5, "samjobs_worker_pickup_seconds", POOL, "region"), "{{region}} median"),
                (_quantile(0.99, "samjobs_worker_pickup_seconds", POOL, "region"), "{{region}} 99th percentile"),
            ),
        ),
        Panel(
            "Sent ahead",
            "short",
            "Shards in Redis, and how many there may be.",
            (
                (f'max by (region) (samjobs_shards{{{BY},state="dispatched"}})', "{{region}} sent"),
                (f"max by (region) (samjobs_dispatch_window_shards{{{BY}}})", "{{region}} window"),
            ),
        ),
    ),
    "Scaling": (
        Panel(
            "Workers by state",
            "short",
            "As they told the table; silent ones have stopped telling.",
            ((f"sum by (state) ({ONCE.format('state')} (samjobs_workers{{{BY}}}))", "{{state}}"),),
        ),
        Panel(
            "Workers of pools",
            "short",
            "As decided, as they are, and what is allowed.",
            ((f"max by (pool, kind) (samjobs_pool_replicas{{{POOL}}})", "{{pool}} {{kind}}"),),
        ),
        Panel(
            "Decisions",
            "cps",
            "Why pools have as many workers as they have; docs/queue.md explains the reasons.",
            ((_rate("samjobs_pool_scale_decisions_total", OF, "reason"), "{{reason}}"),),
        ),
        Panel(
            "Demand",
            "short",
            "Shards that keep workers busy: due, sent and running.",
            (
                (
                    f"sum by (region) ({ONCE.format('state')} "
                    f'(samjobs_shards{{{BY},state=~"due|dispatched|running"}}))',
                    "{{region}}",
                ),
            ),
        ),
        Panel(
            "Pools that hold their number",
            "bool_yes_no",
            "Because the demand is not known, or the pool is refused.",
            ((f"max by (pool) (samjobs_pool_scaling_held{{{POOL}}})", "{{pool}}"),),
        ),
        Panel(
            "Workers that ended young",
            "short",
            "A few at a time are an accident; more are a crash loop.",
            ((f"max by (region) (samjobs_workers_ended_young{{{BY}}})", "{{region}}"),),
        ),
    ),
    "GPUs": (
        Panel(
            "Device busy",
            "percentunit",
            "Share of the time in which the device works. Well below one with work waiting: look at the stages.",
            (
                (
                    _rate("samjobs_worker_stage_seconds_total", f'{POOL},stage="segment"', "pool", aggregate="avg"),
                    "{{pool}}",
                ),
            ),
        ),
        Panel(
            "Shard in hand",
            "percentunit",
            "Share of the time in which a worker has a shard.",
            ((_rate("samjobs_worker_busy_seconds_total", POOL, "pool", aggregate="avg"), "{{pool}}"),),
        ),
        Panel(
            "Time per image by stage",
            "s",
            "Stages overlap. Fetch or write above segment: the storage is what limits.",
            (
                (
                    f"{_rate('samjobs_worker_stage_seconds_total', POOL, 'stage')}"
                    f" / ignoring (stage) group_left ()"
                    f" sum without (outcome) ({_rate('samjobs_worker_images_total', POOL, 'outcome')})",
                    "{{stage}}",
                ),
            ),
        ),
        Panel(
            "Memory of the device, or of the process where it has none",
            "bytes",
            "Reserved is what the GPU has lost to this process.",
            (
                (
                    f"max by (pool, kind) (samjobs_worker_gpu_memory_bytes{{{POOL}}})"
                    f" or max by (job) (process_resident_memory_bytes{{{OF}}}"
                    f" and on (job, instance) samjobs_worker_busy{{{POOL}}})",
                    "{{pool}} {{kind}}{{job}}",
                ),
            ),
        ),
        Panel(
            "Memory ran out",
            "cps",
            "Work that was cut into smaller parts, and goes on.",
            ((_rate("samjobs_worker_oom_shrinks_total", POOL, "pool"), "{{pool}}"),),
        ),
        Panel(
            "Load of the model",
            "s",
            "How long the last one took; a pool that comes from zero waits for it.",
            ((f"max by (pool) (samjobs_worker_model_load_seconds{{{POOL}}})", "{{pool}}"),),
        ),
        Panel(
            "Engines",
            "short",
            "Workers by what they have loaded, and on what.",
            ((f"count by (engine, device) (samjobs_worker_engine_info{{{POOL}}})", "{{engine}} on {{device}}"),),
        ),
        Panel(
            "Time since an image",
            "s",
            "Of the worker with a shard in hand that is silent for longest: one that hangs stands out.",
            (
                (
                    f"max by (pool) ((time() - samjobs_worker_last_progress_timestamp_seconds{{{POOL}}} > 0)"
                    f" * samjobs_worker_busy{{{POOL}}})",
                    "{{pool}}",
                ),
            ),
        ),
        Panel(
            "Age of heartbeats",
            "s",
            "The oldest. Beyond a few seconds the database is slow for a worker, or away.",
            ((f"max by (pool) (samjobs_worker_heartbeat_age_seconds{{{POOL}}})", "{{pool}}"),),
        ),
    ),
    "Failures": (
        Panel(
            "Images that fail",
            "percentunit",
            "Share of all.",
            (
                (
                    _rate("samjobs_worker_images_total", f'{POOL},outcome="failed"', "region")
                    + " / "
                    + _rate("samjobs_worker_images_total", POOL, "region"),
                    "{{region}}",
                ),
            ),
        ),
        Panel(
            "What comes of shards",
            "cps",
            "Retry, dead and lost are charged as failures.",
            ((_rate("samjobs_worker_shards_total", POOL, "end"), "{{end}}"),),
        ),
        Panel(
            "Shards that the controller moves",
            "cps",
            "Sent; taken back because a message was lost, a region has no worker, or a worker fell silent.",
            ((_rate("samjobs_shard_transitions_total", OF, "to_state", "reason"), "{{to_state}} {{reason}}"),),
        ),
        Panel(
            "Dead shards",
            "short",
            "They wait for a person: `samjobs dead list`.",
            ((f'max by (region) (samjobs_shards{{{BY},state="dead"}})', "{{region}}"),),
        ),
        Panel(
            "Actions of the pass",
            "cps",
            "What the controller's steps did.",
            ((_rate("samjobs_controller_actions_total", OF, "step", "what"), "{{step}} {{what}}"),),
        ),
        Panel(
            "Jobs beyond their deadlines",
            "short",
            "As things stand; more workers may help.",
            ((f"max by (region) (samjobs_jobs_beyond_deadline{{{BY}}})", "{{region}}"),),
        ),
        Panel(
            "Webhooks",
            "cps",
            "Tries to send one, by what came of them.",
            ((_rate("samjobs_webhook_deliveries_total", OF, "result"), "{{result}}"),),
        ),
        Panel(
            "Webhooks to be sent",
            "short",
            "Those whose receiver does not answer wait for their next try here.",
            ((f"max(samjobs_webhook_pending{{{OF}}})", "pending"),),
        ),
        Panel(
            "Messages and results",
            "cps",
            "Messages that are none of ours were thrown away; results that could not be gathered are tried again.",
            (
                (_rate("samjobs_worker_rejected_messages_total", POOL, "reason"), "rejected {{reason}}"),
                (_rate("samjobs_worker_gathered_jobs_total", POOL, "result"), "gathered {{result}}"),
            ),
        ),
    ),
    "API": (
        Panel(
            "Requests",
            "cps",
            "By class of status.",
            ((_rate("samjobs_api_request_seconds_count", OF, "status"), "{{status}}"),),
        ),
        Panel(
            "Time until the answer begins, 95th percentile",
            "s",
            "By route; a progress stream begins at once and goes on.",
            ((_quantile(0.95, "samjobs_api_request_seconds", OF, "route"), "{{route}}"),),
        ),
        Panel(
            "Callers that follow progress",
            "short",
            "Each holds a connection of the API, and none of the database.",
            ((f"sum(samjobs_api_watchers{{{OF}}})", "callers"),),
        ),
    ),
}

# Name, label, whose values of which label; what `All` stands for. A label that not every installation has may be empty.
VARIABLES = (
    ("job", "Job", "samjobs_build_info", "job", ".+"),
    ("namespace", "Namespace", 'samjobs_build_info{job=~"$job"}', "namespace", ".*"),
    ("region", "Region", 'samjobs_workers{job=~"$job"}', "region", ".+"),
    ("pool", "Pool", 'samjobs_worker_busy{job=~"$job"}', "pool", ".+"),
)
SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def board() -> Json:
    """The dashboard."""
    return {
        "title": "samjobs",
        "uid": UID,
        "id": None,
        "editable": False,
        "graphTooltip": 1,
        "refresh": "30s",
        "schemaVersion": 39,
        "tags": ["samjobs"],
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": list(_variables())},
        "annotations": {"list": []},
        "links": [],
        "panels": list(_panels()),
    }


def text() -> str:
    """As it stands in its file."""
    return json.dumps(board(), indent=2, ensure_ascii=False) + "\n"


def _variables() -> Iterator[Json]:
    yield {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "current": {}}
    for name, label, series, of, everything in VARIABLES:
        yield {
            "name": name,
            "label": label,
            "type": "query",
            "datasource": SOURCE,
            "query": {"query": f"label_values({series}, {of})", "refId": name},
            "refresh": 2,
            "multi": True,
            "includeAll": True,
            "allValue": everything,
            "current": {"text": ["All"], "value": ["$__all"]},
            "sort": 1,
        }


def _panels() -> Iterator[Json]:
    number, y = 1, 0
    for title, panels in ROWS.items():
        place = {"x": 0, "y": y, "w": COLUMNS, "h": 1}
        yield {"id": number, "type": "row", "title": title, "collapsed": False, "gridPos": place, "panels": []}
        number, x, y = number + 1, 0, y + 1
        for panel in panels:
            if x + panel.width > COLUMNS:
                x, y = 0, y + HEIGHT
            yield _panel(number, panel, x, y)
            number, x = number + 1, x + panel.width
        y += HEIGHT


def _panel(number: int, panel: Panel, x: int, y: int) -> Json:
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": _told(panel),
        "datasource": SOURCE,
        "gridPos": {"x": x, "y": y, "w": panel.width, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + place), "datasource": SOURCE, "expr": expression, "legendFormat": legend}
            for place, (expression, legend) in enumerate(panel.targets)
        ],
    }


def _told(panel: Panel) -> str:
    """What it shows, and what its metrics are."""
    names = sorted({found for expression, _ in panel.targets for found in re.findall(r"\bsamjobs_\w+", expression)})
    metrics = dict.fromkeys(re.sub(r"_(bucket|count)$", "", name) for name in names)
    return "\n\n".join([panel.told, *(f"`{name}`: {TOLD[name]}" for name in metrics)])
