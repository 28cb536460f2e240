"""Forgetting jobs that have ended: their rows go, their results stay where they are."""

from datetime import timedelta
from uuid import UUID

import sqlalchemy as sa

from samjobs.errors import InvalidInput
from samjobs.states import JOB_TERMINAL
from samjobs.store.engine import Connection, now
from samjobs.store.keeping import awaits_files
from samjobs.store.tables import deliveries, events, images, jobs, shards
from samjobs.store.transitions import lock_job

# Longer than an operator is away, who deletes the objects.
OBJECT_GRACE = timedelta(days=1)

# Children first. Each with what orders its rows within the job, so that a batch is one run of an index.
_CHILDREN = (
    (deliveries, deliveries.c.id),
    (events, events.c.id),
    (images, images.c.index),
    (shards, shards.c.index),
)


def delete(conn: Connection, job_id: UUID) -> None:
    """Forget one job in this transaction, whatever its size; `prune_finished` does it in small ones.

    Raises:
        InvalidInput: no such job, or one that has not ended.
    """
    job = lock_job(conn, job_id)
    if job.state not in JOB_TERMINAL:
        raise InvalidInput(f"job {job_id} is {job.state.value}: cancel it before deleting it")
    for table, _ in _CHILDREN:
        conn.execute(table.delete().where(table.c.job_id == job_id))
    conn.execute(jobs.delete().where(jobs.c.id == job_id))


def prune_finished(conn: Connection, *, limit: int = 1000) -> int:
    """Forget rows of one job that is past its `ttlSecondsAfterFinished`: at most `limit`, then the job itself.

    One whose merged files are still to be written, or whose callback is still to be told, is left for later. One with
    an object in front of it stays OBJECT_GRACE longer: the object goes first, since one without a row is a new wish.

    Call it in a transaction each until it returns 0, the number of rows that went. Two callers never wait for each
    other: the second takes another job.
    """
    at = now(conn)
    untold = sa.exists().where(deliveries.c.job_id == jobs.c.id, deliveries.c.due_at.is_not(None))
    expired = (
        sa.select(jobs.c.id)
        .where(jobs.c.expires_at <= at, sa.not_(awaits_files(at)), sa.not_(untold))
        .where(sa.or_(jobs.c.uid.is_(None), jobs.c.expires_at <= at - OBJECT_GRACE))
        .order_by(jobs.c.expires_at)
        .limit(1)
        .with_for_update(skip_locked=True)
    )
    job_id = conn.execute(expired).scalar_one_or_none()
    if job_id is None:
        return 0
    gone = 0
    for table, place in _CHILDREN:
        batch = sa.select(place).where(table.c.job_id == job_id).order_by(place).limit(limit - gone)
        gone += conn.execute(table.delete().where(table.c.job_id == job_id, place.in_(batch))).rowcount
        if gone >= limit:
            return gone
    conn.execute(jobs.delete().where(jobs.c.id == job_id))
    return gone + 1
