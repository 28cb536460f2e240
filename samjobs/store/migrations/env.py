"""Alembic runs this file. The connection, its transaction and its lock are the caller's (`migrate`)."""

from alembic import context

from samjobs.store.tables import metadata

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=metadata,
    # SQLite cannot alter a table in place; Alembic copies it.
    render_as_batch=connection.dialect.name == "sqlite",
)
context.run_migrations()
