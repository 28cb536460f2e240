"""Which lanes have due shards, and which rows of a lane are next? And what became of those that were sent.

This says *which rows*, and only if they are still there; *how many from whom* is `decisions/dispatch.py`'s matter. A
lane is the queued shards of one region, tenant and priority that nothing holds. All queries of lanes are ranges of
one index, `ix_shards_lane`, in its own order, so none sorts and none walks over more than it gives.

**What a transaction that somebody holds open costs.** Postgres cannot remove the index entry of a row that was taken
from the queue while an older transaction is open: a backup or a forgotten session. After ten minutes of it, hundreds of
thousands of dead entries lie before the first live one of a lane, and among those of the shards at work, and each look
walks over them all. So a controller keeps in `Heads` what its last look saw, and the next begins there: in each lane
at the first shard that was still queued, and at work are those that were, and those dispatched since.

Such a look misses what becomes due behind its back: a shard that a resumption or a `parallelism` let go, or that was
committed later than MARGIN after its own time. So a look in full comes again and again; as often as it takes no more
than a twentieth of the time. Where nothing is held open, every pass that comes after a tenth of a second is one.
"""

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, array
from sqlalchemy.sql.elements import Grouping

from samjobs.decisions.dispatch import Lane
from samjobs.decisions.routing import MORE, Queues
from samjobs.names import Reason
from samjobs.states import JOB_ACTIVE, ShardState
from samjobs.store.engine import Connection, as_row, now
from samjobs.store.rows import Shard
from samjobs.store.tables import (
    ACTIVE,
    AT_WORK,
    CLAIM_ORDER_IN_LANE,
    CLAIMABLE,
    LANE,
    UNLISTED,
    in_states,
    jobs,
    shards,
)
from samjobs.store.together import Asked, Reader, Rows, Statement, together
from samjobs.store.transitions import Why, check_move, dispatch, dispatching
from samjobs.store.types import db_now

MARGIN = timedelta(seconds=2)  # longer than a transaction that adds shards takes to commit
FULL_LOOKS_SHARE = 20  # a look in full comes after so many times what the last one took
_TURN = 0x73616D6A  # of the advisory lock: "samj"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DISPATCHED = in_states(shards.c.state, [ShardState.DISPATCHED])
_PLACE = (*LANE, *CLAIM_ORDER_IN_LANE)
_IDS_AT_ONCE = 1000
_NOBODY = UUID(int=0)
_ONE: sa.ColumnElement[int] = sa.literal_column("1")  # not a parameter: a plan for any limit is another one

Key = tuple[str, str, int]  # region, tenant, priority
Position = tuple[datetime, datetime, int]  # available_at, job_created_at, index: a place in a lane


@dataclass(frozen=True)
class AtWork:
    """A shard that was taken and not given back."""

    id: UUID
    region: str
    tenant: str
    state: ShardState


@dataclass
class Heads:
    """What one controller's last look at the queue saw. Losing it costs one look in full.

    Kept by one thread, over its passes. Without meaning, and so always empty, on SQLite, which has no dead entries.
    """

    lanes: dict[Key, Position] = field(default_factory=dict)
    at_work: list[UUID] = field(default_factory=list)
    since: datetime | None = None  # MARGIN before the last look; None: look in full
    full_again_at: float = 0.0  # monotonic; when the next look is one in full
    workers: Sequence[Any] = ()  # how many there are, by region and state, …
    workers_until: float = 0.0  # … for so long (monotonic): they change seldom, and a shard waits for this look

    def begin(self, conn: Connection) -> float:
        """A look begins, from where the last one was or in full; when (monotonic), for `end`."""
        began = time.monotonic()
        if began >= self.full_again_at or conn.dialect.name == "sqlite":
            self.since = None
        return began

    def end(self, began: float, seen: "Look") -> None:
        """Keep what a look saw."""
        if self.since is None:
            ended = time.monotonic()
            self.full_again_at = ended + FULL_LOOKS_SHARE * (ended - began)
        self.at_work = [one.id for one in seen.at_work]
        self._remember(seen.at, seen.lanes)
        self.since = seen.at - MARGIN

    def _remember(self, at: datetime, found: Iterable[Lane]) -> None:
        """Where the next look at each lane begins: at its first shard, but never later than MARGIN ago.

        A lane that was empty begins MARGIN ago, and one that a look in full did not find is forgotten.
        """
        young: Position = (at - MARGIN, _EPOCH, 0)
        before = self.lanes if self.since is not None else {}
        self.lanes = dict.fromkeys(before, young)
        for lane in found:
            self.lanes[_key(lane)] = min(young, (lane.due_at, lane.job_created_at, lane.index))


