"""The dead list, and what this process is."""

from collections.abc import Callable, Sequence
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query

from api import cursors
from api.access.caller import Caller, Verb
from api.bodies import Body, parsed
from api.context import Asking, Context, Here
from api.models import DeadDone, DeadOrder, DeadShard, Listing, RefusedJob
from api.openapi import body_schema
from api.queue_models import RuntimeStats
from api.routes.jobs import LARGEST, Cursor
from api.stats import stats_of
from samjobs.client import Client
from samjobs.errors import InvalidInput
from samjobs.spec import Name
from samjobs.store import pages

router = APIRouter(prefix="/admin", tags=["administration"])


@router.get("/runtime/stats")
def runtime_stats(context: Here, caller: Asking) -> RuntimeStats:
    """What this process is and has, and how large the database is. Nothing is counted for it."""
    context.require(caller, Verb.ADMIN, None)
    return stats_of(context)


@router.get("/queue-dead")
def dead(
    context: Here,
    caller: Asking,
    tenant: Annotated[Name | None, Query(description="Left out: all that you may see.")] = None,
    limit: Annotated[int, Query(ge=1, le=LARGEST)] = 50,
    cursor: Cursor = None,
) -> Listing[DeadShard]:
    """Shards that wait for a person, with their last error."""
    tenants = context.reach(caller, Verb.LIST, tenant)
    after = None if cursor is None else cursors.read_id(cursor)
    with context.store.read() as conn:
        page = pages.dead_page(conn, tenants=tenants, after=after, limit=limit)
    return Listing(
        items=[DeadShard.of(shard, tenant=shard.tenant, job_name=name) for shard, name in page.items],
        next_cursor=None if page.after is None else cursors.of_id(page.after),
    )


@router.post("/queue-dead/retry", openapi_extra=body_schema(DeadOrder))
def retry(context: Here, caller: Asking, body: Body) -> DeadDone:
    """Put dead shards back to work, their failures forgiven."""

    def act(client: Client, job_id: UUID) -> int:
        return client.retry(job_id, what="dead").shards

    return _done(context, caller, body, Verb.RETRY, act)


@router.post("/queue-dead/purge", openapi_extra=body_schema(DeadOrder))
def purge(context: Here, caller: Asking, body: Body) -> DeadDone:
    """Give dead shards up for good; their jobs stay, failed."""
    return _done(context, caller, body, Verb.PURGE, Client.purge)


def _done(context: Context, caller: Caller, body: bytes, verb: Verb, act: Callable[[Client, UUID], int]) -> DeadDone:
    """All is judged before anything is done. A job that cannot be changed keeps none of the others."""
    order = parsed(DeadOrder, body)
    job_ids, more = _chosen(context, caller, order, verb)
    client, jobs, shards, refused = context.acting(caller), 0, 0, []
    for job_id in job_ids:
        try:
            moved = act(client, job_id)
        except InvalidInput as error:
            refused.append(RefusedJob(job_id=job_id, detail=str(error)))
        else:
            jobs += moved > 0
            shards += moved
    # Where nothing moved, the same would be chosen again, and nothing would move again.
    return DeadDone(jobs=jobs, shards=shards, more=more and shards > 0, refused=refused)


def _chosen(context: Context, caller: Caller, order: DeadOrder, verb: Verb) -> tuple[Sequence[UUID], bool]:
    """The jobs, each once, and whether the tenant has more with dead shards."""
    if order.job_ids is not None:
        chosen = list(dict.fromkeys(order.job_ids))
        for job_id in chosen:
            context.seen(caller, job_id, verb)
        return chosen, False
    assert order.tenant is not None, "one of the two is there"
    context.require(caller, verb, order.tenant)
    with context.store.read() as conn:
        page = pages.dead_page(conn, tenants={order.tenant}, limit=LARGEST)
    return list(dict.fromkeys(shard.job_id for shard, _ in page.items)), page.after is not None
