"""What the API server's answers become here."""

from datetime import datetime
from typing import Any

import pytest

from controller.kube import api
from samjobs.errors import InvalidInput
from samjobs.names import API_VERSION, JOB_PLURAL, POOL_KIND
from tests.controller.kube.bed import Bed


def pool(namespace: str, **spec: Any) -> dict[str, Any]:
    meta = {"name": "gpu", "namespace": namespace}
    return {"apiVersion": API_VERSION, "kind": POOL_KIND, "metadata": meta, "spec": spec}


def deployment(namespace: str, replicas: int) -> dict[str, Any]:
    labels = {"app.kubernetes.io/name": "samjobs", "app.kubernetes.io/component": "worker", "samjobs.dev/pool": "gpu"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "samworkers-gpu", "namespace": namespace, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "worker", "image": "x"}]}},
        },
    }


def test_a_long_list_comes_in_chunks(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "CHUNK", 2)
    for number in range(5):
        bed.apply(f"trip-{number}")
    assert [obj["metadata"]["name"] for obj in bed.kube.jobs()] == [f"trip-{number}" for number in range(5)]


def test_what_is_gone_is_no_error(bed: Bed) -> None:
    assert bed.kube.get_job(bed.namespace, "none") is None
    assert bed.kube.set_status(JOB_PLURAL, bed.namespace, "none", "0", {}) is None
    assert not bed.kube.delete_job(bed.namespace, "none", "0")
    assert bed.kube.patch_pod(bed.namespace, "none", {"metadata": {"labels": {"a": "b"}}}) is None
    assert bed.kube.apply_deployment(deployment("no-such-namespace", 0)) is None


def test_only_the_object_of_that_uid_is_touched(bed: Bed) -> None:
    uid = bed.apply("trip")
    other = "00000000-0000-0000-0000-000000000000"
    assert bed.kube.set_status(JOB_PLURAL, bed.namespace, "trip", other, {"phase": "Failed"}) is None
    assert not bed.kube.delete_job(bed.namespace, "trip", other)
    assert bed.status("trip") == {}
    assert bed.kube.delete_job(bed.namespace, "trip", uid)


def test_a_status_that_the_schema_refuses_is_told(bed: Bed) -> None:
    uid = bed.apply("trip")
    with pytest.raises(InvalidInput, match="trip"):
        bed.kube.set_status(JOB_PLURAL, bed.namespace, "trip", uid, {"phase": 7})


def test_a_status_is_replaced_as_a_whole(bed: Bed) -> None:
    uid = bed.apply("trip")
    bed.kube.set_status(JOB_PLURAL, bed.namespace, "trip", uid, {"phase": "Queued", "progress": "0/3"})
    bed.kube.set_status(JOB_PLURAL, bed.namespace, "trip", uid, {"phase": "Running"})
    assert bed.status("trip") == {"phase": "Running"}


def test_a_deployment_is_applied_with_its_replicas_whoever_wrote_them(bed: Bed) -> None:
    made = bed.kube.apply_deployment(deployment(bed.namespace, 0))
    assert made is not None
    assert made["spec"]["replicas"] == 0
    bed.kubectl("scale", "deployment/samworkers-gpu", "-n", bed.namespace, "--replicas=5")
    put_back = bed.kube.apply_deployment(deployment(bed.namespace, 1))
    assert put_back is not None
    assert put_back["spec"]["replicas"] == 1
    assert [obj["metadata"]["name"] for obj in bed.kube.list_deployments()] == ["samworkers-gpu"]


def test_what_is_refused_names_the_object(bed: Bed) -> None:
    with pytest.raises(InvalidInput, match="gpu"):
        bed.kube.apply_pool(pool(bed.namespace, scaling={"minReplicas": -1}))


def test_the_clock_is_the_servers(bed: Bed) -> None:
    bed.apply("trip")
    created = datetime.fromisoformat(bed.object("trip")["metadata"]["creationTimestamp"])
    assert abs((bed.kube.now() - created).total_seconds()) < 60
    assert bed.kube.now().tzinfo is not None
