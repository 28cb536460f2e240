"""Do the table and the queues tell the same story?

A message whose shard is no longer dispatched with that attempt is of no use, and is removed. A shard that was sent
longer than `HEAL_GRACE_S` ago, has not started, and whose message is in no queue, has lost it: it goes back, uncharged,
to its old place in the line. So a Redis that lost everything costs one pass, and while it is away all stays as it is.

The grace is for the way from the commit to the queue, which is milliseconds. The shards are looked up before the
queues: a message that is in no queue by then has been lost or taken, and one that was taken starts, which the take-back
notices.
"""

import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import islice

from controller import ACTOR
from controller.context import MOST_CHANGES, PAGE, Context, Counts
from samjobs.names import Reason, message_id, parse_message_id
from samjobs.store import shards
from samjobs.store.rows import Shard

HEAL_GRACE_S = 5.0

log = logging.getLogger("controller")


def run(ctx: Context) -> Counts:
    """Remove what is of no use, and queue again what was lost."""
    if not ctx.redis_answers():
        return {}
    _watch_eviction(ctx)
    sent = list(_sent(ctx))
    waiting = ctx.queue.waiting()
    counts = {"removed": _remove_useless(ctx, waiting), "requeued": _requeue_lost(ctx, sent, waiting)}
    if counts["requeued"]:
        ctx.look_in_full()
    return counts


def _watch_eviction(ctx: Context) -> None:
    """Warn of a Redis that throws messages away when it is full; once, and again when it has changed."""
    policy = ctx.queue.eviction_unsafe()
    if policy is not None and policy != ctx.unsafe_policy:
        log.warning(
            "redis %s throws keys away when it is full (maxmemory-policy %s): messages are lost and sent again;"
            " set maxmemory-policy noeviction",
            ctx.queue.name,
            policy,
        )
    ctx.unsafe_policy = policy
    ctx.metrics.evicts(policy is not None)


def _sent(ctx: Context) -> Iterator[Shard]:
    """Shards that were sent before the grace and have not started."""
    after = None
    while True:
        with ctx.store.read() as conn:
            page = shards.dispatched(conn, older_than_s=HEAL_GRACE_S, after=after, limit=PAGE)
        yield from page
        if len(page) < PAGE:
            return
        after = page[-1].id


def _remove_useless(ctx: Context, waiting: Mapping[str, str]) -> int:
    attempts = {text: parse_message_id(text) for text in waiting}
    with ctx.store.read() as conn:
        wanted = shards.standing(conn, [attempt for attempt in attempts.values() if attempt is not None])
    useless: dict[str, list[str]] = defaultdict(list)
    for text, attempt in attempts.items():
        if attempt is None or attempt not in wanted:
            useless[waiting[text]].append(text)
    for queue, messages in useless.items():
        texts = iter(messages)
        while some := list(islice(texts, PAGE)):
            ctx.queue.remove(queue, some)
    return sum(map(len, useless.values()))


def _requeue_lost(ctx: Context, sent: list[Shard], waiting: Mapping[str, str]) -> int:
    requeued = 0
    for shard in sent:
        if message_id(shard.id, shard.attempt) in waiting:
            continue
        if requeued >= MOST_CHANGES:
            ctx.more = True
            break
        told = f"its message is in no queue of Redis any more (was in {shard.queue})"
        with ctx.store.begin() as conn:
            requeued += shards.recall(
                conn, shard.id, shard.attempt, reason=Reason.MESSAGE_LOST, message=told, actor=ACTOR
            )
    return requeued
