"""Must this image be done, and what does the device get to see of it?

Runs in several threads at once: looks at the earlier record and as much of the file as is needed to tell whether it
still holds (`decisions/resume.py`), then reads, hashes and decodes what must be done.
"""

import threading
import time
from dataclasses import replace

from samjobs.decisions.resume import Need, Present, Prior, Verdict, must_redo
from samjobs.errors import SamjobsError
from samjobs.segmentation import images
from samjobs.segmentation.budget import ByteBudget
from samjobs.segmentation.prompts import ask
from samjobs.segmentation.publish import Publisher
from samjobs.segmentation.records import AnyRecord, Earlier, FailureRecord, OutputFile, Record
from samjobs.segmentation.work import Outcome, Prepared, Source, Task, Work
from samjobs.spec import Format
from samjobs.storage import content_hash, join, quick_hash

PREVIEW_PIXELS = 1600  # long side of overlays: legible on a screen, a few hundred kB


class Preparer:
    """The first stage of one run."""

    def __init__(self, work: Work, publisher: Publisher, budget: ByteBudget, decode_threads: int) -> None:
        self._work, self._publisher, self._budget = work, publisher, budget
        self._decoding = threading.Semaphore(decode_threads)

    def prepare(self, number: int, task: Task) -> Prepared | Outcome:
        """Image `number` of the run, ready for the device; or its outcome, when it needs no device.

        Raises:
            SamjobsError: of a class that concerns every image.
        """
        result: Prepared | Outcome | None = None
        try:
            result = self._see_to(number, task)
            return result
        finally:
            if not isinstance(result, Prepared):
                self._budget.hold(number, 0)

    def _see_to(self, number: int, task: Task) -> Prepared | Outcome:
        earlier: AnyRecord | None = None
        looked: _Look | None = None
        try:
            earlier = self._publisher.earlier(task)
            looked = _Look(self._work, task, earlier, number, self._budget)
            if not looked.verdict.redo and isinstance(earlier, Record):
                return self._publisher.keep(task, earlier, looked.source())
            return self._decode(number, task, looked, Earlier.of(earlier))
        except SamjobsError as error:
            source = looked.source() if looked is not None and looked.was_read else None
            return self._publisher.refuse(task, error, Earlier.of(earlier), source)

    def _decode(self, number: int, task: Task, looked: "_Look", earlier: Earlier) -> Prepared:
        limits, target = self._work.limits, self._work.info.input_size
        started = time.monotonic()
        data = looked.read()
        fetched = time.monotonic()
        preview = PREVIEW_PIXELS if Format.OVERLAY in self._work.spec.output.formats else None
        self._budget.acquire(number, len(data) + images.decode_bytes(data, target, limits, preview))
        with self._decoding:
            decoding = time.monotonic()
            photo = images.decode(data, target, limits, preview)
        seconds = {"fetch": fetched - started, "decode": time.monotonic() - decoding}
        prompts = self._work.spec.prompts_for(task.prompts)
        prepared = Prepared(
            task=task,
            reason=looked.verdict.reason,
            source=looked.source(),
            photo=photo,
            asked=ask(prompts, self._work.spec.mode, photo.width, photo.height),
            config_hash=looked.present.config_hash,
            earlier=earlier,
            seconds=seconds,
        )
        self._budget.hold(number, photo.pixels.nbytes + (photo.preview.nbytes if photo.preview is not None else 0))
        return prepared


class _Look:
    """The evidence on one image, gathered as far as the decision needs it."""

    def __init__(self, work: Work, task: Task, earlier: AnyRecord | None, number: int, budget: ByteBudget) -> None:
        self._work, self._task, self._earlier = work, task, earlier
        self._number, self._budget = number, budget
        self._data: bytes | None = None
        self._stamp = work.storage.stamp(task.uri)
        self.present = Present(
            config_hash=work.spec.config_hash(task.prompts),
            fingerprint=work.info.fingerprint,
            size=self._stamp.size,
            token=self._stamp.token,
        )
        self.verdict = self._decide()

    def source(self) -> Source:
        """What is known of the file: from its bytes, which are hashed here, or, when it was found unchanged, from its
        record."""
        data = self._data
        if data is not None:
            return Source(self._stamp, len(data), quick_hash(data), self.present.content_hash or content_hash(data))
        known = self._earlier.source if self._earlier is not None else None
        assert known is not None, "a file is left unread only when its record says what it holds"
        return Source(self._stamp, known.size, known.quick_hash, known.content_hash)

    @property
    def was_read(self) -> bool:
        return self._data is not None

    def read(self) -> bytes:
        """All bytes of the file, once there is room for them."""
        if self._data is None:
            self._budget.acquire(self._number, self._stamp.size or 0)
            self._data = self._work.storage.read(self._task.uri, self._work.limits.max_bytes)
            self._budget.hold(self._number, len(self._data))  # the true size, where the server did not tell it
        return self._data

    def _decide(self) -> Verdict:
        prior = self._prior()
        while True:
            verdict = must_redo(prior, self.present, force=self._work.force)
            match verdict.need:
                case None:
                    return verdict
                case Need.QUICK_HASH:
                    found = self._work.storage.quick_hash(self._task.uri)
                    self.present = replace(self.present, quick_hash=found)
                case Need.CONTENT_HASH:
                    self.present = replace(self.present, content_hash=content_hash(self.read()))

    def _prior(self) -> Prior | None:
        match self._earlier:
            case None:
                return None
            case FailureRecord():
                return Prior(True, "", "", None, "", "", "", outputs_present=False)
            case Record() as record:
                return Prior(
                    failed=False,
                    config_hash=record.config_hash,
                    fingerprint=record.engine.fingerprint,
                    size=record.source.size,
                    token=record.source.token,
                    quick_hash=record.source.quick_hash,
                    content_hash=record.source.content_hash,
                    outputs_present=all(self._is_there(one) for one in record.outputs),
                )

    def _is_there(self, output: OutputFile) -> bool:
        uri = join(self._work.spec.output.uri, output.path)
        return self._work.storage.size(uri) == output.bytes
