"""What an API server makes of the CRDs: names, columns, explanations, subresources, sizes."""

import json
import re
from datetime import UTC, datetime
from typing import Any

import pytest
from kubernetes import client
from kubernetes.client.exceptions import ApiException

from controller.kube.crd import crds
from samjobs.decisions import jobstatus, poolstatus
from samjobs.names import GROUP, JOB_PLURAL, POOL_PLURAL, VERSION, Condition, Reason
from tests.cluster.client import Client
from tests.crds.cases import FULL_JOB, FULL_POOL, job, listed, pool
from tests.crds.conftest import NAMES
from tests.crds.judges import Server

AT = datetime(2026, 11, 28, 7, tzinfo=UTC)
STATUS: dict[str, Any] = {
    "phase": "Running",
    "message": "is running: 118 of 1920 images done, 2 failed",
    "progress": "120/1920",
    "images": {"total": 1920, "done": 118, "failed": 2, "skipped": 0},
    "shards": {"total": 60, "succeeded": 3, "dead": 0},
    "startTime": "2026-11-28T07:00:00Z",
    "jobId": "00000000-0000-0000-0000-000000000007",
    "observedGeneration": 1,
}


def columns(client: Client, namespace: str, *arguments: str) -> list[str]:
    """The lines that kubectl shows, as words."""
    shown = client.kubectl("get", *arguments, f"--namespace={namespace}")
    return [re.sub(r"  +", "|", line.strip()) for line in shown.splitlines()]


def test_the_crds_are_taken_without_warnings(with_crds: Client) -> None:
    done = with_crds.run(with_crds.kubectl_path, "apply", "--server-side", "--dry-run=server", "--filename=crds")
    assert done.returncode == 0
    assert done.stderr == ""


@pytest.mark.parametrize("name", NAMES)
def test_the_server_finds_the_schemas_structural(with_crds: Client, name: str) -> None:
    conditions = {one["type"]: one for one in with_crds.get("crd", name)["status"]["conditions"]}
    assert conditions["NamesAccepted"]["status"] == "True"
    assert "NonStructuralSchema" not in conditions


@pytest.mark.parametrize("name", NAMES)
def test_the_server_leaves_nothing_out(with_crds: Client, name: str) -> None:
    mine = crds()[name.partition(".")[0]]["spec"]["versions"][0]
    stored = with_crds.get("crd", name)["spec"]["versions"][0]
    assert stored["schema"] == mine["schema"]
    assert stored["selectableFields"] == mine["selectableFields"]
    assert stored["subresources"] == mine["subresources"]


@pytest.mark.parametrize("kind", ["samjob", "samworkerpool"])
def test_every_field_is_explained(with_crds: Client, kind: str) -> None:
    explained = with_crds.kubectl("explain", kind, "--recursive")
    assert "ttlSecondsAfterFinished" in explained or "terminationGracePeriodSeconds" in explained
    assert "<no description>" not in explained
    assert "<empty>" not in explained


@pytest.mark.parametrize("plural", [JOB_PLURAL, POOL_PLURAL])
def test_every_field_has_a_description(plural: str) -> None:
    schema = crds()[plural]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert [path for path, node in fields("", schema) if not node.get("description")] == [".metadata"]


