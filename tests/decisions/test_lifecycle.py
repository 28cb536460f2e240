"""The state of a job follows from its counters."""

from typing import Any

import pytest

from samjobs.decisions.lifecycle import JobCounts, job_state
from samjobs.names import Reason
from samjobs.states import JobState


def counts(**given: int) -> JobCounts:
    """A job of 100 images in 4 shards, all done, but for what is given."""
    defaults = {
        "images_total": 100,
        "images_done": 100,
        "images_failed": 0,
        "images_skipped": 0,
        "shards_total": 4,
        "shards_succeeded": 4,
        "shards_dead": 0,
        "shards_cancelled": 0,
    }
    return JobCounts(**(defaults | given))


OPEN = counts(images_done=10, shards_succeeded=0)
SOME_FAILED = counts(images_done=90, images_failed=10)


@pytest.mark.parametrize(
    ("job", "wishes", "state", "reason"),
    [
        pytest.param(counts(), {}, JobState.SUCCEEDED, Reason.COMPLETED, id="all done"),
        pytest.param(OPEN, {"started": False}, JobState.QUEUED, Reason.SUBMITTED, id="nothing started"),
        pytest.param(OPEN, {}, JobState.RUNNING, Reason.STARTED, id="a shard has run"),
        pytest.param(OPEN, {"suspend": True}, JobState.SUSPENDED, Reason.SUSPENDED_BY_USER, id="suspended"),
        pytest.param(counts(), {"suspend": True}, JobState.SUCCEEDED, Reason.COMPLETED, id="ended before suspended"),
        pytest.param(
            counts(), {"expanded": False}, JobState.RUNNING, Reason.STARTED, id="more images are being listed"
        ),
        pytest.param(SOME_FAILED, {}, JobState.SUCCEEDED, Reason.COMPLETED, id="some images may fail"),
        pytest.param(SOME_FAILED, {"max_failed_images": 10}, JobState.SUCCEEDED, Reason.COMPLETED, id="at the limit"),
        pytest.param(
            SOME_FAILED, {"max_failed_images": 9}, JobState.FAILED, Reason.MAX_FAILED_IMAGES, id="over the limit"
        ),
        pytest.param(
            counts(images_done=0, images_failed=100),
            {},
            JobState.FAILED,
            Reason.ALL_IMAGES_FAILED,
            id="every one failed",
        ),
        pytest.param(
            counts(shards_succeeded=3, shards_dead=1), {}, JobState.FAILED, Reason.SHARDS_DEAD, id="a shard is dead"
        ),
        pytest.param(
            OPEN,
            {"cancel_reason": Reason.SUPERSEDED},
            JobState.CANCELLED,
            Reason.SUPERSEDED,
            id="cancelled, with its reason",
        ),
    ],
)
def test_a_jobs_state(job: JobCounts, wishes: dict[str, Any], state: JobState, reason: Reason) -> None:
    defaults = {"expanded": True, "started": True, "suspend": False, "cancel_reason": None, "max_failed_images": None}
    verdict = job_state(job, **(defaults | wishes))
    assert (verdict.state, verdict.reason) == (state, reason)
    assert verdict.message


def test_what_has_no_outcome_is_open() -> None:
    assert counts(images_done=10, images_failed=5, images_skipped=3).images_open == 82
    assert counts(shards_succeeded=1, shards_dead=1, shards_cancelled=1).shards_open == 1
