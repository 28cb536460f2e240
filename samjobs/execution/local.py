"""How does one machine work through its queue, without Redis or a controller?

`LocalWorker` claims shards and runs them here, one after another, until nothing is left. Several processes may do so
on one database: each shard goes to one of them. A process that died is noticed by its lock (`presence.py`), and its
shards are put back, charged with one failure.
"""

import logging
import os
import platform
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Protocol, Self
from uuid import UUID, uuid4

from samjobs.decisions.retry import after_failure
from samjobs.errors import ErrorClass
from samjobs.execution.presence import Presence
from samjobs.execution.shard import End, Host, run_shard
from samjobs.names import DEFAULT_REGION
from samjobs.segmentation.engines.base import Engine
from samjobs.segmentation.work import Outcome
from samjobs.settings import Settings
from samjobs.spec import JobSpec
from samjobs.states import JOB_TERMINAL
from samjobs.storage import Storage
from samjobs.store import Store, jobs, shards, workers
from samjobs.store.rows import Job, NewWorker, Shard

log = logging.getLogger(__name__)

POLL_SECONDS = 0.2


class Listener(Protocol):
    """Who watches the work."""

    def image(self, job: Job, outcome: Outcome) -> None:
        """An image's outcome was committed."""

    def shard_ended(self, job: Job, shard: Shard, end: End) -> None:
        """A shard was finished, put back or given up."""


class LocalWorker(AbstractContextManager["LocalWorker"]):
    """One process at work on a database of this machine."""

    def __init__(
        self, store: Store, storage: Storage, settings: Settings, engine_for: Callable[[JobSpec], Engine]
    ) -> None:
        self.incarnation: UUID = uuid4()
        self._engine_for = engine_for
        self._host = Host(store, storage, settings, self.incarnation)
        self._presence = Presence(locks_folder(settings.database_url), self.incarnation)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self._presence)
            with self._host.store.begin() as conn:
                workers.register(
                    conn,
                    NewWorker(
                        incarnation=self.incarnation,
                        pool="local",
                        region=DEFAULT_REGION,
                        node=platform.node(),
                        pid=os.getpid(),
                    ),
                )
            stack.callback(self._sign_off)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *raised: object) -> None:
        self._stack.close()

    def alive(self, incarnation: UUID) -> bool:
        """Whether another process of this machine still runs."""
        return self._presence.alive(incarnation)

    def at_work_on(self, job: Job) -> bool:
        """Whether any live process submitted the job or holds one of its shards."""
        if job.submitter is not None and self.alive(job.submitter):
            return True
        with self._host.store.read() as conn:
            held = [shard.incarnation for shard in shards.of_job(conn, job.id) if shard.incarnation is not None]
        return any(self.alive(incarnation) for incarnation in set(held))

    def run(self, listener: Listener, *, allowance: Callable[[], int | None], job_id: UUID | None = None) -> None:
        """Work until the job (or the whole queue) is done, or `allowance` gives 0.

        Raises:
            SamjobsError: of class worker or critical; everything not done stays queued.
        """
        while allowance() != 0:
            self.put_back_orphans()
            shard = self._claim(job_id)
            if shard is not None:
                self._run(shard, listener, allowance)
            elif self._idle(job_id):
                return
            else:
                time.sleep(POLL_SECONDS)

    def put_back_orphans(self) -> int:
        """Queue the shards of processes that are gone; the number of shards."""
        store, count = self._host.store, 0
        with store.read() as conn:
            others = [worker.incarnation for worker in workers.listing(conn)]
        for incarnation in others:
            if self.alive(incarnation):
                continue
            with store.begin() as conn:
                for shard in shards.abandoned(conn, incarnation=incarnation):
                    job = jobs.get(conn, shard.job_id)
                    assert job is not None, "a shard row refers to its job"
                    verdict = after_failure(ErrorClass.WORKER, shard.failures, job.spec.retry_policy, jitter=0)
                    count += shards.reclaim(conn, shard, verdict)
                workers.remove(conn, incarnation)
            self._presence.forget(incarnation)
        return count

    def _claim(self, job_id: UUID | None) -> Shard | None:
        with self._host.store.begin() as conn:
            for shard in shards.claim(conn, limit=1, job_id=job_id):
                return shards.start(conn, shard.id, shard.attempt, self.incarnation)
        return None

    def _run(self, shard: Shard, listener: Listener, allowance: Callable[[], int | None]) -> None:
        with self._host.store.read() as conn:
            job = jobs.get(conn, shard.job_id)
        assert job is not None, "a shard row refers to its job"
        end = run_shard(
            self._host,
            shard,
            job.spec,
            self._engine_for(job.spec),
            allowance=allowance,
            watch=lambda outcome: listener.image(job, outcome),
        )
        listener.shard_ended(job, shard, end)

    def _idle(self, job_id: UUID | None) -> bool:
        """Whether there is nothing to do now and nothing to wait for."""
        with self._host.store.read() as conn:
            if job_id is not None:
                job = jobs.get(conn, job_id)
                return job is None or job.state in JOB_TERMINAL or job.suspend
            return shards.next_due_at(conn) is None

    def _sign_off(self) -> None:
        with self._host.store.begin() as conn:
            workers.remove(conn, self.incarnation)


def locks_folder(database_url: str) -> Path:
    """Where the locks of the processes on a SQLite file lie: beside it."""
    return Path(database_url.removeprefix("sqlite:///") + ".processes")
