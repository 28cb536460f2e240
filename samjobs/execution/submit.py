"""How does a request become rows, on one machine?

An equal job that a live process works on is joined. One that no process works on any more (killed, or left by
`--limit`) is superseded by a new job over the input as it is now; its results are in the output folder and are kept
by their records, so nothing is done twice.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from samjobs.errors import InvalidInput, SamjobsError
from samjobs.execution.local import LocalWorker
from samjobs.inputs import NewImage, check_classes, check_stems, expand
from samjobs.names import Reason
from samjobs.prompt_files import pair, read_boxes, read_points
from samjobs.spec import Format, JobSpec
from samjobs.storage import Storage, redact
from samjobs.storage.paths import WEB_SCHEMES, decode_path, encode_path, scheme_of
from samjobs.store import Store, jobs

BATCH = 1000


@dataclass(frozen=True)
class Submission:
    """What became of a request."""

    job_id: UUID
    joined: bool  # another process works on an equal job already
    images: int
    ignored: Counter[str]  # files that are not inputs, by reason

    @property
    def passed_over(self) -> str:
        """What is not an input, in words; "" for nothing."""
        return _in_words(self.ignored)


def refuse_output(uri: str) -> None:
    """Refuse an output place where nothing can ever be written.

    Args:
        uri: stored uri of the output folder.

    Raises:
        InvalidInput: a web address, or a local path on which a file lies.
    """
    if scheme_of(uri) in WEB_SCHEMES:
        raise InvalidInput(
            f"output {redact(uri)}: http and https can only be read; give a folder, or a URL of s3://, gs://, az:// or"
            " abfs://"
        )
    if scheme_of(uri) is None and (file := _file_in_the_way(Path(decode_path(uri)))) is not None:
        raise InvalidInput(f"output {uri}: {encode_path(file)} is a file; give a folder, which need not exist yet")


def _file_in_the_way(path: Path) -> Path | None:
    for place in (path, *path.parents):
        with suppress(PermissionError):  # what cannot be looked at is told when it is written to
            if place.exists():
                return None if place.is_dir() else place
    return None


def submit(
    store: Store,
    storage: Storage,
    spec: JobSpec,
    worker: LocalWorker,
    *,
    name: str,
    listed: Callable[[int], None] = lambda count: None,
) -> Submission:
    """Queue `spec`, or join the process that works on it.

    Args:
        listed: told how many images were found so far; what it raises withdraws the job.

    Raises:
        InvalidInput: the input holds no image, or a line of a manifest is wrong; nothing stays queued then.
    """
    while True:
        with store.begin() as conn:
            submitted = jobs.submit(conn, spec, name=name, submitter=worker.incarnation)
            job = jobs.get(conn, submitted.job_id)
        assert job is not None, "submit gives the id of a row"
        if submitted.created:
            break
        if worker.at_work_on(job):
            return Submission(job.id, True, job.images_total, Counter())
        with store.begin() as conn:
            jobs.cancel(conn, job.id, reason=Reason.SUPERSEDED, actor="samjobs process")
    ignored: Counter[str] = Counter()
    try:
        count = _add(store, job.id, _images(spec, storage, ignored), listed)
        if count == 0:
            why = f" (passed over: {_in_words(ignored)})" if ignored else ""
            raise InvalidInput(f"no images in {_where(spec)}{why}")
    except BaseException as error:
        _withdraw(store, job.id, error)
        raise
    with store.begin() as conn:
        jobs.mark_expanded(conn, job.id)
    return Submission(job.id, False, count, ignored)


def _images(spec: JobSpec, storage: Storage, ignored: Counter[str]) -> Iterable[NewImage]:
    found: Iterable[NewImage] = expand(spec.images, spec.mode, storage, exclude=spec.output.uri, ignored=ignored)
    if spec.images.prompts_file is not None:
        read = read_boxes if spec.images.boxes is not None else read_points
        own = {
            image: prompts.model_copy(update={"text": spec.prompts.text})
            for image, prompts in read(spec.images.prompts_file, storage).items()
        }
        paired = pair(found, own)
        if paired.left_out:
            ignored["without an entry in the file"] = paired.left_out
        found = paired.images
    found = (_with_prompts(image, spec) for image in found)
    return check_classes(check_stems(found), spec) if Format.YOLO_SEG in spec.output.formats else found


def _with_prompts(image: NewImage, spec: JobSpec) -> NewImage:
    """The image, when it has something to be asked: only a manifest's line can lack it."""
    if image.prompts is None and spec.prompts.empty:
        raise InvalidInput(f"{redact(image.uri)} has no prompts in the manifest, and the job has none for all images")
    return image


def _add(store: Store, job_id: UUID, found: Iterable[NewImage], listed: Callable[[int], None]) -> int:
    count = 0
    images = iter(found)
    while batch := list(itertools.islice(images, BATCH)):
        with store.begin() as conn:
            jobs.add_images(conn, job_id, batch)
        count += len(batch)
        listed(count)
    return count


def _withdraw(store: Store, job_id: UUID, error: BaseException) -> None:
    reason = Reason.INVALID_INPUT if isinstance(error, SamjobsError) else Reason.CANCELLED_BY_USER
    with store.begin() as conn:
        jobs.cancel(conn, job_id, reason=reason, actor="samjobs process")


def _where(spec: JobSpec) -> str:
    return spec.images.prefix or spec.images.manifest or "images.list"


def _in_words(ignored: Counter[str]) -> str:
    """
    >>> _in_words(Counter({"hidden": 2, "not an image": 1}))
    '2 hidden, 1 not an image'
    """
    return ", ".join(f"{count} {reason}" for reason, count in sorted(ignored.items()))
