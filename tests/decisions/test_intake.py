"""What happens to a row or its object: one table of all that may meet."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from samjobs.decisions.intake import Do, ObjectView, RowView, Wish, decide
from samjobs.names import Reason
from samjobs.states import JOB_TERMINAL, JobState

AT = datetime(2026, 11, 28, 12, tzinfo=UTC)
WISH = Wish(suspend=False, priority=0, ttl_s=None)
OBJECT = ObjectView(WISH)
INVALID = ObjectView(None, fault="spec: mode: wrong")
RUNNING = RowView(JobState.RUNNING, WISH)
FINISHED = RowView(JobState.SUCCEEDED, WISH)


def wishing(**changes: object) -> ObjectView:
    return ObjectView(replace(WISH, **changes))  # type: ignore[arg-type]


def row(state: JobState, **changes: object) -> RowView:
    return RowView(state, replace(WISH, **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("obj", "standing", "done"),
    [
        pytest.param(OBJECT, None, [Do.SUBMIT], id="a new object is submitted"),
        pytest.param(OBJECT, RUNNING, [], id="an object and its row that agree are left alone"),
        pytest.param(OBJECT, FINISHED, [], id="a finished job is left alone"),
        pytest.param(INVALID, None, [Do.REFUSE], id="a spec with a fault is refused"),
        pytest.param(INVALID, RUNNING, [Do.REFUSE], id="a change with a fault is refused, and its job goes on"),
        pytest.param(None, None, [], id="an object of which nothing is left needs nothing"),
        pytest.param(None, RUNNING, [Do.CANCEL], id="a job whose object vanished is cancelled"),
        pytest.param(None, row(JobState.SUSPENDED, suspend=True), [Do.CANCEL], id="a suspended one, too"),
        pytest.param(None, FINISHED, [], id="a finished job outlives its object"),
        pytest.param(ObjectView(WISH, deleting=True), RUNNING, [Do.CANCEL], id="an object being deleted is gone"),
        pytest.param(ObjectView(WISH, deleting=True), None, [], id="an object being deleted is not submitted"),
        pytest.param(ObjectView(None, "x", deleting=True), None, [], id="nor is it refused"),
        pytest.param(wishing(suspend=True), RUNNING, [Do.SUSPEND], id="suspend"),
        pytest.param(OBJECT, row(JobState.SUSPENDED, suspend=True), [Do.RESUME], id="resume"),
        pytest.param(wishing(priority=5), RUNNING, [Do.SET_PRIORITY], id="priority"),
        pytest.param(wishing(priority=5), row(JobState.QUEUED, priority=5), [], id="the priority that it has"),
        pytest.param(wishing(ttl_s=60), RUNNING, [Do.SET_TTL], id="ttl of a running job"),
        pytest.param(wishing(ttl_s=60), FINISHED, [Do.SET_TTL], id="ttl of a finished job"),
        pytest.param(OBJECT, row(JobState.FAILED, ttl_s=60), [Do.SET_TTL], id="ttl taken away"),
        pytest.param(wishing(suspend=True, priority=9), FINISHED, [], id="what has ended is neither held nor hurried"),
        pytest.param(
            wishing(suspend=True, priority=9, ttl_s=1),
            RUNNING,
            [Do.SET_PRIORITY, Do.SUSPEND, Do.SET_TTL],
            id="all at once",
        ),
    ],
)
def test_what_is_done(obj: ObjectView | None, standing: RowView | None, done: list[Do]) -> None:
    assert [action.do for action in decide(obj, standing, AT)] == done


@pytest.mark.parametrize("state", sorted(JobState))
@pytest.mark.parametrize("over", [True, False])
def test_an_object_is_deleted_when_its_time_after_the_end_is_over(state: JobState, over: bool) -> None:
    expires_at = AT - timedelta(seconds=1) if over else AT + timedelta(seconds=1)
    standing = RowView(state, Wish(False, 0, 60), expires_at)
    done = decide(wishing(ttl_s=60), standing, AT)
    assert [action.do for action in done] == ([Do.DELETE] if over and state in JOB_TERMINAL else [])


def test_the_fault_is_the_message() -> None:
    (action,) = decide(INVALID, None, AT)
    assert (action.reason, action.message) == (Reason.INVALID_SPEC, "spec: mode: wrong")


def test_the_message_of_a_change_says_from_what_to_what() -> None:
    (action,) = decide(wishing(priority=-3), RUNNING, AT)
    assert action.message == "priority 0 → -3"
