"""Several statements in one round trip to Postgres, for what somebody waits for.

A lone shard passes through a handful of statements on its way to a worker. Sent one by one, each waits for the answer
to the one before, and on a machine that was idle that waking up costs more than the statement. So those that need
nothing of each other's answers are sent together, by the driver's pipeline, with the text that SQLAlchemy made of them
once. What comes back is what the driver makes of it: no column type of ours looks at it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import cached_property
from typing import Any, Generic, TypeVar

import sqlalchemy as sa
from sqlalchemy import exc as sa_errors
from sqlalchemy.engine import Compiled, make_url

from samjobs.spec import JobSpec
from samjobs.store.engine import Connection
from samjobs.store.types import SpecJson

_DIALECT = make_url("postgresql+psycopg://").get_dialect()()
Rows = list[tuple[Any, ...]]
Row = TypeVar("Row")


class Statement:
    """A statement whose parameters and columns the driver itself understands."""

    def __init__(self, statement: sa.Select[Any] | sa.CompoundSelect[Any]) -> None:
        self.statement: Any = statement

    @cached_property
    def _compiled(self) -> Compiled:
        compiled: Compiled = self.statement.compile(dialect=_DIALECT)
        return compiled

    @cached_property
    def text(self) -> str:
        """In the words of the driver."""
        return str(self._compiled)

    def parameters(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """`given`, and what the statement holds itself."""
        return {**self._compiled.params, **given}


Asked = tuple[Statement, Mapping[str, Any]]


def together(conn: Connection, *asked: Asked, last: bool = False) -> Sequence[Rows]:
    """The rows of each statement, in the same order; each sees what the ones before it did.

    Args:
        last: nothing else follows in this transaction: commit it in the same trip. The end of its block then finds
            nothing left to do. On SQLite that end commits, which costs no trip.
    """
    if conn.dialect.name == "sqlite":
        return [[tuple(row) for row in conn.execute(one.statement, dict(given))] for one, given in asked]
    sent = [(one.text, one.parameters(given)) for one, given in asked]
    for text, parameters in sent:  # who listens to what SQLAlchemy sends hears of these too
        conn.dispatch.before_cursor_execute(conn, None, text, parameters, None, False)
    driver: Any = conn.connection.driver_connection
    try:
        with driver.pipeline():
            cursors = [driver.execute(text, parameters) for text, parameters in sent]
            if last:
                driver.execute("COMMIT")
        # Not before the end of the block, which waits for the answers: else there would be two waits.
        return [cursor.fetchall() for cursor in cursors]
    except conn.dialect.loaded_dbapi.Error as error:
        raise _as_of_sqlalchemy(conn, driver, error) from error


class Reader(Generic[Row]):
    """Makes the dataclass whose fields are a table's columns of what the driver gives for them, in their order."""

    def __init__(self, kind: type[Row], table: sa.Table) -> None:
        self.columns = [table.c[field.name] for field in fields(kind)]  # type: ignore[arg-type]
        self._kind = kind
        self._meant = [(n, meant) for n, column in enumerate(self.columns) if (meant := _meaning(column.type))]

    def __call__(self, row: Sequence[Any]) -> Row:
        values = list(row)
        for n, meant in self._meant:
            if values[n] is not None:
                values[n] = meant(values[n])
        return self._kind(*values)


def _meaning(of: sa.types.TypeEngine[Any]) -> Callable[[Any], Any] | None:
    """What becomes of a value that the driver gives for a column of this type; None: it stays as it is."""
    if isinstance(of, sa.Enum):
        return of.enum_class
    if isinstance(of, SpecJson):
        return JobSpec.model_validate
    return None


def _as_of_sqlalchemy(conn: Connection, driver: Any, error: Exception) -> Exception:
    """The same error as if SQLAlchemy had sent the statement, its connection given up if it is broken."""
    broken = conn.dialect.is_disconnect(error, driver, None)  # type: ignore[arg-type]
    if broken:
        conn.invalidate(error)
    return sa_errors.DBAPIError.instance(
        None, None, error, conn.dialect.loaded_dbapi.Error, connection_invalidated=broken, dialect=conn.dialect
    )
