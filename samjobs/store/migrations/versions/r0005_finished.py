"""Which jobs ended lately: for the metrics, whose cost is to follow the flow and not what is kept."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
PHASE = "pre"


def upgrade() -> None:
    ended = sa.text("finished_at IS NOT NULL")
    op.create_index("ix_jobs_finished_at", "jobs", ["finished_at"], sqlite_where=ended, postgresql_where=ended)
