"""Conditions of a Kubernetes object: when does one count as changed?

`lastTransitionTime` moves only when the status flips, however often the words change; so what was written before is
needed, and is used for nothing else.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from samjobs.names import Condition, Reason

Status = Literal["True", "False", "Unknown"]


@dataclass(frozen=True)
class Verdict:
    """What is so now."""

    status: Status
    reason: Reason
    message: str


def conditions(
    verdicts: Mapping[Condition, Verdict], earlier: Iterable[Mapping[str, Any]], generation: int, at: datetime
) -> list[dict[str, Any]]:
    """The `conditions` to write.

    Args:
        earlier: as they stand in the object.
        generation: of the spec that was looked at.
        at: now.
    """
    before = {one.get("type"): one for one in earlier}
    return [_condition(kind, verdict, before.get(kind, {}), generation, at) for kind, verdict in verdicts.items()]


def _condition(
    kind: Condition, verdict: Verdict, before: Mapping[str, Any], generation: int, at: datetime
) -> dict[str, Any]:
    same = before.get("status") == verdict.status
    since = before.get("lastTransitionTime") if same else None
    return {
        "type": kind.value,
        "status": verdict.status,
        "reason": verdict.reason.value,
        "message": verdict.message,
        "lastTransitionTime": since or f"{at:%Y-%m-%dT%H:%M:%SZ}",
        "observedGeneration": generation,
    }
