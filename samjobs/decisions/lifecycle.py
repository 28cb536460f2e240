"""What state is my job in, and why?

Asked in the transaction that changes a shard, with counters that the same transaction keeps; nothing is counted by
scanning.
"""

from dataclasses import dataclass

from samjobs.names import Reason
from samjobs.states import JobState

# Ways in which a job is stopped that are its failure; the others are somebody's wish.
FAILURES = frozenset({Reason.DEADLINE_EXCEEDED, Reason.NO_PROGRESS, Reason.INVALID_INPUT})


@dataclass(frozen=True)
class JobCounts:
    """The counters of a job's row."""

    images_total: int
    images_done: int
    images_failed: int
    images_skipped: int
    shards_total: int
    shards_succeeded: int
    shards_dead: int
    shards_cancelled: int

    @property
    def images_open(self) -> int:
        """Images that have no outcome yet."""
        return self.images_total - self.images_done - self.images_failed - self.images_skipped

    @property
    def shards_open(self) -> int:
        """Shards that have not ended."""
        return self.shards_total - self.shards_succeeded - self.shards_dead - self.shards_cancelled


@dataclass(frozen=True)
class JobVerdict:
    """A job's state, with the reason that its events and conditions carry."""

    state: JobState
    reason: Reason
    message: str


# Of a job of which a shard ran, and that goes on.
BEGUN = JobVerdict(JobState.RUNNING, Reason.STARTED, "at work")


def job_state(
    counts: JobCounts,
    *,
    expanded: bool,
    started: bool,
    suspend: bool,
    cancel_reason: Reason | None,
    max_failed_images: int | None,
) -> JobVerdict:
    """The state that follows from a job's counters and wishes.

    Args:
        expanded: whether all images and shards are in the table; until then no job ends.
        started: whether any shard ever ran.
        cancel_reason: set when it was cancelled, or stopped as failed (`FAILURES`).
        max_failed_images: None lets all but every one fail.
    """
    if cancel_reason in FAILURES:
        return JobVerdict(JobState.FAILED, cancel_reason, f"stopped with {_progress(counts)}")
    if cancel_reason is not None:
        return JobVerdict(JobState.CANCELLED, cancel_reason, f"cancelled with {_progress(counts)}")
    if expanded and counts.shards_open == 0:
        return _ended(counts, max_failed_images)
    if suspend:
        return JobVerdict(JobState.SUSPENDED, Reason.SUSPENDED_BY_USER, f"suspended at {_progress(counts)}")
    if started:
        return BEGUN
    return JobVerdict(JobState.QUEUED, Reason.SUBMITTED, "waits for a worker")


def _ended(counts: JobCounts, max_failed_images: int | None) -> JobVerdict:
    if counts.shards_dead:
        return JobVerdict(
            JobState.FAILED,
            Reason.SHARDS_DEAD,
            f"{_many(counts.shards_dead, 'shard is', 'shards are')} dead; {_progress(counts)}",
        )
    if counts.shards_cancelled:  # of a job that was not cancelled itself
        return JobVerdict(
            JobState.FAILED,
            Reason.PURGED_BY_USER,
            f"{_many(counts.shards_cancelled, 'dead shard was', 'dead shards were')} purged; {_progress(counts)}",
        )
    if max_failed_images is not None and counts.images_failed > max_failed_images:
        return JobVerdict(
            JobState.FAILED,
            Reason.MAX_FAILED_IMAGES,
            f"{counts.images_failed} images failed, more than maxFailedImages {max_failed_images}",
        )
    if counts.images_failed and counts.images_failed == counts.images_total:
        return JobVerdict(JobState.FAILED, Reason.ALL_IMAGES_FAILED, f"all {counts.images_total} images failed")
    return JobVerdict(JobState.SUCCEEDED, Reason.COMPLETED, _progress(counts))


def _many(count: int, one: str, more: str) -> str:
    return f"{count} {one if count == 1 else more}"


def _progress(counts: JobCounts) -> str:
    finished = counts.images_total - counts.images_open
    return f"{finished} of {counts.images_total} images finished, {counts.images_failed} of them failed"
