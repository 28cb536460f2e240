"""At which number does an alert begin to count?

The rules (`charts/samjobs/files/rules`) compare with `samjobs_alert_threshold`, which the controllers tell, so that one
setting changes a threshold and no rule is a template. An alert that is not here has none.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class Threshold:
    """What an alert compares with, where nothing else is set."""

    default: float
    told: str  # what is counted, with its unit


THRESHOLDS: Mapping[str, Threshold] = MappingProxyType(
    {
        "SamJobsWorkWaits": Threshold(3600, "seconds for which a shard of a region has been due"),
        "SamJobsQueueStalled": Threshold(900, "seconds for which a region with work has finished no image"),
        "SamJobsPassStalled": Threshold(120, "seconds since a controller's last pass went through"),
        "SamJobsQueueDeep": Threshold(100, "shards of a region that are due"),
        "SamJobsJobsFail": Threshold(10, "jobs that failed within an hour"),
        "SamJobsWaitLong": Threshold(120, "seconds for which one of a hundred shards waits for its worker"),
        "SamJobsDeadShardsGrow": Threshold(10, "shards of a region that died within an hour"),
        "SamJobsLeasesExpire": Threshold(3, "shards whose worker fell silent within 15 minutes"),
        "SamJobsImagesFail": Threshold(0.5, "share of the images of a region that fail"),
        "SamJobsWorkersCrash": Threshold(3, "workers of a region that ended young within 15 minutes"),
        "SamJobsWebhooksPile": Threshold(300, "seconds for which a webhook has been due"),
    }
)


def thresholds(changed: Mapping[str, float]) -> dict[str, float]:
    """Every alert's threshold: what was `changed`, or its default.

    >>> thresholds({"SamJobsQueueDeep": 500})["SamJobsQueueDeep"]
    500
    """
    return {name: one.default for name, one in THRESHOLDS.items()} | dict(changed)


def parse(text: str) -> dict[str, float]:
    """Thresholds as a setting writes them.

    Raises:
        ValueError: naming what is wrong, and what may be given.

    >>> parse("SamJobsQueueDeep=500, SamJobsWaitLong=60")
    {'SamJobsQueueDeep': 500.0, 'SamJobsWaitLong': 60.0}
    """
    found: dict[str, float] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, number = (piece.strip() for piece in part.partition("="))
        if name not in THRESHOLDS:
            raise ValueError(f"{name!r} is no alert with a threshold: give {', '.join(THRESHOLDS)}")
        try:
            value = float(number)
        except ValueError:
            value = -1.0
        if not 0 <= value < float("inf"):
            raise ValueError(f"{name}: {number!r} is no threshold: give a number, 0 or more")
        found[name] = value
    return found
