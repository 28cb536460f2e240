"""Who lists a job's images, and who gathers its results: on a cluster one process at a time, its keeper.

A keeper says by `keep` that it is at it; one that has not for long is taken over from, and learns that by its next
write. Jobs with a `submitter` are a local process's own and nobody's here.
"""

from datetime import datetime, timedelta
from uuid import UUID

import sqlalchemy as sa

from samjobs.errors import LeaseLost
from samjobs.states import JobState
from samjobs.store.deliveries import files_ready
from samjobs.store.engine import Connection, as_row, now
from samjobs.store.notify import wake
from samjobs.store.rows import Job
from samjobs.store.tables import UNLISTED, UNPUBLISHED, in_states, jobs

PUBLISH_WITHIN = timedelta(days=1)


def to_list(conn: Connection, *, stale_s: float, limit: int = 100) -> list[Job]:
    """Active jobs whose images nobody lists, oldest first. `keep` one, then list it.

    Args:
        stale_s: seconds after which a keeper that gave no sign of life keeps it no more.
    """
    query = sa.select(jobs).where(UNLISTED, jobs.c.submitter.is_(None), _free(now(conn), stale_s))
    return [as_row(Job, row) for row in conn.execute(query.order_by(jobs.c.created_at).limit(limit))]


def to_publish(conn: Connection, *, stale_s: float, limit: int = 100) -> list[Job]:
    """Jobs that ended within the last day and whose results nobody gathers, oldest end first. `keep` one, then do it.

    Args:
        stale_s: as for `to_list`.
    """
    at = now(conn)
    query = sa.select(jobs).where(awaits_files(at), _free(at, stale_s))
    return [as_row(Job, row) for row in conn.execute(query.order_by(jobs.c.finished_at).limit(limit))]


def awaits_files(at: datetime) -> sa.ColumnElement[bool]:
    """The merged result files of an ended job are still to be written."""
    finished = jobs.c.images_done + jobs.c.images_failed + jobs.c.images_skipped
    return sa.and_(
        UNPUBLISHED,
        jobs.c.finished_at > at - PUBLISH_WITHIN,
        jobs.c.submitter.is_(None),
        sa.or_(sa.not_(in_states(jobs.c.state, [JobState.CANCELLED])), finished > 0),
    )


def _free(at: datetime, stale_s: float) -> sa.ColumnElement[bool]:
    return sa.or_(jobs.c.kept_at.is_(None), jobs.c.kept_at < at - timedelta(seconds=stale_s))


def keep(conn: Connection, job_id: UUID, keeper: UUID, *, stale_s: float) -> bool:
    """Become a job's keeper, or say again that one still is. False if another one is, or nothing is left to do."""
    at = now(conn)
    kept = conn.execute(
        jobs.update()
        .where(
            jobs.c.id == job_id,
            sa.or_(UNLISTED, UNPUBLISHED),
            sa.or_(jobs.c.keeper == keeper, _free(at, stale_s)),
        )
        .values(keeper=keeper, kept_at=at)
    )
    return kept.rowcount == 1


def leave(conn: Connection, job_id: UUID, keeper: UUID) -> bool:
    """Keep a job no more, so that the next one need not wait. False if somebody else keeps it."""
    mine = sa.and_(jobs.c.id == job_id, jobs.c.keeper == keeper)
    return conn.execute(jobs.update().where(mine).values(keeper=None, kept_at=None)).rowcount == 1


def check_keeper(job: Job, keeper: UUID | None) -> None:
    """Refuse who is not, or no longer, the keeper of a locked job; None is nobody's claim and passes.

    Raises:
        LeaseLost: naming the job.
    """
    if keeper is not None and job.keeper != keeper:
        raise LeaseLost(f"job {job.id} was taken over by another process: this one is to leave it alone")


def mark_published(conn: Connection, job_id: UUID, keeper: UUID | None = None) -> bool:
    """Note that the merged result files of an ended job are written; its callback may be told now.

    Args:
        keeper: who gathered them, where somebody keeps the job.

    Returns:
        False if it has not ended, was noted already, or another keeper, or a retry, came in between.
    """
    at = now(conn)
    mine = sa.true() if keeper is None else jobs.c.keeper == keeper
    written = {"published_at": at, "keeper": None, "kept_at": None}
    if conn.execute(jobs.update().where(jobs.c.id == job_id, UNPUBLISHED, mine).values(**written)).rowcount != 1:
        return False
    files_ready(conn, job_id, wake(conn))
    return True
