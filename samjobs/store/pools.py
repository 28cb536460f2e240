"""What is remembered of a pool of workers: how many it was last decided to have, why, and what the next decision needs.

One row per SamWorkerPool, by namespace and name. A row that is lost costs a cooldown, never a worker: the Deployment
still says how many there are.
"""

from dataclasses import asdict

import sqlalchemy as sa

from samjobs.store.engine import Connection, as_row
from samjobs.store.rows import Pool
from samjobs.store.tables import pools
from samjobs.store.types import db_now


def get(conn: Connection, namespace: str, name: str) -> Pool | None:
    """The pool's row, or None."""
    row = conn.execute(sa.select(pools).where(*_is(namespace, name))).one_or_none()
    return None if row is None else as_row(Pool, row)


def listing(conn: Connection) -> list[Pool]:
    """All pools, by namespace and name."""
    query = sa.select(pools).order_by(pools.c.namespace, pools.c.name)
    return [as_row(Pool, row) for row in conn.execute(query)]


def save(conn: Connection, pool: Pool) -> None:
    """Keep the row, new or anew, but for its `updated_at`, which is now."""
    values = asdict(pool) | {"updated_at": db_now()}
    told = pools.update().where(*_is(pool.namespace, pool.name)).values(values)
    if conn.execute(told).rowcount == 0:
        conn.execute(pools.insert().values(values))


def forget(conn: Connection, namespace: str, name: str) -> bool:
    """Drop the row of a pool that is gone. False if there is none."""
    return conn.execute(pools.delete().where(*_is(namespace, name))).rowcount == 1


def _is(namespace: str, name: str) -> tuple[sa.ColumnElement[bool], sa.ColumnElement[bool]]:
    return pools.c.namespace == namespace, pools.c.name == name
