"""How does a database run a statement that was sent, and what does it cost?"""

from collections.abc import Mapping, Sequence
from typing import Any

import psycopg

from samjobs.store import Connection

Parameters = Mapping[str, Any] | Sequence[Any]


def plan_of(conn: Connection, statement: str, parameters: Parameters) -> Any:
    """Its steps, on SQLite; the plan as JSON on Postgres, which runs it once more for that."""
    driver: Any = conn.connection.driver_connection
    if conn.dialect.name == "sqlite":
        return [row[3] for row in driver.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)]
    # What `together` sends is in the server's own words, with a list of values.
    cursor: Any = psycopg.RawCursor(driver) if isinstance(parameters, list) else driver.cursor()
    ((found,),) = cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}", parameters).fetchall()
    return found[0]["Plan"]


def touched(conn: Connection, statement: str, parameters: Parameters) -> int:
    """How many pages of 8 kB Postgres reads or writes for it."""
    plan = plan_of(conn, statement, parameters)
    pages: int = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
    return pages
