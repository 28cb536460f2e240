"""Images: what is still to do, what failed, what happened to one photo. Outcomes are written by `shards.record`."""

from typing import Any
from uuid import UUID

import sqlalchemy as sa

from samjobs.states import ImageState
from samjobs.store.engine import Connection, as_row
from samjobs.store.rows import Event, Image, ImageHistory, Shard
from samjobs.store.tables import events, images, in_states, jobs, name_hash

# All but the hashes of names, which only this package knows of.
COLUMNS = [column for column in images.c if column.name not in ("key_hash", "uri_hash")]
_EVENTS_PER_IMAGE = 100


def pending(conn: Connection, shard: Shard) -> list[Image]:
    """The images of a shard that have no outcome yet, in input order."""
    query = sa.select(*COLUMNS).where(
        images.c.job_id == shard.job_id,
        images.c.index >= shard.first_index,
        images.c.index < shard.first_index + shard.images_total,
        images.c.state == ImageState.PENDING,
    )
    return [as_row(Image, row) for row in conn.execute(query.order_by(images.c.index))]


def failed(conn: Connection, job_id: UUID, *, after: int = -1, limit: int = 100) -> list[Image]:
    """A job's failed images in input order, from the one after index `after`."""
    query = sa.select(*COLUMNS).where(
        images.c.job_id == job_id, in_states(images.c.state, [ImageState.FAILED]), images.c.index > after
    )
    return [as_row(Image, row) for row in conn.execute(query.order_by(images.c.index).limit(limit))]


def iterate(conn: Connection, job_id: UUID, *, after_index: int = -1, limit: int = 1000) -> list[Image]:
    """A job's images in input order, from the one after `after_index`; an empty list is the end."""
    query = sa.select(*COLUMNS).where(images.c.job_id == job_id, images.c.index > after_index)
    return [as_row(Image, row) for row in conn.execute(query.order_by(images.c.index).limit(limit))]


def history(conn: Connection, key_or_uri: str, *, limit: int = 20) -> list[ImageHistory]:
    """What became of a photo in each job that had it, newest job first. Named by its key or its whole address."""
    digest = name_hash(key_or_uri)
    # Two queries of one index each; an OR over both columns would use neither.
    by_name = sa.union(
        sa.select(images.c.job_id, images.c.index).where(images.c.key_hash == digest),
        sa.select(images.c.job_id, images.c.index).where(images.c.uri_hash == digest),
    ).subquery()
    query = (
        sa.select(*COLUMNS, jobs.c.name.label("_name"), jobs.c.state.label("_state"), jobs.c.created_at.label("_at"))
        .join(by_name, sa.and_(images.c.job_id == by_name.c.job_id, images.c.index == by_name.c.index))
        .join(jobs, jobs.c.id == images.c.job_id)
        .order_by(jobs.c.created_at.desc())
        .limit(limit)
    )
    return [_history_of(conn, row) for row in conn.execute(query).all()]


def _history_of(conn: Connection, row: sa.Row[*tuple[Any, ...]]) -> ImageHistory:
    values = row._mapping
    image = Image(**{column.name: values[column] for column in COLUMNS})
    told = (
        sa.select(events)
        .where(events.c.job_id == image.job_id, events.c.image_index == image.index)
        .order_by(events.c.id)
        .limit(_EVENTS_PER_IMAGE)
    )
    return ImageHistory(
        job_id=image.job_id,
        job_name=values["_name"],
        job_state=values["_state"],
        job_created_at=values["_at"],
        image=image,
        events=[as_row(Event, event) for event in conn.execute(told)],
    )
