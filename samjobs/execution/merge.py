"""When all images of a job are seen to: the files that gather their results.

    results.jsonl           one record a line, in input order
    failures.jsonl          one failed image a line, with its reason
    annotations.coco.json   the same results for COCO's tools
    classes.txt             yolo-seg's class names, in the order of its indices
    summary.json            counts

Built in temporary files from the records in the output folder, one page of images at a time, and put whole: a reader
never sees half of one. Doing it twice gives the same files.
"""

import json
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import UUID

from samjobs.errors import ImageError, InvalidInput, ObjectMissing, OutputUnwritable
from samjobs.names import CLASSES_FILE, COCO_FILE, FAILURES_FILE, OUTPUT_MARK, RESULTS_FILE, SUMMARY_FILE
from samjobs.segmentation import records
from samjobs.segmentation.coco import CocoWriter
from samjobs.segmentation.records import AnyRecord, FailureRecord, Record
from samjobs.segmentation.work import RECORD_LIMIT_BYTES, record_path
from samjobs.spec import Format
from samjobs.states import ImageState
from samjobs.storage import Storage, join
from samjobs.store import Store, images, jobs
from samjobs.store.rows import Image, Job

PAGE_PER_THREAD = 4  # images: as many records are in memory at once


def merge(store: Store, storage: Storage, job: Job, *, threads: int) -> None:
    """Write the gathered files of an ended job.

    Raises:
        OutputUnwritable: the output place or the folder of temporary files is full; the records stand, and the next
            run tries again.
    """
    try:
        _merge(store, storage.within(job.tenant), job, threads)
    except OSError as error:
        # Of the temporary files alone: the storage gives errors of its own.
        raise OutputUnwritable(
            f"no room for temporary files in {tempfile.gettempdir()}: {error.strerror}; make some, or set TMPDIR"
        ) from error
    with store.begin() as conn:
        jobs.mark_published(conn, job.id)


def _merge(store: Store, storage: Storage, job: Job, threads: int) -> None:
    root = job.spec.output.uri
    with tempfile.TemporaryDirectory(prefix="samjobs-") as folder, ThreadPoolExecutor(threads, "merge") as pool:
        paths = {name: Path(folder) / name for name in (RESULTS_FILE, FAILURES_FILE, COCO_FILE)}
        with (
            paths[RESULTS_FILE].open("wb") as results,
            paths[FAILURES_FILE].open("wb") as failures,
            paths[COCO_FILE].open("w", encoding="utf-8") as coco_file,
            CocoWriter(coco_file) as coco,
        ):
            for page in _pages(store, job.id, PAGE_PER_THREAD * threads):
                for record in pool.map(lambda image: _record(storage, root, image), page):
                    if isinstance(record, Record):
                        results.write(records.dump(record))
                        coco.add(record)
                    elif record is not None:
                        failures.write(records.dump(record))
        storage.put(join(root, OUTPUT_MARK), b"")
        for name, path in paths.items():
            storage.put_file(join(root, name), path)
    if Format.YOLO_SEG in job.spec.output.formats:
        storage.put(join(root, CLASSES_FILE), "".join(f"{name}\n" for name in job.spec.classes()).encode())
    storage.put(join(root, SUMMARY_FILE), _summary(job))


def _pages(store: Store, job_id: UUID, size: int) -> Iterator[list[Image]]:
    last = -1
    while True:
        with store.read() as conn:
            page = images.iterate(conn, job_id, after_index=last, limit=size)
        if not page:
            return
        yield page
        last = page[-1].index


def _record(storage: Storage, root: str, image: Image) -> AnyRecord | None:
    """The record of an image that was seen to. A failure is told by the table where the record does not: it may be
    the one of an earlier run, kept because the photo itself is not at fault, or have vanished."""
    if image.state is ImageState.PENDING:
        return None
    try:
        record = records.load(storage.read(join(root, record_path(image.key)), RECORD_LIMIT_BYTES))
    except (ObjectMissing, InvalidInput, ImageError) as error:  # ImageError: a folder has its name
        return _failure(image, error)
    if image.state is ImageState.FAILED and isinstance(record, Record):
        return _failure(image, ImageError("failed"))
    return record


def _failure(image: Image, error: Exception) -> FailureRecord:
    told = FailureRecord.of(image.uri, image.key, error)
    if image.error is None or image.error_class is None:
        return told
    return told.model_copy(update={"error": image.error, "error_class": image.error_class})


def _summary(job: Job) -> bytes:
    counts = {
        "job": str(job.id),
        "state": job.state.value,
        "images": job.images_total,
        "processed": job.images_done,
        "unchanged": job.images_skipped,
        "failed": job.images_failed,
        "finishedAt": job.finished_at.isoformat() if job.finished_at else None,
    }
    return (json.dumps(counts, indent=2) + "\n").encode()
