"""How is one shard run, wherever it runs?

    engine → prompts fit it? → pending images → pipeline → progress, fenced by the attempt → finish, release or fail

What an error does to the shard is decided in `decisions/retry.py`. Every write names the attempt; once one is
refused, this process writes and publishes nothing more. While the database is away work goes on and its outcomes wait,
for as long as the lease may still be held: an outage charges nobody.
"""

import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TypeVar
from uuid import UUID

from samjobs import memory
from samjobs.decisions.retry import Verdict, after_failure
from samjobs.errors import (
    DatabaseUnavailable,
    DeviceFault,
    EngineUnfit,
    ErrorClass,
    LeaseLost,
    SamjobsError,
    StorageUnavailable,
    classify,
    describe,
)
from samjobs.execution.lease import Lease
from samjobs.names import Reason
from samjobs.segmentation import pipeline
from samjobs.segmentation.engines.base import Engine, Query
from samjobs.segmentation.images import Limits
from samjobs.segmentation.work import Outcome, Task, Work
from samjobs.settings import Settings
from samjobs.spec import JobSpec
from samjobs.states import ShardState
from samjobs.storage import Storage
from samjobs.storage.paths import scheme_of
from samjobs.store import Connection, Store, images, shards
from samjobs.store.rows import ImageOutcome, LeaseAnswer, Shard
from samjobs.store.transitions import IllegalTransition

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0  # between two tries to reach a database that is away

Result = TypeVar("Result")


class End(StrEnum):
    """How a run of a shard ended."""

    FINISHED = "finished"
    RELEASED = "released"  # stopped or suspended; uncharged
    RETRY = "retry"
    DEAD = "dead"
    CANCELLED = "cancelled"
    LOST = "lost"


@dataclass(frozen=True)
class Host:
    """What a process brings to every shard it runs."""

    store: Store
    storage: Storage
    settings: Settings
    incarnation: UUID
    faults: pipeline.FaultWatch = field(default_factory=pipeline.FaultWatch)
    beats: Store | None = None  # the same database by connections of its own, so that heartbeats wait for nobody
    tell_stall: Callable[[str], None] = lambda why: None  # see `Lease`
    critical_pause_s: float = 0.0  # for how long a shard is left alone that met a critical error
    tell_commit: Callable[[float], None] = lambda seconds: None  # told of each write of progress, and its time


def run_shard(
    host: Host,
    shard: Shard,
    spec: JobSpec,
    engine_for: Callable[[JobSpec], Engine],
    *,
    allowance: pipeline.Allowance,
    watch: Callable[[Outcome], None],
) -> End:
    """Run a shard that this incarnation has started.

    Args:
        engine_for: gives the engine that the job asks for. Called under the lease: loading may outlast it.
        allowance: see `pipeline.run`.
        watch: told of every outcome after it was committed.

    Raises:
        SamjobsError: of class worker or critical, after the shard was given back.
    """
    settings = host.settings
    with Lease(
        host.beats or host.store,
        shard,
        host.incarnation,
        stale_s=settings.stale_job_timeout_seconds,
        stall_s=settings.stall_timeout_seconds,
        beat_s=settings.beat_s,
        tell_stall=host.tell_stall,
    ) as lease:
        try:
            return _Run(host, shard, spec, lease, watch).through(engine_for, allowance)
        except LeaseLost:
            return _given_up(lease.answer)


def refuse_prompts(spec: JobSpec, engine: Engine) -> None:
    """Refuse a phrase of the whole job that `engine` cannot take: each image would fail by it, and lose what an earlier
    run found.

    Raises:
        PromptError: naming the phrase and the engine's limit.
    """
    for prompt in spec.prompts.text:
        engine.check(spec.mode, Query(text=prompt.text))


@dataclass(frozen=True)
class _WhileHeld:
    """The caller's allowance, and nothing once the lease is lost, cancelled or suspended."""

    allowance: pipeline.Allowance
    lease: Lease

    def left(self) -> int | None:
        return self.allowance.left() if self.lease.answer is LeaseAnswer.HELD else 0

    def spend(self, images: int) -> None:
        self.allowance.spend(images)


