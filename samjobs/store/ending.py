"""Ending a job before its work is done: by a wish (cancel), or because it can or may not go on (stop)."""

from datetime import timedelta
from uuid import UUID

import sqlalchemy as sa

from samjobs.decisions.lifecycle import FAILURES
from samjobs.names import Reason
from samjobs.states import JOB_TERMINAL, ShardState
from samjobs.store.engine import Connection, as_row, now
from samjobs.store.notify import wake
from samjobs.store.rows import Job
from samjobs.store.tables import ACTIVE_JOB, OVERDUE, RUNNING, jobs, shards, workers
from samjobs.store.transitions import Move, Why, lock_job, move_shards, settle_job


def cancel(conn: Connection, job_id: UUID, *, reason: Reason = Reason.CANCELLED_BY_USER, actor: str) -> bool:
    """End a job now: all its open and dead shards become cancelled. False if it had ended already.

    A running worker learns it by its next heartbeat; what it still writes is refused by the fence.

    Raises:
        InvalidInput: no such job.
    """
    return _end(conn, job_id, reason, "", actor)


def stop(conn: Connection, job_id: UUID, *, reason: Reason, message: str = "", actor: str) -> bool:
    """End an active job as failed, its shards as by `cancel`. False if it had ended already.

    Args:
        reason: one of `decisions.lifecycle.FAILURES`.
        message: becomes the job's error; left out, the error says how far it came.

    Raises:
        InvalidInput: no such job.
    """
    assert reason in FAILURES, f"{reason} does not fail a job"
    return _end(conn, job_id, reason, message, actor)


def _end(conn: Connection, job_id: UUID, reason: Reason, message: str, actor: str) -> bool:
    job = lock_job(conn, job_id)
    if job.state in JOB_TERMINAL:
        return False
    why = Why(reason, actor, wake(conn))
    # In the order of a shard's life: one that a claim or a start moves on meanwhile is met at the next state.
    cancelled = dict.fromkeys((ShardState.QUEUED, ShardState.DISPATCHED, ShardState.RUNNING, ShardState.DEAD), 0)
    for state in cancelled:
        cancelled[state] = move_shards(conn, job, Move(state, ShardState.CANCELLED, why, {"finished_at": why.at}))
    counts = {"shards_cancelled": sum(cancelled.values()), "shards_dead": -cancelled[ShardState.DEAD]}
    settle_job(conn, job, why, counts=counts, message=message, cancel_reason=reason)
    return True


def overdue(conn: Connection, *, limit: int = 100) -> list[Job]:
    """Active jobs past their deadline, the longest overdue first."""
    query = sa.select(jobs).where(OVERDUE, jobs.c.deadline_at <= now(conn)).order_by(jobs.c.deadline_at).limit(limit)
    return [as_row(Job, row) for row in conn.execute(query)]


def silent(conn: Connection, *, timeout_s: float, limit: int = 100) -> list[Job]:
    """Active jobs of which nothing was heard for `timeout_s`, oldest first.

    What counts: the job's own signs of life (`alive_at`), and the last image that any listed worker of its region
    committed: a job that waits behind others that move is well. A job with a running shard is never silent: the shard's
    lease judges that. Nor is one that is suspended, or whose images are not all listed: whoever lists gives it up.
    """
    past = now(conn) - timedelta(seconds=timeout_s)
    moving = sa.exists().where(workers.c.region == jobs.c.region, workers.c.progressed_at >= past)
    running = sa.exists().where(shards.c.job_id == jobs.c.id, RUNNING)
    query = sa.select(jobs).where(
        ACTIVE_JOB,
        sa.not_(jobs.c.suspend),
        jobs.c.alive_at < past,
        jobs.c.expanded_at.is_not(None),
        sa.not_(moving),
        sa.not_(running),
    )
    return [as_row(Job, row) for row in conn.execute(query.order_by(jobs.c.created_at).limit(limit))]
