"""Lists that are read page by page from outside: the work for a page is limited, whatever it skips and whoever asks.

A page is a run of an index from a position on. Where a filter has no index of its own (a region; images by a common
state), a page looks at so many rows at most and may then hold fewer than were asked for, or none, with a position to
go on from. None as position is the end.
"""

import functools
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar
from uuid import UUID

import sqlalchemy as sa

from samjobs.states import JOB_TERMINAL, ImageState, JobState, ShardState
from samjobs.store.engine import Connection, as_row
from samjobs.store.images import COLUMNS as IMAGE_COLUMNS
from samjobs.store.rows import Image, Job, Shard
from samjobs.store.tables import ACTIVE_JOB, ENDED_JOB, images, in_states, jobs, shards

LOOKED_AT = 1000  # rows of a page at most, where a filter has no index
MOST_INDEX = 2**31 - 1  # what the column of an image's index can hold
LARGEST_PAGE = 4 << 20  # characters of the specs of a page's jobs, but for a single job
Item = TypeVar("Item")
Position = TypeVar("Position")
JobPosition = tuple[datetime, UUID]
_POSITION = sa.tuple_(sa.bindparam("at", type_=jobs.c.created_at.type), sa.bindparam("id", type_=jobs.c.id.type))
_LIMIT = sa.bindparam("limit", type_=sa.Integer)


@dataclass(frozen=True)
class Page(Generic[Item, Position]):
    """Some of a list, and from where it goes on."""

    items: Sequence[Item]
    after: Position | None  # None: that was all


def jobs_page(
    conn: Connection,
    *,
    tenants: Collection[str] | None = None,
    region: str | None = None,
    states: Collection[JobState] = frozenset(JobState),
    after: JobPosition | None = None,
    limit: int = 50,
) -> Page[Job, JobPosition]:
    """Jobs, newest first, of some tenants (None: of all), in some of the states, from a position on."""
    if not states or tenants == frozenset():
        return Page([], None)
    looked_at = limit + 1 if region is None else LOOKED_AT
    whose = None if tenants is None else sorted(tenants)
    query = _newest(None if whose is None else len(whose), frozenset(states), after is not None)
    asked: dict[str, Any] = {"limit": looked_at} | {f"tenant_{place}": one for place, one in enumerate(whose or ())}
    if after is not None:
        asked |= {"at": after[0], "id": after[1]}
    seen = conn.execute(query, asked).all()
    wanted = [row for row in seen if region is None or row.region == region]
    chosen = [row.id for row in _affordable(conn, wanted[:limit])] if wanted else []
    if len(chosen) < len(wanted):
        last = wanted[len(chosen) - 1]
    elif len(seen) == looked_at:
        last = seen[-1]
    else:
        last = None
    rows = conn.execute(sa.select(jobs).where(jobs.c.id.in_(chosen))) if chosen else ()
    found = {row.id: as_row(Job, row) for row in rows}
    # One may have been forgotten between the two statements.
    return Page([found[one] for one in chosen if one in found], None if last is None else (last.created_at, last.id))


@functools.lru_cache(256)
def _newest(tenants: int | None, states: frozenset[JobState], later: bool) -> sa.Select[Any]:
    """One walk of an index for each tenant and state, each stopped after `limit`, and the newest of them all.

    Args:
        tenants: how many.
        later: from the position `at` and `id` on.
    """
    whose: list[list[sa.ColumnElement[bool]]] = [[]]
    if tenants is not None:
        whose = [[jobs.c.tenant == sa.bindparam(f"tenant_{place}")] for place in range(tenants)]
    runs = [_walk([*one, *_in(state)], later).subquery() for one in whose for state in sorted(states)]
    merged = sa.union_all(*(sa.select(run) for run in runs)).subquery()
    return sa.select(merged).order_by(merged.c.created_at.desc(), merged.c.id.desc()).limit(_LIMIT)


def _in(state: JobState) -> list[sa.ColumnElement[bool]]:
    """Also in the words of the partial indexes: SQLite does not see that one word is among several."""
    return [in_states(jobs.c.state, [state]), ENDED_JOB if state in JOB_TERMINAL else ACTIVE_JOB]


