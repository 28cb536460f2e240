"""What is known of the database without counting anything: for whoever looks after it."""

from dataclasses import dataclass

import sqlalchemy as sa

from samjobs.store.engine import Connection, Store
from samjobs.store.tables import metadata


@dataclass(frozen=True)
class TableFacts:
    """A table, by the database's own statistics."""

    name: str
    rows: int | None  # about; None: never counted
    bytes: int | None  # with its indexes


@dataclass(frozen=True)
class Facts:
    """A database."""

    bytes: int | None
    tables: list[TableFacts]


def facts(conn: Connection) -> Facts:
    """How large the database is."""
    if conn.dialect.name == "sqlite":
        pages = conn.exec_driver_sql("PRAGMA page_count").scalar_one()
        return Facts(pages * conn.exec_driver_sql("PRAGMA page_size").scalar_one(), [])
    size: int = conn.execute(sa.text("SELECT pg_database_size(current_database())")).scalar_one()
    query = sa.text(
        "SELECT relname, reltuples::bigint AS rows, pg_total_relation_size(oid) AS bytes FROM pg_class"
        " WHERE relkind = 'r' AND relname = ANY(:names) AND pg_table_is_visible(oid) ORDER BY relname"
    )
    rows = conn.execute(query, {"names": sorted(metadata.tables)})
    return Facts(size, [TableFacts(row.relname, row.rows if row.rows >= 0 else None, row.bytes) for row in rows])


def connections_in_use(store: Store) -> int:
    """Connections of this process that somebody uses now."""
    pool = store.engine.pool
    return pool.checkedout() if isinstance(pool, sa.QueuePool) else 0
