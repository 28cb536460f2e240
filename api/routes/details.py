"""What belongs to one job: its images with their results and photos, its shards, its story."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Response

from api import cursors
from api.context import Asking, Here
from api.models import Event, Events, Image, Listing, Shard
from api.problems import Refused, not_there
from api.routes.jobs import LARGEST, Cursor, JobId
from samjobs.states import ImageState
from samjobs.storage import content_hash
from samjobs.store import jobs, pages, shards
from samjobs.store.rows import Image as ImageRow
from samjobs.store.rows import Job as JobRow

router = APIRouter(prefix="/api/v1/jobs/{jobId}", tags=["a job's parts"])

MOST_INDEX = 2**31 - 1
LONGEST_SIDE = 4096
Index = Annotated[int, Path(ge=0, le=MOST_INDEX, description="An image's index, from 0.")]
Limit = Annotated[int, Query(ge=1, le=LARGEST)]
# By its token: who comes next to the same browser with another one sees nothing that it kept for the first.
PRIVATE = {"Cache-Control": "private, max-age=3600", "Vary": "Authorization", "X-Content-Type-Options": "nosniff"}


def image_of(context: Here, caller: Asking, job_id: JobId, index: Index) -> tuple[JobRow, ImageRow]:
    """An image that the caller may see, and its job.

    Raises:
        Refused: there is none for this caller.
    """
    job = context.seen(caller, job_id)
    with context.store.read() as conn:
        image = pages.image(conn, job_id, index)
    if image is None:
        not_there(f"image {index} in job {job_id}")
    return job, image


FoundImage = Annotated[tuple[JobRow, ImageRow], Depends(image_of)]


@router.get("/images")
def images(
    context: Here,
    caller: Asking,
    job_id: JobId,
    state: Annotated[ImageState | None, Query()] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Listing[Image]:
    """Its images in input order; in one state a page may hold fewer than `limit`."""
    context.seen(caller, job_id)
    after = -1 if cursor is None else cursors.read_index(cursor)
    with context.store.read() as conn:
        page = pages.images_page(conn, job_id, state=state, after=after, limit=limit)
    return Listing(
        items=[Image.of(image) for image in page.items],
        next_cursor=None if page.after is None else cursors.of_index(page.after),
    )


@router.get("/images/{index}")
def image(found: FoundImage) -> Image:
    """One image, and what became of it."""
    return Image.of(found[1])


@router.get(
    "/images/{index}/result",
    response_class=Response,
    responses={200: {"description": "The record: docs/reference/record.md.", "content": {"application/json": {}}}},
)
async def result(context: Here, found: FoundImage) -> Response:
    """What was found in an image: each instance with its mask, box and score."""
    job, image = found
    if image.output_uri is None:
        why = f": {image.error}" if image.error else ""
        raise Refused(404, "no-result", f"image {image.index} is {image.state.value} and has no result{why}")
    data = await context.photos.record(image.output_uri, job.tenant)
    return Response(data, media_type="application/json", headers=PRIVATE | {"ETag": f'"{content_hash(data)}"'})


@router.get(
    "/images/{index}/photo",
    response_class=Response,
    responses={200: {"description": "The photo, upright.", "content": {"image/jpeg": {}}}},
)
async def photo(
    context: Here,
    found: FoundImage,
    max_side: Annotated[int, Query(alias="maxSide", ge=16, le=LONGEST_SIDE)] = 1600,
) -> Response:
    """The photo of an image, upright, its longer side at most `maxSide` pixels."""
    job, image = found
    data = await context.photos.jpeg(image.uri, job.tenant, max_side)
    return Response(data, media_type="image/jpeg", headers=PRIVATE)


@router.get("/shards")
def shards_of(
    context: Here, caller: Asking, job_id: JobId, limit: Limit = 100, cursor: Cursor = None
) -> Listing[Shard]:
    """Its shards by index."""
    context.seen(caller, job_id)
    after = -1 if cursor is None else cursors.read_index(cursor)
    with context.store.read() as conn:
        found = shards.of_job(conn, job_id, after_index=after, limit=limit + 1)
    return Listing(
        items=[Shard.of(shard) for shard in found[:limit]],
        next_cursor=cursors.of_index(found[limit - 1].index) if len(found) > limit else None,
    )


@router.get("/history")
def history(
    context: Here,
    caller: Asking,
    job_id: JobId,
    after: Annotated[int, Query(ge=0, le=2**63 - 1, description="`nextAfter` of the page before.")] = 0,
    limit: Limit = 100,
) -> Events:
    """What happened to it, its shards and its images: who, from, to, why, when."""
    context.seen(caller, job_id)
    with context.store.read() as conn:
        found = jobs.events(conn, job_id, after=after, limit=limit + 1)
    return Events(
        items=[Event.of(event) for event in found[:limit]],
        next_after=found[limit - 1].id if len(found) > limit else None,
    )
