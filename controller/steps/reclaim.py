"""Which running shards has their worker left? Those whose heartbeat is older than the lease.

Back to the queue with one more failure and a backoff, or dead, as `decisions.retry` says. The update checks once more
that nothing has been heard meanwhile; a worker that comes back finds that its lease is another's.
"""

import random
from collections.abc import Iterator

from controller import ACTOR
from controller.context import MOST_CHANGES, PAGE, Context, Counts
from samjobs.decisions.retry import after_failure
from samjobs.errors import ErrorClass
from samjobs.states import ShardState
from samjobs.store import jobs, shards
from samjobs.store.rows import Shard


def run(ctx: Context) -> Counts:
    """Take them back, one by one."""
    counts = {"requeued": 0, "dead": 0}
    for shard in _abandoned(ctx):
        became = _take_back(ctx, shard)
        if became is not None:
            counts["dead" if became is ShardState.DEAD else "requeued"] += 1
        if sum(counts.values()) >= MOST_CHANGES:
            ctx.more = True
            break
    return counts


def _abandoned(ctx: Context) -> Iterator[Shard]:
    """By key, so that what cannot be taken back starves nothing behind it."""
    after = None
    while True:
        with ctx.store.read() as conn:
            page = shards.abandoned(conn, older_than_s=ctx.settings.stale_job_timeout_seconds, after=after, limit=PAGE)
        yield from page
        if len(page) < PAGE:
            return
        after = page[-1].id


def _take_back(ctx: Context, shard: Shard) -> ShardState | None:
    """What the shard became; None when it had been heard of after all."""
    with ctx.store.begin() as conn:
        job = jobs.get(conn, shard.job_id)
        if job is None:
            return None
        verdict = after_failure(ErrorClass.WORKER, shard.failures, job.spec.retry_policy, random.random())
        return verdict.state if shards.reclaim(conn, shard, verdict, actor=ACTOR) else None
