"""From a list of images to rows: images in input order, cut into shards, in batches of any number.

Batches of about a thousand keep memory and transactions small. A process that takes over from a keeper that died
lists from the start again: what the job has already is left out then.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import sqlalchemy as sa
from sqlalchemy import exc as sa_errors
from sqlalchemy.dialects.postgresql import ARRAY

from samjobs.errors import InvalidInput
from samjobs.inputs import NewImage
from samjobs.names import Reason
from samjobs.states import JOB_TERMINAL, ImageState, JobState, ShardState
from samjobs.store.engine import Connection
from samjobs.store.keeping import check_keeper
from samjobs.store.notify import wake
from samjobs.store.rows import Job
from samjobs.store.tables import QUEUED, images, name_hash, shards
from samjobs.store.transitions import Why, lock_job, settle_job
from samjobs.store.window import open_window, starts_held


def add_images(conn: Connection, job_id: UUID, items: Sequence[NewImage], *, keeper: UUID | None = None) -> int:
    """Append images to a job and cut them into shards of `spec.shard_size`; how many were new.

    A last shard that is short and that nobody has claimed yet is filled up first.

    Args:
        keeper: who lists them by `jobs.keep`. It says by this that it still does, and images that the job has already,
            with the same address and prompts, are left out.

    Raises:
        InvalidInput: a key that the job has already, a job that has ended or is complete, or no such job.
        LeaseLost: somebody else keeps the job by now.
    """
    job = lock_job(conn, job_id)
    check_keeper(job, keeper)
    if job.state in JOB_TERMINAL or job.expanded_at is not None:
        raise InvalidInput(f"job {job_id} takes no more images: it is {job.state.value} and its list is complete")
    new = items if keeper is None else _not_there_yet(conn, job, items)
    at = wake(conn)
    counts: dict[str, int] = {}
    if new:
        _insert(conn, job, new, at)
        counts = {"images_total": len(new), "shards_total": _cut(conn, job, len(new), at)}
        if starts_held(job):
            open_window(conn, job)
    kept: dict[str, Any] = {} if keeper is None else {"kept_at": at}
    settle_job(conn, job, Why(Reason.SUBMITTED, "", at), counts=counts, **kept)
    return len(new)


def _not_there_yet(conn: Connection, job: Job, items: Sequence[NewImage]) -> list[NewImage]:
    """`items` without those that the job has already, just so."""
    if job.images_total == 0 or not items:
        return list(items)
    hashes = list({name_hash(item.key) for item in items})
    query = _NAMED_SQLITE if conn.dialect.name == "sqlite" else _NAMED_POSTGRES
    found = conn.execute(query, {"job_id": job.id, "hashes": hashes})
    there = {row.key: NewImage(row.key, row.uri, row.prompts) for row in found}
    # One that is there otherwise stays, for the unique index to refuse.
    return [item for item in items if there.get(item.key) != item]


_NAMED = sa.select(images.c.key, images.c.uri, images.c.prompts).where(images.c.job_id == sa.bindparam("job_id"))
_NAMED_SQLITE = _NAMED.where(images.c.key_hash.in_(sa.bindparam("hashes", expanding=True)))
# One by one inside the database: for a list of hashes Postgres may walk over all images of the job instead.
_HASHES = (
    sa.func.unnest(sa.bindparam("hashes", type_=ARRAY(sa.LargeBinary)))
    .table_valued(sa.column("hash", sa.LargeBinary))
    .render_derived("hashes")
)
_ONE = _NAMED.where(images.c.key_hash == _HASHES.c.hash).limit(sa.literal_column("1")).lateral("one")
_NAMED_POSTGRES = sa.select(_ONE).select_from(_HASHES.join(_ONE, sa.true()))


def _insert(conn: Connection, job: Job, items: Sequence[NewImage], at: datetime) -> None:
    """Write the rows. That a name is new is left to the unique index: asking first costs more than all the rest."""
    # Postgres answers nothing after an error but from a savepoint. SQLite does, and needs none: on a full disk it takes
    # back the whole transaction, and the way back to a savepoint would only hide why.
    guarded: AbstractContextManager[object] = nullcontext() if conn.dialect.name == "sqlite" else conn.begin_nested()
    try:
        with guarded:
            conn.execute(images.insert(), [image_row(job, place, item, at) for place, item in enumerate(items)])
    except sa_errors.IntegrityError as error:
        raise InvalidInput(
            f"image {_listed_before(conn, job, items)!r} is listed twice: give each image of a job once"
        ) from error


def _listed_before(conn: Connection, job: Job, items: Sequence[NewImage]) -> str:
    """The first of `items` whose key came before, among them or in the job."""
    seen: set[str] = set()
    for item in items:
        same = sa.select(images.c.index).where(
            images.c.job_id == job.id,
            images.c.key_hash == name_hash(item.key),
            images.c.index < job.images_total,  # SQLite may hold a part of this batch
        )
        if item.key in seen or conn.execute(same).first() is not None:
            return item.key
        seen.add(item.key)
    raise AssertionError("only a key can be there already: indices are given under the job's lock")


def image_row(job: Job, place: int, item: NewImage, at: datetime) -> dict[str, Any]:
    """The row of an image that comes so many places behind the job's last one."""
    return {
        "job_id": job.id,
        "index": job.images_total + place,
        "key": item.key,
        "key_hash": name_hash(item.key),
        "uri": item.uri,
        "uri_hash": name_hash(item.uri),
        "prompts": item.prompts,
        "state": ImageState.PENDING,
        "truncated": False,
        "created_at": at,
    }