def _key(lane: Lane) -> Key:
    return lane.region, lane.tenant, lane.priority


@dataclass(frozen=True)
class Look:
    """The queue at one time."""

    at: datetime  # the database's clock, just after it
    at_work: Sequence[AtWork]  # all shards that are dispatched or running
    lanes: Sequence[Lane]  # all that have due shards, by region, tenant and priority


def look(conn: Connection, *, per_lane: int, heads: Heads | None = None, turn: bool = False) -> Look:
    """Look at all lanes and all shards at work.

    Args:
        per_lane: no more than so many of a lane are counted.
        heads: where to begin, and to remember it for the next time; None looks in full.
        turn: first wait until no other controller dispatches, and keep them waiting until this transaction ends: or two
            would give the same room away. Its commit then waits for no disk. A crash of the database may forget it, as
            long as nothing that followed was kept: a start that is kept keeps the claim before it.
    """
    heads = Heads() if heads is None else heads
    began = heads.begin(conn)
    # On SQLite the write transaction is the turn.
    turns: list[Asked] = [(_TAKE_TURN, {})] if turn and conn.dialect.name != "sqlite" else []
    if heads.since is None:
        lanes = _LANES[conn.dialect.name], {"per_lane": per_lane}
        *_, working, found, ((at,),) = together(conn, *turns, (_AT_WORK, {}), lanes, (_CLOCK, {}))
    else:
        # Never an empty list: that would imply every index's condition, and one of all that was ever active be walked.
        known = {"ids": heads.at_work or [_NOBODY], "since": heads.since}
        *_, working, young = together(conn, *turns, (_AT_WORK_SINCE, known), (_YOUNG, {"since": heads.since}))
        starts = {"per_lane": per_lane, **_starts(heads, heads.since, young)}
        found, ((at,),) = together(conn, (_LANES_SINCE, starts), (_CLOCK, {}))
    at_work = [
        AtWork(shard_id, region, tenant, ShardState(state))
        for shard_id, region, tenant, state in working
        if state in _NOT_GIVEN_BACK
    ]
    seen = Look(at, at_work, sorted((Lane(*row) for row in found), key=_key))
    heads.end(began, seen)
    return replace(seen, lanes=[lane for lane in seen.lanes if lane.due > 0])


def _starts(heads: Heads, since: datetime, young: Rows) -> dict[str, list[Any]]:
    """The places from which to look at each lane, a list for each of their columns."""
    starts = {**dict.fromkeys(young, (since, _EPOCH, 0)), **heads.lanes}
    places = [(*key, *position) for key, position in starts.items()]
    return {column.name: [place[n] for place in places] for n, column in enumerate(_PLACE)}


_NOT_GIVEN_BACK = (ShardState.DISPATCHED, ShardState.RUNNING)
_CLOCK = Statement(sa.select(db_now()))
_TAKE_TURN = Statement(
    sa.select(sa.func.pg_advisory_xact_lock(_TURN), sa.func.set_config("synchronous_commit", "off", sa.true()))
)
_WORKING = sa.select(shards.c.id, shards.c.region, shards.c.tenant, shards.c.state).where(AT_WORK)
_AT_WORK = Statement(_WORKING)
# The known ones by their keys, whatever their state: with AT_WORK, an index of all that was ever at work would do too.
_AT_WORK_SINCE = Statement(
    sa.union(
        _WORKING.where(shards.c.dispatched_at >= sa.bindparam("since")),
        sa.select(*_WORKING.selected_columns).where(shards.c.id == sa.any_(sa.bindparam("ids", type_=ARRAY(sa.Uuid)))),
    )
)


# Postgres ends a walk at an upper bound only where its first column decides; so there is one for each column, and none
# is a row of columns. And it may take any index for a lane's three values, for instance one with all lanes in it; so
# where order matters it is asked for in an order that only this one has, with the priority in it.
def _from_place(rows: Any, start: Sequence[sa.ColumnElement[Any]]) -> list[sa.ColumnElement[bool]]:
    """The shards of a lane that a claim may take, from the place `start` (all of _PLACE) on."""
    region, tenant, priority = start[:3]
    there = sa.tuple_(*_of(rows, _PLACE[2:])) >= sa.tuple_(*start[2:])
    return [_claimable(rows), rows.c.region == region, rows.c.tenant == tenant, rows.c.priority <= priority, there]


def _of(rows: Any, columns: Sequence[sa.ColumnElement[Any]] = _PLACE) -> list[sa.ColumnElement[Any]]:
    """The columns of shards by another name."""
    return [rows.c[column.name] for column in columns]


