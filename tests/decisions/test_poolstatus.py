"""What a pool says of itself, situation by situation."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from samjobs.decisions.poolstatus import Pod, View, status
from samjobs.names import Condition, Reason

AT = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)
SCALED = (Reason.COMPLETED, "2 = as it was decided")
READY, LOADING = Pod("ready", ready=True), Pod("loading")
NO_NODE = Pod("no-node", unscheduled="0/3 nodes are available: 3 Insufficient nvidia.com/gpu.")
NO_IMAGE = Pod("no-image", unstarted="ImagePullBackOff: no such image")
NO_MODEL = Pod("no-model", exit_code=5, last_words="model '/x': no such folder")
NO_REDIS = Pod("no-redis", exit_code=3, last_words="Redis r:6379/0 does not answer")


def view(*pods: Pod, desired: int = 2, **changes: Any) -> View:
    plain = View(
        generation=4,
        selector="samjobs.dev/pool=spot",
        desired=desired,
        scaled=SCALED,
        limited=False,
        refusal=None,
        pods=pods,
        busy=0,
    )
    return replace(plain, **changes)


def told(view: View, earlier: list[dict[str, Any]] | None = None, at: datetime = AT) -> dict[str, str]:
    """Status of each condition by type."""
    return {one["type"]: one["status"] for one in status(view, earlier or [], at)["conditions"]}


# What differs from a pool of which all is well, by what is seen.
WELL = {
    "Ready": "True",
    "Available": "True",
    "ScalingLimited": "False",
    "ModelUnavailable": "False",
    "Unschedulable": "False",
    "Stalled": "False",
}
SITUATIONS: dict[str, tuple[View, dict[str, str], str, str]] = {
    "at work": (view(READY, READY), {}, "Completed", "2 = as it was decided"),
    "at zero": (view(desired=0), {}, "Completed", ""),
    "loading": (view(LOADING, LOADING), {"Available": "False"}, "Completed", ""),
    "the first is ready": (view(READY, LOADING), {}, "Completed", ""),
    "limited": (view(READY, limited=True), {"ScalingLimited": "True"}, "Completed", ""),
    "nobody knows how many are wanted": (view(READY, limited=None), {"ScalingLimited": "Unknown"}, "Completed", ""),
    "no node": (
        view(NO_NODE),
        {"Ready": "False", "Available": "False", "Unschedulable": "True"},
        "Unschedulable",
        "Insufficient nvidia.com/gpu",
    ),
    "no node for one more": (view(READY, NO_NODE), {"Ready": "False", "Unschedulable": "True"}, "Unschedulable", ""),
    "no model": (
        view(NO_MODEL),
        {"Ready": "False", "Available": "False", "ModelUnavailable": "True"},
        "ModelUnavailable",
        "model '/x': no such folder",
    ),
    "no model, and no node for another": (
        view(NO_NODE, NO_MODEL),
        {"Ready": "False", "Available": "False", "ModelUnavailable": "True", "Unschedulable": "True"},
        "ModelUnavailable",
        "no such folder",
    ),
    "no image": (view(NO_IMAGE), {"Ready": "False", "Available": "False"}, "WorkerUnstarted", "no such image"),
    "no Redis": (
        view(NO_REDIS),
        {"Ready": "False", "Available": "False"},
        "WorkerFails",
        "exit code 3: Redis r:6379/0 does not answer",
    ),
    "no quota": (
        view(pods_refused="pods is forbidden: exceeded quota"),
        {"Ready": "False", "Available": "False"},
        "PodsRefused",
        "exceeded quota",
    ),
    "died once, and is ready now": (view(replace(NO_MODEL, ready=True)), {}, "Completed", ""),
    "drained": (view(READY, Pod("drained", exit_code=0)), {}, "Completed", ""),
    "what ends is no trouble": (view(replace(NO_MODEL, ending=True), desired=0), {}, "Completed", ""),
    "refused": (
        view(refusal=(Reason.INVALID_SPEC, "spec.image: evil:1 is not allowed")),
        {"Ready": "False", "Available": "False", "Stalled": "True"},
        "InvalidSpec",
        "evil:1",
    ),
    "refused, while workers of before go on": (
        view(READY, refusal=(Reason.INVALID_SPEC, "spec.image: evil:1 is not allowed")),
        {"Ready": "False", "Stalled": "True"},
        "InvalidSpec",
        "evil:1",
    ),
}


@pytest.mark.parametrize("what", SITUATIONS)
def test_conditions_and_reason_when(what: str) -> None:
    seen, differs, reason, message = SITUATIONS[what]
    assert told(seen) == WELL | differs
    written = status(seen, [], AT)
    assert written["reason"] == reason
    assert message in written["message"]
    for one in written["conditions"]:
        assert one["reason"], "the API wants a reason for each"
        assert one["observedGeneration"] == 4


def test_counts_are_of_pods_that_stay() -> None:
    written = status(view(READY, READY, LOADING, Pod("ends", ready=True, ending=True), desired=3, busy=1), [], AT)
    assert (written["replicas"], written["readyReplicas"], written["busyReplicas"]) == (3, 2, 1)
    assert (written["desiredReplicas"], written["selector"]) == (3, "samjobs.dev/pool=spot")
    assert written["observedGeneration"] == 4


def test_the_time_of_a_condition_moves_when_it_flips_and_not_when_its_words_change() -> None:
    first = status(view(READY), [], AT)["conditions"]
    later = AT + timedelta(minutes=5)
    other_words = status(view(READY, scaled=(Reason.COMPLETED, "other words")), first, later)["conditions"]
    assert {one["lastTransitionTime"] for one in other_words} == {"2026-11-01T12:00:00Z"}

    fallen = {one["type"]: one["lastTransitionTime"] for one in status(view(NO_MODEL), first, later)["conditions"]}
    assert fallen[Condition.MODEL_UNAVAILABLE] == fallen[Condition.READY] == "2026-11-01T12:05:00Z"
    assert fallen[Condition.SCALING_LIMITED] == "2026-11-01T12:00:00Z"


def test_what_has_not_changed_is_written_alike() -> None:
    first = status(view(READY), [], AT)
    assert status(view(READY), first["conditions"], AT + timedelta(hours=1)) == first
