"""What the database's errors mean for samjobs. Knows no statement and retries nothing.

An error that is none of these is a fault of the code (a broken constraint, a wrong statement) and stays as it is.
Passwords never reach a message: it is made of the driver's own words about the server, never of the address.
"""

import sqlite3

from sqlalchemy import exc as sa_errors

from samjobs.errors import (
    DatabaseUnavailable,
    InvalidInput,
    OutputUnwritable,
    SamjobsError,
    SchemaMismatch,
    describe,
)

# Primary result codes, https://www.sqlite.org/rescode.html
_SQLITE_UNWRITABLE = {
    sqlite3.SQLITE_FULL: "the disk is full: free some space and run the same command again",
    sqlite3.SQLITE_IOERR: "reading or writing failed: see whether the disk is full or damaged",
    sqlite3.SQLITE_READONLY: "it is read-only: allow writing to it and to its folder, or name another place by --db",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened: its folder must exist and be writable; or use --db PATH",
}
_SQLITE_NO_DATABASE = {sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT}
_SQLITE_NO_TABLE = ("no such table", "no such column")
_NO_OPTION = "invalid connection option"  # the driver's own words, before it asks anybody
_POSTGRES_NO_TABLE = {"42P01", "42703"}  # undefined table, undefined column
_POSTGRES_READ_ONLY = "25006"


def translate(error: sa_errors.SQLAlchemyError, store: str) -> SamjobsError | None:
    """The samjobs error that `error` means, or None when it is a fault of the code.

    Args:
        store: the address without its password, for the message.
    """
    if isinstance(error, sa_errors.StatementError) and isinstance(error.orig, SamjobsError):
        return error.orig  # a column type refused a value
    if isinstance(error, sa_errors.TimeoutError):
        return DatabaseUnavailable(f"database {store}: no free connection in time; lower the number of threads")
    if not isinstance(error, sa_errors.DBAPIError) or error.orig is None:
        return None
    cause = error.orig
    if isinstance(cause, sqlite3.Error):
        return _of_sqlite(cause, store)
    if getattr(cause, "sqlstate", None) in _POSTGRES_NO_TABLE:
        return _no_table(store, cause)
    if getattr(cause, "sqlstate", None) == _POSTGRES_READ_ONLY:
        return DatabaseUnavailable(
            f"database {store} takes no writes now ({describe(cause, 200)}): a replica until it takes over, or a server"
            " whose disk is full; if that lasts, name the primary"
        )
    if isinstance(error, sa_errors.ProgrammingError) and _NO_OPTION in str(cause):
        return InvalidInput(f"database {store}: {describe(cause, 200)}: leave it out of the address")
    if isinstance(error, sa_errors.OperationalError | sa_errors.InterfaceError) or error.connection_invalidated:
        return DatabaseUnavailable(f"database {store} is unavailable: {describe(cause, 500)}")
    return None


def _of_sqlite(cause: sqlite3.Error, store: str) -> SamjobsError | None:
    code = getattr(cause, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code in _SQLITE_UNWRITABLE:
        return OutputUnwritable(f"database {store}: {_SQLITE_UNWRITABLE[code]} ({describe(cause, 500)})")
    if code in _SQLITE_NO_DATABASE:
        return InvalidInput(
            f"database {store} is damaged or not a SQLite file: restore it, or name another place by --db"
        )
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return DatabaseUnavailable(f"database {store} is locked by another process for too long: try again")
    if str(cause).startswith(_SQLITE_NO_TABLE):
        return _no_table(store, cause)
    return None


def _no_table(store: str, cause: BaseException) -> SchemaMismatch:
    return SchemaMismatch(
        f"database {store} has no samjobs tables of this version: migrate it by `samjobs migrate`"
        f" ({describe(cause, 200)})"
    )