def _claimable(rows: Any) -> sa.ColumnElement[bool]:
    """CLAIMABLE, of shards by another name."""
    return sa.and_(in_states(rows.c.state, [ShardState.QUEUED]), sa.not_(rows.c.held))


def _first(rows: Any, *where: sa.ColumnElement[bool]) -> sa.ScalarSelect[Any]:
    """The id of the first shard in the order of lanes."""
    return sa.select(rows.c.id).where(*where).order_by(*_of(rows)).limit(_ONE).scalar_subquery()


def _counted(heads: sa.CTE, *, lateral: bool) -> sa.Select[Any]:
    """The lanes whose first shards' ids `heads` gives, with what is due in each: fields of Lane.

    Args:
        lateral: look each id up by itself. Postgres guesses that there are a hundred lanes, and would rather read a
            table of some thousand rows than look so many up. SQLite does so anyway, and has no word for it.
    """
    by_id = shards.c.id == heads.c.id
    first: Any = sa.select(shards).where(by_id).limit(_ONE).lateral("first") if lateral else shards.alias("first")
    more = shards.alias("more")
    # In order of time: what is due comes first, and the walk ends after `per_lane` whether due or not.
    ahead = sa.select(more.c.available_at).where(*_from_place(more, _of(first))).order_by(*_of(more))
    some = ahead.limit(sa.bindparam("per_lane")).correlate(first).subquery()
    due = sa.select(sa.func.count()).where(some.c.available_at <= db_now()).scalar_subquery()
    joined = sa.true() if lateral else first.c.id == heads.c.id
    return sa.select(*_of(first, LANE), due, *_of(first, CLAIM_ORDER_IN_LANE)).join_from(heads, first, joined)


def _lanes(*, lateral: bool) -> sa.Select[Any]:
    """From lane to lane: each jump finds the first shard beyond the lane of the one before."""
    here, beyond = shards.alias("here"), shards.alias("beyond")
    jump = _first(beyond, _claimable(beyond), sa.tuple_(*_of(beyond, LANE)) > sa.tuple_(*_of(here, LANE)))
    heads = sa.select(_first(shards, CLAIMABLE).label("id")).cte("heads", recursive=True)
    onward = sa.select(jump.correlate(here)).join_from(heads, here, here.c.id == heads.c.id)
    return _counted(heads.union_all(onward), lateral=lateral)


def _lanes_since() -> sa.Select[Any]:
    """The first shard of each of the given lanes, from the place that is given with it."""
    parameters = [sa.bindparam(column.name, type_=ARRAY(column.type)) for column in _PLACE]
    columns = [sa.column(column.name, column.type) for column in _PLACE]
    start = sa.func.unnest(*parameters).table_valued(*columns).render_derived("start")
    there = _first(shards, *_from_place(shards, _of(start)))
    return _counted(sa.select(there.correlate(start).label("id")).select_from(start).cte("heads"), lateral=True)


_LANES = {"postgresql": Statement(_lanes(lateral=True)), "sqlite": Statement(_lanes(lateral=False))}
_LANES_SINCE = Statement(_lanes_since())
# Lanes that no look has seen may have shards of jobs that are new, or whose images are still being listed.
_OF_JOB = [jobs.c[column.name] for column in LANE]
_YOUNG = Statement(
    sa.union(
        sa.select(*_OF_JOB).where(in_states(jobs.c.state, JOB_ACTIVE), jobs.c.created_at >= sa.bindparam("since")),
        sa.select(*_OF_JOB).where(UNLISTED),
    )
)


def claim_lane(
    conn: Connection, lane: Lane, *, limit: int, at: datetime, queues: Queues, actor: str = "", last: bool = False
) -> list[Shard]:
    """Take the first `limit` due shards of a lane that `look` gave: queued → dispatched, `attempt` + 1; in order.

    Those that somebody else is taking are passed over. Commit before anything else: a claim holds shards without their
    jobs, against the order of locks.

    Args:
        at: the time of the look.
        queues: on which each is to wait.
        last: see `together`.
    """
    check_move(ShardState.QUEUED, ShardState.DISPATCHED)
    place = (*_key(lane), lane.due_at, lane.job_created_at, lane.index)
    asked = {column.name: value for column, value in zip(_PLACE, place, strict=True)} | {"at": at, "limit": limit}
    if conn.dialect.name == "sqlite":
        return _claim_step_by_step(conn, asked, at, queues, actor)
    late_at = at - timedelta(seconds=queues.late_after_s)
    by_failures = zip([*_SOON, *_LATE], [*queues.soon, *queues.late], strict=True)
    choice = {"late_at": late_at, "_actor": actor, **dict(by_failures)}
    (rows,) = together(conn, (_CLAIM_AT_ONCE, asked | choice), last=last)
    return sorted(map(_SHARD, rows), key=lambda shard: (shard.available_at, shard.job_created_at, shard.index))


