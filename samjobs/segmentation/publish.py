"""What is written for an image, and in which order?

Files on request first, the record last and whole: an image counts as done only when its record is there, and then
everything that the record names is there too. Nothing is written once the lease is lost.
"""

import time
from collections.abc import Sequence
from dataclasses import replace

from samjobs.errors import (
    AccessDenied,
    ErrorClass,
    InvalidInput,
    LeaseLost,
    ObjectMissing,
    OutputUnwritable,
    PromptError,
    SamjobsError,
)
from samjobs.names import Reason
from samjobs.segmentation import masks, records
from samjobs.segmentation.engines.base import Candidates
from samjobs.segmentation.formats import Rendered, Scene, render
from samjobs.segmentation.prompts import least_scores
from samjobs.segmentation.records import (
    AnyRecord,
    EngineFacts,
    Exif,
    FailureRecord,
    InstanceRecord,
    OutputFile,
    Record,
    SourceFacts,
    instance_records,
)
from samjobs.segmentation.work import RECORD_LIMIT_BYTES, Outcome, Prepared, Source, Task, Work
from samjobs.spec import Format
from samjobs.states import ImageState
from samjobs.storage import content_hash, join


class Publisher:
    """The last stage of one run. Used by several threads at once."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def publish(self, prepared: Prepared, found: Sequence[Candidates]) -> Outcome:
        """Masks, files and record of a segmented image.

        Raises:
            SamjobsError: of a class that concerns every image.
        """
        try:
            return self._publish(prepared, found)
        except SamjobsError as error:
            return self.refuse(prepared.task, error, prepared.source, prepared.seconds)

    def keep(self, task: Task, record: Record, source: Source) -> Outcome:
        """An image whose results still hold. A record with an old modification token gets the new one, so that the
        next run need not read the file again."""
        uri, data = self._work.record_uri(task.key), records.dump(record)
        if record.source.token != source.stamp.token:
            record = record.model_copy(update={"source": _source_record(source)})
            data = records.dump(record)
            self._put(uri, data)
        return self._outcome(task, ImageState.SKIPPED, Reason.UNCHANGED, source, record, uri, data)

    def refuse(
        self, task: Task, error: SamjobsError, source: Source | None = None, seconds: dict[str, float] | None = None
    ) -> Outcome:
        """An image that failed by itself: its record says why. A transient error postpones it instead, while there
        is a next time.

        Raises:
            SamjobsError: `error` itself, when its class concerns every image; or that the record cannot be written.
        """
        if error.error_class in (ErrorClass.WORKER, ErrorClass.CRITICAL):
            raise error
        outcome = Outcome(task, ImageState.FAILED, Reason.IMAGE_ERROR, source, error=error, seconds=seconds or {})
        if error.error_class is ErrorClass.TRANSIENT and not self._work.last_attempt:
            return replace(outcome, state=ImageState.PENDING, reason=Reason.TRANSIENT_ERROR)
        record = FailureRecord.of(task.uri, task.key, error, _source_record(source) if source else None)
        self._discard(self.earlier(task), keeping=())
        self._put(self._work.record_uri(task.key), records.dump(record))
        return outcome

    def earlier(self, task: Task) -> AnyRecord | None:
        """The image's record of an earlier run. One that is not whole counts as none."""
        try:
            return records.load(self._work.storage.read(self._work.record_uri(task.key), RECORD_LIMIT_BYTES))
        except (ObjectMissing, InvalidInput):
            return None

    def _publish(self, prepared: Prepared, found: Sequence[Candidates]) -> Outcome:
        started = time.monotonic()
        spec, photo, task = self._work.spec, prepared.photo, prepared.task
        least = least_scores(prepared.asked, spec.mode, spec.thresholds.score)
        selected = masks.select(found, least, spec.thresholds, photo.width, photo.height, self._work.strip_pixels)
        instances = instance_records(
            selected.instances, [asked.prompt for asked in prepared.asked], [asked.label for asked in prepared.asked]
        )
        self._check_classes([asked.label for asked in prepared.asked])
        scene = Scene(task.key, photo.width, photo.height, instances, spec.classes(), photo.preview)
        writing = time.monotonic()
        earlier = self._withdraw(task)
        outputs = tuple(self._write(form, one) for form in spec.output.formats for one in render(form, scene))
        seconds = prepared.seconds | {"masks": writing - started}
        record = self._record(prepared, instances, selected.truncated, seconds, outputs)
        uri, data = self._work.record_uri(task.key), records.dump(record)
        self._put(uri, data)
        self._discard(earlier, keeping=outputs)
        outcome = self._outcome(task, ImageState.DONE, prepared.reason, prepared.source, record, uri, data)
        return replace(outcome, seconds=seconds | {"publish": time.monotonic() - writing})

    def _withdraw(self, task: Task) -> AnyRecord | None:
        """Take back the earlier record before the files that it names are overwritten: a crash in between must not
        leave a record beside files of another run."""
        earlier = self.earlier(task)
        if isinstance(earlier, Record) and earlier.outputs and self._work.may_publish():
            self._work.storage.delete(self._work.record_uri(task.key))
        return earlier

    def _write(self, form: Format, one: Rendered) -> OutputFile:
        self._put(join(self._work.spec.output.uri, one.path), one.data)
        return OutputFile(format=form, path=one.path, bytes=len(one.data), hash=content_hash(one.data), lossy=one.lossy)

    def _check_classes(self, labels: Sequence[str]) -> None:
        """YOLO's class indices must mean the same in every image."""
        if Format.YOLO_SEG not in self._work.spec.output.formats:
            return
        unknown = sorted(set(labels) - set(self._work.spec.classes()))
        if unknown:
            raise PromptError(
                f"label {unknown[0]!r} is no class of this job: yolo-seg needs all of them in output.classes"
            )

    def _record(
        self,
        prepared: Prepared,
        instances: tuple[InstanceRecord, ...],
        truncated: bool,
        seconds: dict[str, float],
        outputs: tuple[OutputFile, ...],
    ) -> Record:
        spec, photo, info = self._work.spec, prepared.photo, self._work.info
        return Record(
            uri=prepared.task.uri,
            key=prepared.task.key,
            width=photo.width,
            height=photo.height,
            exif=Exif(orientation=photo.exif_orientation),
            format=photo.format,
            source_mode=photo.source_mode,
            notes=photo.notes,
            source=_source_record(prepared.source),
            config_hash=prepared.config_hash,
            mode=spec.mode,
            prompts=spec.prompts_for(prepared.task.prompts),
            thresholds=spec.thresholds,
            engine=EngineFacts(
                name=info.name,
                model=info.model,
                revision=info.revision,
                fingerprint=info.fingerprint,
                device=info.device,
                dtype=info.dtype,
                note=info.note,
            ),
            versions=info.versions,
            instances=instances,
            truncated=truncated,
            timings_s={stage: round(spent, 6) for stage, spent in seconds.items()},
            outputs=outputs,
        )

    def _outcome(
        self, task: Task, state: ImageState, reason: Reason, source: Source, record: Record, uri: str, data: bytes
    ) -> Outcome:
        return Outcome(
            task=task,
            state=state,
            reason=reason,
            source=source,
            width=record.width,
            height=record.height,
            instances=len(record.instances),
            truncated=record.truncated,
            output_uri=uri,
            output_hash=content_hash(data),
        )

    def _put(self, uri: str, data: bytes) -> None:
        if not self._work.may_publish():
            raise LeaseLost("the shard belongs to another worker now: nothing more is written")
        try:
            self._work.storage.put(uri, data)
        except (AccessDenied, InvalidInput) as error:
            # Refused for one image, refused for all: the images must not fail for it.
            raise OutputUnwritable(f"{error}: give another output place, or the right to write there") from error

    def _discard(self, earlier: AnyRecord | None, keeping: Sequence[OutputFile]) -> None:
        """Remove files of the earlier record that the new one does not name."""
        if not isinstance(earlier, Record):
            return
        kept = {one.path for one in keeping}
        for one in earlier.outputs:
            if one.path not in kept:
                self._work.storage.delete(join(self._work.spec.output.uri, one.path))


def _source_record(source: Source) -> SourceFacts:
    return SourceFacts(
        size=source.size,
        token=source.stamp.token,
        quick_hash=source.quick_hash,
        content_hash=source.content_hash,
    )
