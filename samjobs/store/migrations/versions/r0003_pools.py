"""What scaling has to know: what is remembered of a pool, and what workers measure."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
PHASE = "pre"

UTC_TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    _workers()
    _pools()


def _workers() -> None:
    # Added, not made anew: workers of the version before go on while the schema changes.
    on_sqlite = op.get_bind().dialect.name == "sqlite"
    with op.batch_alter_table("workers", recreate="always" if on_sqlite else "never") as batch:
        batch.add_column(sa.Column("pod", sa.Text()))
        batch.add_column(sa.Column("image_s", sa.Double()))
        batch.add_column(sa.Column("load_s", sa.Double()))


def _pools() -> None:
    op.create_table(
        "pools",
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("region", sa.Text(), nullable=False),
        sa.Column("engine", sa.Text(), nullable=False),
        sa.Column("desired", sa.Integer(), nullable=False),
        sa.Column("ready", sa.Integer(), nullable=False),
        sa.Column("busy", sa.Integer(), nullable=False),
        sa.Column("reason", sa.String(32), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("changed_at", UTC_TIME),
        sa.Column("enough_since", UTC_TIME),
        sa.Column("enough", sa.Integer()),
        sa.Column("image_s", sa.Double()),
        sa.Column("load_s", sa.Double()),
        sa.Column("updated_at", UTC_TIME, nullable=False),
        sa.PrimaryKeyConstraint("namespace", "name", name="pk_pools"),
        postgresql_with={"fillfactor": 80},
    )
