"""On which queue a shard waits: its tries, and whether its region has workers."""

import pytest

from samjobs.decisions.routing import route
from samjobs.names import Reason

LOST = {"region_ready": 0, "silent_for_s": 300.0, "waited_s": 300.0, "others_ready": 2}


@pytest.mark.parametrize(
    ("failures", "queue", "reason"),
    [
        pytest.param(0, "samjobs:region:us", Reason.FIRST_TRY, id="first try"),
        pytest.param(1, "samjobs:retry:us", Reason.FIRST_RETRY, id="first retry stays in the region"),
        pytest.param(2, "samjobs:retry", Reason.LATER_RETRY, id="second retry goes to whoever is free"),
        pytest.param(9, "samjobs:retry", Reason.LATER_RETRY, id="and so do all later ones"),
    ],
)
def test_a_shard_waits_by_its_failures(failures: int, queue: str, reason: Reason) -> None:
    found = route(failures, "us", region_ready=1, silent_for_s=0, waited_s=999, failover_after_s=60, others_ready=1)
    assert (found.queue, found.reason) == (queue, reason)


@pytest.mark.parametrize("failures", [0, 1])
def test_other_regions_take_over_from_one_that_lost_its_workers(failures: int) -> None:
    found = route(failures, "us", failover_after_s=300, **LOST)  # type: ignore[arg-type]
    assert (found.queue, found.reason) == ("samjobs:retry", Reason.FAILOVER)
    assert found.message == "region us has had no worker for 300 s: the workers of other regions take over"


def test_they_take_over_from_one_that_never_had_any() -> None:
    found = route(0, "us", failover_after_s=300, **LOST | {"silent_for_s": None})  # type: ignore[arg-type]
    assert found.message == "region us never had a worker: the workers of other regions take over"


@pytest.mark.parametrize(
    "unless",
    [
        pytest.param({"region_ready": 1}, id="a worker is ready"),
        pytest.param({"silent_for_s": 299.0}, id="the last one was heard of lately"),
        pytest.param({"waited_s": 299.0}, id="the shard has not waited that long"),
        pytest.param({"others_ready": 0}, id="nobody else is there"),
    ],
)
def test_it_stays_in_its_region(unless: dict[str, float]) -> None:
    found = route(0, "us", failover_after_s=300, **LOST | unless)  # type: ignore[arg-type]
    assert found.queue == "samjobs:region:us"