def _walk(conditions: Sequence[sa.ColumnElement[bool]], later: bool) -> sa.Select[tuple[UUID, datetime, str]]:
    query = sa.select(jobs.c.id, jobs.c.created_at, jobs.c.region).where(*conditions)
    if later:
        query = query.where(sa.tuple_(jobs.c.created_at, jobs.c.id) < _POSITION)
    return query.order_by(jobs.c.created_at.desc(), jobs.c.id.desc()).limit(_LIMIT)


def _affordable(conn: Connection, wanted: Sequence[Any]) -> Sequence[Any]:
    """The first of these jobs, as many as fit into an answer: at least one."""
    size = sa.func.length(sa.cast(sa.type_coerce(jobs.c.spec, sa.JSON), sa.Text))
    query = sa.select(jobs.c.id, size).where(jobs.c.id.in_([row.id for row in wanted]))
    sizes: dict[UUID, int] = {job_id: many for job_id, many in conn.execute(query)}  # noqa: C416 - typed so
    total = 0
    for count, row in enumerate(wanted):
        total += sizes.get(row.id, 0)
        if total > LARGEST_PAGE and count > 0:
            return wanted[:count]
    return wanted


def changes(conn: Connection, job_ids: Collection[UUID]) -> dict[UUID, dict[str, Any]]:
    """All fields of jobs but their specs, by id; one that is not there is left out."""
    query = sa.select(*(column for column in jobs.c if column.name != "spec")).where(jobs.c.id.in_(job_ids))
    return {row.id: dict(row._mapping) for row in conn.execute(query)}


def images_page(
    conn: Connection, job_id: UUID, *, state: ImageState | None = None, after: int = -1, limit: int = 100
) -> Page[Image, int]:
    """A job's images in input order, in one state or in any, from the one after index `after`."""
    query = sa.select(*IMAGE_COLUMNS).where(images.c.job_id == job_id, images.c.index > after)
    last = min(after + LOOKED_AT, MOST_INDEX - 1) if state not in (None, ImageState.FAILED) else None
    if state is not None:
        query = query.where(in_states(images.c.state, [state]))
    if last is not None:  # indices have no gaps
        query = query.where(images.c.index <= last)
    rows = conn.execute(query.order_by(images.c.index).limit(limit + 1)).all()
    found = [as_row(Image, row) for row in rows]
    if len(found) > limit:
        return Page(found[:limit], found[limit - 1].index)
    more = last is not None and _has_image(conn, job_id, last + 1)
    return Page(found, last if more else None)


def _has_image(conn: Connection, job_id: UUID, index: int) -> bool:
    query = sa.select(images.c.index).where(images.c.job_id == job_id, images.c.index == index)
    return conn.execute(query).one_or_none() is not None


def image(conn: Connection, job_id: UUID, index: int) -> Image | None:
    """One image of a job, or None."""
    query = sa.select(*IMAGE_COLUMNS).where(images.c.job_id == job_id, images.c.index == index)
    row = conn.execute(query).one_or_none()
    return None if row is None else as_row(Image, row)


def dead_page(
    conn: Connection, *, tenants: Collection[str] | None = None, after: UUID | None = None, limit: int = 100
) -> Page[tuple[Shard, str | None], UUID]:
    """Dead shards, each with its job's name, in order of id, of some tenants (None: of all)."""
    query = sa.select(shards, jobs.c.name.label("job_name")).join(jobs, jobs.c.id == shards.c.job_id)
    query = query.where(in_states(shards.c.state, [ShardState.DEAD]))
    if tenants is not None:
        query = query.where(shards.c.tenant.in_(sorted(tenants)))
    if after is not None:
        query = query.where(shards.c.id > after)
    rows = conn.execute(query.order_by(shards.c.id).limit(limit + 1)).all()
    found = [
        (Shard(**{column.name: row._mapping[column] for column in shards.c}), row.job_name) for row in rows[:limit]
    ]
    return Page(found, found[-1][0].id if len(rows) > limit else None)
