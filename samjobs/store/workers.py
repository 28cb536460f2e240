"""Worker processes as they tell of themselves. For people and for scaling; no lease depends on these rows."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from samjobs.store.engine import Connection, as_row, now
from samjobs.store.rows import Worker, WorkerState
from samjobs.store.tables import workers
from samjobs.store.types import db_now


def register(
    conn: Connection, incarnation: UUID, *, pool: str, region: str, node: str, pid: int, pod: str | None = None
) -> None:
    """List a worker process that has just started, as loading; `pod`: its name on Kubernetes."""
    at = now(conn)
    row = {"incarnation": incarnation, "pool": pool, "region": region, "node": node, "pod": pod, "pid": pid}
    nothing_yet = {"device": "", "model": "", "revision": "", "state": WorkerState.LOADING, "images_total": 0}
    conn.execute(workers.insert(), row | nothing_yet | {"heartbeat_at": at, "started_at": at})


def heartbeat(conn: Connection, incarnation: UUID) -> bool:
    """Note a sign of life. False if the process is no longer listed: register again."""
    return _update(conn, incarnation)


def set_state(
    conn: Connection,
    incarnation: UUID,
    state: WorkerState,
    *,
    shard_id: UUID | None = None,
    image_s: float | None = None,
) -> bool:
    """Note what a worker does now, on which shard, and how many seconds an image takes it lately; None: as before.

    False if it is no longer listed.
    """
    measured = {} if image_s is None else {"image_s": image_s}
    return _update(conn, incarnation, state=state, shard_id=shard_id, **measured)


def set_model(
    conn: Connection, incarnation: UUID, *, device: str, model: str, revision: str, load_s: float | None = None
) -> bool:
    """Note what a worker has loaded, and how many seconds that took. False if it is no longer listed."""
    return _update(conn, incarnation, device=device, model=model, revision=revision, load_s=load_s)


def _update(conn: Connection, incarnation: UUID, **values: Any) -> bool:
    told = workers.update().where(workers.c.incarnation == incarnation).values(heartbeat_at=db_now(), **values)
    return conn.execute(told).rowcount == 1


def count_images(conn: Connection, incarnation: UUID, count: int, at: datetime) -> None:
    """Note that a worker has committed `count` images at `at`. Nothing happens if it is no longer listed."""
    told = {"images_total": workers.c.images_total + count, "progressed_at": at}
    conn.execute(workers.update().where(workers.c.incarnation == incarnation).values(**told))


def gone(conn: Connection, incarnation: UUID) -> bool:
    """Note that a process ended in order. It stays listed until `prune`. False if it is no longer listed."""
    return _update(conn, incarnation, state=WorkerState.GONE, shard_id=None)


def prune(conn: Connection, *, older_than_s: float, limit: int = 1000) -> int:
    """Take at most `limit` processes off the list of which nothing was heard for so long; how many went."""
    silent = workers.c.heartbeat_at < now(conn) - timedelta(seconds=older_than_s)
    old = sa.select(workers.c.incarnation).where(silent).limit(limit).with_for_update(skip_locked=True)
    return conn.execute(workers.delete().where(workers.c.incarnation.in_(old))).rowcount


def remove(conn: Connection, incarnation: UUID) -> None:
    """Take a process that ended off the list."""
    conn.execute(workers.delete().where(workers.c.incarnation == incarnation))


def get(conn: Connection, incarnation: UUID) -> Worker | None:
    """The worker process, or None."""
    row = conn.execute(sa.select(workers).where(workers.c.incarnation == incarnation)).one_or_none()
    return None if row is None else as_row(Worker, row)


def listing(conn: Connection, *, region: str | None = None) -> list[Worker]:
    """All listed worker processes, oldest first. Judge by `heartbeat_at` who is alive."""
    return _list(conn, region)


def alive(conn: Connection, *, within_s: float, region: str | None = None) -> list[Worker]:
    """The processes that were heard of in the last `within_s` seconds and have not ended since, oldest first."""
    heard = workers.c.heartbeat_at >= now(conn) - timedelta(seconds=within_s)
    return _list(conn, region, heard, workers.c.state != WorkerState.GONE)


def _list(conn: Connection, region: str | None, *conditions: sa.ColumnElement[bool]) -> list[Worker]:
    query = sa.select(workers).where(*conditions).order_by(workers.c.started_at, workers.c.incarnation)
    if region is not None:
        query = query.where(workers.c.region == region)
    return [as_row(Worker, row) for row in conn.execute(query)]
