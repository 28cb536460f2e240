"""Rows are told at their SamJobs: once for each change, and whatever others write there."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

from samjobs.names import GROUP, Reason
from samjobs.states import ImageState
from samjobs.store import jobs
from tests.controller.kube.bed import Bed
from tests.store.builders import run
from tests.waiting import until


def set_status(bed: Bed, name: str, **status: object) -> None:
    """What somebody else writes."""
    body = json.dumps({"status": status})
    bed.kubectl("patch", "samjob", name, "-n", bed.namespace, "--subresource=status", "--type=merge", "-p", body)


def test_a_job_is_told_from_the_queue_to_its_end(bed: Bed) -> None:
    bed.apply("trip")
    bed.look()
    status = bed.status("trip")
    assert (status["phase"], status["progress"]) == ("Queued", "0/3")
    assert status["message"] == "no worker of region default is alive"
    assert status["jobId"] == str(bed.row("trip").id)
    assert bed.true("trip") == set()
    run(bed.store, bed.row("trip").id)
    bed.tell()
    status = bed.status("trip")
    assert (status["phase"], status["progress"]) == ("Running", "2/3")
    assert status["shards"] == {"total": 2, "succeeded": 1, "dead": 0}
    bed.finish("trip")
    bed.tell()
    status = bed.status("trip")
    assert (status["phase"], status["progress"]) == ("Succeeded", "3/3")
    assert status["startTime"] <= status["completionTime"]
    assert bed.true("trip") == {"Complete", "Finished"}
    assert bed.events("trip") == [("Normal", "Completed", 1)]


def test_a_job_that_begins_and_ends_between_two_looks_is_told_to_its_end(bed: Bed) -> None:
    bed.apply("trip")
    bed.fresh(least_s=1.0)
    bed.tell()  # looks, and finds no row yet
    bed.take_in()
    bed.tell()  # does not look, and tells of the row that was just made
    assert bed.status("trip")["phase"] == "Queued"
    bed.finish("trip")
    until(lambda: bed.tell() == 1, "the end is told at the next look")
    assert bed.true("trip") == {"Complete", "Finished"}


def test_kubectl_waits_for_complete(bed: Bed) -> None:
    bed.apply("trip")
    bed.take_in()
    bed.finish("trip")
    bed.tell()
    waited = bed.kubectl("wait", "samjob/trip", "-n", bed.namespace, "--for=condition=Complete", "--timeout=10s")
    assert "condition met" in waited


def test_a_failed_job_says_why(bed: Bed) -> None:
    bed.apply("trip")
    bed.take_in()
    while bed.row("trip").shards_open:
        run(bed.store, bed.row("trip").id, ImageState.FAILED)
    bed.tell()
    assert bed.true("trip") == {"Failed", "Finished"}
    assert bed.status("trip")["message"] == "all 3 images failed"
    assert bed.events("trip") == [("Warning", "AllImagesFailed", 1)]


def test_odd_texts_of_an_error_are_told(bed: Bed) -> None:
    bed.apply("trip")
    bed.take_in()
    with bed.store.begin() as conn:
        jobs.stop(conn, bed.row("trip").id, reason=Reason.INVALID_INPUT, message="a\x00b \udcff 🚗", actor="test")
    bed.tell()
    assert bed.status("trip")["message"] == r"a\x00b \udcff 🚗"


def test_nothing_is_written_where_nothing_changes(bed: Bed) -> None:
    bed.apply("held", suspend=True)
    bed.apply("waiting")
    bed.apply("done")
    bed.take_in()
    bed.finish("done")
    assert bed.tell() == 3
    assert [bed.look() for _ in range(5)] == [0] * 5
    bed.fresh()
    assert bed.look() == 0, "a controller that starts finds all as it should be"


def test_each_change_is_written_once(bed: Bed) -> None:
    bed.apply("trip")
    assert bed.look() == 1
    run(bed.store, bed.row("trip").id)
    assert [bed.look(), bed.look()] == [1, 0]
    bed.finish("trip")
    assert [bed.look(), bed.look(), bed.tell()] == [1, 0, 0]


def test_what_others_write_decides_nothing_and_is_put_right(bed: Bed) -> None:
    bed.apply("trip")
    bed.look()
    before = bed.status("trip")
    set_status(bed, "trip", phase="Succeeded", jobId="nonsense", conditions=[])
    assert bed.look() == 1
    assert bed.status("trip") == before
    assert bed.row("trip").state.value == "queued"


def test_what_others_wrote_before_a_start_is_put_right(bed: Bed) -> None:
    bed.apply("trip")
    set_status(bed, "trip", phase="Succeeded", progress="9/9")
    bed.look()
    assert (bed.status("trip")["phase"], bed.status("trip")["progress"]) == ("Queued", "0/3")


def test_an_end_that_nobody_told_is_told_after_a_start(bed: Bed) -> None:
    bed.apply("trip")
    bed.look()
    bed.finish("trip")
    bed.fresh()
    assert bed.look() == 1
    assert bed.true("trip") == {"Complete", "Finished"}


def test_a_retried_job_runs_again(bed: Bed) -> None:
    bed.apply("trip")
    bed.take_in()
    while bed.row("trip").shards_open:
        run(bed.store, bed.row("trip").id, ImageState.FAILED)
    bed.tell()
    with bed.store.begin() as conn:
        jobs.retry_failed(conn, bed.row("trip").id, actor="somebody")
    bed.tell()
    assert bed.true("trip") == set()
    assert "completionTime" not in bed.status("trip")


def test_a_status_does_not_reach_an_object_of_another_uid(bed: Bed) -> None:
    old = bed.apply("trip")
    bed.look()
    bed.delete("trip")
    bed.apply("trip")
    bed.finish("trip")
    bed.tell()
    assert bed.status("trip") == {}
    assert old != bed.object("trip")["metadata"]["uid"]


def test_an_object_that_vanished_stops_no_other(bed: Bed) -> None:
    for name in ("a", "b"):
        bed.apply(name)
    bed.take_in()
    bed.delete("a")
    assert bed.tell() == 1
    assert bed.status("b")["phase"] == "Queued"


def test_a_webhook_that_fails_on_one_object_stops_no_other(bed: Bed) -> None:
    for name in ("a", "b"):
        bed.apply(name)
    bed.kubectl("label", "samjob", "a", "-n", bed.namespace, "watched-by=nobody")
    bed.take_in()
    with failing_webhook(bed, {"watched-by": "nobody"}):
        assert bed.tell() == 1
        assert bed.status("b")["phase"] == "Queued"
        assert bed.status("a") == {}
    until(lambda: bed.tell() == 1, "it is tried again")
    assert bed.status("a")["phase"] == "Queued"


@contextmanager
def failing_webhook(bed: Bed, labels: dict[str, str]) -> Iterator[None]:
    """Statuses of SamJobs with these labels are for a webhook to judge that nobody answers."""
    webhook = {
        "name": "nobody.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/judge"},
        "rules": [
            {"apiGroups": [GROUP], "apiVersions": ["*"], "resources": ["samjobs/status"], "operations": ["UPDATE"]}
        ],
        "objectSelector": {"matchLabels": labels},
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": bed.namespace}},
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "timeoutSeconds": 1,
        "admissionReviewVersions": ["v1"],
    }
    kind, meta = "ValidatingWebhookConfiguration", {"name": f"{bed.namespace}-nobody"}
    made = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": meta, "webhooks": [webhook]}
    bed.kubectl("create", "-f", "-", input=json.dumps(made))
    body = json.dumps({"status": {"phase": "Queued"}})
    patch = ("patch", "samjob", "a", "-n", bed.namespace, "--subresource=status", "--type=merge", "-p", body)

    def in_the_way() -> bool:
        return "failed calling webhook" in bed.kubectl(*patch, "--dry-run=server", check=False)

    until(in_the_way, "the API server asks the webhook")
    yield
    bed.kubectl("delete", kind, meta["name"])
    until(lambda: not in_the_way(), "the API server asks it no more")


def test_the_generation_that_was_acted_on_is_told(bed: Bed) -> None:
    bed.apply("trip")
    bed.look()
    bed.patch("trip", priority=5)
    assert bed.look() == 1
    assert bed.status("trip")["observedGeneration"] == bed.object("trip")["metadata"]["generation"] == 2