def bounds(settings: Settings, spec: JobSpec, engine: Engine) -> pipeline.Bounds:
    """How much may be on the way for this job on this machine."""
    on_gpu = not engine.info.device.startswith("cpu")
    in_flight = settings.in_flight
    if in_flight is None:
        in_flight = 2 * engine.info.batch if on_gpu else 0
    remote = any(scheme_of(uri) for uri in (spec.output.uri, *_input_uris(spec)))
    return pipeline.Bounds(
        memory_bytes=settings.memory_bytes,
        decode_threads=settings.decode_threads,
        fetch_threads=settings.fetch_threads if remote else settings.decode_threads + 1,
        in_flight=in_flight,
    )


def _input_uris(spec: JobSpec) -> list[str]:
    listed = [item.image for item in spec.images.list or ()]
    return [uri for uri in (spec.images.prefix, spec.images.manifest, *listed) if uri is not None]


def _most_memory(settings: Settings) -> int | None:
    """What one image may take, so that it fails by itself and not with the whole process: the budget of all, or what
    the container has left beside that budget."""
    room = memory.room()
    return None if room is None else max(settings.memory_bytes, room - settings.memory_bytes)


class _Run:
    """One run of a shard, under its lease."""

    def __init__(self, host: Host, shard: Shard, spec: JobSpec, lease: Lease, watch: Callable[[Outcome], None]) -> None:
        self._host, self._shard, self._spec, self._lease = host, shard, spec, lease
        self._storage = host.storage.within(shard.tenant)
        self._progress = _Progress(host, shard, lease, watch)

    def through(self, engine_for: Callable[[JobSpec], Engine], allowance: pipeline.Allowance) -> End:
        """Run it to whatever end.

        Raises:
            LeaseLost: it is not this process's shard any more.
            SamjobsError: as `run_shard`.
        """
        try:
            engine = engine_for(self._spec)
        except EngineUnfit as error:
            return self._charge(error)
        except Exception as error:
            # The fault is this process's.
            with suppress(LeaseLost):
                self._give_back(Reason.WORKER_FAULT, describe(error))
            raise
        self._lease.progressed()
        try:
            return self._end(self._work_through(engine, allowance))
        except LeaseLost:
            raise
        except Exception as error:
            if not self._lease.held() and not isinstance(error, DeviceFault):
                return _given_up(self._lease.answer)
            end = self._fail(error)
            if classify(error) in (ErrorClass.WORKER, ErrorClass.CRITICAL):
                raise
            return end

    def _work_through(self, engine: Engine, allowance: pipeline.Allowance) -> pipeline.Ran:
        refuse_prompts(self._spec, engine)
        self._storage.check(self._spec.output.uri)  # of the shard, and no fault of the place that a pause could mend
        return pipeline.run(
            self._insist(self._tasks),
            self._work(engine),
            engine,
            bounds(self._host.settings, self._spec, engine),
            commit=self._progress.add,
            allowance=_WhileHeld(allowance, self._lease),
            faults=self._host.faults,
        )

    def _tasks(self) -> list[Task]:
        with self._host.store.read() as conn:
            pending = images.pending(conn, self._shard)
        return [Task(image.index, image.key, image.uri, image.prompts) for image in pending]

    def _work(self, engine: Engine) -> Work:
        settings, spec = self._host.settings, self._spec
        return Work(
            spec=spec,
            info=engine.info,
            storage=self._storage,
            limits=Limits(
                max_bytes=settings.max_image_bytes,
                max_pixels=settings.max_image_pixels,
                max_memory=_most_memory(settings),
            ),
            force=not spec.resume,
            last_attempt=self._shard.failures + 1 >= spec.retry_policy.max_attempts,
            may_publish=self._lease.held,
        )

    def _end(self, ran: pipeline.Ran) -> End:
        if not self._lease.held():
            return _given_up(self._lease.answer)
        if not ran.stopped and not ran.postponed:
            try:
                self._insist(self._progress.finish)
            except IllegalTransition as error:
                # A database that came back without what it had committed (a replica that lagged took over): the images
                # are done again, and the charge bounds how often.
                return self._charge(error)
            return End.FINISHED
        self._insist(self._progress.flush)
        if ran.stopped:
            suspended = self._lease.answer is LeaseAnswer.SUSPENDED
            return self._give_back(Reason.SUSPENDED_BY_USER if suspended else Reason.DRAINED)
        return self._charge(ran.postponed[0].error or StorageUnavailable("postponed"))

    def _fail(self, error: Exception) -> End:
        with suppress(SamjobsError):  # what is lost here is done again; the error at hand is the one to tell
            self._progress.flush()
        with suppress(LeaseLost):
            return self._charge(error)
        return End.LOST

    def _give_back(self, reason: Reason, message: str = "") -> End:
        def write() -> bool:
            with self._host.store.begin() as conn:
                return shards.release(conn, self._shard.id, self._shard.attempt, reason=reason, message=message)

        return End.RELEASED if self._insist(write) else End.LOST

    def _charge(self, error: Exception) -> End:
        shard, verdict = self._shard, self._verdict(error)

        def write() -> bool:
            kind, told = classify(error), describe(error)
            with self._host.store.begin() as conn:
                return shards.fail(conn, shard.id, shard.attempt, verdict, error_class=kind, error=told)

        if not self._insist(write):
            return End.LOST
        return End.DEAD if verdict.state is ShardState.DEAD else End.RETRY

    def _verdict(self, error: Exception) -> Verdict:
        verdict = after_failure(classify(error), self._shard.failures, self._spec.retry_policy, random.random())
        if classify(error) is ErrorClass.CRITICAL:
            return replace(verdict, delay_s=self._host.critical_pause_s)
        if isinstance(error, EngineUnfit) and verdict.state is ShardState.QUEUED:
            return replace(verdict, reason=Reason.ENGINE_UNFIT)
        return verdict

    def _insist(self, ask: Callable[[], Result]) -> Result:
        """What `ask` gives; asked again while the database is away, for as long as the lease may still be held.

        Raises:
            LeaseLost: the database was away for longer than that.
        """
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                return ask()
            except DatabaseUnavailable as error:
                if not self._lease.held():
                    raise LeaseLost(f"shard {self._shard.id}: {error}") from error
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


