"""How much work does a region have, and how fast do its workers work: what `decisions/scaling.py` decides from.

No cost grows with what is queued. Due shards are counted up to `most`, from lane to lane along `ix_shards_lane` as the
dispatch finds them (see `lanes`), so that neither shards of other regions nor those whose time has not come are walked
over. Where there are more, the counters of the region's jobs say about how many.
"""

from datetime import datetime
from typing import Any

import sqlalchemy as sa

from samjobs.decisions.scaling import Demand, Speed
from samjobs.states import ShardState
from samjobs.store.engine import Connection, now
from samjobs.store.tables import (
    ACTIVE_JOB,
    AT_WORK,
    CLAIM_ORDER_IN_LANE,
    LANE,
    in_states,
    jobs,
    pools,
    shards,
    workers,
)

MOST = 10_000


def demand(conn: Connection, region: str, *, most: int = MOST, at_once: int | None = None) -> Demand:
    """The shards of a region that are due, dispatched or running, and their images without an outcome.

    Args:
        most: no more due shards than this are counted, and no more jobs are asked.
        at_once: shards of the region that may be at work at once: the setting `region_concurrency`.
    """
    at = now(conn)
    given = {"region": region, "at": at, "most": most + 1}
    due, images = conn.execute(_DUE[conn.dialect.name], given).one()
    working = {state: (many, open_) for state, many, open_ in conn.execute(_WORKING, {"region": region})}
    capped = due > most
    if capped:
        all_shards, all_images = conn.execute(_OF_JOBS, given).one()
        due = max(due, all_shards - sum(many for many, _ in working.values()))
        images = max(images, all_images - sum(open_ for _, open_ in working.values()))
    dispatched, running = (working.get(state, (0, 0)) for state in (ShardState.DISPATCHED, ShardState.RUNNING))
    return Demand(
        due=due,
        dispatched=dispatched[0],
        running=running[0],
        images_open=images + dispatched[1] + running[1],
        capped=capped,
        at_once=at_once,
    )


def speed(conn: Connection, region: str) -> Speed:
    """The mean of what the region's workers have measured; where none has, what its pool remembers."""
    image_s, load_s = conn.execute(_MEASURED, {"region": region}).one()
    if image_s is None or load_s is None:
        kept = conn.execute(_REMEMBERED, {"region": region}).one_or_none()
        if kept is not None:
            image_s = kept.image_s if image_s is None else image_s
            load_s = kept.load_s if load_s is None else load_s
    return Speed(image_s, load_s)


_MEASURED = sa.select(sa.func.avg(workers.c.image_s), sa.func.avg(workers.c.load_s)).where(
    workers.c.region == sa.bindparam("region")
)
_REMEMBERED = (
    sa.select(pools.c.image_s, pools.c.load_s)
    .where(pools.c.region == sa.bindparam("region"))
    .order_by(pools.c.updated_at.desc())
    .limit(1)
)


def _sum(column: sa.ColumnElement[int]) -> sa.ColumnElement[int]:
    return sa.func.coalesce(sa.func.sum(column), sa.literal_column("0"))


def _open_images(rows: Any) -> sa.ColumnElement[int]:
    open_: sa.ColumnElement[int] = rows.c.images_total - rows.c.images_done
    return open_


# As few as `region_concurrency` lets be at work.
_WORKING = (
    sa.select(shards.c.state, sa.func.count(), _sum(_open_images(shards)))
    .where(AT_WORK, shards.c.region == sa.bindparam("region"))
    .group_by(shards.c.state)
)


def _claimable(rows: Any) -> list[sa.ColumnElement[bool]]:
    """CLAIMABLE in the region, of shards by another name."""
    here = rows.c.region == sa.bindparam("region")
    return [in_states(rows.c.state, [ShardState.QUEUED]), sa.not_(rows.c.held), here]


def _named(rows: Any, columns: Any) -> list[sa.ColumnElement[Any]]:
    return [rows.c[column.name] for column in columns]


def _due(*, lateral: bool) -> sa.Select[int, int]:
    """How many, and their images: from lane to lane, and in each along its time, until `most`.

    Args:
        lateral: Postgres is to look each lane up by itself. It guesses that there are a hundred, and would rather read
            the whole table than look so many up. SQLite does so anyway, and has no word for it.
    """
    here, beyond, more = shards.alias("here"), shards.alias("beyond"), shards.alias("more")
    one: sa.ColumnElement[int] = sa.literal_column("1")
    in_order = [*_named(beyond, LANE), *_named(beyond, CLAIM_ORDER_IN_LANE)]
    first = sa.select(beyond.c.id).where(*_claimable(beyond)).order_by(*in_order).limit(one)
    tenant_and_priority = LANE[1:]
    further = sa.tuple_(*_named(beyond, tenant_and_priority)) > sa.tuple_(*_named(here, tenant_and_priority))
    heads = sa.select(first.scalar_subquery().label("id")).cte("heads", recursive=True)
    jump = first.where(further).correlate(here).scalar_subquery()
    heads = heads.union_all(sa.select(jump).join_from(heads, here, here.c.id == heads.c.id))
    by_id = shards.c.id == heads.c.id
    lane: Any = sa.select(shards).where(by_id).limit(one).lateral("lane") if lateral else shards.alias("lane")
    same = [more.c[column.name] == lane.c[column.name] for column in tenant_and_priority]
    # From the lane's first shard on, since before it lie the entries of those that were taken.
    times = more.c.available_at >= lane.c.available_at, more.c.available_at <= sa.bindparam("at")
    some: Any = sa.select(_open_images(more).label("images")).where(*_claimable(more), *same, *times)
    most = sa.bindparam("most", type_=sa.Integer)
    if lateral:
        found = some.order_by(*_named(more, CLAIM_ORDER_IN_LANE)).limit(most).correlate(lane).lateral("found")
        some = sa.select(found.c.images).join_from(heads, lane, sa.true()).join(found, sa.true())
    else:
        some = some.join_from(heads, lane, lane.c.id == heads.c.id).join(more, sa.true())
    counted = some.limit(most).subquery()
    return sa.select(sa.func.count(), _sum(counted.c.images)).select_from(counted)


_DUE = {"postgresql": _due(lateral=True), "sqlite": _due(lateral=False)}


def _of_jobs() -> sa.Select[int, int]:
    """Shards and images that are open, by the counters of the region's jobs; of `most` jobs at most."""
    ended = jobs.c.shards_succeeded + jobs.c.shards_dead + jobs.c.shards_cancelled
    told = jobs.c.images_done + jobs.c.images_failed + jobs.c.images_skipped
    at: sa.ColumnElement[datetime] = sa.bindparam("at", type_=jobs.c.not_before.type)
    some = (
        sa.select((jobs.c.shards_total - ended).label("shards"), (jobs.c.images_total - told).label("images"))
        .where(ACTIVE_JOB, jobs.c.region == sa.bindparam("region"), sa.not_(jobs.c.suspend))
        .where(sa.or_(jobs.c.not_before.is_(None), jobs.c.not_before <= at))
        .limit(sa.bindparam("most", type_=sa.Integer))
        .subquery()
    )
    return sa.select(_sum(some.c.shards), _sum(some.c.images))


_OF_JOBS = _of_jobs()
