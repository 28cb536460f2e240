"""Which queued shards of a job may be claimed now: none while it is suspended, else as many as `parallelism` leaves.

The answer is kept in `shards.held`, so that a claim need not ask it. It is worked out anew from the live rows each
time (no counter that could drift), under the job's lock, by whoever frees a place or adds a shard. A shard that waits
for its retry keeps its place.
"""

import sqlalchemy as sa

from samjobs.store.engine import Connection
from samjobs.store.rows import Job
from samjobs.store.tables import ACTIVE, CLAIMABLE, QUEUED, shards


def starts_held(job: Job) -> bool:
    """Whether a shard of `job` that becomes queued has to wait for `open_window`."""
    return job.suspend or job.spec.parallelism is not None


def close_window(conn: Connection, job: Job) -> None:
    """Hold all queued shards of a locked job."""
    conn.execute(shards.update().where(shards.c.job_id == job.id, CLAIMABLE).values(held=True))


def open_window(conn: Connection, job: Job, *, suspend: bool | None = None) -> None:
    """Let the first held shards of a locked job go, as many as may be at work beside those that are.

    Args:
        suspend: the wish that the caller is about to write, where it is not the row's.
    """
    if job.suspend if suspend is None else suspend:
        return
    held = sa.select(shards.c.id).where(shards.c.job_id == job.id, QUEUED, shards.c.held).order_by(shards.c.index)
    if job.spec.parallelism is not None:
        held = held.limit(max(0, job.spec.parallelism - _open(conn, job)))
    conn.execute(shards.update().where(shards.c.id.in_(held)).values(held=False))


def _open(conn: Connection, job: Job) -> int:
    """Shards at work or free to be claimed: at most `parallelism`, each counted in an index of its own."""
    claimable = sa.select(sa.func.count()).where(shards.c.job_id == job.id, CLAIMABLE)
    active = sa.select(sa.func.count()).where(shards.c.job_id == job.id, ACTIVE)
    count: int = conn.execute(sa.select(claimable.scalar_subquery() + active.scalar_subquery())).scalar_one()
    return count
