"""Which messages wait in vain, because their region has no worker any more?

What is dispatched from now on goes to other regions by itself (`decisions.routing`). This is for what was sent before:
it is taken back, and the dispatch that follows sends it where somebody is. First the row, then the message: should
this process end in between, `heal` removes the message, and a worker that takes it meanwhile finds it of no use.
"""

from collections import defaultdict
from collections.abc import Iterator

from controller import ACTOR
from controller.context import MOST_CHANGES, PAGE, Context, Counts
from controller.steps.dispatch import route_of
from samjobs.decisions.dispatch import View
from samjobs.names import Reason, message_id, queue_of, retry_queue_of
from samjobs.store import shards, views
from samjobs.store.rows import Shard


def run(ctx: Context) -> Counts:
    """Take those messages back."""
    if not ctx.redis_answers():
        return {}
    with ctx.store.begin() as conn:
        view = views.dispatch_view(conn, ctx.limits, alive_within_s=ctx.settings.stale_job_timeout_seconds)
    taken: dict[str, list[str]] = defaultdict(list)
    count = 0
    for shard in _stranded(ctx, view):
        where = route_of(ctx, view, shard)
        if where.reason is not Reason.FAILOVER:
            continue
        with ctx.store.begin() as conn:
            if not shards.recall(
                conn, shard.id, shard.attempt, reason=where.reason, message=where.message, actor=ACTOR
            ):
                continue
        taken[shard.queue or ""].append(message_id(shard.id, shard.attempt))
        count += 1
        if count >= MOST_CHANGES:
            ctx.more = True
            break
    if count:
        ctx.look_in_full()
    for queue, messages in taken.items():
        ctx.queue.remove(queue, messages)
    return {"taken_back": count}


def _stranded(ctx: Context, view: View) -> Iterator[Shard]:
    """Shards that were sent to a region without a worker."""
    for region in view.regions.values():
        if region.ready or not region.dispatched:
            continue
        queues = (queue_of(region.name), retry_queue_of(region.name))
        after = None
        while True:
            with ctx.store.read() as conn:
                page = shards.waiting_in(conn, region.name, queues, after=after, limit=PAGE)
            yield from page
            if len(page) < PAGE:
                break
            after = page[-1].id
