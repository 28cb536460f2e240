"""Will a job be done in time?

A lower bound: the region's workers, all of them, doing nothing but this job's images, at the speed that they measured.
So a job that is told of is late for certain, as things stand, and only more workers or a shorter list can help. A
region without a worker is reckoned with one, which has to load first.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from samjobs.decisions.scaling import ASSUMED_IMAGE_S, ASSUMED_LOAD_S, Speed


@dataclass(frozen=True)
class Due:
    """An active job with a deadline."""

    region: str
    images_open: int
    deadline_at: datetime


def earliest_end(job: Due, workers: int, speed: Speed, at: datetime) -> datetime:
    """When the job could be done at the earliest.

    Args:
        workers: those of its region that take shards.

    >>> now = datetime.fromisoformat("2026-01-01T12:00Z")
    >>> job = Due("eu", 1200, now)
    >>> earliest_end(job, 2, Speed(0.5, 60), now).strftime("%H:%M:%S")
    '12:05:00'
    >>> earliest_end(job, 0, Speed(0.5, 60), now).strftime("%H:%M:%S")
    '12:11:00'
    """
    image_s = speed.image_s or ASSUMED_IMAGE_S
    load_s = 0.0 if workers else ASSUMED_LOAD_S if speed.load_s is None else speed.load_s
    return at + timedelta(seconds=load_s + job.images_open * image_s / max(workers, 1))


def is_late(job: Due, workers: int, speed: Speed, at: datetime) -> bool:
    """Whether the job's deadline will pass before it can be done."""
    return earliest_end(job, workers, speed, at) > job.deadline_at
