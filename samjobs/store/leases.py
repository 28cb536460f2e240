"""The right to run a shard: a heartbeat keeps it, and who stopped beating is found here.

Time is the database's alone, so the clocks of workers do not matter. A lease belongs to an attempt and an
incarnation: a restarted worker with the same name does not keep its dead predecessor's leases alive, and whether a
worker is listed in `workers` does not matter either.
"""

from datetime import timedelta
from uuid import UUID

import sqlalchemy as sa

from samjobs.decisions.retry import Verdict
from samjobs.errors import ErrorClass
from samjobs.names import Reason
from samjobs.states import ShardState
from samjobs.store.engine import Connection, as_row, now
from samjobs.store.rows import LeaseAnswer, Shard
from samjobs.store.running import fail, release
from samjobs.store.tables import ACTIVE, in_states, jobs, shards
from samjobs.store.types import db_now

_BEAT = (
    shards.update()
    .where(
        shards.c.id == sa.bindparam("_id"),
        shards.c.attempt == sa.bindparam("_attempt"),
        shards.c.incarnation == sa.bindparam("_incarnation"),
        shards.c.state == ShardState.RUNNING,
    )
    .values(heartbeat_at=db_now())
)
_STANDING = (
    sa.select(shards.c.state, shards.c.attempt, jobs.c.suspend)
    .join_from(shards, jobs, shards.c.job_id == jobs.c.id)
    .where(shards.c.id == sa.bindparam("id"))
)


def heartbeat(conn: Connection, shard_id: UUID, attempt: int, incarnation: UUID) -> LeaseAnswer:
    """Renew the lease and learn whether it is still held, and what the job's owner wishes."""
    row = {"_id": shard_id, "_attempt": attempt, "_incarnation": incarnation}
    held = conn.execute(_BEAT, row).rowcount == 1
    standing = conn.execute(_STANDING, {"id": shard_id}).one_or_none()
    if standing is None:
        return LeaseAnswer.LOST
    if held:
        return LeaseAnswer.SUSPENDED if standing.suspend else LeaseAnswer.HELD
    cancelled = standing.state is ShardState.CANCELLED and standing.attempt == attempt
    return LeaseAnswer.CANCELLED if cancelled else LeaseAnswer.LOST


def at_work(conn: Connection, job_id: UUID | None = None) -> list[Shard]:
    """All shards that somebody took and has not given back, of one job or of all."""
    query = sa.select(shards).where(ACTIVE)
    if job_id is not None:
        query = query.where(shards.c.job_id == job_id)
    return [as_row(Shard, row) for row in conn.execute(query)]


def abandoned(conn: Connection, *, older_than_s: float, after: UUID | None = None, limit: int = 500) -> list[Shard]:
    """Running shards that nobody runs any more, in order of id; give each to `reclaim`.

    Args:
        older_than_s: seconds since the last heartbeat.
        after: id of the last one of the page before. By key, so that rows that cannot be reclaimed starve no others.
    """
    silent = shards.c.heartbeat_at < now(conn) - timedelta(seconds=older_than_s)
    query = sa.select(shards).where(in_states(shards.c.state, [ShardState.RUNNING]), silent)
    if after is not None:
        query = query.where(shards.c.id > after)
    return [as_row(Shard, row) for row in conn.execute(query.order_by(shards.c.id).limit(limit))]


def reclaim(conn: Connection, shard: Shard, verdict: Verdict, *, actor: str = "") -> bool:
    """Take a shard back that `abandoned` or `at_work` gave, if nothing has been heard of it since; else False.

    A dispatched one never ran and goes back uncharged, whatever the verdict.
    """
    if shard.state is ShardState.DISPATCHED:
        return release(conn, shard.id, shard.attempt, reason=Reason.WORKER_GONE, actor=actor)
    silent = shards.c.heartbeat_at == shard.heartbeat_at
    told = f"no heartbeat since {shard.heartbeat_at:%Y-%m-%d %H:%M:%S} UTC from worker {shard.incarnation}"
    return fail(
        conn,
        shard.id,
        shard.attempt,
        verdict,
        error_class=ErrorClass.WORKER,
        error=told,
        actor=actor,
        only_if=[silent],
    )
