"""How do many images get through one device without making it wait?

    prepare (threads)      fetch, is the old result still good?, decode, resize       prepare.py
    segment (the caller)   the one thread that owns the device, fixed batches         here
    publish (threads)      masks, record, files, record last                          publish.py
    commit (the caller)    outcomes in input order                                    the `commit` argument

Bounded by bytes (`budget.py`) before the device and by a count of images behind it (`in_flight`). An image that
cannot be read, or that the engine refuses, fails alone; an error that all images would meet stops the run.
"""

import itertools
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from samjobs.errors import DeviceFault, ErrorClass, ImageError, SamjobsError, describe
from samjobs.segmentation.budget import ByteBudget
from samjobs.segmentation.engines.base import Candidates, Engine, Selection
from samjobs.segmentation.prepare import Preparer
from samjobs.segmentation.prompts import least_scores
from samjobs.segmentation.publish import Publisher
from samjobs.segmentation.records import Earlier
from samjobs.segmentation.work import Outcome, Prepared, Task, Work
from samjobs.states import ImageState

IDENTICAL_FAULTS = 3

Result = TypeVar("Result", Outcome, Prepared | Outcome)


@dataclass(frozen=True)
class Bounds:
    """How much may be on the way at once."""

    memory_bytes: int
    decode_threads: int
    fetch_threads: int
    in_flight: int  # segmented images whose results may be unwritten when the device starts the next batch

    @property
    def window(self) -> int:
        """Images between the first fetch and the device."""
        return self.fetch_threads + 2 * self.decode_threads


class FaultWatch:
    """Tells one odd image from a broken engine: the same unknown error several times in a row is the engine's."""

    def __init__(self, limit: int = IDENTICAL_FAULTS) -> None:
        self._limit = limit
        self._last = ""
        self._count = 0

    def passed(self) -> None:
        """An image went through."""
        self._last, self._count = "", 0

    def failed(self, error: Exception) -> None:
        """An image met `error`, which nobody translated.

        Raises:
            DeviceFault: it is the same one for the n-th time in a row.
        """
        text = describe(error)
        self._count = self._count + 1 if text == self._last else 1
        self._last = text
        if self._count >= self._limit:
            raise DeviceFault(f"{self._count} images in a row met the same unexpected error: {text}") from error


class Allowance(Protocol):
    """How many images may still be segmented."""

    def left(self) -> int | None:
        """None: without limit; 0: stop now."""

    def spend(self, images: int) -> None:
        """So many are about to be given to the engine."""


class Limit:
    """An allowance of a number of images, or without limit."""

    def __init__(self, images: int | None = None) -> None:
        self._left = images

    def left(self) -> int | None:
        return self._left

    def spend(self, images: int) -> None:
        if self._left is not None:
            self._left -= images


@dataclass
class Ran:
    """What a run of the pipeline came to."""

    stopped: bool = False  # asked to stop before the last image
    postponed: list[Outcome] = field(default_factory=list)  # met a transient error


def run(
    tasks: Iterable[Task],
    work: Work,
    engine: Engine,
    bounds: Bounds,
    *,
    commit: Callable[[Outcome], None],
    allowance: Allowance,
    faults: FaultWatch,
) -> Ran:
    """See to `tasks` in order, in the calling thread and helpers.

    Args:
        commit: told of each image's outcome, in the calling thread, in input order; only an image that needs no
            device may be told before those of the batch that is filling.
        allowance: asked before each batch, and spent by the images that the engine is given, not by those that fail
            before. The image or batch in hand is always finished and committed.

    Raises:
        SamjobsError: of class worker or critical; outcomes committed before it stand.
    """
    return _Run(work, engine, bounds, commit, allowance, faults).through(tasks)