def fields(path: str, schema: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """All fields in a schema, each with its path."""
    found = []
    for name, node in schema.get("properties", {}).items():
        found += [(f"{path}.{name}", node), *fields(f"{path}.{name}", node.get("items", node))]
    return found


def test_a_long_form_is_told_where_a_short_one_is_refused(with_crds: Client) -> None:
    explained = {
        field: " ".join(with_crds.kubectl("explain", f"samjob.spec.prompts.{field}").split())
        for field in ("text", "boxes", "points")
    }
    assert "each as {text: red car}" in explained["text"]
    assert "each as {xyxy: [x0, y0, x1, y1]}" in explained["boxes"]
    assert "each as {clicks: [{x: 30, y: 40}]}" in explained["points"]


def test_a_short_form_is_refused_by_its_type(server: Server) -> None:
    told = server.judge(JOB_PLURAL, job(prompts={"text": ["red car"]}))
    assert [fault.field for fault in told] == ["spec.prompts.text[0]"]
    assert "must be of type object" in told[0].message


def test_jobs_are_shown_with_their_columns(with_crds: Client, server: Server, namespace: str) -> None:
    server.create(JOB_PLURAL, job(region="eu"), "cars")
    server.patch_status(JOB_PLURAL, "cars", STATUS)
    head, row = columns(with_crds, namespace, "sj")
    assert head == "NAME|MODE|PHASE|PROGRESS|FAILED|POOL|AGE"
    assert row.startswith("cars|find_all|Running|120/1920|2|eu|")
    head, row = columns(with_crds, namespace, "sj", "--output=wide")
    assert head == "NAME|MODE|PHASE|PROGRESS|FAILED|POOL|MESSAGE|ENGINE|STARTED|FINISHED|JOB|AGE"
    assert f"|{STATUS['message']}|sam3|" in row
    assert f"|{STATUS['jobId']}|" in row


def test_pools_are_shown_with_their_columns(with_crds: Client, server: Server, namespace: str) -> None:
    server.create(POOL_PLURAL, pool(region="eu", scaling={"maxReplicas": 8}), "gpus")
    status = {"desiredReplicas": 3, "readyReplicas": 2, "busyReplicas": 1, "reason": "ScaledUp", "message": "3 = 1,920"}
    server.patch_status(POOL_PLURAL, "gpus", status)
    head, row = columns(with_crds, namespace, "swp")
    assert head == "NAME|REGION|ENGINE|DESIRED|READY|BUSY|REASON|AGE"
    assert row.startswith("gpus|eu|sam3|3|2|1|ScaledUp|")
    head, row = columns(with_crds, namespace, "swp", "--output=wide")
    assert head == "NAME|REGION|ENGINE|DESIRED|READY|BUSY|REASON|MESSAGE|MIN|MAX|REPLICAS|AGE"
    assert "|3 = 1,920|0|8|" in row


def test_both_kinds_are_in_the_category(with_crds: Client, server: Server, namespace: str) -> None:
    server.create(JOB_PLURAL, job(), "one")
    server.create(POOL_PLURAL, pool(), "two")
    names = with_crds.kubectl("get", "sam", f"--namespace={namespace}", "--output=name").split()
    assert {"samjob.samjobs.dev/one", "samworkerpool.samjobs.dev/two"} <= set(names)
    assert "samjob" not in with_crds.kubectl("get", "all", f"--namespace={namespace}", "--output=name")


def test_jobs_are_found_by_phase_and_region(with_crds: Client, server: Server, namespace: str) -> None:
    server.create(JOB_PLURAL, job(region="here"), "found")
    server.create(JOB_PLURAL, job(region="here"), "other")
    server.patch_status(JOB_PLURAL, "found", {"phase": "Failed"})
    selector = "--field-selector=spec.region=here,status.phase=Failed"
    found = with_crds.kubectl("get", "sj", f"--namespace={namespace}", selector, "--output=name")
    assert found.split() == ["samjob.samjobs.dev/found"]


def test_a_pool_is_scaled_by_its_subresource(with_crds: Client, server: Server, namespace: str) -> None:
    server.create(POOL_PLURAL, pool(), "scaled")
    server.patch_status(POOL_PLURAL, "scaled", {"replicas": 2, "selector": "samjobs.dev/pool=scaled"})
    with_crds.kubectl("scale", "swp/scaled", "--replicas=5", f"--namespace={namespace}")
    assert server.get(POOL_PLURAL, "scaled")["spec"]["replicas"] == 5
    scale = client.CustomObjectsApi(server.api).get_namespaced_custom_object_scale(
        GROUP, VERSION, namespace, POOL_PLURAL, "scaled"
    )
    assert scale["status"] == {"replicas": 2, "selector": "samjobs.dev/pool=scaled"}


def test_a_pool_is_no_pool_under_a_name_that_is_no_label(server: Server) -> None:
    server.create(POOL_PLURAL, pool(), "a" * 63)
    with pytest.raises(ApiException, match="give at most 63 characters"):
        server.create(POOL_PLURAL, pool(), "a" * 64)


def test_a_job_of_ten_kilobytes_is_taken_and_one_of_two_hundred_is_not(server: Server) -> None:
    images = listed(*(f"s3://photos/2026/11/28/camera-{number:03}/" + "x" * 42 + ".jpg" for number in range(100)))
    small = job(images=images, prompts={"text": [{"text": f"object of kind {number}"} for number in range(20)]})
    assert 9_500 < len(json.dumps(small)) < 10_500
    assert server.judge(JOB_PLURAL, small) == []
    large = job(images=listed(*(f"s3://photos/{number}/" + "x" * 2000 for number in range(100))))
    assert len(json.dumps(large)) > 200_000
    assert [fault.field for fault in server.judge(JOB_PLURAL, large)] == ["spec.images.list"]


def test_what_is_left_out_is_filled_in_so_that_columns_show_it(server: Server) -> None:
    spec = server.create(JOB_PLURAL, job(), "filled")["spec"]
    assert {name: value for name, value in spec.items() if name not in job()} == {
        "mode": "find_all",
        "engine": "sam3",
        "region": "default",
        "priority": 0,
        "shardSize": 32,
        "suspend": False,
        "resume": True,
    }


@pytest.mark.parametrize(("plural", "spec"), [(JOB_PLURAL, FULL_JOB), (POOL_PLURAL, FULL_POOL)])
def test_a_full_spec_comes_back_whole(server: Server, plural: str, spec: dict[str, Any]) -> None:
    stored = server.create(plural, spec, "whole")["spec"]
    assert {name: holds(stored[name], value) for name, value in spec.items()} == dict.fromkeys(spec, True)


def holds(stored: Any, given: Any) -> bool:
    """All that was given is there; defaults may have come to it."""
    if isinstance(given, dict):
        return all(name in stored and holds(stored[name], value) for name, value in given.items())
    if isinstance(given, list):
        return len(stored) == len(given) and all(map(holds, stored, given))
    return bool(stored == given)


def test_what_the_controller_writes_of_a_job_is_kept(server: Server) -> None:
    server.create(JOB_PLURAL, job(), "told")
    refusal = jobstatus.refusal("spec: no", 1, AT, ())
    for status in (STATUS | {"completionTime": "2026-11-28T08:00:00Z", "outputUri": "/out"}, refusal):
        stored = server.patch_status(JOB_PLURAL, "told", status)["status"]
        assert holds(stored, status)
    assert {one["type"] for one in stored["conditions"]} >= {Condition.STALLED, Condition.FINISHED}


def test_what_the_controller_writes_of_a_pool_is_kept(server: Server) -> None:
    server.create(POOL_PLURAL, pool(), "told")
    view = poolstatus.View(
        generation=1,
        selector="samjobs.dev/pool=told",
        desired=0,
        scaled=(Reason.NONE_WANTED, "no work"),
        limited=False,
        refusal=None,
        pods=(),
        busy=0,
    )
    status = poolstatus.status(view, (), AT)
    assert holds(server.patch_status(POOL_PLURAL, "told", status)["status"], status)
