"""Connections, transactions, and everything that differs between Postgres and SQLite but locks and inserts.

A write transaction on SQLite begins IMMEDIATE: one that first reads and then writes would be refused at once when
another process wrote in between, whatever the busy timeout. Python's own guesses about transactions are off.

With `pooled=True` (pgbouncer in transaction mode) nothing is kept in a session: no prepared statements, no SET.
Nothing here retries: `DatabaseUnavailable` is transient, and the caller knows what may be done twice.
"""

import math
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy import exc as sa_errors
from sqlalchemy.pool import ConnectionPoolEntry

from samjobs.errors import InvalidInput, redact
from samjobs.store.faults import translate
from samjobs.store.local import refuse_network_file_system, set_up_sqlite
from samjobs.store.types import db_now

BUSY_TIMEOUT_S = 60.0
CONNECT_TIMEOUT_S = 10
# A server or a network that went away without a word is an error after about a minute, not after TCP's quarter hour.
KEEPALIVE = MappingProxyType(
    {"keepalives_idle": 20, "keepalives_interval": 10, "keepalives_count": 3, "tcp_user_timeout": 50_000}
)
_WRITES = "samjobs_writes"
_USED_AT = "samjobs_used_at"
WIRE = "samjobs_wire"  # where a connection keeps its `wire.Wire`

__all__ = ["Connection", "Store", "connect", "now"]

Row = TypeVar("Row")


@dataclass(frozen=True)
class Store:
    """A database of jobs. Give `begin()` or `read()`'s connection to the functions of this package.

    Both raise DatabaseUnavailable, OutputUnwritable (disk full or read-only), SchemaMismatch (no tables) and
    InvalidInput (not a database), from the statements inside too.
    """

    name: str  # the address without its password
    engine: sa.Engine
    is_sqlite: bool
    pooled: bool = False  # through pgbouncer in transaction mode
    ask_after_s: float = 0.0
    _mine: "_OfThread" = field(default_factory=lambda: _OfThread(), repr=False)

    def begin(self) -> AbstractContextManager[Connection]:
        """One write transaction: committed at the end, rolled back by any exception."""
        return self._transaction(writes=True)

    def read(self) -> AbstractContextManager[Connection]:
        """One transaction to read in; on SQLite it sees one snapshot and waits for nobody."""
        return self._transaction(writes=False)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """In the block, this thread keeps its connection from one transaction to the next.

        To ask for one and to give it back takes as long as a statement, which matters where somebody waits for many
        small transactions. Elsewhere it would keep others from a connection that nobody uses. With an `ask_after_s` of
        0 it changes nothing.
        """
        self._mine.keeps = True
        try:
            yield
        finally:
            self._mine.keeps = False
            if (conn := self._mine.conn) is not None:
                self._mine.conn = None
                conn.close()

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    @contextmanager
    def _transaction(self, *, writes: bool) -> Iterator[Connection]:
        try:
            conn = self._take()
            try:
                if self.is_sqlite:
                    conn.execution_options(**{_WRITES: writes})
                with conn.begin():
                    yield conn
            except BaseException:
                conn.close()
                raise
            self._give_back(conn)
        except sa_errors.SQLAlchemyError as error:
            translated = translate(error, self.name)
            if translated is None:
                raise
            raise translated from error

    def _take(self) -> Connection:
        conn, self._mine.conn = self._mine.conn, None  # a transaction inside another one takes a second connection
        if conn is not None and _idle_s(conn.info) < self.ask_after_s:
            return conn
        if conn is not None:
            conn.close()
        conn = self.engine.connect()  # which asks it
        conn.info.setdefault(_USED_AT, time.monotonic())
        return conn

    def _give_back(self, conn: Connection) -> None:
        conn.info[_USED_AT] = time.monotonic()
        if self._mine.keeps and self._mine.conn is None:
            self._mine.conn = conn
        else:
            conn.close()


class _OfThread(threading.local):
    """Of one store, in one thread."""

    keeps = False
    conn: Connection | None = None  # that is kept, while no transaction uses it


