"""A job's progress as server-sent events."""

import anyio.to_thread
from fastapi import APIRouter
from fastapi.responses import StreamingResponse

from api.access.caller import Verb
from api.context import Asking, Here, Token
from api.models import Job
from api.problems import RETRY_AFTER_S, Refused
from api.routes.jobs import FoundJob
from api.sse import stream
from samjobs.errors import SamjobsError
from samjobs.store.rows import Job as Row

router = APIRouter(prefix="/api/v1/jobs/{jobId}", tags=["jobs"])

# Of each event: `data` is JSON in a string.
EVENT = {
    "type": "object",
    "required": ["event", "data"],
    "properties": {
        "event": {"type": "string", "enum": ["job", "end"]},
        "id": {"type": "string"},
        "data": {"type": "string", "contentMediaType": "application/json"},
    },
}


@router.get(
    "/progress",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "Events `job`, each with the job as JSON (without its spec), and `end`.",
            "content": {"text/event-stream": {"schema": EVENT}},
        }
    },
)
async def progress(context: Here, caller: Asking, token: Token, job: FoundJob) -> StreamingResponse:
    """The job now, at each change (once a second at most), and at its end."""
    if context.watchers.full:
        told = "too many callers follow jobs here: ask again, or look at the job itself"
        raise Refused(503, "too-many", told, headers={"Retry-After": str(RETRY_AFTER_S)})

    def allowed() -> bool:
        try:
            known = context.access.who(token)
            return known == caller and context.access.allows(known, Verb.GET, job.tenant)
        except SamjobsError:
            return False

    async def still_allowed() -> bool:
        return await anyio.to_thread.run_sync(allowed)

    def told_as(row: Row) -> str:
        return Job.of(row).model_dump_json(by_alias=True)

    events = stream(context.watchers, job, told_as, still_allowed)
    return StreamingResponse(events, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})
