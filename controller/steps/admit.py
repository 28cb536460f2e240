"""What becomes of a job that was asked for by plain SQL?

Its row is validated as any other request: a job of the same id comes of it, or a refusal that names what is wrong. A
short list of images is put into the table at once; a prefix or a manifest is listed by `expand`.
"""

import logging
from collections import Counter

from controller import ACTOR
from controller.context import MOST_CHANGES, Context, Counts
from samjobs import places
from samjobs.errors import DatabaseUnavailable, InvalidInput, SamjobsError, describe
from samjobs.listing import images_of
from samjobs.spec import JobSpec, parse
from samjobs.storage import Storage
from samjobs.storage.fence import Fence, fence_for
from samjobs.store import Connection, jobs, requests
from samjobs.store.rows import Request

log = logging.getLogger("controller")


def run(ctx: Context) -> Counts:
    """Answer what is asked for, oldest first, each in a transaction of its own."""
    counts = Counter(admitted=0, refused=0)
    while (answer := _answer_next(ctx)) is not None:
        counts[answer] += 1
        if counts.total() >= MOST_CHANGES:
            ctx.more = True
            break
    return counts


def _answer_next(ctx: Context) -> str | None:
    """What became of the oldest request; None when there is none."""
    request: Request | None = None
    try:
        with ctx.store.begin() as conn:
            for request in requests.pending(conn, limit=1):
                _admit(conn, request, fence_for(ctx.settings))
        return None if request is None else "admitted"
    except DatabaseUnavailable:
        raise
    except Exception as error:
        if request is None:
            raise
        if not isinstance(error, SamjobsError):
            # Answered all the same: as the oldest one it would keep all others waiting.
            log.exception("step=admit request=%s failed", request.id)
        refused, why = request, str(error) if isinstance(error, InvalidInput) else describe(error)
    with ctx.store.begin() as conn:
        requests.refuse(conn, refused.id, why)
    return "refused"


def _admit(conn: Connection, request: Request, fence: Fence) -> None:
    spec = places.admitted(parse(JobSpec, request.spec, "spec"), request.tenant, fence)
    submitted = requests.admit(conn, request, spec, actor=ACTOR)
    if submitted.created and spec.images.list is not None:
        with Storage() as storage:
            jobs.add_images(conn, submitted.job_id, [*images_of(spec, storage, Counter())])
        jobs.mark_expanded(conn, submitted.job_id)
