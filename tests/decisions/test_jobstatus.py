"""What a SamJob's status says of its row."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from samjobs.decisions.jobstatus import View, refusal, status, waits_for
from samjobs.names import Reason
from samjobs.states import JobState

AT = datetime(2026, 11, 28, 12, tzinfo=UTC)
QUEUED = View(
    images_total=100,
    images_done=0,
    images_failed=0,
    images_skipped=0,
    shards_total=4,
    shards_succeeded=0,
    shards_dead=0,
    shards_cancelled=0,
    id=UUID(int=7),
    state=JobState.QUEUED,
    reason=Reason.SUBMITTED,
    error=None,
    region="default",
    output_uri="s3://out/",
    expanded=True,
    waits_for=None,
    not_before=None,
    started_at=None,
    finished_at=None,
    updated_at=AT,
)


def view(state: JobState = JobState.QUEUED, reason: Reason = Reason.SUBMITTED, **changes: Any) -> View:
    return replace(QUEUED, state=state, reason=reason, **changes)


SUCCEEDED = view(
    JobState.SUCCEEDED, Reason.COMPLETED, images_done=97, images_failed=1, images_skipped=2, finished_at=AT
)


@pytest.mark.parametrize(
    ("job", "phase", "true", "message"),
    [
        pytest.param(view(), "Queued", [], "waits for a free worker", id="queued"),
        pytest.param(
            view(waits_for=Reason.NO_WORKER), "Queued", [], "no worker of region default is alive", id="no worker"
        ),
        pytest.param(
            view(expanded=False, shards_total=0, waits_for=Reason.NO_WORKER),
            "Queued",
            [],
            "its images are being listed",
            id="being listed",
        ),
        pytest.param(
            view(waits_for=Reason.NOT_BEFORE, not_before=AT),
            "Queued",
            [],
            "waits for its notBefore, 2026-11-28T12:00:00Z",
            id="not before",
        ),
        pytest.param(
            view(JobState.RUNNING, Reason.STARTED, images_done=3, images_failed=2, started_at=AT),
            "Running",
            [],
            "is running: 3 of 100 images done, 2 failed",
            id="running",
        ),
        pytest.param(
            view(JobState.SUSPENDED, Reason.SUSPENDED_BY_USER),
            "Suspended",
            ["Suspended"],
            "is suspended until spec.suspend is false",
            id="suspended",
        ),
        pytest.param(
            SUCCEEDED,
            "Succeeded",
            ["Complete", "Finished"],
            "finished: 97 of 100 images done, 2 unchanged, 1 failed",
            id="succeeded",
        ),
        pytest.param(
            view(JobState.FAILED, Reason.SHARDS_DEAD, error="2 shards are dead", finished_at=AT),
            "Failed",
            ["Failed", "Finished"],
            "2 shards are dead",
            id="failed",
        ),
        pytest.param(
            view(JobState.CANCELLED, Reason.CANCELLED_BY_USER, images_done=1, finished_at=AT),
            "Cancelled",
            ["Failed", "Finished"],
            "cancelled: 1 of 100 images done",
            id="cancelled",
        ),
    ],
)
def test_phase_conditions_and_words(job: View, phase: str, true: list[str], message: str) -> None:
    told = status(job, 3, ())
    assert (told["phase"], told["message"]) == (phase, message)
    assert [one["type"] for one in told["conditions"] if one["status"] == "True"] == true
    assert {one["type"] for one in told["conditions"]} == {"Suspended", "Complete", "Failed", "Finished", "Stalled"}
    assert {(one["reason"], one["observedGeneration"]) for one in told["conditions"]} == {(job.reason.value, 3)}
    assert all(one["message"] == message for one in told["conditions"] if one["status"] == "True")


def test_the_counts_and_times() -> None:
    job = replace(SUCCEEDED, started_at=AT - timedelta(hours=1), shards_succeeded=4)
    told = status(job, 1, ())
    assert told["progress"] == "100/100"
    assert told["images"] == {"total": 100, "done": 97, "failed": 1, "skipped": 2}
    assert told["shards"] == {"total": 4, "succeeded": 4, "dead": 0}
    assert (told["startTime"], told["completionTime"]) == ("2026-11-28T11:00:00Z", "2026-11-28T12:00:00Z")
    assert (told["jobId"], told["outputUri"]) == (str(UUID(int=7)), "s3://out/")


def test_what_has_no_time_yet_is_left_out() -> None:
    assert not {"startTime", "completionTime"} & set(status(QUEUED, 1, ()))


def test_a_transition_has_its_time_until_the_next() -> None:
    first = status(QUEUED, 1, ())
    later = view(JobState.RUNNING, Reason.STARTED, updated_at=AT + timedelta(minutes=5))
    second = status(later, 1, first["conditions"])
    ended = status(replace(SUCCEEDED, finished_at=AT + timedelta(minutes=9)), 1, second["conditions"])
    times = [{one["type"]: one["lastTransitionTime"] for one in told["conditions"]} for told in (second, ended)]
    assert set(times[0].values()) == {"2026-11-28T12:00:00Z"}
    assert (times[1]["Complete"], times[1]["Failed"]) == ("2026-11-28T12:09:00Z", "2026-11-28T12:00:00Z")


def test_a_row_that_did_not_change_gives_the_same_status() -> None:
    first = status(SUCCEEDED, 1, ())
    assert status(SUCCEEDED, 1, first["conditions"]) == first == status(SUCCEEDED, 1, ())


def test_a_refused_spec_has_failed_and_is_stalled() -> None:
    told = refusal("spec: output.uri: http can only be read", 2, AT, ())
    assert told["phase"] == "Invalid"
    assert told["observedGeneration"] == 2
    true = {one["type"] for one in told["conditions"] if one["status"] == "True"}
    assert true == {"Failed", "Finished", "Stalled"}
    assert {one["reason"] for one in told["conditions"]} == {"InvalidSpec"}


@pytest.mark.parametrize(
    ("state", "not_before", "workers", "reason"),
    [
        (JobState.QUEUED, None, True, None),
        (JobState.QUEUED, None, False, Reason.NO_WORKER),
        (JobState.QUEUED, AT + timedelta(seconds=1), False, Reason.NOT_BEFORE),
        (JobState.QUEUED, AT, True, None),
        (JobState.RUNNING, None, False, None),
        (JobState.SUSPENDED, None, False, None),
    ],
)
def test_what_a_queued_job_waits_for(
    state: JobState, not_before: datetime | None, workers: bool, reason: Reason | None
) -> None:
    assert waits_for(state, not_before, workers, AT) is reason
