"""Migrations lead exactly to tables.py, on both databases, and a database of another version is told from ours."""

from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from samjobs.errors import SchemaMismatch
from samjobs.store import Store, check_schema, connect, migrate, migrations
from samjobs.store.tables import metadata
from tests.store.builders import job, read

VERSIONS = Path(migrations.__file__).parent


def _script() -> ScriptDirectory:
    config = Config()
    config.set_main_option("script_location", str(VERSIONS))
    return ScriptDirectory.from_config(config)


def test_the_migrated_schema_is_that_of_the_tables(store: Store) -> None:
    with store.read() as conn:
        context = MigrationContext.configure(conn, opts={"compare_type": True, "compare_server_default": True})
        assert compare_metadata(context, metadata) == []


def test_checks_and_partial_indexes_are_the_same_as_the_tables_would_make(store: Store) -> None:
    """What Alembic does not compare: conditions of indexes, CHECKs, orders and storage options."""
    with store.begin() as conn:
        migrated = _details(conn)
        metadata.drop_all(conn)
        metadata.create_all(conn)
        assert _details(conn) == migrated


def _details(conn: sa.Connection) -> set[str]:
    if conn.dialect.name == "sqlite":
        query = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'alembic%'"
        # The order of a table's clauses means nothing; each stands on a line of its own.
        made = [row[0].replace('"', "").splitlines() for row in conn.exec_driver_sql(query)]
        return {"; ".join(sorted(line.strip(" \t,") for line in lines)) for lines in made}
    queries = [
        "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' AND tablename <> 'alembic_version'",
        "SELECT conrelid::regclass || conname || pg_get_constraintdef(oid) FROM pg_constraint WHERE contype = 'c'",
        "SELECT relname || reloptions::text FROM pg_class WHERE reloptions IS NOT NULL AND relkind = 'r'",
    ]
    return {str(row[0]) for query in queries for row in conn.exec_driver_sql(query)}


def test_the_code_knows_the_newest_revision_and_each_says_when_it_may_run() -> None:
    assert _script().get_current_head() == migrations.HEAD
    for revision in _script().walk_revisions():
        assert revision.module.PHASE in {"pre", "post"}


def test_migrating_again_changes_nothing_and_keeps_the_data(store: Store) -> None:
    job_id = job(store)
    before = read(store, job_id)
    migrate(store)
    check_schema(store)
    assert read(store, job_id) == before


def test_a_database_that_was_never_migrated_is_told_with_the_remedy(sqlite_url: str) -> None:
    store = connect(sqlite_url)
    with pytest.raises(SchemaMismatch, match=r"revision none.*migrate it"):
        check_schema(store)
    store.close()


def test_a_database_of_a_newer_samjobs_is_refused_and_left_alone(store: Store) -> None:
    with store.begin() as conn:
        conn.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(SchemaMismatch, match="9999"):
        check_schema(store)
    with pytest.raises(SchemaMismatch, match=r"9999.*newer"):
        migrate(store)
    with store.read() as conn:
        assert migrations.revision(conn) == "9999"


def test_a_migration_that_fails_leaves_no_table_behind(sqlite_url: str) -> None:
    store = connect(sqlite_url)
    with store.begin() as conn:
        # In the way of the last table that the first revision makes.
        conn.exec_driver_sql("CREATE TABLE shards (id INTEGER)")
    with pytest.raises(sa.exc.OperationalError, match="already exists"):
        migrate(store)
    with store.read() as conn:
        assert sa.inspect(conn).get_table_names() == ["shards"]
    store.close()
