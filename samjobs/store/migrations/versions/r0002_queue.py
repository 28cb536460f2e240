"""What controllers and workers of a cluster keep: lanes, keepers, requests by SQL, the outbox of webhooks."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
PHASE = "pre"

UTC_TIME = sa.DateTime(timezone=True)
ACTIVE = "state IN ('queued', 'running', 'suspended')"
ENDED = "state IN ('cancelled', 'failed', 'succeeded')"


def _where(condition: str) -> dict[str, Any]:
    return {"sqlite_where": sa.text(condition), "postgresql_where": sa.text(condition)}


def upgrade() -> None:
    _jobs()
    _shards()
    _workers()
    _requests()
    _deliveries()


def _jobs() -> None:
    with op.batch_alter_table("jobs") as batch:
        batch.add_column(sa.Column("uid", sa.Uuid()))
        batch.add_column(sa.Column("keeper", sa.Uuid()))
        batch.add_column(sa.Column("kept_at", UTC_TIME))
        batch.add_column(sa.Column("alive_at", UTC_TIME))
    op.execute("UPDATE jobs SET alive_at = updated_at")
    with op.batch_alter_table("jobs") as batch:
        batch.alter_column("alive_at", nullable=False, existing_type=UTC_TIME)
    op.create_index("uq_jobs_uid", "jobs", ["uid"], unique=True, **_where("uid IS NOT NULL"))
    op.create_index("ix_jobs_unlisted", "jobs", ["created_at"], **_where(f"{ACTIVE} AND expanded_at IS NULL"))
    op.create_index("ix_jobs_unpublished", "jobs", ["finished_at"], **_where(f"{ENDED} AND published_at IS NULL"))
    op.create_index("ix_jobs_deadline", "jobs", ["deadline_at"], **_where(f"{ACTIVE} AND deadline_at IS NOT NULL"))


def _shards() -> None:
    indexes = _shard_indexes()
    # SQLite's copy of a table cannot take an index by an expression along.
    for name in (*indexes, "ix_shards_claim_region"):
        if name not in ("ix_shards_lane", "ix_shards_at_work"):
            op.drop_index(name, "shards")
    with op.batch_alter_table("shards") as batch:
        batch.add_column(sa.Column("tenant", sa.Text()))
        batch.add_column(sa.Column("queue", sa.Text()))
    op.execute("UPDATE shards SET tenant = (SELECT jobs.tenant FROM jobs WHERE jobs.id = shards.job_id)")
    with op.batch_alter_table("shards") as batch:
        batch.alter_column("tenant", nullable=False, existing_type=sa.Text())
    for name, (columns, condition) in indexes.items():
        op.create_index(name, "shards", columns, **condition)


def _shard_indexes() -> dict[str, tuple[list[Any], dict[str, Any]]]:
    claimable, held = _queued("NOT held", "held = 0"), _queued("held", "held = 1")
    downwards: Any = sa.literal_column("priority DESC")
    return {
        "ix_shards_active": (["job_id"], _where("state IN ('dispatched', 'running')")),
        "ix_shards_at_work": (["dispatched_at"], _where("(state NOT IN ('cancelled', 'dead', 'queued', 'succeeded'))")),
        "ix_shards_claim": ([downwards, "available_at", "job_created_at", "index"], claimable),
        "ix_shards_claim_job": (["job_id", "available_at", "index"], claimable),
        "ix_shards_dead": (["id"], _where("state = 'dead'")),
        "ix_shards_dispatched": (["id"], _where("state = 'dispatched'")),
        "ix_shards_held": (["job_id", "index"], held),
        "ix_shards_lane": (["region", "tenant", "priority", "available_at", "job_created_at", "index"], claimable),
        "ix_shards_running": (["id"], _where("state = 'running'")),
    }


def _queued(postgres: str, sqlite: str) -> dict[str, Any]:
    return {
        "sqlite_where": sa.text(f"state = 'queued' AND {sqlite}"),
        "postgresql_where": sa.text(f"state = 'queued' AND {postgres}"),
    }


def _workers() -> None:
    op.drop_table("workers")  # nobody works while the schema changes; who starts lists itself
    op.create_table(
        "workers",
        sa.Column("incarnation", sa.Uuid(), nullable=False),
        sa.Column("pool", sa.Text(), nullable=False),
        sa.Column("region", sa.Text(), nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("device", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("revision", sa.Text(), nullable=False),
        sa.Column("state", sa.String(32), nullable=False),
        sa.Column("shard_id", sa.Uuid()),
        sa.Column("images_total", sa.Integer(), nullable=False),
        sa.Column("progressed_at", UTC_TIME),
        sa.Column("heartbeat_at", UTC_TIME, nullable=False),
        sa.Column("started_at", UTC_TIME, nullable=False),
        sa.CheckConstraint("state IN ('loading', 'ready', 'busy', 'draining', 'gone')", name=op.f("ck_workers_state")),
        sa.PrimaryKeyConstraint("incarnation", name="pk_workers"),
        postgresql_with={"fillfactor": 80},
    )


def _requests() -> None:
    postgres = op.get_bind().dialect.name == "postgresql"
    new_id = "gen_random_uuid()" if postgres else "(lower(hex(randomblob(16))))"
    now = "clock_timestamp()" if postgres else "(strftime('%Y-%m-%d %H:%M:%f000', 'now'))"
    op.create_table(
        "requests",
        sa.Column("id", sa.Uuid(), nullable=False, server_default=sa.text(new_id)),
        sa.Column("tenant", sa.Text(), nullable=False, server_default="default"),
        sa.Column("name", sa.Text()),
        sa.Column("spec", sa.JSON(), nullable=False),
        sa.Column("created_at", UTC_TIME, nullable=False, server_default=sa.text(now)),
        sa.Column("job_id", sa.Uuid()),
        sa.Column("error", sa.Text()),
        sa.Column("answered_at", UTC_TIME),
        sa.PrimaryKeyConstraint("id", name="pk_requests"),
    )
    op.create_index("ix_requests_open", "requests", ["created_at"], **_where("answered_at IS NULL"))
    op.create_index("ix_requests_answered_at", "requests", ["answered_at"])
    if postgres:
        op.execute(
            "CREATE FUNCTION samjobs_wake() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN PERFORM pg_notify('samjobs', ''); RETURN NULL; END $$"
        )
        op.execute("CREATE TRIGGER wake AFTER INSERT ON requests FOR EACH STATEMENT EXECUTE FUNCTION samjobs_wake()")


def _deliveries() -> None:
    op.create_table(
        "deliveries",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("payload", sa.JSON(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("due_at", UTC_TIME),
        sa.Column("status", sa.Integer()),
        sa.Column("error", sa.Text()),
        sa.Column("created_at", UTC_TIME, nullable=False),
        sa.Column("delivered_at", UTC_TIME),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_deliveries_job_id"),
        sa.PrimaryKeyConstraint("id", name="pk_deliveries"),
    )
    op.create_index("ix_deliveries_due", "deliveries", ["due_at"], **_where("due_at IS NOT NULL"))
    op.create_index("ix_deliveries_job", "deliveries", ["job_id"])
