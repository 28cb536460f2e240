"""Who am I to this server, and is it well?"""

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse

from api.access.caller import Verb
from api.context import Asking, Here
from api.queue_models import Health, Me
from samjobs.spec import Name

router = APIRouter(tags=["you and this server"])


@router.get("/api/v1/me")
def me(
    context: Here,
    caller: Asking,
    tenant: Annotated[Name | None, Query(description="One more tenant of which `verbs` is to tell.")] = None,
) -> Me:
    """What you are called here, where you are at home, and what you may do."""
    tenants = caller.tenants()

    def verbs(tenant: str | None) -> list[str]:
        return [verb.value for verb in Verb if context.access.allows(caller, verb, tenant)]

    mine = sorted(tenants or ())
    return Me(
        name=caller.name,
        tenants=None if tenants is None else mine,
        everywhere=verbs(None),
        verbs={one: verbs(one) for one in (*mine, *([tenant] if tenant else []))},
    )


@router.get("/healthz")
async def healthz() -> Health:  # async: it needs none of the threads, which may all wait for the database
    """Whether this process answers."""
    return Health(status="ok")


@router.get("/readyz", responses={503: {"model": Health, "description": "Not now, and why not."}})
def readyz(context: Here) -> JSONResponse:
    """Whether the database answers and is of this version."""
    why_not = context.readiness.why_not()
    return JSONResponse({"status": why_not or "ok"}, 503 if why_not else 200)
