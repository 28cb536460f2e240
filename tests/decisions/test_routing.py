"""On which queue a shard waits: its tries, and whether its region has workers."""

from dataclasses import replace
from typing import Any

import pytest

from samjobs.decisions.routing import Standing, queues, route
from samjobs.names import Reason

CALM = Standing("us", ready=1, silent_for_s=0, others_ready=1, failover_after_s=60)
LOST = Standing("us", ready=0, silent_for_s=300, others_ready=2, failover_after_s=300)


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
    found = route(failures, CALM, waited_s=999)
    assert (found.queue, found.reason) == (queue, reason)


@pytest.mark.parametrize("failures", [0, 1])
def test_other_regions_take_over_from_one_that_lost_its_workers(failures: int) -> None:
    found = route(failures, LOST, waited_s=300)
    assert (found.queue, found.reason) == ("samjobs:retry", Reason.FAILOVER)
    assert found.message == "region us has had no worker for 300 s: the workers of other regions take over"


def test_they_take_over_from_one_that_never_had_any() -> None:
    found = route(0, replace(LOST, silent_for_s=None), waited_s=300)
    assert found.message == "region us never had a worker: the workers of other regions take over"


@pytest.mark.parametrize(
    ("unless", "waited_s"),
    [
        pytest.param({"ready": 1}, 300, id="a worker is ready"),
        pytest.param({"silent_for_s": 299.0}, 300, id="the last one was heard of lately"),
        pytest.param({}, 299, id="the shard has not waited that long"),
        pytest.param({"others_ready": 0}, 300, id="nobody else is there"),
    ],
)
def test_it_stays_in_its_region(unless: dict[str, Any], waited_s: float) -> None:
    assert route(0, replace(LOST, **unless), waited_s=waited_s).queue == "samjobs:region:us"


@pytest.mark.parametrize("where", [CALM, LOST, replace(LOST, others_ready=0)])
@pytest.mark.parametrize("failures", [0, 1, 2, 9])
@pytest.mark.parametrize("waited_s", [0, 59, 60, 299, 300, 9999])
def test_the_list_of_a_regions_queues_says_the_same(where: Standing, failures: int, waited_s: float) -> None:
    assert queues(where).of(failures, waited_s) == route(failures, where, waited_s=waited_s).queue
