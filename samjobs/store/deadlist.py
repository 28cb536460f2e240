"""The dead list: shards that wait for a person, to be retried (`jobs.retry_failed`) or purged."""

from uuid import UUID

import sqlalchemy as sa

from samjobs.names import Reason
from samjobs.states import ShardState
from samjobs.store.engine import Connection, as_row
from samjobs.store.notify import wake
from samjobs.store.rows import Shard
from samjobs.store.tables import in_states, shards
from samjobs.store.transitions import Move, Why, lock_job, move_shards, settle_job


def dead(conn: Connection, *, tenant: str | None = None, after: UUID | None = None, limit: int = 100) -> list[Shard]:
    """Dead shards in order of id, of one tenant or of all; `after` is the last one of the page before."""
    query = sa.select(shards).where(in_states(shards.c.state, [ShardState.DEAD])).order_by(shards.c.id).limit(limit)
    if tenant is not None:
        query = query.where(shards.c.tenant == tenant)
    if after is not None:
        query = query.where(shards.c.id > after)
    return [as_row(Shard, row) for row in conn.execute(query)]


def purge_dead(conn: Connection, job_id: UUID, *, actor: str) -> int:
    """Give a job's dead shards up: dead → cancelled. How many there were. The job stays, or will end, failed.

    Raises:
        InvalidInput: no such job.
    """
    job = lock_job(conn, job_id)
    why = Why(Reason.PURGED_BY_USER, actor, wake(conn))
    purged = move_shards(conn, job, Move(ShardState.DEAD, ShardState.CANCELLED, why, {"finished_at": why.at}))
    if purged:
        settle_job(conn, job, why, counts={"shards_dead": -purged, "shards_cancelled": purged})
    return purged
