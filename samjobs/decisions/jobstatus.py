"""What does a SamJob's status say of its job?

Written from the row alone, and nothing is ever decided from it. Words that stand in it change only when the job does:
no ages and no counts of others, since each change is a write to the API server.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from samjobs.decisions.conditions import Verdict, conditions
from samjobs.decisions.lifecycle import JobCounts
from samjobs.names import Condition, Reason
from samjobs.states import JOB_TERMINAL, JobState

INVALID = "Invalid"  # the phase of a spec that no job comes of


@dataclass(frozen=True)
class View(JobCounts):
    """A job's row."""

    id: UUID
    state: JobState
    reason: Reason
    error: str | None
    region: str
    output_uri: str
    expanded: bool
    waits_for: Reason | None  # see `waits_for`
    not_before: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    updated_at: datetime


def waits_for(state: JobState, not_before: datetime | None, workers: bool, at: datetime) -> Reason | None:
    """What a queued job waits for, that no change of its row tells the end of.

    Args:
        workers: whether any worker of its region is alive.
        at: the database's clock.
    """
    if state is not JobState.QUEUED:
        return None
    if not_before is not None and not_before > at:
        return Reason.NOT_BEFORE
    return None if workers else Reason.NO_WORKER


def status(view: View, generation: int, earlier: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The status of a SamJob that has a row.

    Args:
        generation: of the spec that was last acted on.
        earlier: the conditions that stand in it.
    """
    message = words(view)
    ended, failed = view.state in JOB_TERMINAL, view.state in (JobState.FAILED, JobState.CANCELLED)
    suspended = view.state is JobState.SUSPENDED
    verdicts = {
        Condition.SUSPENDED: _verdict(suspended, view.reason, message),
        Condition.COMPLETE: _verdict(view.state is JobState.SUCCEEDED, view.reason, message),
        Condition.FAILED: _verdict(failed, view.reason, message),
        Condition.FINISHED: _verdict(ended, view.reason, message),
        Condition.STALLED: _verdict(False, view.reason, ""),
    }
    finished = view.images_total - view.images_open
    told = {
        "phase": view.state.value.capitalize(),
        "message": message,
        "progress": f"{finished}/{view.images_total}",
        "observedGeneration": generation,
        "jobId": str(view.id),
        "images": {
            "total": view.images_total,
            "done": view.images_done,
            "failed": view.images_failed,
            "skipped": view.images_skipped,
        },
        "shards": {"total": view.shards_total, "succeeded": view.shards_succeeded, "dead": view.shards_dead},
        "startTime": _time(view.started_at),
        "completionTime": _time(view.finished_at),
        "outputUri": view.output_uri,
        "conditions": conditions(verdicts, earlier, generation, view.finished_at or view.updated_at),
    }
    return {name: value for name, value in told.items() if value is not None}


def refusal(fault: str, generation: int, created_at: datetime, earlier: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The status of a SamJob whose spec no job can come of: it has failed, and stays so as it is.

    Args:
        created_at: of the object: its spec was so from then on.
    """
    kinds = (Condition.SUSPENDED, Condition.COMPLETE, Condition.FAILED, Condition.FINISHED, Condition.STALLED)
    true = (Condition.FAILED, Condition.FINISHED, Condition.STALLED)
    verdicts = {kind: _verdict(kind in true, Reason.INVALID_SPEC, fault) for kind in kinds}
    return {
        "phase": INVALID,
        "message": fault,
        "observedGeneration": generation,
        "conditions": conditions(verdicts, earlier, generation, created_at),
    }


def words(view: View) -> str:
    """The state of the job in one line."""
    match view.state:
        case JobState.FAILED:
            return view.error or "failed"
        case JobState.SUCCEEDED:
            return f"finished: {_counts(view)}"
        case JobState.CANCELLED:
            return f"cancelled: {_counts(view)}"
        case JobState.SUSPENDED:
            return "is suspended until spec.suspend is false"
        case JobState.RUNNING:
            return f"is running: {_counts(view)}"
        case JobState.QUEUED:
            return _waits(view)


def _waits(view: View) -> str:
    if view.waits_for is Reason.NOT_BEFORE:
        return f"waits for its notBefore, {_time(view.not_before)}"
    if not view.expanded and view.shards_total == 0:
        return "its images are being listed"
    if view.waits_for is Reason.NO_WORKER:
        return f"no worker of region {view.region} is alive"
    return "waits for a free worker"


def _counts(view: View) -> str:
    told = f"{view.images_done} of {view.images_total} images done"
    others = ((view.images_skipped, "unchanged"), (view.images_failed, "failed"))
    return ", ".join([told, *(f"{count} {what}" for count, what in others if count)])


def _verdict(true: bool, reason: Reason, message: str) -> Verdict:
    return Verdict("True", reason, message) if true else Verdict("False", reason, "")


def _time(at: datetime | None) -> str | None:
    return None if at is None else f"{at:%Y-%m-%dT%H:%M:%SZ}"
