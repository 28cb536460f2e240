"""How does one machine work through its queue, without Redis or a controller?

`LocalWorker` claims shards and runs them here, one after another, until nothing is left. Several processes may do so
on one database: each shard goes to one of them. A process that died is noticed by its lock (`presence.py`), one that
was stopped for long by its heartbeat; its shards are put back, charged with one failure.
"""

import logging
import os
import platform
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol, Self
from uuid import UUID, uuid4

from samjobs.decisions.retry import after_failure
from samjobs.errors import ErrorClass
from samjobs.execution.presence import Presence
from samjobs.execution.shard import End, Host, run_shard
from samjobs.names import DEFAULT_REGION, Reason
from samjobs.segmentation.engines.base import Engine
from samjobs.segmentation.pipeline import Allowance
from samjobs.segmentation.work import Outcome
from samjobs.settings import Settings
from samjobs.spec import JobSpec
from samjobs.states import JOB_TERMINAL
from samjobs.storage import Storage
from samjobs.store import Connection, Store, jobs, now, shards, workers
from samjobs.store.rows import Job, Shard, WorkerState

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
        self, store: Store, storage: Storage, settings: Settings, engine_for: Callable[[JobSpec], Engine], locks: Path
    ) -> None:
        """`locks`: the folder of `Presence`, the same for all processes on this database."""
        self.incarnation: UUID = uuid4()
        self.presence = Presence(locks, self.incarnation)
        self._engine_for = engine_for
        self._host = Host(store, storage, settings, self.incarnation)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self.presence)
            with self._host.store.begin() as conn:
                workers.register(
                    conn, self.incarnation, pool="local", region=DEFAULT_REGION, node=platform.node(), pid=os.getpid()
                )
            stack.callback(self._sign_off)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *raised: object) -> None:
        self._stack.close()

    def at_work_on(self, job: Job) -> bool:
        """Whether any live process submitted the job or holds one of its shards."""
        with self._host.store.read() as conn:
            return bool(at_work(conn, self.presence, job))

    def run(self, listener: Listener, *, allowance: Allowance, job_id: UUID | None = None) -> None:
        """Work until the job (or the whole queue) is done, or nothing is left of `allowance`.

        Raises:
            SamjobsError: of class worker or critical; everything not done stays queued.
        """
        while allowance.left() != 0:
            self.put_back_orphans()
            claimed = self._claim(job_id)
            if claimed is not None:
                self._run(*claimed, listener, allowance)
            elif self._idle(job_id):
                return
            else:
                time.sleep(POLL_SECONDS)

    def put_back_orphans(self) -> int:
        """Queue the shards that nobody runs any more; the number of shards. Call it between two shards: one that
        this process holds then is one whose lease it gave up (stopped by Ctrl-Z for long, say)."""
        with self._host.store.read() as conn:
            # Found by the shards themselves: a dead process need not be listed any more.
            held = shards.at_work(conn)
            stale_before = now(conn) - timedelta(seconds=self._host.settings.stale_job_timeout_seconds)
            known = {worker.incarnation for worker in workers.listing(conn)}
        known |= {shard.incarnation for shard in held if shard.incarnation is not None}
        gone = {incarnation for incarnation in known if not self.presence.alive(incarnation)}
        put_back = [
            self._put_back(shard)
            for shard in held
            if shard.incarnation in gone or shard.incarnation == self.incarnation or _heard_of_at(shard) < stale_before
        ]
        for incarnation in gone:
            with self._host.store.begin() as conn:
                workers.remove(conn, incarnation)
            self.presence.forget(incarnation)
        return sum(put_back)

    def _put_back(self, shard: Shard) -> bool:
        with self._host.store.begin() as conn:
            if shard.incarnation == self.incarnation:
                return shards.release(conn, shard.id, shard.attempt, reason=Reason.LEASE_LOST)
            job = jobs.get(conn, shard.job_id)
            if job is None:
                return False
            verdict = after_failure(ErrorClass.WORKER, shard.failures, job.spec.retry_policy, jitter=0)
            return shards.reclaim(conn, shard, verdict)

    def _claim(self, job_id: UUID | None) -> tuple[Job, Shard] | None:
        with self._host.store.begin() as conn:
            for claimed in shards.claim(conn, limit=1, job_id=job_id):
                started = shards.start(conn, claimed.id, claimed.attempt, self.incarnation)
                job = jobs.get(conn, claimed.job_id)
                assert started is not None, "claimed in this transaction"
                assert job is not None
                return job, started[1]
        return None

    def _run(self, job: Job, shard: Shard, listener: Listener, allowance: Allowance) -> None:
        end = run_shard(
            self._host,
            shard,
            job.spec,
            lambda spec: self._loaded(spec, shard),
            allowance=allowance,
            watch=lambda outcome: listener.image(job, outcome),
        )
        with self._host.store.begin() as conn:
            workers.set_state(conn, self.incarnation, WorkerState.READY)
        listener.shard_ended(job, shard, end)

    def _loaded(self, spec: JobSpec, shard: Shard) -> Engine:
        engine = self._engine_for(spec)
        info = engine.info
        with self._host.store.begin() as conn:
            workers.set_model(conn, self.incarnation, device=info.device, model=info.model, revision=info.revision)
            workers.set_state(conn, self.incarnation, WorkerState.BUSY, shard_id=shard.id)
        return engine

    def _idle(self, job_id: UUID | None) -> bool:
        """Whether there is nothing to do now and nothing to wait for."""
        with self._host.store.read() as conn:
            if job_id is None:
                return shards.next_due_at(conn) is None
            job = jobs.get(conn, job_id)
            if job is None or job.state in JOB_TERMINAL or job.suspend:
                return True
            # Of a listing that broke off nothing more comes, and so no end.
            listing = job.expanded_at is None and job.submitter is not None and self.presence.alive(job.submitter)
            return job.expanded_at is None and not listing and shards.next_due_at(conn, job_id) is None

    def _sign_off(self) -> None:
        with self._host.store.begin() as conn:
            workers.remove(conn, self.incarnation)


def _heard_of_at(shard: Shard) -> datetime:
    """The last sign of life of the process that took a shard."""
    at = shard.heartbeat_at or shard.dispatched_at
    assert at is not None, "a shard at work was dispatched"
    return at


def at_work(conn: Connection, presence: Presence, job: Job) -> list[UUID]:
    """The live processes of this machine that list the job's images, submitted it, or hold one of its shards."""
    holders = [shard.incarnation for shard in shards.at_work(conn, job.id)]
    involved = dict.fromkeys(one for one in (job.submitter, *holders) if one is not None)
    return [incarnation for incarnation in involved if presence.alive(incarnation)]