class _Run:
    """One run: the two queues between the stages, and the rules of moving on."""

    def __init__(
        self,
        work: Work,
        engine: Engine,
        bounds: Bounds,
        commit: Callable[[Outcome], None],
        allowance: Allowance,
        faults: FaultWatch,
    ) -> None:
        self._work, self._engine, self._bounds = work, engine, bounds
        self._commit, self._allowance, self._faults = commit, allowance, faults
        self._budget = ByteBudget(bounds.memory_bytes)
        self._publisher = Publisher(work)
        self._preparer = Preparer(work, self._publisher, self._budget, bounds.decode_threads)
        self._prepare_pool = ThreadPoolExecutor(bounds.fetch_threads, "prepare")
        self._publish_pool = ThreadPoolExecutor(bounds.fetch_threads, "publish")
        self._ahead: deque[tuple[int, Task, Future[Prepared | Outcome]]] = deque()
        self._behind: deque[Outcome | tuple[Task, Future[Outcome]]] = deque()
        self._odd_files = FaultWatch()  # its own: that files can be read says nothing of the engine
        self._ran = Ran()

    def through(self, tasks: Iterable[Task]) -> Ran:
        numbered = enumerate(tasks)
        try:
            while batch := self._next_batch(numbered):
                self._settle(self._bounds.in_flight)
                self._segment(batch)
            self._settle(0)
        finally:
            # After an error nobody will segment what is still being prepared, and no thread may wait for it.
            self._budget.close()
            self._prepare_pool.shutdown(cancel_futures=True)
            self._publish_pool.shutdown(cancel_futures=True)
        return self._ran

    def _next_batch(self, numbered: Iterator[tuple[int, Task]]) -> list[tuple[int, Prepared]]:
        """The next images for the device, at most a batch. Those that need no device go on to the committer."""
        batch: list[tuple[int, Prepared]] = []
        while True:
            for number, task in itertools.islice(numbered, self._bounds.window - len(self._ahead)):
                self._ahead.append((number, task, self._prepare_pool.submit(self._preparer.prepare, number, task)))
            allowed = self._allowance.left()
            if allowed == 0:
                self._ran.stopped = bool(self._ahead or batch)
                return []
            if not self._ahead:
                return batch
            number, task, future = self._ahead.popleft()
            self._budget.advance(number)
            result = self._result_of(task, future, self._odd_files)
            if not isinstance(result, Outcome) or result.state is ImageState.SKIPPED:
                self._odd_files.passed()
            if isinstance(result, Outcome):
                self._behind.append(result)
                self._settle(self._bounds.in_flight)
                continue
            batch.append((number, result))
            if len(batch) == min(self._engine.info.batch, allowed or self._engine.info.batch):
                return batch

    def _segment(self, batch: Sequence[tuple[int, Prepared]]) -> None:
        started = time.monotonic()
        answers = self._answer([prepared for _, prepared in batch])
        share = (time.monotonic() - started) / len(batch)
        for (number, prepared), answer in zip(batch, answers, strict=True):
            prepared.seconds["segment"] = share
            if isinstance(answer, SamjobsError):
                refuse = self._publisher.refuse
                future = self._publish_pool.submit(refuse, prepared.task, answer, prepared.earlier, prepared.source)
            else:
                future = self._publish_pool.submit(self._publisher.publish, prepared, answer)
            future.add_done_callback(lambda _, number=number: self._budget.hold(number, 0))  # type: ignore[misc]
            self._behind.append((prepared.task, future))

    def _answer(self, batch: Sequence[Prepared]) -> list[list[Candidates] | SamjobsError]:
        """The device's answer for each image, or what is wrong with that image."""
        refusals = [self._refusal(prepared) for prepared in batch]
        fit = [prepared for prepared, refusal in zip(batch, refusals, strict=True) if refusal is None]
        self._allowance.spend(len(fit))
        answers = iter(self._run_engine(fit) if fit else [])
        return [refusal or next(answers) for refusal in refusals]

    def _refusal(self, prepared: Prepared) -> SamjobsError | None:
        try:
            for asked in prepared.asked:
                self._engine.check(self._work.spec.mode, asked.query)
        except SamjobsError as error:
            return self._of_this_image(error, self._faults)
        return None

    def _run_engine(self, batch: Sequence[Prepared]) -> list[list[Candidates] | SamjobsError]:
        spec = self._work.spec
        asked = [one for prepared in batch for one in prepared.asked]
        lowest = min(least_scores(asked, spec.mode, spec.thresholds.score))
        try:
            encoded = self._engine.encode([prepared.photo.pixels for prepared in batch])
            queries = [[asked.query for asked in prepared.asked] for prepared in batch]
            selection = Selection(score=lowest, mask=spec.thresholds.mask)
            found = self._engine.segment(encoded, spec.mode, queries, selection)
        except Exception as error:
            if len(batch) > 1:  # one of them spoils the batch: find out which
                return [answer for prepared in batch for answer in self._run_engine([prepared])]
            return [self._of_this_image(error, self._faults)]
        return list(found)

    def _of_this_image(self, error: Exception, faults: FaultWatch) -> SamjobsError:
        """`error` as this image's own fault; raised instead when every image would meet it."""
        if isinstance(error, SamjobsError):
            if error.error_class in (ErrorClass.WORKER, ErrorClass.CRITICAL):
                raise error
            return error
        faults.failed(error)
        return ImageError(f"this image met an unexpected error: {describe(error)}")

    def _settle(self, in_flight: int) -> None:
        """Commit finished outcomes in order, and wait until at most `in_flight` images are unwritten."""
        while self._behind:
            head = self._behind[0]
            if not isinstance(head, Outcome):
                task, future = head
                if len(self._behind) <= in_flight and not future.done():
                    return
                head = self._result_of(task, future, self._faults)
            self._behind.popleft()
            self._note(head)

    def _result_of(self, task: Task, future: "Future[Result]", faults: FaultWatch) -> Result | Outcome:
        """What a helper thread came to; an unexpected error in it is this image's own failure."""
        try:
            return future.result()
        except SamjobsError:
            raise  # of a class that concerns every image: the thread turned the others into outcomes
        except Exception as error:
            earlier = Earlier.of(self._publisher.earlier(task))
            return self._publisher.refuse(task, self._of_this_image(error, faults), earlier)

    def _note(self, outcome: Outcome) -> None:
        if outcome.state is ImageState.DONE:
            self._faults.passed()
        if outcome.state is ImageState.PENDING:
            self._ran.postponed.append(outcome)
        else:
            self._commit(outcome)
