"""Which shards go to which queues now?

One look at the table, `decisions.dispatch` says how many from whom, and the rows are claimed in the same transaction;
only when that is committed are the messages pushed. A crash in between leaves rows without a message, and so does a
push that fails: `heal` finds both. While Redis is known to be away nothing is claimed at all: what stays queued is
still sorted by priority when it is back.
"""

from collections import Counter
from dataclasses import replace

from controller import ACTOR
from controller.context import Context, Counts
from samjobs.decisions.dispatch import Plan, View, plan
from samjobs.decisions.routing import Route, Standing, queues, route
from samjobs.names import message_id
from samjobs.store import shards, views
from samjobs.store.rows import Shard

# Looks of one pass: more than one when rows of the plan were locked by somebody, who may be done with them now.
_MOST_ROUNDS = 3


def run(ctx: Context) -> Counts:
    """Fill the queues up."""
    counts: Counter[str] = Counter(sent=0)
    if not ctx.redis_answers():
        return counts
    for _ in range(_MOST_ROUNDS):
        planned, claimed = _claim(ctx)
        if claimed:
            ctx.queue.push([(shard.queue or "", message_id(shard.id, shard.attempt)) for shard in claimed])
            counts["sent"] += len(claimed)
            # Only now: whoever takes them need not wait for it.
            ctx.metrics.waited(_waited_s(shard) for shard in claimed)
        if len(claimed) == sum(grant.count for grant in planned.grants):
            break
    counts.update(f"refused_{refusal.reason.value}" for refusal in planned.refusals)
    return counts


def _claim(ctx: Context) -> tuple[Plan, list[Shard]]:
    with ctx.store.begin() as conn:
        view = views.dispatch_view(
            conn, ctx.limits, alive_within_s=ctx.settings.stale_job_timeout_seconds, heads=ctx.heads
        )
        rate, minute = ctx.limits.tenant_rate_per_minute, int(view.at.timestamp() // 60)
        if rate is not None:
            view = replace(view, minute_left=ctx.queue.minute_left(view.tenants, rate, minute))
        planned = plan(view)
        claimed: list[Shard] = []
        for left, grant in zip(reversed(range(len(planned.grants))), planned.grants, strict=True):
            where = queues(_standing(ctx, view, grant.lane.region))
            last = left == 0 and rate is None
            claimed += shards.claim_lane(
                conn, grant.lane, limit=grant.count, at=view.at, queues=where, actor=ACTOR, last=last
            )
        if rate is not None and claimed:
            # Before the commit, which lets the next controller look: it is to see what is left.
            ctx.queue.spend(Counter(shard.tenant for shard in claimed), minute)
    return planned, claimed


def _waited_s(shard: Shard) -> float:
    return 0.0 if shard.dispatched_at is None else (shard.dispatched_at - shard.available_at).total_seconds()


def route_of(ctx: Context, view: View, shard: Shard) -> Route:
    """Where a shard waits for its worker, and why there, as the regions are now."""
    waited_s = (view.at - shard.available_at).total_seconds()
    return route(shard.failures, _standing(ctx, view, shard.region), waited_s=waited_s)


def _standing(ctx: Context, view: View, name: str) -> Standing:
    region = view.region(name)
    return Standing(
        name,
        ready=region.ready,
        silent_for_s=region.silent_for_s,
        others_ready=sum(other.ready for other in view.regions.values() if other.name != name),
        failover_after_s=ctx.settings.failover_after_seconds,
    )
