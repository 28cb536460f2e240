"""SamJobs become rows, and what is changed at them is changed there; on a real API server and a real Postgres."""

import json
from dataclasses import replace
from uuid import UUID, uuid4

import pytest

from controller.kube.wakes import Woken
from samjobs import places
from samjobs.names import JOB_PLURAL, Reason
from samjobs.spec import ImageItem, Images, JobSpec, Output, Prompts, TextPrompt
from samjobs.states import JobState
from samjobs.storage.fence import Fence
from samjobs.store import jobs
from tests.controller.kube.bed import Bed, manifest


def test_an_object_becomes_a_job(bed: Bed) -> None:
    uid = bed.apply("trip", priority=3, notBefore="2030-01-01T00:00:00Z")
    bed.take_in()
    row = bed.row("trip")
    assert (row.tenant, row.name, str(row.uid)) == (bed.namespace, "trip", uid)
    assert (row.state, row.priority, row.images_total, row.shards_total) == (JobState.QUEUED, 3, 3, 2)
    assert row.expanded_at is not None, "a short list is complete at once"
    assert row.dedupe_key is None, "each object is a job of its own"


def test_a_prefix_is_left_to_the_lister(bed: Bed) -> None:
    bed.apply("trip", images={"prefix": "s3://photos/trip"})
    bed.take_in()
    assert bed.row("trip").expanded_at is None


def test_two_looks_and_two_controllers_make_one_row(bed: Bed) -> None:
    bed.apply("trip")
    bed.take_in()
    bed.take_in()
    bed.fresh()
    bed.take_in()
    assert len(bed.rows("trip")) == 1


def test_equal_objects_are_two_jobs(bed: Bed) -> None:
    same = {"output": {"uri": "/results/same"}}
    bed.apply("first", **same)
    bed.apply("second", **same)
    bed.take_in()
    assert bed.row("first").id != bed.row("second").id


def test_an_edit_is_taken_over(bed: Bed) -> None:
    bed.apply("trip")
    bed.take_in()
    bed.patch("trip", suspend=True, priority=7, ttlSecondsAfterFinished=3600)
    bed.take_in()
    row = bed.row("trip")
    assert (row.state, row.priority, row.spec.ttl_seconds_after_finished) == (JobState.SUSPENDED, 7, 3600)
    bed.patch("trip", suspend=False, ttlSecondsAfterFinished=None)
    bed.take_in()
    row = bed.row("trip")
    assert (row.state, row.priority, row.spec.ttl_seconds_after_finished) == (JobState.QUEUED, 7, None)


def test_what_the_spec_says_holds(bed: Bed) -> None:
    """Who suspends the job of a SamJob elsewhere does so until the next look."""
    bed.apply("trip")
    bed.take_in()
    with bed.store.begin() as conn:
        jobs.set_suspend(conn, bed.row("trip").id, True, actor="somebody")
    bed.take_in()
    assert bed.row("trip").state is JobState.QUEUED


def test_a_deleted_object_cancels_its_job(bed: Bed) -> None:
    uid = bed.apply("trip")
    bed.take_in()
    bed.delete("trip")
    bed.wake("trip", uid=uid, deleted=True)
    row = bed.row("trip")
    assert (row.state, row.cancel_reason) == (JobState.CANCELLED, Reason.OBJECT_DELETED)


def test_an_object_that_was_deleted_while_nobody_looked_cancels_its_job(bed: Bed) -> None:
    bed.apply("trip")
    bed.apply("other")
    bed.take_in()
    bed.delete("trip")
    bed.fresh()
    bed.take_in()
    assert [bed.row(name).state for name in ("trip", "other")] == [JobState.CANCELLED, JobState.QUEUED]


def test_an_object_that_is_being_deleted_is_gone(bed: Bed) -> None:
    bed.apply("trip")
    bed.take_in()
    held = json.dumps({"metadata": {"finalizers": ["example.org/held"]}})
    bed.kubectl("patch", "samjob", "trip", "-n", bed.namespace, "--type=merge", "-p", held)
    bed.delete("trip")
    bed.take_in()
    assert bed.row("trip").state is JobState.CANCELLED
    freed = json.dumps({"metadata": {"finalizers": None}})
    bed.kubectl("patch", "samjob", "trip", "-n", bed.namespace, "--type=merge", "-p", freed)


@pytest.mark.parametrize("seen_between", [True, False])
def test_made_anew_under_the_same_name_it_is_another_job(bed: Bed, seen_between: bool) -> None:
    old = bed.apply("trip")
    bed.take_in()
    bed.delete("trip")
    if seen_between:
        bed.wake("trip", uid=old, deleted=True)
    new = bed.apply("trip")
    if seen_between:
        bed.wake("trip", uid=new, generation=1)
    else:
        bed.take_in()
    assert [(str(row.uid), row.state) for row in bed.rows("trip")] == [
        (old, JobState.CANCELLED),
        (new, JobState.QUEUED),
    ]


def test_a_wake_up_for_an_object_that_has_another_uid_by_now_cancels_the_old_job(bed: Bed) -> None:
    old = bed.apply("trip")
    bed.take_in()
    bed.delete("trip")
    bed.apply("trip")
    bed.wake("trip", uid=old, generation=2)
    assert [row.state for row in bed.rows("trip")] == [JobState.CANCELLED]


def test_the_echo_of_a_written_status_is_no_news(bed: Bed) -> None:
    uid = UUID(bed.apply("trip"))
    first, edited = (Woken(JOB_PLURAL, bed.namespace, "trip", uid, generation) for generation in (1, 2))
    assert bed.parts.intake.news([first]) == [first]
    bed.look()
    assert bed.parts.intake.news([first, edited]) == [edited]
    gone = replace(first, deleted=True)
    assert bed.parts.intake.news([gone]) == [gone]


