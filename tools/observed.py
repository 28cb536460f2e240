"""docs/reference/metrics.md: what the processes tell Prometheus, which alerts are made of it, and their thresholds."""

from collections.abc import Iterator
from typing import Any

import yaml

from samjobs.alerts import THRESHOLDS
from samjobs.metrics import OTHER_REGIONS, TABLE, WORKER_LABELS, Metric, Process
from tools.chart import CHART

HEAD = """\
# Metrics and alerts

Each process answers `/metrics` on its health port: its own numbers, in a registry of its own; `process_*` of the
Prometheus client come with them. `PROMETHEUS_MULTIPROC_DIR` must not be set. Labels have few values, however many jobs
there are: regions with a pool or a worker each have their name, of others the first ten, and the rest is
`region="{others}"`.

Several controllers tell the same of the queue, so take their maximum; what one did itself, it counts alone.
"""


def page() -> str:
    """The page."""
    parts = [HEAD.format(others=OTHER_REGIONS)]
    for process in Process:
        parts.append(f"## Of the {_NAMES[process]}\n")
        if process is Process.WORKER:
            labels = " and ".join(f"`{label}`" for label in WORKER_LABELS)
            parts.append(f"All of them have the worker's {labels} too.\n")
        parts.append(
            "| metric | type | labels | what it tells |\n|---|---|---|---|\n" + "\n".join(map(_row, TABLE[process]))
        )
        parts.append("")
    parts.append("## Alerts\n")
    parts.append(
        "The rules are in `charts/samjobs/files/rules`, for any Prometheus. critical pages; warning is a ticket; info"
        " is to be read with others. A threshold is changed by `SAMJOBS_ALERT_THRESHOLDS=SamJobsQueueDeep=500,…`, at"
        " the controllers.\n"
    )
    parts.append(
        "| alert | severity | after | threshold | what it says |\n|---|---|---|---|---|\n" + "\n".join(_alerts())
    )
    return "\n".join(parts) + "\n"


_NAMES = {Process.CONTROLLER: "controller", Process.WORKER: "worker", Process.API: "API"}


def _row(metric: Metric) -> str:
    labels = ", ".join(_label(metric, place) for place in range(len(metric.labels))) or "–"
    return f"| `{metric.name}` | {metric.kind.value} | {labels} | {metric.told} |"


def _label(metric: Metric, place: int) -> str:
    """A label with its values, where they are few and known; not those of several labels that belong together."""
    values = [values[place] for values in metric.known] if len(metric.labels) == 1 else []
    told = f" ({' '.join(values)})" if values else ""
    return f"`{metric.labels[place]}`{told}"


def _alerts() -> Iterator[str]:
    for path in sorted((CHART / "files/rules").glob("*.yaml"), key=_urgency):
        rule = _rule(path)
        name, threshold = rule["alert"], THRESHOLDS.get(rule["alert"])
        number = "–" if threshold is None else f"{threshold.default:g}: {threshold.told}"
        severity, summary = rule["labels"]["severity"], rule["annotations"]["summary"]
        yield f"| [{name}](../runbooks/{name}.md) | {severity} | {rule['for']} | {number} | {summary} |"


def _urgency(path: Any) -> tuple[int, str]:
    return ["critical", "warning", "info"].index(_rule(path)["labels"]["severity"]), path.stem


def _rule(path: Any) -> dict[str, Any]:
    rule: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))["groups"][0]["rules"][0]
    return rule