def _given_up(answer: LeaseAnswer) -> End:
    return End.CANCELLED if answer is LeaseAnswer.CANCELLED else End.LOST


class _Progress:
    """Outcomes on their way to the table: several in one statement, at most one write per `progress_seconds`."""

    def __init__(self, host: Host, shard: Shard, lease: Lease, watch: Callable[[Outcome], None]) -> None:
        self._host, self._shard, self._lease, self._watch = host, shard, lease, watch
        self._waiting: list[Outcome] = []
        self._tried = time.monotonic()

    def add(self, outcome: Outcome) -> None:
        """Keep an outcome, and write those that were kept if it is time to.

        Raises:
            LeaseLost: another attempt owns the shard.
        """
        self._lease.progressed()
        self._waiting.append(outcome)
        if time.monotonic() - self._tried >= self._host.settings.progress_seconds:
            with suppress(DatabaseUnavailable):  # they are kept, and written with the next ones
                self.flush()

    def flush(self) -> None:
        """Write what was kept. Raises LeaseLost as `add`, and whatever the store raises: nothing is lost then."""
        if self._waiting:
            self._write(shards.record)

    def finish(self) -> None:
        """Write what was kept, and end the shard with it, in one transaction. Raises as `flush`."""
        self._write(shards.finish)

    def _write(self, how: Callable[[Connection, UUID, int, Sequence[ImageOutcome]], bool]) -> None:
        self._tried = time.monotonic()
        rows = [_row(outcome) for outcome in self._waiting]
        with self._host.store.begin() as conn:
            kept = how(conn, self._shard.id, self._shard.attempt, rows)
        if not kept:
            self._lease.lose()
            raise LeaseLost(f"shard {self._shard.id}: attempt {self._shard.attempt} is not the current one any more")
        written, self._waiting = self._waiting, []
        self._host.tell_commit(time.monotonic() - self._tried)
        for outcome in written:
            self._watch(outcome)


def _row(outcome: Outcome) -> ImageOutcome:
    return ImageOutcome(
        index=outcome.task.index,
        state=outcome.state,
        reason=outcome.reason,
        quick_hash=outcome.source.quick_hash if outcome.source else None,
        content_hash=outcome.source.content_hash if outcome.source else None,
        width=outcome.width,
        height=outcome.height,
        instances=outcome.instances,
        truncated=outcome.truncated,
        output_uri=outcome.output_uri,
        output_hash=outcome.output_hash,
        error_class=classify(outcome.error) if outcome.error else None,
        error=describe(outcome.error) if outcome.error else None,
    )
