"""What a service account may not do keeps nothing else from being done, and nothing hidden is taken for deleted."""

import json
import logging
import threading
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from controller.kube.api import Kube
from controller.kube.events import Events
from controller.kube.installation import Installation
from controller.kube.intake import Intake
from controller.kube.objects import Objects
from controller.kube.pools import Pools
from samjobs.errors import AccessDenied
from samjobs.names import API_VERSION, JOB_PLURAL, POOL_KIND, POOL_PLURAL
from samjobs.settings import Settings
from samjobs.states import JobState
from samjobs.store import Store, jobs, pools
from samjobs.store.rows import Job, Pool
from tests.cluster.client import Client
from tests.controller.kube import rights
from tests.controller.kube.bed import Bed, installation, manifest, written
from tests.controller.kube.test_front import Operators, operators
from tests.controller.process import Controller
from tests.waiting import until

__all__ = ["operators"]

DOWN = 'samjobs_dependency_up{name="kubernetes"} 0'


@pytest.fixture
def narrow(server: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Who connects from now on may do what `rights.grant` grants."""
    monkeypatch.setenv("KUBECONFIG", str(rights.account(server, tmp_path)))


@pytest.fixture
def other(server: Client) -> Iterator[str]:
    """A second namespace."""
    with server.namespace(wait=False) as namespace:
        yield namespace


def both(bed: Bed, other: str) -> Installation:
    return installation(bed.namespace).model_copy(update={"watch_namespaces": (bed.namespace, other)})


def make(bed: Bed, namespace: str, name: str) -> None:
    bed.kubectl("apply", "-f", "-", input=json.dumps(manifest(namespace, name)))


def make_pool(bed: Bed, namespace: str, name: str, region: str) -> None:
    meta = {"namespace": namespace, "name": name}
    spec = {"replicas": 1, "engine": "opencv", "region": region}
    made = {"apiVersion": API_VERSION, "kind": POOL_KIND, "metadata": meta, "spec": spec}
    bed.kubectl("apply", "-f", "-", input=json.dumps(made))


def row(store: Store, namespace: str) -> Job:
    with store.read() as conn:
        (found,) = jobs.list_jobs(conn, tenant=namespace, limit=10)
    return found


def kept(store: Store) -> list[Pool]:
    with store.read() as conn:
        return pools.listing(conn)


def test_a_namespace_without_rights_stops_no_other(
    bed: Bed, server: Client, other: str, narrow: None, postgres_url: str, redis_url: str, tmp_path: Path
) -> None:
    rights.grant(server, bed.namespace)
    (tmp_path / "config").mkdir()
    (tmp_path / "logs").mkdir()
    config = written(tmp_path / "config", both(bed, other))
    operator = Controller(
        tmp_path / "logs",
        KUBERNETES_CONFIG=config,
        DATABASE_URL=postgres_url,
        REDIS_URL=redis_url,
        POLLER_INTERVAL_SECONDS=1,
    )
    try:
        bed.apply("trip")
        bed.until_status("trip", "Queued")
        bed.delete("trip")
        bed.until_row("trip", lambda one: one.state is JobState.CANCELLED, "is cancelled")
        assert operator.said.count(f"namespace {other}: its samjobs are not seen to") == 1
        assert 'cannot list resource "samjobs"' in operator.said
        assert "outage server=kubernetes" not in operator.said
        assert DOWN in operator.ask("/metrics")[1]
    finally:
        operator.close()


def test_jobs_of_a_hidden_namespace_are_not_cancelled(
    bed: Bed, server: Client, other: str, narrow: None, caplog: pytest.LogCaptureFixture
) -> None:
    for namespace in (bed.namespace, other):
        rights.grant(server, namespace)
        make(bed, namespace, "trip")
    kube, objects = Kube(both(bed, other)), Objects()
    intake = Intake(kube, bed.store, objects, bed.metrics, (bed.namespace, other), lambda: None)
    intake.look_at_all()
    rights.withdraw(server, other)
    bed.delete("trip")

    def noticed() -> bool:
        intake.look_at_all()
        return kube.denied(JOB_PLURAL) == {other}

    with caplog.at_level(logging.WARNING):
        until(noticed, "the right is gone")
        intake.look_at_all()
    assert row(bed.store, bed.namespace).state is JobState.CANCELLED
    assert row(bed.store, other).state is JobState.QUEUED
    assert [known.namespace for uid in objects if (known := objects.get(uid)) is not None] == [other]
    assert caplog.text.count(f"namespace {other}: its samjobs are not seen to") == 1
    kube.close()


def test_pools_of_a_hidden_namespace_keep_their_place(bed: Bed, server: Client, other: str, narrow: None) -> None:
    for namespace in (bed.namespace, other):
        rights.grant(server, namespace)
    make_pool(bed, other, "old", "north")
    kube = Kube(both(bed, other))
    settings = Settings(database_url="postgresql://unused")
    seen = Pools(kube, bed.store, both(bed, other), settings, Events(kube), bed.metrics)
    stop = threading.Event()
    seen.round(stop)
    rights.withdraw(server, other)

    def noticed() -> bool:
        seen.round(stop)
        return kube.denied(POOL_PLURAL) == {other}

    until(noticed, "the right is gone")
    old = bed.kube.get_pool(other, "old")
    assert old is not None
    made_at = datetime.fromisoformat(old["metadata"]["creationTimestamp"])
    until(lambda: bed.kube.now() > made_at, "a pool made now is a younger one")
    make_pool(bed, bed.namespace, "young", "north")
    make_pool(bed, bed.namespace, "south", "south")
    seen.round(stop)
    assert {one.name for one in kept(bed.store)} == {"old", "south"}
    young = bed.kube.get_pool(bed.namespace, "young")
    assert young is not None
    assert young["status"]["reason"] == "RegionTaken"
    kube.close()


def test_where_nothing_may_be_listed_it_is_an_error(bed: Bed, other: str, narrow: None) -> None:
    kube = Kube(both(bed, other))
    with pytest.raises(AccessDenied, match=bed.namespace):
        list(kube.jobs())
    kube.close()


@pytest.mark.parametrize("resource", ["samworkerpools", "deployments"])
def test_without_a_right_for_pools_jobs_go_on(
    bed: Bed, server: Client, narrow: None, operators: Operators, resource: str
) -> None:
    rights.grant(server, bed.namespace, but=(resource, "list"))
    make_pool(bed, bed.namespace, "gpu", "north")
    operator = operators.start()
    operator.until_said("outage server=kubernetes/pools began")
    bed.apply("trip")
    bed.until_status("trip", "Queued")
    bed.patch("trip", suspend=True)
    bed.until_status("trip", "Suspended")
    assert operator.said.count("outage server=kubernetes") == 1
    assert f'cannot list resource "{resource}"' in operator.said
    rights.grant(server, bed.namespace)
    operator.until_said("outage server=kubernetes/pools over")


def test_without_a_right_for_jobs_pools_are_served(
    bed: Bed, server: Client, narrow: None, operators: Operators
) -> None:
    rights.grant(server, bed.namespace, but=("samjobs", "list"))
    make_pool(bed, bed.namespace, "gpu", "north")
    operator = operators.start()
    operator.until_said("outage server=kubernetes/intake began")
    until(lambda: "samworkers-gpu" in bed.kubectl("get", "deployments", "-n", bed.namespace), "the pool has workers")
    until(lambda: DOWN in operator.ask("/metrics")[1], "the metric tells of it")


def test_a_job_that_may_not_be_deleted_is_logged_once(
    bed: Bed, server: Client, narrow: None, caplog: pytest.LogCaptureFixture
) -> None:
    rights.grant(server, bed.namespace, but=("samjobs", "delete"))
    kube = Kube(installation(bed.namespace))
    intake = Intake(kube, bed.store, Objects(), bed.metrics, (bed.namespace,), lambda: None)
    bed.apply("trip", ttlSecondsAfterFinished=0)
    intake.look_at_all()
    bed.finish("trip")
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            intake.look_at_all()
    assert caplog.text.count('cannot delete resource "samjobs"') == 1
    kube.close()
