"""What the REST API asks: lists of jobs and of dead shards by tenant, and submissions that are repeated."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
PHASE = "pre"

UTC_TIME = sa.DateTime(timezone=True)


def _where(condition: str) -> dict[str, Any]:
    return {"sqlite_where": sa.text(condition), "postgresql_where": sa.text(condition)}


def upgrade() -> None:
    ended = _where("state IN ('cancelled', 'failed', 'succeeded')")
    op.create_index("ix_jobs_ended", "jobs", ["state", "created_at", "id"], **ended)
    op.create_index("ix_jobs_tenant", "jobs", ["tenant", "state", "created_at", "id"])
    op.create_index("ix_shards_dead_tenant", "shards", ["tenant", "id"], **_where("state = 'dead'"))
    _idempotency_keys()


def _idempotency_keys() -> None:
    op.create_table(
        "idempotency_keys",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("request_hash", sa.Text(), nullable=False),
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("created_at", UTC_TIME, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "key", name="pk_idempotency_keys"),
        # A controller of the version before forgets jobs, and knows nothing of this table.
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_idempotency_keys_job_id", ondelete="CASCADE"),
    )
    op.create_index("ix_idempotency_keys_job", "idempotency_keys", ["job_id"])
