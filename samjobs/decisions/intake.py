"""What has to happen to a job's row, or to its SamJob, so that both say the same?

The object is what is wished, the row is what is done, and an object is known by its uid: one that was deleted and made
anew under the same name is another wish. What of a spec may change is compared each time, so that whatever was missed
is done late and nothing is done twice.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from samjobs.names import Reason
from samjobs.states import JOB_TERMINAL, JobState


class Do(StrEnum):
    """What is to be done."""

    SUBMIT = "submit"
    REFUSE = "refuse"  # tell it at the object; asked again when the spec changes
    SUSPEND = "suspend"
    RESUME = "resume"
    SET_PRIORITY = "set priority"
    SET_TTL = "set ttl"
    CANCEL = "cancel"
    DELETE = "delete"  # the object; its row is forgotten by itself


@dataclass(frozen=True)
class Wish:
    """What a spec says that may change later."""

    suspend: bool
    priority: int
    ttl_s: int | None


@dataclass(frozen=True)
class ObjectView:
    """A SamJob that is there."""

    wish: Wish | None  # None: the spec has a fault
    fault: str | None = None
    deleting: bool = False


@dataclass(frozen=True)
class RowView:
    """The row of a SamJob's uid."""

    state: JobState
    wish: Wish
    expires_at: datetime | None = None


@dataclass(frozen=True)
class Action:
    """One thing to do, and why."""

    do: Do
    reason: Reason
    message: str


def decide(obj: ObjectView | None, row: RowView | None, at: datetime) -> tuple[Action, ...]:
    """What to do, in this order; () when both agree.

    Args:
        obj: None when no object has the uid.
        row: None when no row has the uid.
        at: the database's clock.
    """
    if obj is None or obj.deleting:
        return _unwanted(row)
    if row is not None and row.expires_at is not None and row.expires_at <= at and row.state in JOB_TERMINAL:
        return (Action(Do.DELETE, Reason.TTL_EXPIRED, "its ttlSecondsAfterFinished is over"),)
    if obj.wish is None:
        return (Action(Do.REFUSE, Reason.INVALID_SPEC, obj.fault or "the spec is invalid"),)
    if row is None:
        return (Action(Do.SUBMIT, Reason.SUBMITTED, "a new SamJob"),)
    return _changes(obj.wish, row)


def _unwanted(row: RowView | None) -> tuple[Action, ...]:
    if row is None or row.state in JOB_TERMINAL:
        return ()
    return (Action(Do.CANCEL, Reason.OBJECT_DELETED, "its SamJob was deleted"),)


def _changes(wish: Wish, row: RowView) -> tuple[Action, ...]:
    """A job that has ended can no longer be held or hurried, only kept for longer or shorter."""
    actions = []
    if row.state not in JOB_TERMINAL:
        if wish.priority != row.wish.priority:
            told = f"priority {row.wish.priority} → {wish.priority}"
            actions.append(Action(Do.SET_PRIORITY, Reason.SPEC_CHANGED, told))
        if wish.suspend and not row.wish.suspend:
            actions.append(Action(Do.SUSPEND, Reason.SUSPENDED_BY_USER, "spec.suspend is true"))
        if row.wish.suspend and not wish.suspend:
            actions.append(Action(Do.RESUME, Reason.RESUMED_BY_USER, "spec.suspend is false"))
    if wish.ttl_s != row.wish.ttl_s:
        told = f"ttlSecondsAfterFinished {row.wish.ttl_s} → {wish.ttl_s}"
        actions.append(Action(Do.SET_TTL, Reason.SPEC_CHANGED, told))
    return tuple(actions)
