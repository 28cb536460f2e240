"""The queue over time, as this process saw it: a sample every few seconds, the last hour of them.

For a picture on the page without a Prometheus. It begins anew with the process and is not the same in two of them. What
is counted costs as much as is queued, so `now` gives everybody who asks within a second the same answer.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from samjobs.client import Client
from samjobs.errors import SamjobsError, describe
from samjobs.states import JobState
from samjobs.store import now, tenancy, views, workers
from samjobs.store.rows import RegionStatus, Worker

log = logging.getLogger("api")

EVERY_S = 5.0
KEPT = 720
FRESH_S = 1.0


@dataclass(frozen=True)
class Picture:
    """The whole queue at one time."""

    at: datetime
    regions: Sequence[RegionStatus]
    workers: Sequence[Worker]
    jobs: dict[JobState, int]  # active ones


@dataclass(frozen=True)
class Sample:
    """What is kept of it, for one region."""

    at: datetime
    region: str
    due: int
    dispatched: int
    running: int
    dead: int
    workers: int
    busy: int


class Samples:
    """Takes them in a thread of its own, from `start` to `stop`."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._kept: deque[Sequence[Sample]] = deque(maxlen=KEPT)
        self._looking = threading.Lock()
        self._last: tuple[float, Picture] | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._take_until_stopped, name="samples", daemon=True)
        self._out = False

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Take no more."""
        self._stop.set()

    def now(self) -> Picture:
        """The queue, a second old at most.

        Raises:
            DatabaseUnavailable: nobody can tell.
        """
        with self._looking:
            if self._last is None or time.monotonic() - self._last[0] > FRESH_S:
                picture = self._look()
                self._last = time.monotonic(), picture
            return self._last[1]

    def kept(self, region: str | None) -> list[Sample]:
        """The samples of a region, or of all regions together, oldest first."""
        return [_of(sample, region) for sample in list(self._kept)]

    def _look(self) -> Picture:
        with self._client.store.read() as conn:
            return Picture(
                at=now(conn),
                regions=views.regions(conn),
                workers=workers.alive(conn, within_s=self._client.alive_within_s),
                jobs=tenancy.active_jobs(conn, None),
            )

    def _take_until_stopped(self) -> None:
        while True:
            try:
                self._kept.append(samples_of(self.now()))
                self._out = False
            except SamjobsError as error:
                if not self._out:
                    log.warning("no samples of the queue are taken: %s", describe(error, 500))
                self._out = True
            if self._stop.wait(EVERY_S):
                return


def samples_of(picture: Picture) -> list[Sample]:
    """One for each region with work or workers; at least one, so that an empty queue is seen, too."""
    by_name = {one.region: one for one in picture.regions}
    names = sorted({*by_name, *(one.region for one in picture.workers)}) or [""]
    return [_sample(picture, name, by_name.get(name)) for name in names]


def _sample(picture: Picture, region: str, status: RegionStatus | None) -> Sample:
    here = [one for one in picture.workers if one.region == region]
    return Sample(
        at=picture.at,
        region=region,
        due=status.shards_due if status else 0,
        dispatched=status.shards_dispatched if status else 0,
        running=status.shards_running if status else 0,
        dead=status.shards_dead if status else 0,
        workers=len(here),
        busy=sum(one.state.value == "busy" for one in here),
    )


def _of(samples: Sequence[Sample], region: str | None) -> Sample:
    """The sum of one moment's samples, of one region or of all."""
    chosen = [one for one in samples if region is None or one.region == region]
    return Sample(
        samples[0].at,
        region or "",
        *(sum(getattr(one, name) for one in chosen) for name in ("due", "dispatched", "running", "dead")),
        *(sum(getattr(one, name) for one in chosen) for name in ("workers", "busy")),
    )
