"""Which images does a job have, whose prefix or manifest has to be listed?

A thread beside the pass lists one job after another, in batches, so that a million images never lie in memory; its
shards are dispatched while it goes on. A controller lists a job as its keeper: should it vanish, another one takes
over after `stale_job_timeout_seconds` and leaves out what is there already.
"""

import itertools
import logging
import threading
import time
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID, uuid4

from controller import ACTOR
from samjobs.errors import (
    AccessDenied,
    ImageError,
    InvalidInput,
    LeaseLost,
    ObjectMissing,
    StorageUnavailable,
    describe,
)
from samjobs.listing import images_of, nothing_found
from samjobs.names import Reason
from samjobs.settings import Settings
from samjobs.states import JOB_ACTIVE
from samjobs.storage import Storage, access_of_server
from samjobs.store import Store, jobs, now
from samjobs.store.rows import Job

BATCH = 1000
# A storage that does not answer is asked again after 5, 10, 20 … 300 seconds, for a day.
FIRST_PAUSE_S = 5.0
LONGEST_PAUSE_S = 300.0
GIVEN_UP_AFTER = timedelta(days=1)
_MOST_JOBS = 1000  # looked at in one round


@dataclass(frozen=True)
class _Later:
    """When a job that could not be listed is tried again. It stays this controller's."""

    at: float  # monotonic
    pause_s: float


log = logging.getLogger("controller")


class Lister:
    """The listing thread's duty."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self.keeper: UUID = uuid4()
        self._store = store
        self._storage = Storage(access_of_server(settings))
        self._stale_s = settings.stale_job_timeout_seconds
        self._most = settings.max_job_images
        self._later: dict[UUID, _Later] = {}
        self._current: UUID | None = None
        self._renewed_at = 0.0

    def close(self) -> None:
        """End the connections to storages."""
        self._storage.close()

    def renew(self) -> None:
        """Say that the job in hand is still being listed: its storage may take long for the next batch.

        From any thread but the lister's, now and then.
        """
        job_id = self._current
        if job_id is not None and time.monotonic() - self._renewed_at > self._stale_s / 4:
            self._renewed_at = time.monotonic()
            with self._store.begin() as conn:
                jobs.keep(conn, job_id, self.keeper, stale_s=self._stale_s)

    def list_next(self, stop: threading.Event) -> bool:
        """List the job that waits for longest; True when there may be another one."""
        job = self._next()
        if job is None:
            return False
        self._current, self._renewed_at = job.id, time.monotonic()
        try:
            self._list(job, stop)
        except StorageUnavailable as error:
            self._try_later(job, error)
        except (InvalidInput, ObjectMissing, AccessDenied, ImageError) as error:  # ImageError: no regular file
            self._give_up(job, describe(error))
        except LeaseLost:
            self._later.pop(job.id, None)  # another controller lists it
        except Exception as error:
            self._again(job, error)
            raise
        finally:
            self._current = None
        return True

    def _next(self) -> Job | None:
        """A job that nobody lists, kept by this controller from now on."""
        with self._store.read() as conn:
            found = jobs.to_list(conn, stale_s=self._stale_s, limit=_MOST_JOBS)
            at = time.monotonic()
            mine = [jobs.get(conn, job_id) for job_id, later in self._later.items() if later.at <= at]
        # New ones first: a place that does not answer takes its time at each try, and nobody is to wait behind it.
        for job in (*(one for one in found if one.id not in self._later), *mine):
            if job is not None and self._to_do(job) and self._keep(job):
                return job
        return None

    def _to_do(self, job: Job) -> bool:
        if job.state not in JOB_ACTIVE or job.expanded_at is not None:
            self._later.pop(job.id, None)
            return False
        later = self._later.get(job.id)
        return not job.suspend and (later is None or later.at <= time.monotonic())

    def _keep(self, job: Job) -> bool:
        with self._store.begin() as conn:
            kept = jobs.keep(conn, job.id, self.keeper, stale_s=self._stale_s)
        if not kept:
            self._later.pop(job.id, None)
        return kept

    def _list(self, job: Job, stop: threading.Event) -> None:
        ignored: Counter[str] = Counter()
        images = iter(images_of(job.spec, self._storage.within(job.tenant), ignored))
        count = 0
        while batch := list(itertools.islice(images, BATCH)):
            with self._store.begin() as conn:
                jobs.add_images(conn, job.id, batch, keeper=self.keeper)
                standing = jobs.get(conn, job.id)
            count += len(batch)
            if count > self._most:
                raise InvalidInput(
                    f"more than {self._most:,} images: make several jobs, or raise SAMJOBS_MAX_JOB_IMAGES"
                )
            if stop.is_set() or standing is None or standing.suspend:
                self._leave(job)
                return
        if count == 0:
            raise nothing_found(job.spec, ignored)
        with self._store.begin() as conn:
            jobs.mark_expanded(conn, job.id, keeper=self.keeper)
        self._later.pop(job.id, None)

    def _leave(self, job: Job) -> None:
        """Let whoever is there go on, now or when it is resumed."""
        with self._store.begin() as conn:
            jobs.leave(conn, job.id, self.keeper)

    def _try_later(self, job: Job, error: StorageUnavailable) -> None:
        with self._store.read() as conn:
            waited = now(conn) - job.alive_at
        if waited >= GIVEN_UP_AFTER:
            self._give_up(job, f"its images could not be listed for a day: {describe(error)}")
            return
        self._again(job, error)

    def _again(self, job: Job, error: Exception) -> None:
        before = self._later.get(job.id)
        pause_s = FIRST_PAUSE_S if before is None else min(LONGEST_PAUSE_S, 2 * before.pause_s)
        self._later[job.id] = _Later(time.monotonic() + pause_s, pause_s)
        log.warning("job %s could not be listed, tried again in %.0f s: %s", job.id, pause_s, describe(error))

    def _give_up(self, job: Job, why: str) -> None:
        """End it as failed, unless it has ended already: a cancelled one takes no images either."""
        self._later.pop(job.id, None)
        with self._store.begin() as conn:
            jobs.stop(conn, job.id, reason=Reason.INVALID_INPUT, message=why, actor=ACTOR)