def _cut(conn: Connection, job: Job, count: int, at: datetime) -> int:
    """Put `count` new images behind the job's last one into shards; the number of shards that are new."""
    end = job.images_total + count
    rows = shard_rows(job, job.images_total + _fill_last(conn, job, count), end, at)
    if rows:
        conn.execute(shards.insert(), rows)
    return len(rows)


def _fill_last(conn: Connection, job: Job, count: int) -> int:
    """Add up to `count` images to the job's last shard if it is short and unclaimed; how many it took."""
    last = sa.and_(
        shards.c.job_id == job.id,
        shards.c.index == job.shards_total - 1,
        QUEUED,
        shards.c.attempt == 0,
        shards.c.images_total < job.spec.shard_size,
    )
    # Locked: a claim that came first shows here as another attempt, one that comes now takes another shard.
    has: int | None = conn.execute(sa.select(shards.c.images_total).where(last).with_for_update()).scalar_one_or_none()
    if has is None:
        return 0
    taken: int = min(count, job.spec.shard_size - has)
    conn.execute(shards.update().where(last).values(images_total=has + taken))
    return taken


def shard_rows(job: Job, first: int, end: int, at: datetime) -> list[dict[str, Any]]:
    """The rows of the shards that hold the images from `first` to before `end`, behind the job's last shard."""
    size = job.spec.shard_size
    return [
        _shard_row(job, job.shards_total + place, start, min(size, end - start), at)
        for place, start in enumerate(range(first, end, size))
    ]


def _shard_row(job: Job, index: int, first: int, count: int, at: datetime) -> dict[str, Any]:
    return {
        "id": uuid4(),
        "job_id": job.id,
        "index": index,
        "first_index": first,
        "images_total": count,
        "images_done": 0,
        "state": ShardState.QUEUED,
        "held": starts_held(job),
        "attempt": 0,
        "failures": 0,
        "region": job.region,
        "tenant": job.tenant,
        "priority": job.priority,
        "job_created_at": job.created_at,
        # not_before is kept here, so that a claim need not ask the job.
        "available_at": max(at, job.not_before) if job.not_before else at,
        "created_at": at,
    }


def mark_expanded(conn: Connection, job_id: UUID, keeper: UUID | None = None) -> JobState:
    """Note that all images are in the table; from now on the job may end, and one without images ends at once.

    Args:
        keeper: who listed them by `jobs.keep`, and no longer keeps the job afterwards.

    Raises:
        InvalidInput: no such job.
        LeaseLost: somebody else keeps the job by now.
    """
    job = lock_job(conn, job_id)
    if job.expanded_at is not None or job.state in JOB_TERMINAL:
        return job.state
    check_keeper(job, keeper)
    at = wake(conn)
    done: dict[str, Any] = {"expanded_at": at, "keeper": None, "kept_at": None}
    return settle_job(conn, job, Why(Reason.SUBMITTED, "", at), **done).state
