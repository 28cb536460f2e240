"""A controller as a process on a real API server: it is killed, the API server is stopped, and the rest goes on."""

import json
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from controller.kube import front, intake
from controller.kube.installation import DefaultPool
from controller.metrics import Metrics
from controller.outages import Outages
from samjobs.pool import PoolSpec
from samjobs.settings import Settings
from samjobs.states import JobState
from samjobs.store import jobs
from tests.controller.kube.bed import Bed, installation, written
from tests.controller.kube.conftest import Frail
from tests.controller.process import Controller
from tests.waiting import until


class Operators:
    """Starts controllers for a bed, one after another."""

    def __init__(self, bed: Bed, folder: Path, **settings: Any) -> None:
        self.bed, self._folder, self._settings = bed, folder, settings
        self.all: list[Controller] = []

    def start(self, *pools: DefaultPool) -> Controller:
        (self._folder / "config").mkdir(exist_ok=True)
        (self._folder / "logs").mkdir(exist_ok=True)
        config = written(self._folder / "config", installation(self.bed.namespace, *pools))
        self.all.append(Controller(self._folder / "logs", KUBERNETES_CONFIG=config, **self._settings))
        return self.all[-1]


@contextmanager
def operators_of(bed: Bed, url: str, redis_url: str, folder: Path) -> Iterator[Operators]:
    made = Operators(bed, folder, DATABASE_URL=url, REDIS_URL=redis_url, POLLER_INTERVAL_SECONDS=1)
    yield made
    for one in made.all:
        one.close()


@pytest.fixture
def operators(bed: Bed, postgres_url: str, redis_url: str, tmp_path: Path) -> Iterator[Operators]:
    """Controllers of the bed."""
    with operators_of(bed, postgres_url, redis_url, tmp_path) as made:
        yield made


@pytest.fixture
def frail_operators(frail_bed: Bed, postgres_url: str, redis_url: str, tmp_path: Path) -> Iterator[Operators]:
    """Controllers of a bed whose API server may be stopped."""
    with operators_of(frail_bed, postgres_url, redis_url, tmp_path) as made:
        yield made


def test_a_job_goes_from_the_object_to_its_end(bed: Bed, operators: Operators) -> None:
    operator = operators.start()
    operator.until_ready()
    bed.apply("trip")
    bed.until_status("trip", "Queued")
    bed.patch("trip", suspend=True)
    bed.until_status("trip", "Suspended")
    bed.patch("trip", suspend=False)
    bed.until_status("trip", "Queued")
    with bed.store.begin() as conn:
        jobs.cancel(conn, bed.row("trip").id, actor="somebody")
    bed.until_status("trip", "Cancelled")
    operator.stop()


def test_an_object_deleted_and_made_anew_is_two_jobs(bed: Bed, operators: Operators) -> None:
    operators.start()
    bed.apply("trip")
    bed.until_row("trip", lambda row: row.state is JobState.QUEUED, "is there")
    bed.delete("trip")
    bed.apply("trip")
    until(lambda: len(bed.rows("trip")) == 2, "the new object has a row of its own")
    bed.until_row("trip", lambda row: row.state is JobState.CANCELLED, "of the old object is cancelled")


def test_three_kills_make_no_second_row(bed: Bed, operators: Operators) -> None:
    bed.apply("trip")
    for _ in range(3):
        operator = operators.start()
        bed.until_status("trip", "Queued")
        operator.process.kill()
        operator.ends(-signal.SIGKILL)
    assert len(bed.rows("trip")) == 1


def test_what_happens_while_nobody_looks_is_done_later(bed: Bed, operators: Operators) -> None:
    operator = operators.start()
    bed.apply("gone")
    bed.apply("edited")
    bed.until_status("gone", "Queued")
    bed.until_status("edited", "Queued")
    operator.process.kill()
    operator.ends(-signal.SIGKILL)
    bed.delete("gone")
    bed.patch("edited", priority=9)
    bed.apply("new")
    operators.start()
    bed.until_row("gone", lambda row: row.state is JobState.CANCELLED, "is cancelled")
    bed.until_row("edited", lambda row: row.priority == 9, "has its priority")
    bed.until_status("new", "Queued")


def test_an_api_server_that_is_away_stops_nothing(frail: Frail, frail_bed: Bed, frail_operators: Operators) -> None:
    bed, operator = frail_bed, frail_operators.start()
    bed.apply("before")
    bed.until_status("before", "Queued")
    operator.until_ready()
    frail.stop()
    operator.until_said("outage server=kubernetes began")
    assert operator.ask("/readyz")[0] == 200, "the table is worked on"
    assert operator.ask("/livez")[0] == 200
    frail.start()
    bed.apply("after")
    bed.until_status("after", "Queued")
    operator.until_said("outage server=kubernetes over")
    assert operator.said.count("outage server=kubernetes began") == 1
    bed.delete("before")
    bed.until_row("before", lambda row: row.state is JobState.CANCELLED, "is cancelled")
    operator.stop()


