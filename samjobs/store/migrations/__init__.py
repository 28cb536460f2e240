"""Bringing a database's schema to what this code knows, and telling whether it is there.

Each revision under `versions/` is marked `PHASE = "pre"` (applied before the new code runs; the old code works on it)
or `"post"` (only once no old code runs). Alembic is loaded only when something is to do: the CLI starts faster.
"""

from pathlib import Path

import sqlalchemy as sa

from samjobs.errors import SchemaMismatch
from samjobs.store.engine import Connection, Store

# The newest revision under versions/; a test compares the two.
HEAD = "0005"
_VERSIONS = sa.table("alembic_version", sa.column("version_num"))
# Any number that no other program on the same database locks by: "samj" in ASCII.
_ADVISORY_LOCK = 0x73616D6A


def migrate(store: Store) -> None:
    """Bring `store` to the newest schema. Safe for many processes at once: one does it, the others wait.

    Raises:
        SchemaMismatch: the database is newer than this code.
        DatabaseUnavailable, OutputUnwritable: as any write.
    """
    with store.read() as conn:
        if revision(conn) == HEAD:
            return
    with store.begin() as conn:
        if not store.is_sqlite:  # SQLite's write transaction is the lock
            conn.execute(sa.select(sa.func.pg_advisory_xact_lock(_ADVISORY_LOCK)))
        found = revision(conn)
        if found != HEAD:
            _upgrade(conn, found, store.name)


def check_schema(store: Store) -> None:
    """Do nothing if the schema is the one that this code knows.

    Raises:
        SchemaMismatch: naming both revisions and the remedy.
    """
    with store.read() as conn:
        found = revision(conn)
    if found != HEAD:
        raise SchemaMismatch(
            f"database {store.name} has schema revision {found or 'none'}, this samjobs needs {HEAD}:"
            " migrate it by `samjobs migrate` (any `samjobs process` migrates a SQLite file), or use the samjobs that"
            " fits it"
        )


def revision(conn: Connection) -> str | None:
    """The schema revision of the database, None where there is none yet."""
    if not sa.inspect(conn).has_table(_VERSIONS.name):
        return None
    return conn.execute(sa.select(_VERSIONS.c.version_num)).scalar_one_or_none()


def _upgrade(conn: Connection, found: str | None, name: str) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.attributes["connection"] = conn
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise SchemaMismatch(
            f"database {name} has schema revision {found}, which this samjobs does not know: it was made by a newer"
            f" one; update samjobs, or name another database ({error})"
        ) from error
