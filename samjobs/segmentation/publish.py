"""What is written for an image, and in which order?

1. a note in the record's place of all files that are there or will be, so that a crash leaves none that nobody knows
2. the files on request
3. the record, whole: only now is the image done, and all that the record names is there
4. files of an earlier run that the record does not name are removed

An image that fails loses its earlier results only when its bytes have changed. When they could not be read, or the
prompt or the engine is at fault, what was found earlier is still true of the photo and stays. Nothing is written once
the lease is lost.
"""

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from samjobs.errors import (
    AccessDenied,
    ErrorClass,
    ImageError,
    InvalidInput,
    LeaseLost,
    ObjectMissing,
    OutputUnwritable,
    SamjobsError,
)
from samjobs.names import Reason
from samjobs.segmentation import masks, records
from samjobs.segmentation.engines.base import Candidates
from samjobs.segmentation.formats import Planned, Scene, plan
from samjobs.segmentation.prompts import least_scores
from samjobs.segmentation.records import (
    AnyRecord,
    Earlier,
    EngineFacts,
    Exif,
    FailureRecord,
    InstanceRecord,
    OutputFile,
    Record,
    SourceFacts,
    instance_records,
)
from samjobs.segmentation.work import RECORD_LIMIT_BYTES, Outcome, Prepared, Source, Task, Work, record_path
from samjobs.spec import Format
from samjobs.states import ImageState
from samjobs.storage import content_hash, join

PROBE = ".samjobs-probe.part"  # named like the other files that listings pass over


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
            return self.refuse(prepared.task, error, prepared.earlier, prepared.source)

    def keep(self, task: Task, record: Record, source: Source) -> Outcome:
        """An image whose results still hold. Its record learns the file's new place and modification token, so that
        the next run need not read the file again."""
        path, data = record_path(task.key), records.dump(record)
        uri = self._work.record_uri(task.key)
        if (record.source.token, record.uri) != (source.stamp.token, task.uri):
            record = record.model_copy(update={"source": _source_record(source), "uri": task.uri})
            data = records.dump(record)
            self._put(path, data)
        return self._outcome(task, ImageState.SKIPPED, Reason.UNCHANGED, source, record, uri, data)

    def refuse(self, task: Task, error: SamjobsError, earlier: Earlier, source: Source | None = None) -> Outcome:
        """An image that failed by itself. A transient error postpones it instead, while there is a next time.

        Where the output place refuses the record's own name, the outcome alone tells.

        Raises:
            SamjobsError: `error` itself, when its class concerns every image; or that the record cannot be written.
        """
        if error.error_class in (ErrorClass.WORKER, ErrorClass.CRITICAL):
            raise error
        outcome = Outcome(task, ImageState.FAILED, Reason.IMAGE_ERROR, source, error=error)
        if error.error_class is ErrorClass.TRANSIENT and not self._work.last_attempt:
            return replace(outcome, state=ImageState.PENDING, reason=Reason.TRANSIENT_ERROR)
        if earlier.result_of is not None and (source is None or source.content_hash == earlier.result_of):
            return outcome
        self._discard(earlier.files)
        record = FailureRecord.of(task.uri, task.key, error, _source_record(source) if source else None)
        with suppress(InvalidInput):
            self._put(record_path(task.key), records.dump(record))
        return outcome

    def earlier(self, task: Task) -> AnyRecord | None:
        """The image's record of an earlier run. One that is not whole counts as none."""
        try:
            return records.load(self._work.storage.read(self._work.record_uri(task.key), RECORD_LIMIT_BYTES))
        except (ObjectMissing, InvalidInput, ImageError):  # ImageError: a folder, or far too large
            return None

    def _publish(self, prepared: Prepared, found: Sequence[Candidates]) -> Outcome:
        started = time.monotonic()
        spec, photo, task = self._work.spec, prepared.photo, prepared.task
        least = least_scores(prepared.asked, spec.mode, spec.thresholds.score)
        selected = masks.select(found, least, spec.thresholds, photo.width, photo.height)
        instances = instance_records(
            selected.instances, [asked.prompt for asked in prepared.asked], [asked.label for asked in prepared.asked]
        )
        scene = Scene(task.key, photo.width, photo.height, instances, spec.classes(), photo.preview)
        selected_at = time.monotonic()
        seconds = prepared.seconds | {"masks": selected_at - started}
        planned = [(form, file) for form in spec.output.formats for file in plan(form, scene)]
        files = frozenset(file.path for _, file in planned)
        if files:
            self._announce(task, files | prepared.earlier.files)
        outputs = tuple(self._write(form, file) for form, file in planned)
        record = self._record(prepared, instances, selected.truncated, seconds, outputs)
        data = records.dump(record)
        uri = self._put(record_path(task.key), data)
        self._discard(prepared.earlier.files - files)
        outcome = self._outcome(task, ImageState.DONE, prepared.reason, prepared.source, record, uri, data)
        return replace(outcome, seconds=seconds | {"write": time.monotonic() - selected_at})

    def _announce(self, task: Task, files: frozenset[str]) -> None:
        """Put a note of `files` in the record's place: a crash before the record must leave neither a record beside
        files of another run nor a file that no record knows."""
        note = FailureRecord(
            uri=task.uri,
            key=task.key,
            error_class=ErrorClass.TRANSIENT,
            error="the run ended while this photo's files were being written; the next run does it again",
            outputs=tuple(sorted(files)),
        )
        self._put(record_path(task.key), records.dump(note))

    def _write(self, form: Format, file: Planned) -> OutputFile:
        data = file.make()
        self._put(file.path, data)
        return OutputFile(format=form, path=file.path, bytes=len(data), hash=content_hash(data), lossy=file.lossy)

    def _record(
        self,
        prepared: Prepared,
        instances: tuple[InstanceRecord, ...],
        truncated: bool,
        seconds: dict[str, float],
        outputs: tuple[OutputFile, ...],
    ) -> Record:
        spec, photo = self._work.spec, prepared.photo
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
            engine=EngineFacts.model_validate(self._work.info, from_attributes=True),
            versions=self._work.info.versions,
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

    def _put(self, path: str, data: bytes) -> str:
        """Write a file below the output place; its uri.

        Raises:
            InvalidInput: this one name is refused there: a folder has it, or it is too long.
            OutputUnwritable: every image would be refused.
            LeaseLost: another worker owns the shard.
        """
        if not self._work.may_publish():
            raise LeaseLost("the shard belongs to another worker now: nothing more is written")
        try:
            uri = join(self._work.spec.output.uri, path)
            self._work.storage.put(uri, data)
        except (AccessDenied, InvalidInput) as error:
            if isinstance(error, InvalidInput) and self._takes_files():
                raise
            # Refused for one image, refused for all: the images must not fail for it.
            raise OutputUnwritable(f"{error}: give another output place, or the right to write there") from error
        return uri

    def _takes_files(self) -> bool:
        """Whether the output place takes a file of an ordinary name."""
        probe = join(self._work.spec.output.uri, PROBE)
        try:
            self._work.storage.put(probe, b"")
            self._work.storage.delete(probe)
        except (AccessDenied, InvalidInput, OutputUnwritable):
            return False
        return True

    def _discard(self, files: frozenset[str]) -> None:
        """Remove files of an earlier run."""
        for path in files:
            with suppress(InvalidInput):  # a folder by now, so not ours
                self._work.storage.delete(join(self._work.spec.output.uri, path))


def _source_record(source: Source) -> SourceFacts:
    return SourceFacts(
        size=source.size,
        token=source.stamp.token,
        quick_hash=source.quick_hash,
        content_hash=source.content_hash,
    )
