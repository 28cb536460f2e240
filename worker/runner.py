"""What becomes of one message?

    fenced start → run_shard → the probes, the metrics and the gatherer are told

A shard that is not this attempt's to start is none of our business: stale, doubled or cancelled. While the database is
away the message is kept in hand and the start tried again: an outage ends no process and charges no shard.
"""

import logging
import time
from collections.abc import Callable
from typing import TypeVar
from uuid import UUID

from samjobs.errors import DatabaseUnavailable, ErrorClass, OutputUnwritable, SamjobsError, SchemaMismatch, describe
from samjobs.execution import shard as execution
from samjobs.execution.shard import End, Host
from samjobs.names import Reason
from samjobs.segmentation.work import Outcome
from samjobs.spec import JobSpec
from samjobs.states import ShardState
from samjobs.store import Connection, jobs, shards
from samjobs.store.rows import Shard, WorkerState
from worker.drain import Drain
from worker.gather import Gatherer
from worker.metrics import BROKEN, CRITICAL, Metrics
from worker.outage import Outage
from worker.pace import Pace
from worker.presence import Presence
from worker.resident import Resident

log = logging.getLogger(__name__)

Answer = TypeVar("Answer")


class Runner:
    """Runs the shards that messages name, in the thread that owns the device."""

    def __init__(
        self, host: Host, resident: Resident, drain: Drain, presence: Presence, gatherer: Gatherer, metrics: Metrics
    ) -> None:
        self._host, self._resident, self._drain = host, resident, drain
        self._presence, self._gatherer, self._metrics = presence, gatherer, metrics
        self._outage = Outage("database")
        self._pace = Pace()

    def run(self, shard_id: UUID, attempt: int) -> None:
        """See to one message.

        Raises:
            SamjobsError: this process is broken, and should end; the shard was given back.
        """
        begun = self._ask(lambda: self._begin(shard_id, attempt))
        if begun is None:
            self._metrics.stale()
            return
        spec, shard = begun
        self._presence.tell(WorkerState.BUSY, shard.id)
        self._metrics.begun()
        began = time.monotonic()
        end = BROKEN
        try:
            end = self._run(spec, shard)
        finally:
            seconds = time.monotonic() - began
            self._metrics.ended(shard, end, seconds)
            if (image_s := self._pace.shard(seconds)) is not None:
                self._presence.measured(image_s)
            log.info("shard %s attempt %d of job %s: %s in %.1f s", shard.id, attempt, shard.job_id, end, seconds)
        self._presence.stall = None
        self._gatherer.wake()
        self._resident.recover()
        self._presence.tell(WorkerState.READY)

    def _begin(self, shard_id: UUID, attempt: int) -> tuple[JobSpec, Shard] | None:
        with self._host.store.begin() as conn:
            begun = shards.start(conn, shard_id, attempt, self._host.incarnation, last=True)
        if begun is not None:
            return begun
        with self._host.store.read() as conn:
            return self._left(conn, shard_id, attempt)

    def _left(self, conn: Connection, shard_id: UUID, attempt: int) -> tuple[JobSpec, Shard] | None:
        """A shard that this process has begun already, and does not run: the answer to its start got lost."""
        shard = shards.get(conn, shard_id)
        ours = (ShardState.RUNNING, attempt, self._host.incarnation)
        if shard is None or (shard.state, shard.attempt, shard.incarnation) != ours:
            return None
        job = jobs.get(conn, shard.job_id)
        return None if job is None else (job.spec, shard)

    def _run(self, spec: JobSpec, shard: Shard) -> str:
        try:
            end = execution.run_shard(self._host, shard, spec, self._resident, allowance=self._drain, watch=self._watch)
        except SchemaMismatch:
            raise
        except SamjobsError as error:
            if error.error_class is not ErrorClass.CRITICAL:
                raise
            pause_s = self._host.critical_pause_s
            log.error("shard %s of job %s, left alone for %.0f s: %s", shard.id, shard.job_id, pause_s, describe(error))
            return CRITICAL
        # What stalled is left to its lease: a picture that hangs the device must be charged.
        if end is End.LOST and self._presence.stall is None:
            self._ask(lambda: self._give_back(shard))
        return end.value

    def _give_back(self, shard: Shard) -> None:
        """A shard whose lease this process gave up, by its own clock, may still be its own in the table."""
        with self._host.store.begin() as conn:
            shards.release(conn, shard.id, shard.attempt, reason=Reason.LEASE_LOST)

    def _watch(self, outcome: Outcome) -> None:
        self._metrics.image(outcome)
        self._pace.image()

    def _ask(self, ask: Callable[[], Answer]) -> Answer | None:
        """What `ask` gives, asked again while the database is away or full; None if this process is to end."""
        while not self._drain.requested:
            try:
                answer = ask()
            except (DatabaseUnavailable, OutputUnwritable) as error:
                self._drain.pause(self._outage.failed(error))
            else:
                self._outage.over()
                return answer
        return None