def test_a_controller_starts_before_the_api_server(frail: Frail, frail_bed: Bed, frail_operators: Operators) -> None:
    bed, operators = frail_bed, frail_operators
    bed.apply("trip")
    frail.stop()
    operator = operators.start()
    operator.until_said("outage server=kubernetes began")
    operator.until_ready()
    frail.start()
    bed.until_status("trip", "Queued")


def test_a_default_pool_is_made_and_kept(bed: Bed, operators: Operators) -> None:
    spec = PoolSpec.model_validate({"engine": "opencv", "scaling": {"maxReplicas": 2}})
    operators.start(DefaultPool(name="default", spec=spec))
    until(lambda: bed.kube.get_pool(bed.namespace, "default") is not None, "the pool is there")
    bed.kubectl("scale", "samworkerpool/default", "-n", bed.namespace, "--replicas=1")
    bed.kubectl("delete", "samworkerpool/default", "-n", bed.namespace, "--wait=false")
    until(lambda: bed.kube.get_pool(bed.namespace, "default") is not None, "the pool is there again")
    made = bed.kube.get_pool(bed.namespace, "default")
    assert made is not None
    assert (made["spec"]["engine"], made["spec"]["scaling"]["maxReplicas"]) == ("opencv", 2)
    assert "replicas" not in made["spec"]


def test_a_suspended_job_costs_no_write(bed: Bed, operators: Operators) -> None:
    operator = operators.start()
    bed.apply("trip", suspend=True)
    bed.until_status("trip", "Suspended")
    version = bed.object("trip")["metadata"]["resourceVersion"]
    rounds = _rounds(operator)
    until(lambda: _rounds(operator) > rounds + 20, "twenty more rounds are done")
    assert bed.object("trip")["metadata"]["resourceVersion"] == version


def _rounds(operator: Controller) -> float:
    line = 'samjobs_controller_pass_seconds_count{step="project"} '
    return sum(float(one.removeprefix(line)) for one in operator.ask("/metrics")[1].splitlines() if line in one)


def test_a_watch_that_is_silent_is_noticed(
    bed: Bed, postgres_url: str, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(front, "WATCH_STARTS_S", 0.0)
    monkeypatch.setattr(intake, "ANNOUNCED_WITHIN", timedelta(hours=-1))  # every object is old enough
    settings = Settings(database_url=postgres_url, redis_url=redis_url)
    often = installation(bed.namespace, list_seconds=1e-6)
    one = front.Front(settings, often, bed.store, Outages(60.0), Metrics())
    one.round(threading.Event())
    one.watch.stop()
    bed.apply("unheard")
    one.round(threading.Event())
    assert one.why_dead() is None
    one.round(threading.Event())
    assert "watch of Kubernetes objects is silent" in str(one.why_dead())
    one.stop()


def test_what_was_heard_before_a_fault_of_the_code_is_looked_at_again(
    bed: Bed, postgres_url: str, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(front, "FAULT_LIST_S", 0.2)
    seldom = installation(bed.namespace, list_seconds=3600)
    one = front.Front(
        Settings(database_url=postgres_url, redis_url=redis_url), seldom, bed.store, Outages(60.0), Metrics()
    )
    lost: list[Any] = []

    def fail(_intake: intake.Intake, news: list[Any]) -> None:
        lost.extend(news)
        raise LookupError("nobody foresaw it")

    def hears() -> bool:
        one.round(threading.Event())
        return bool(lost)

    def takes_it_in() -> bool:
        one.round(threading.Event())
        return bool(bed.rows("trip"))

    one.round(threading.Event())
    with monkeypatch.context() as broken:
        broken.setattr(intake.Intake, "look_at", fail)
        bed.apply("trip")
        until(hears, "the watch has told of it")
    assert not bed.rows("trip")
    until(takes_it_in, "the next LIST finds it")
    one.stop()


def test_the_last_applied_annotation_is_the_only_one(bed: Bed, operators: Operators) -> None:
    operators.start()
    bed.apply("trip")
    bed.until_status("trip", "Queued")
    meta = json.loads(bed.kubectl("get", "samjob", "trip", "-n", bed.namespace, "-o", "json"))["metadata"]
    assert set(meta.get("annotations", {})) <= {"kubectl.kubernetes.io/last-applied-configuration"}
    assert "finalizers" not in meta
