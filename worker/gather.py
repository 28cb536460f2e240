"""Who writes the files that gather a job's results, once its last shard has ended?

Any worker: a thread beside the device looks for ended jobs that are not published, takes one by a keeper's lease and
renews that while it gathers. One that fails, its output place being full for instance, is left to run out of its lease
and tried again then, by whoever comes first. No shard waits for any of this.
"""

import logging
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from types import TracebackType
from typing import Self

from samjobs.errors import DatabaseUnavailable, describe
from samjobs.execution.merge import merge
from samjobs.execution.shard import Host
from samjobs.store import jobs
from samjobs.store.rows import Job
from worker.metrics import Metrics
from worker.outage import Outage

log = logging.getLogger(__name__)

IDLE_S = 10.0  # between two looks where nothing has ended here
LEAST_S = 1.0  # between two looks
PATIENCE_S = 10.0  # for what is being gathered when this process ends


class Gatherer:
    """The thread that gathers, while in the `with` block."""

    def __init__(self, host: Host, metrics: Metrics) -> None:
        self._host, self._metrics = host, metrics
        self._outage = Outage("database, for gathering results")
        self._woken, self._stop = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="gather", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop.set()
        self._woken.set()
        self._thread.join(PATIENCE_S)
        if self._thread.is_alive():
            log.warning("results are still being gathered: left to another worker")

    def wake(self) -> None:
        """A shard has ended, and maybe its job. Costs the caller nothing."""
        self._woken.set()

    def _run(self) -> None:
        pause_s = LEAST_S
        while not self._stop.is_set():
            self._woken.wait(IDLE_S)
            self._woken.clear()
            try:
                while not self._stop.is_set() and self._gather_one():
                    pass
                self._outage.over()
                pause_s = LEAST_S
            except DatabaseUnavailable as error:
                pause_s = max(LEAST_S, self._outage.failed(error))
            except Exception:
                log.exception("gathering results failed; it will be tried again")
            self._stop.wait(pause_s)

    def _gather_one(self) -> bool:
        """Gather the results of one job; False if none waits for that."""
        stale_s = self._host.settings.stale_job_timeout_seconds
        with self._host.store.begin() as conn:
            waiting = jobs.to_publish(conn, stale_s=stale_s, limit=1)
            kept = [job for job in waiting if jobs.keep(conn, job.id, self._host.incarnation, stale_s=stale_s)]
        for job in kept:
            self._gather(job)
        return bool(waiting)

    def _gather(self, job: Job) -> None:
        settings = self._host.settings
        with ThreadPoolExecutor(1, "merge") as pool:
            merging = pool.submit(merge, self._host.store, self._host.storage, job, threads=settings.fetch_threads)
            self._keep_while(merging, job)
        error = merging.exception()
        self._metrics.gathered(error is None)
        if isinstance(error, DatabaseUnavailable):
            raise error
        if error is not None:
            log.error("results of job %s could not be gathered, which will be tried again: %s", job.id, describe(error))
            return
        log.info("results of job %s are gathered at %s", job.id, job.spec.output.uri)

    def _keep_while(self, merging: "Future[None]", job: Job) -> None:
        settings = self._host.settings
        while not wait_for([merging], settings.beat_s).done:
            try:
                with self._host.store.begin() as conn:
                    jobs.keep(conn, job.id, self._host.incarnation, stale_s=settings.stale_job_timeout_seconds)
            except DatabaseUnavailable as error:
                log.warning("job %s: %s", job.id, error)
