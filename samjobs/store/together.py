"""Several statements in one round trip to Postgres, for what somebody waits for.

A lone shard passes through a handful of statements on its way to a worker. Sent one by one, each waits for the answer
to the one before, and on a machine that was idle that waking up costs more than the statement. So those that need
nothing of each other's answers are sent together (`wire.py`), in the words that SQLAlchemy made of them once. What
comes back is what the driver makes of it: no column type of ours looks at it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import sqlalchemy as sa
from sqlalchemy import exc as sa_errors
from sqlalchemy.engine import Dialect, make_url
from sqlalchemy.sql.compiler import SQLCompiler

from samjobs.store.engine import WIRE, Connection

if TYPE_CHECKING:
    from samjobs.store.wire import Wire

# As the server numbers its parameters.
_DIALECT: Dialect = cast(Any, make_url("postgresql+psycopg://").get_dialect())(paramstyle="numeric_dollar")
Rows = list[tuple[Any, ...]]
Row = TypeVar("Row")


class Statement:
    """A statement whose parameters and columns the driver itself understands."""

    def __init__(self, statement: sa.Executable) -> None:
        self.statement: Any = statement

    @cached_property
    def _compiled(self) -> SQLCompiler:
        compiled: SQLCompiler = self.statement.compile(dialect=_DIALECT)
        return compiled

    @cached_property
    def text(self) -> str:
        """In the words of the server."""
        return str(self._compiled)

    @cached_property
    def _binds(self) -> list[tuple[str, bool, Any]]:
        binds = [(name, self._compiled.binds[name]) for name in self._compiled.positiontup or ()]
        return [(name, bind.required, bind.effective_value) for name, bind in binds]

    def values(self, given: Mapping[str, Any]) -> list[Any]:
        """Of its parameters, in their order: those given, and what the statement holds itself.

        Raises:
            KeyError: it holds none, and none is given.
        """
        return [given[name] if required else given.get(name, held) for name, required, held in self._binds]


Asked = tuple[Statement, Mapping[str, Any]]


def together(conn: Connection, *asked: Asked, last: bool = False) -> Sequence[Rows]:
    """The rows of each statement, in the same order; each sees what the ones before it did.

    Args:
        last: nothing else follows in this transaction: commit it in the same trip. The end of its block then finds
            nothing left to do. On SQLite that end commits, which costs no trip.
    """
    if conn.dialect.name == "sqlite":
        return [[tuple(row) for row in conn.execute(one.statement, dict(given))] for one, given in asked]
    sent = [(one.text, one.values(given)) for one, given in asked]
    for text, values in sent:  # who listens to what SQLAlchemy sends hears of these too
        conn.dispatch.before_cursor_execute(conn, None, text, values, None, False)
    try:
        return _wire(conn).trip(sent, last=last)
    except conn.dialect.loaded_dbapi.Error as error:
        raise _as_of_sqlalchemy(conn, error) from error
    except BaseException:  # a signal's, say, in the middle of a trip
        conn.invalidate()
        raise


def _wire(conn: Connection) -> "Wire":
    from samjobs.store.wire import Wire  # which needs the driver

    kept = conn.info
    if WIRE not in kept:
        kept[WIRE] = Wire(cast(Any, conn.connection.driver_connection))
    wire: Wire = kept[WIRE]
    return wire


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
    return of.enum_class if isinstance(of, sa.Enum) else None


def _as_of_sqlalchemy(conn: Connection, error: Exception) -> Exception:
    """The same error as if SQLAlchemy had sent the statement, its connection given up if it is broken."""
    driver: Any = conn.connection.driver_connection
    broken = conn.dialect.is_disconnect(error, driver, None)  # type: ignore[arg-type]
    if broken:
        conn.invalidate(error)
    return sa_errors.DBAPIError.instance(
        None, None, error, conn.dialect.loaded_dbapi.Error, connection_invalidated=broken, dialect=conn.dialect
    )
