"""What a shard, an image and a job may be, and what each may become.

These tables are data. `store/transitions.py` is the only code that writes a state, and it asks here first;
the CHECK constraints and partial indexes of `store/tables.py` are built from the same sets.
"""

from collections.abc import Mapping
from enum import StrEnum


class ShardState(StrEnum):
    """A shard's place between the table and a worker."""

    QUEUED = "queued"
    DISPATCHED = "dispatched"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    DEAD = "dead"
    CANCELLED = "cancelled"


class ImageState(StrEnum):
    """An image's own outcome. `skipped` means an earlier result still holds."""

    PENDING = "pending"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"


class JobState(StrEnum):
    """Derived from the job's shards in the transaction that changes them."""

    QUEUED = "queued"
    RUNNING = "running"
    SUSPENDED = "suspended"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


SHARD_TRANSITIONS: Mapping[ShardState, frozenset[ShardState]] = {
    ShardState.QUEUED: frozenset({ShardState.DISPATCHED, ShardState.CANCELLED}),
    # back to queued when its message or its process is gone before the start
    ShardState.DISPATCHED: frozenset({ShardState.RUNNING, ShardState.QUEUED, ShardState.CANCELLED}),
    # back to queued when drained, when the lease is lost, or after a transient error
    ShardState.RUNNING: frozenset({ShardState.SUCCEEDED, ShardState.DEAD, ShardState.QUEUED, ShardState.CANCELLED}),
    ShardState.SUCCEEDED: frozenset({ShardState.QUEUED}),  # a person retries its failed images
    ShardState.DEAD: frozenset({ShardState.QUEUED, ShardState.CANCELLED}),  # a person retries or purges it
    ShardState.CANCELLED: frozenset(),
}

IMAGE_TRANSITIONS: Mapping[ImageState, frozenset[ImageState]] = {
    ImageState.PENDING: frozenset({ImageState.DONE, ImageState.FAILED, ImageState.SKIPPED}),
    ImageState.DONE: frozenset(),
    ImageState.FAILED: frozenset({ImageState.PENDING}),  # a person retries it
    ImageState.SKIPPED: frozenset(),
}

JOB_TERMINAL = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED})
JOB_ACTIVE = frozenset(JobState) - JOB_TERMINAL


def may_become(old: ShardState, new: ShardState) -> bool:
    """Whether a shard in `old` may be moved to `new`.

    >>> may_become(ShardState.QUEUED, ShardState.DISPATCHED)
    True
    >>> may_become(ShardState.CANCELLED, ShardState.QUEUED)
    False
    """
    return new in SHARD_TRANSITIONS[old]