def test_rows_of_namespaces_that_are_not_watched_are_left_alone(bed: Bed) -> None:
    spec = JobSpec(
        images=Images(list=(ImageItem(image="/photos/1.png"),)),
        prompts=Prompts(text=(TextPrompt(text="red car"),)),
        output=Output(uri="/results"),
    )
    with bed.store.begin() as conn:
        elsewhere = jobs.submit(conn, spec, tenant="elsewhere", name="trip", uid=uuid4()).job_id
        by_hand = jobs.submit(conn, spec, tenant=bed.namespace, name="by-hand").job_id
    bed.take_in()
    with bed.store.read() as conn:
        states = [job.state for job_id in (elsewhere, by_hand) if (job := jobs.get(conn, job_id)) is not None]
    assert states == [JobState.QUEUED, JobState.QUEUED]


def test_a_spec_that_only_the_controller_can_refuse_becomes_no_job(bed: Bed) -> None:
    bed.apply("trip", output={"uri": "/dev/null"})
    bed.take_in()
    assert bed.rows("trip") == []
    bed.tell()
    assert bed.true("trip") == {"Failed", "Finished", "Stalled"}
    assert "is a file" in bed.status("trip")["message"]
    assert bed.events("trip") == [("Warning", "InvalidSpec", 1)]


def test_an_object_that_nobody_foresaw_keeps_no_other_from_being_taken_in(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = places.admitted

    def admitted(spec: JobSpec, tenant: str, fence: Fence) -> JobSpec:
        if spec.priority == 7:
            raise LookupError("nobody foresaw it")
        return judged(spec, tenant, fence)

    monkeypatch.setattr(places, "admitted", admitted)
    bed.apply("bad", priority=7)
    bed.apply("good")
    bed.apply("too-long", output={"uri": "/" + "a" * 300})
    bed.take_in()
    assert [len(bed.rows(name)) for name in ("bad", "good", "too-long")] == [0, 1, 0]
    bed.tell()
    assert "nobody foresaw it" in bed.status("bad")["message"]
    assert "File name too long" in bed.status("too-long")["message"]


def test_a_place_of_another_namespace_is_refused_in_the_status(bed: Bed) -> None:
    bed.parts.objects.fence = Fence({bed.namespace: ("/photos", "s3://results/own"), "farm": ("s3://results/farm",)})
    bed.apply("trip", output={"uri": "s3://results/farm/trip"})
    bed.look()
    assert bed.rows("trip") == []
    assert bed.true("trip") == {"Failed", "Finished", "Stalled"}
    told = bed.status("trip")["message"]
    assert told.startswith("output.uri: s3://results/farm/trip is below none of tenant ")
    assert "s3://results/own" in told
    assert "s3://results/farm)" not in told, "of another's places nothing is told"
    bed.apply("own", output={"uri": "s3://results/own/trip"})
    bed.look()
    assert bed.row("own").spec.output.uri == "s3://results/own/trip"


def test_a_refusal_is_told_once(bed: Bed) -> None:
    bed.apply("trip", output={"uri": "/dev/null"})
    bed.look()
    version = bed.object("trip")["metadata"]["resourceVersion"]
    bed.look()
    bed.fresh()
    bed.look()
    assert bed.object("trip")["metadata"]["resourceVersion"] == version
    assert bed.events("trip") == [("Warning", "InvalidSpec", 1)]


def test_a_list_that_cannot_be_a_job_is_refused(bed: Bed) -> None:
    alike = [{"image": "/photos/1.png"}, {"image": "/photos/1.jpg"}]
    output = {"uri": "/results", "formats": ["yolo-seg"]}
    bed.apply("trip", images={"list": alike}, output=output)
    bed.look()
    assert bed.rows("trip") == []
    assert "1.jpg" in bed.status("trip")["message"]


def test_one_refused_object_keeps_no_other_waiting(bed: Bed) -> None:
    bed.apply("a-bad", output={"uri": "/dev/null"})
    bed.apply("b-good")
    bed.look()
    assert bed.row("b-good").state is JobState.QUEUED


def test_odd_texts_come_through(bed: Bed) -> None:
    phrase = "rotes Auto 🚗 \u202eabc"
    bed.apply("trip", prompts={"text": [{"text": phrase}]}, output={"uri": "/results/ä ö%20\\x"})
    bed.look()
    assert bed.row("trip").spec.prompts.text[0].text == phrase
    assert bed.status("trip")["phase"] == "Queued"


def test_a_nul_is_refused_in_words(bed: Bed) -> None:
    odd = manifest(bed.namespace, "trip", prompts={"text": [{"text": "red\x00car"}]})
    try:
        bed.kubectl("create", "-f", "-", input=json.dumps(odd))
    except Exception:
        return  # by the API server
    bed.look()
    assert "control" in bed.status("trip")["message"]


def test_a_finished_object_is_deleted_when_its_time_is_over(bed: Bed) -> None:
    bed.apply("soon", ttlSecondsAfterFinished=0)
    bed.apply("later", ttlSecondsAfterFinished=3600)
    bed.apply("running", ttlSecondsAfterFinished=0)
    bed.take_in()
    bed.finish("soon")
    bed.finish("later")
    bed.take_in()
    left = {obj["metadata"]["name"] for obj in bed.kube.jobs()}
    assert left == {"later", "running"}
    bed.take_in()
    assert len(bed.rows("soon")) == 1, "the row is left to the prune step, and nothing came anew"
    assert bed.row("soon").state is JobState.SUCCEEDED