def connect(url: str, *, pooled: bool = False, connections: int | None = None, ask_after_s: float = 0.0) -> Store:
    """A store at `url`: `sqlite:///path` or `postgresql://user:password@host/name`. Opens no connection yet.

    Args:
        pooled: Postgres is reached through pgbouncer in transaction mode.
        connections: most connections to Postgres at once; who needs one more waits for it.
        ask_after_s: a connection that was idle for longer is asked whether it still is one, before it is used. 0: each
            time, so that after a restart of the database the first transaction works instead of failing; it costs a
            round trip, which who tries again by itself can save.

    Raises:
        InvalidInput: another kind of address, or SQLite on a network file system.
    """
    try:
        parsed = sa.make_url(url)
        if "@" in (parsed.host or ""):  # the rest of a password, which the driver would take for a host and repeat
            raise ValueError("host")
    except (sa_errors.ArgumentError, ValueError):
        # The address may hold a password, so neither it nor the library's message about it is repeated.
        raise InvalidInput(
            "the database address cannot be read: give sqlite:///path or postgresql://user:password@host:port/name,"
            " with special characters of the password percent-encoded"
        ) from None
    match parsed.drivername:
        case "sqlite" | "sqlite+pysqlite":
            return _connect_sqlite(parsed)
        case "postgresql" | "postgres" | "postgresql+psycopg":
            return _connect_postgres(parsed.set(drivername="postgresql+psycopg"), pooled, connections, ask_after_s)
    raise InvalidInput(f"database {parsed.drivername}:// is not supported: use sqlite:/// or postgresql://")


def _connect_sqlite(url: sa.URL) -> Store:
    if not url.database or url.database == ":memory:":
        raise InvalidInput("sqlite without a file is not supported: give sqlite:///path, several connections share it")
    path = Path(url.database)
    refuse_network_file_system(path)
    engine = sa.create_engine(
        url.set(drivername="sqlite+pysqlite"),
        connect_args={"timeout": BUSY_TIMEOUT_S, "check_same_thread": False, "isolation_level": None},
        pool_timeout=BUSY_TIMEOUT_S,
    )
    sa.event.listen(engine, "connect", _on_connect_sqlite)
    sa.event.listen(engine, "begin", _on_begin_sqlite)
    return Store(name=str(path), engine=engine, is_sqlite=True)


def _on_connect_sqlite(connection: sqlite3.Connection, _record: Any) -> None:
    set_up_sqlite(connection, BUSY_TIMEOUT_S)


def _on_begin_sqlite(conn: Connection) -> None:
    writes = conn.get_execution_options().get(_WRITES, False)
    conn.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _connect_postgres(url: sa.URL, pooled: bool, connections: int | None, ask_after_s: float) -> Store:
    arguments: dict[str, Any] = {"connect_timeout": CONNECT_TIMEOUT_S, **KEEPALIVE}
    if pooled:
        arguments["prepare_threshold"] = None
    size: dict[str, Any] = {} if connections is None else {"pool_size": connections, "max_overflow": 0}
    engine = sa.create_engine(url, connect_args=arguments, **size)
    _ask_the_idle(engine, ask_after_s)
    for event in ("rollback", "rollback_savepoint"):
        sa.event.listen(engine, event, _rolled_back)
    name = redact(url.render_as_string(hide_password=True))
    return Store(name, engine, is_sqlite=False, pooled=pooled, ask_after_s=ask_after_s)


def _ask_the_idle(engine: sa.Engine, after_s: float) -> None:
    """Have a connection that was idle for so long asked whether it still is one; if not, another is made."""

    def ask(connection: Any, record: ConnectionPoolEntry, _proxy: Any) -> None:
        if _idle_s(record.info) < after_s:
            return
        dialect = engine.dialect
        try:
            dialect.do_ping(connection)
        except dialect.loaded_dbapi.Error as error:
            raise sa_errors.DisconnectionError from error

    sa.event.listen(engine, "checkout", ask)


def _idle_s(info: Mapping[Any, Any]) -> float:
    """Seconds since the last transaction of a connection that went well; below zero before its first one."""
    used_at: float = info.get(_USED_AT, math.inf)
    return time.monotonic() - used_at


def _rolled_back(conn: Connection, *_: Any) -> None:
    if not conn.invalidated and (wire := conn.info.get(WIRE)) is not None:
        wire.rolled_back()


_NOW = sa.select(db_now())


def now(conn: Connection) -> datetime:
    """The database's clock, aware, UTC; milliseconds on SQLite."""
    value = conn.execute(_NOW).scalar_one()
    assert isinstance(value, datetime)
    return value


def as_row(kind: type[Row], row: sa.Row[Any]) -> Row:
    """A row of a whole table as the dataclass that has its columns as fields."""
    return kind(**row._mapping)