_SHARD = Reader(Shard, shards)


def _claim_step_by_step(
    conn: Connection, asked: Mapping[str, Any], at: datetime, queues: Queues, actor: str
) -> list[Shard]:
    claimed = [as_row(Shard, row) for row in conn.execute(_CLAIM, asked)]
    sent = [
        replace(shard, queue=queues.of(shard.failures, (at - shard.available_at).total_seconds())) for shard in claimed
    ]
    return dispatch(conn, sent, Why(Reason.CLAIMED, actor, at)) if sent else []


_CLAIM = (
    sa.select(shards)
    .where(
        *_from_place(shards, [sa.bindparam(column.name, type_=column.type) for column in _PLACE]),
        shards.c.available_at <= sa.bindparam("at"),
    )
    .order_by(*_PLACE)
    .limit(sa.bindparam("limit"))
    .with_for_update(skip_locked=True)
)


_SOON, _LATE = ([f"{name}_{failures}" for failures in range(MORE + 1)] for name in ("soon", "late"))


def _claim_at_once() -> Statement:
    """The same with the queue chosen and the events written, in one statement."""
    late_at = sa.bindparam("late_at", type_=shards.c.available_at.type)
    # Of single values: to write a list down takes Python longer.
    soon, late = (Grouping(array([sa.bindparam(name, type_=sa.Text) for name in names])) for names in (_SOON, _LATE))
    which = sa.func.least(shards.c.failures, MORE) + 1
    queue = sa.case((shards.c.available_at <= late_at, late[which]), else_=soon[which])
    return Statement(dispatching(_CLAIM, queue=queue))


_CLAIM_AT_ONCE = _claim_at_once()


def due_before(conn: Connection, key: Key, position: Position, *, limit: int) -> int:
    """Shards that are before `position` in a lane; counted up to `limit`."""
    values = [sa.literal(value, column.type) for value, column in zip((*key, *position), _PLACE, strict=True)]
    same = [column == value for column, value in zip(_PLACE, values, strict=True)]
    # Earlier in the first column, or alike in it and earlier in the next, and so on: each a range of its own.
    earlier = [sa.and_(CLAIMABLE, *same[:n], _PLACE[n] < values[n]) for n in range(len(key), len(values))]
    some = sa.union_all(*[sa.select(_ONE).where(condition) for condition in earlier])
    count: int = conn.execute(sa.select(sa.func.count()).select_from(some.limit(limit).subquery())).scalar_one()
    return count


def dispatched(
    conn: Connection, *, older_than_s: float = 0.0, after: UUID | None = None, limit: int = 500
) -> list[Shard]:
    """Shards that were sent and not started, in order of id.

    Args:
        older_than_s: seconds since they were sent.
        after: id of the last one of the page before.
    """
    query = sa.select(shards).where(_DISPATCHED, shards.c.dispatched_at <= now(conn) - timedelta(seconds=older_than_s))
    return _page(conn, query, after, limit)


def waiting_in(
    conn: Connection, region: str, queues: Collection[str], *, after: UUID | None = None, limit: int = 500
) -> list[Shard]:
    """Shards of a region that were sent to one of `queues` and not started, in order of id."""
    query = sa.select(shards).where(_DISPATCHED, shards.c.region == region, shards.c.queue.in_(queues))
    return _page(conn, query, after, limit)


def _page(conn: Connection, query: sa.Select[Any], after: UUID | None, limit: int) -> list[Shard]:
    if after is not None:
        query = query.where(shards.c.id > after)
    return [as_row(Shard, row) for row in conn.execute(query.order_by(shards.c.id).limit(limit))]


def standing(conn: Connection, attempts: Collection[tuple[UUID, int]]) -> set[tuple[UUID, int]]:
    """Those of `attempts` (shard, attempt) that are dispatched or running: a message of any other has no use."""
    ids = sorted({shard_id for shard_id, _ in attempts})
    found: set[tuple[UUID, int]] = set()
    for start in range(0, len(ids), _IDS_AT_ONCE):
        some = shards.c.id.in_(ids[start : start + _IDS_AT_ONCE])
        found.update((row.id, row.attempt) for row in conn.execute(_ATTEMPTS.where(some)))
    return found & set(attempts)


_ATTEMPTS = sa.select(shards.c.id, shards.c.attempt).where(ACTIVE)
