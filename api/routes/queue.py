"""The queue, now and lately, and who works on it."""

from typing import Annotated

from fastapi import APIRouter, Path, Query

from api.access.caller import Caller, Forbidden, Verb
from api.context import Asking, Context, Here
from api.queue_models import (
    Pool,
    Pools,
    QueueHistory,
    QueueSample,
    QueueStatus,
    Region,
    Worker,
    WorkerCounts,
    Workers,
    regions_of,
)
from api.sampling import EVERY_S
from samjobs.spec import Name
from samjobs.store import now, tenancy

router = APIRouter(tags=["queue"])

Tenant = Annotated[Name | None, Query(description="Count this tenant's alone.")]


@router.get("/queue/status")
def status(context: Here, caller: Asking, tenant: Tenant = None) -> QueueStatus:
    """What waits and what is at work, by region: of all, for who may see that; else of your own tenant."""
    return _status(context, caller, tenant)


@router.get("/queue/status/{region}")
def status_of_region(
    context: Here,
    caller: Asking,
    region: Annotated[Name, Path(description="A region; one that nobody knows is empty.")],
    tenant: Tenant = None,
) -> Region:
    """The same of one region."""
    whole = _status(context, caller, tenant)
    here = [one for one in whole.regions if one.region == region]
    seen_whole = tenant is None and context.access.allows(caller, Verb.ADMIN, None)
    nobody = WorkerCounts(loading=0, ready=0, busy=0, draining=0) if seen_whole else None
    return here[0] if here else Region.of(region, None, nobody)


def _status(context: Context, caller: Caller, tenant: str | None) -> QueueStatus:
    if tenant is None and context.access.allows(caller, Verb.ADMIN, None):
        picture = context.samples.now()
        return QueueStatus(at=picture.at, regions=regions_of(picture), jobs=picture.jobs)
    tenants = context.reach(caller, Verb.LIST, tenant)
    if tenants is None:
        raise Forbidden(f"{caller.name} may not see the counts of all tenants: name one, by ?tenant=…")
    with context.store.read() as conn:
        counted = tenancy.regions(conn, tenants)
        return QueueStatus(
            at=now(conn),
            regions=[Region.of(one.region, one, None) for one in counted],
            jobs=tenancy.active_jobs(conn, tenants),
        )


@router.get("/queue/history")
def history(context: Here, caller: Asking, region: Annotated[Name | None, Query()] = None) -> QueueHistory:
    """The queue over the last hour, as this process saw it; of a region, or of all together."""
    context.require(caller, Verb.ADMIN, None)
    samples = [QueueSample.of(one) for one in context.samples.kept(region)]
    return QueueHistory(since=samples[0].at if samples else None, every_seconds=EVERY_S, samples=samples)


@router.get("/api/v1/workers")
def workers(context: Here, caller: Asking, region: Annotated[Name | None, Query()] = None) -> Workers:
    """The worker processes that are alive, oldest first."""
    context.require(caller, Verb.ADMIN, None)
    return Workers(items=[Worker.of(one) for one in context.client.workers(region=region)])


@router.get("/api/v1/pools")
def pools(context: Here, caller: Asking) -> Pools:
    """The pools of workers, each with why it has as many as it has."""
    context.require(caller, Verb.ADMIN, None)
    return Pools(items=[Pool.of(one) for one in context.client.pools()])
