"""How is one shard run, wherever it runs?

    engine → prompts fit it? → pending images → pipeline → progress, fenced by the attempt → finish, release or fail

What an error does to the shard is decided in `decisions/retry.py`. Every write names the attempt; once one is
refused, this process writes and publishes nothing more.
"""

import random
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from uuid import UUID

from samjobs.decisions.retry import after_failure
from samjobs.errors import ErrorClass, LeaseLost, SamjobsError, StorageUnavailable, classify, describe
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
from samjobs.store import Store, images, shards
from samjobs.store.rows import ImageOutcome, LeaseAnswer, Shard


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
        host.store,
        shard,
        host.incarnation,
        stale_s=settings.stale_job_timeout_seconds,
        stall_s=settings.stall_timeout_seconds,
    ) as lease:
        engine = _engine(host, shard, spec, engine_for)
        progress = _Progress(host, shard, lease, watch)
        lease.progressed()
        try:
            refuse_prompts(spec, engine)
            ran = pipeline.run(
                _tasks(host, shard),
                _work(host, shard, spec, engine, lease),
                engine,
                bounds(settings, spec, engine),
                commit=progress.add,
                allowance=_WhileHeld(allowance, lease),
                faults=host.faults,
            )
            progress.flush()
        except LeaseLost:
            return End.LOST
        except Exception as error:
            if not lease.held():
                return _given_up(lease.answer)
            end = _fail(host, shard, spec, error, progress)
            if classify(error) in (ErrorClass.WORKER, ErrorClass.CRITICAL):
                raise
            return end
        return _end(host, shard, spec, lease, ran)


def refuse_prompts(spec: JobSpec, engine: Engine) -> None:
    """Refuse a phrase of the whole job that `engine` cannot take: each image would fail by it, and lose what an earlier
    run found.

    Raises:
        PromptError: naming the phrase and the engine's limit.
    """
    for prompt in spec.prompts.text:
        engine.check(spec.mode, Query(text=prompt.text))


def _engine(host: Host, shard: Shard, spec: JobSpec, engine_for: Callable[[JobSpec], Engine]) -> Engine:
    """The loaded engine; when it cannot be had, the shard goes back uncharged: the fault is this process's."""
    try:
        return engine_for(spec)
    except Exception as error:
        with host.store.begin() as conn:
            shards.release(conn, shard.id, shard.attempt, reason=Reason.WORKER_FAULT, message=describe(error))
        raise


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


def _tasks(host: Host, shard: Shard) -> list[Task]:
    with host.store.read() as conn:
        return [Task(image.index, image.key, image.uri, image.prompts) for image in images.pending(conn, shard)]


def _work(host: Host, shard: Shard, spec: JobSpec, engine: Engine, lease: Lease) -> Work:
    return Work(
        spec=spec,
        info=engine.info,
        storage=host.storage,
        limits=Limits(max_bytes=host.settings.max_image_bytes, max_pixels=host.settings.max_image_pixels),
        force=not spec.resume,
        last_attempt=shard.failures + 1 >= spec.retry_policy.max_attempts,
        may_publish=lease.held,
    )


def _end(host: Host, shard: Shard, spec: JobSpec, lease: Lease, ran: pipeline.Ran) -> End:
    if not lease.held():
        return _given_up(lease.answer)
    if ran.stopped:
        suspended = lease.answer is LeaseAnswer.SUSPENDED
        reason = Reason.SUSPENDED_BY_USER if suspended else Reason.DRAINED
        with host.store.begin() as conn:
            released = shards.release(conn, shard.id, shard.attempt, reason=reason)
        return End.RELEASED if released else End.LOST
    if ran.postponed:
        first = ran.postponed[0].error or StorageUnavailable("postponed")
        return _charge(host, shard, spec, first)
    with host.store.begin() as conn:
        finished = shards.finish(conn, shard.id, shard.attempt)
    return End.FINISHED if finished else End.LOST


def _given_up(answer: LeaseAnswer) -> End:
    return End.CANCELLED if answer is LeaseAnswer.CANCELLED else End.LOST


def _fail(host: Host, shard: Shard, spec: JobSpec, error: Exception, progress: "_Progress") -> End:
    with suppress(SamjobsError):  # what is lost here is done again; the error at hand is the one to tell
        progress.flush()
    return _charge(host, shard, spec, error)


def _charge(host: Host, shard: Shard, spec: JobSpec, error: Exception) -> End:
    verdict = after_failure(classify(error), shard.failures, spec.retry_policy, random.random())
    with host.store.begin() as conn:
        kept = shards.fail(conn, shard.id, shard.attempt, verdict, error_class=classify(error), error=describe(error))
    if not kept:
        return End.LOST
    return End.DEAD if verdict.state is ShardState.DEAD else End.RETRY


class _Progress:
    """Outcomes on their way to the table: several in one statement, at most one write per `progress_seconds`."""

    def __init__(self, host: Host, shard: Shard, lease: Lease, watch: Callable[[Outcome], None]) -> None:
        self._host, self._shard, self._lease, self._watch = host, shard, lease, watch
        self._waiting: list[Outcome] = []
        self._written = time.monotonic()

    def add(self, outcome: Outcome) -> None:
        self._lease.progressed()
        self._waiting.append(outcome)
        if time.monotonic() - self._written >= self._host.settings.progress_seconds:
            self.flush()

    def flush(self) -> None:
        """Raises LeaseLost when another attempt owns the shard."""
        if not self._waiting:
            return
        outcomes, self._waiting = self._waiting, []
        with self._host.store.begin() as conn:
            kept = shards.record(conn, self._shard.id, self._shard.attempt, [_row(outcome) for outcome in outcomes])
        if not kept:
            self._lease.lose()
            raise LeaseLost(f"shard {self._shard.id}: attempt {self._shard.attempt} is not the current one any more")
        self._written = time.monotonic()
        for outcome in outcomes:
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
