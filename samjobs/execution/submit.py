"""How does a request become rows, on one machine?

An equal job that a live process works on is joined. One that no process works on any more (killed, or left by
`--limit`) is superseded by a new job over the input as it is now; its results are in the output folder and are kept
by their records, so nothing is done twice.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from uuid import UUID

from samjobs.errors import SamjobsError
from samjobs.execution.local import LocalWorker
from samjobs.inputs import NewImage
from samjobs.listing import images_of, in_words, nothing_found
from samjobs.names import Reason
from samjobs.spec import JobSpec
from samjobs.storage import Storage
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
        return in_words(self.ignored)


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
        count = _add(store, job.id, images_of(spec, storage, ignored), listed)
        if count == 0:
            raise nothing_found(spec, ignored)
    except BaseException as error:
        _withdraw(store, job.id, error)
        raise
    with store.begin() as conn:
        jobs.mark_expanded(conn, job.id)
    return Submission(job.id, False, count, ignored)


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
