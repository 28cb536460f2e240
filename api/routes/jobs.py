"""Jobs: submit, list, look, and change one's mind."""

from collections.abc import Callable
from typing import Annotated, TypeVar
from uuid import UUID

from fastapi import APIRouter, Depends, Header, Path, Query, Response

from api import cursors
from api.access.caller import Caller, Verb
from api.bodies import Body, parsed
from api.context import Asking, Context, Here
from api.models import Changed, Job, Listing, Purged, Retried, RetryOrder, Submission
from api.openapi import body_schema
from api.problems import Refused, not_there
from samjobs.client import Client
from samjobs.decisions import waiting
from samjobs.errors import InvalidInput
from samjobs.names import DEFAULT_TENANT
from samjobs.spec import Name
from samjobs.states import JOB_ACTIVE, JobState
from samjobs.store import pages
from samjobs.store.rows import Job as Row

router = APIRouter(prefix="/api/v1/jobs", tags=["jobs"])

LARGEST = 200  # of a page
Done = TypeVar("Done")
JobId = Annotated[UUID, Path(alias="jobId", description="A job's id.")]


def job_of(context: Here, caller: Asking, job_id: JobId) -> Row:
    """The job, for who may see it."""
    return context.seen(caller, job_id)


FoundJob = Annotated[Row, Depends(job_of)]
Cursor = Annotated[
    str | None, Query(min_length=1, max_length=cursors.LONGEST, description="`nextCursor` of the page before.")
]
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        pattern=r"^[\x21-\x7e]+$",
        description="A word of your own for this submission, as a UUID. Sent again with the same body, it is answered"
        " by the first job, also when that has ended.",
    ),
]


_LOCATION = {"Location": {"description": "The job.", "schema": {"type": "string", "format": "uri-reference"}}}


@router.post(
    "",
    status_code=201,
    responses={
        200: {"model": Job, "description": "The job that there is already.", "headers": _LOCATION},
        201: {"description": "A new job.", "headers": _LOCATION},
    },
    openapi_extra=body_schema(Submission),
)
def submit(context: Here, caller: Asking, body: Body, response: Response, key: Key = None) -> Job:
    """Submit a job.

    201 for a new one; 200 for an equal one that is still active, or for the first one with this Idempotency-Key.
    """
    wanted = parsed(Submission, body)
    tenant = wanted.tenant or home(caller)
    for verb in (Verb.CREATE, Verb.GET):  # the answer shows the job, which may be one that was there already
        context.require(caller, verb, tenant)
    done = context.acting(caller).submit(wanted.spec, name=wanted.name, tenant=tenant, key=key)
    response.status_code = 201 if done.created else 200
    response.headers["Location"] = f"{router.prefix}/{done.job_id}"
    return shown(context, caller, context.seen(caller, done.job_id))


def home(caller: Caller) -> str:
    """Whom a job belongs to of which nobody says it."""
    own = caller.tenants()
    return next(iter(own)) if own is not None and len(own) == 1 else DEFAULT_TENANT


def shown(context: Context, caller: Caller, job: Row) -> Job:
    """The job with all that there is to say of it to this caller."""
    try:
        why = context.client.why(job.id)
    except InvalidInput:  # forgotten since it was seen
        not_there(f"job {job.id}")
    sees_all = context.access.allows(caller, Verb.ADMIN, None)
    return Job.of(job, why if sees_all else waiting.without_others(why), whole=True)


@router.get("")
def listing(
    context: Here,
    caller: Asking,
    tenant: Annotated[Name | None, Query(description="Left out: all that you may see.")] = None,
    region: Annotated[Name | None, Query(description="A page may then hold fewer than `limit`.")] = None,
    state: Annotated[JobState | None, Query()] = None,
    active: Annotated[bool | None, Query(description="Only those that have not ended.")] = None,
    limit: Annotated[int, Query(ge=1, le=LARGEST)] = 50,
    cursor: Cursor = None,
) -> Listing[Job]:
    """Jobs, newest first, without their specs."""
    page = pages_of(context, caller, tenant, region, state, bool(active), limit, cursor)
    after = None if page.after is None else cursors.of_time(*page.after)
    return Listing(items=[Job.of(job) for job in page.items], next_cursor=after)


def pages_of(
    context: Context,
    caller: Caller,
    tenant: str | None,
    region: str | None,
    state: JobState | None,
    active: bool,
    limit: int,
    cursor: str | None,
) -> pages.Page[Row, pages.JobPosition]:
    """The rows of a page."""
    tenants = context.reach(caller, Verb.LIST, tenant)
    states = {state} if state is not None else frozenset(JobState)
    with context.store.read() as conn:
        return pages.jobs_page(
            conn,
            tenants=tenants,
            region=region,
            states=states & JOB_ACTIVE if active else states,
            after=None if cursor is None else cursors.read_time(cursor),
            limit=limit,
        )


@router.get("/{jobId}")
def get(context: Here, caller: Asking, job_id: JobId) -> Job:
    """One job, with its spec, and why it waits."""
    return shown(context, caller, context.seen(caller, job_id))


@router.post("/{jobId}/cancel")
def cancel(context: Here, caller: Asking, job_id: JobId) -> Changed:
    """End it now; its results stay."""
    return _changed(context, caller, job_id, Client.cancel)


@router.post("/{jobId}/suspend")
def suspend(context: Here, caller: Asking, job_id: JobId) -> Changed:
    """Take its shards off the workers, each after the image in hand."""
    return _changed(context, caller, job_id, Client.suspend)


@router.post("/{jobId}/resume")
def resume(context: Here, caller: Asking, job_id: JobId) -> Changed:
    """Let a suspended job go on where it was."""
    return _changed(context, caller, job_id, Client.resume)


def _done(context: Context, caller: Caller, job_id: UUID, verb: Verb, act: Callable[[Client, UUID], Done]) -> Done:
    """What an act returns, done by who may do it.

    Raises:
        Refused: there is no such job for this caller, also where it was forgotten meanwhile; or its state forbids it.
    """
    context.seen(caller, job_id, verb)
    try:
        return act(context.acting(caller), job_id)
    except InvalidInput as error:
        context.seen(caller, job_id)
        raise Refused(409, "state", str(error)) from None


def _changed(context: Context, caller: Caller, job_id: UUID, act: Callable[[Client, UUID], bool]) -> Changed:
    changed = _done(context, caller, job_id, Verb.UPDATE, act)
    return Changed(changed=changed, job=shown(context, caller, context.seen(caller, job_id)))


@router.post("/{jobId}/retry", openapi_extra=body_schema(RetryOrder, required=False))
def retry(context: Here, caller: Asking, job_id: JobId, body: Body) -> Retried:
    """Put failed images and dead shards back to work, with their failures forgiven."""
    order = parsed(RetryOrder, body)
    done = _done(context, caller, job_id, Verb.RETRY, lambda client, job: client.retry(job, what=order.what))
    job = shown(context, caller, context.seen(caller, job_id))
    return Retried(changed=done.shards > 0, job=job, images=done.images, shards=done.shards)


@router.post("/{jobId}/purge")
def purge(context: Here, caller: Asking, job_id: JobId) -> Purged:
    """Give its dead shards up for good; the job stays, failed."""
    shards = _done(context, caller, job_id, Verb.PURGE, Client.purge)
    return Purged(changed=shards > 0, job=shown(context, caller, context.seen(caller, job_id)), shards=shards)
