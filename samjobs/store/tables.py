"""The tables. States, CHECKs and partial indexes are built from `samjobs.states`; migrations must lead here.

Two rules shape the indexes. Everything that is asked often is asked of rows that are not finished, so its index is
partial and no cost grows with finished rows. And a claim needs nothing but `shards`: a suspended job, and what lies
beyond a job's `parallelism`, is marked `held` on its shards by those who change that, so that a claim walks one index
and stops. `shards.heartbeat_at` is in no index, and Postgres leaves room in each page (fillfactor), so that a
heartbeat is a HOT update.

Names of any length are looked up by their hash: a B-tree refuses keys of a few kilobytes, and paths may be that long.
"""

from collections.abc import Iterable
from enum import StrEnum
from hashlib import blake2b
from typing import Any

import sqlalchemy as sa

from samjobs.errors import ErrorClass
from samjobs.names import DEFAULT_TENANT, Reason
from samjobs.states import JOB_ACTIVE, JOB_TERMINAL, ImageState, JobState, ShardState
from samjobs.store.rows import Subject, WorkerState
from samjobs.store.types import ExactText, PromptsJson, SafeText, SpecJson, UtcDateTime, db_now, new_id

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def name_hash(text: str) -> bytes:
    """What `images.key_hash` and `uri_hash` hold: 16 bytes of BLAKE2b over the text, lone surrogates included."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _words(words: type[StrEnum]) -> sa.Enum:
    """A column of one enum's words, as text. What may stand in it is checked where a CHECK is named."""
    return sa.Enum(words, native_enum=False, length=32, create_constraint=False, values_callable=_values)


def _values(words: Iterable[StrEnum]) -> list[str]:
    return [word.value for word in words]


def _one_of(column: str, words: Iterable[StrEnum]) -> sa.CheckConstraint:
    listed = ", ".join(f"'{word.value}'" for word in words)
    return sa.CheckConstraint(f"{column} IN ({listed})", name=column)


def _partial(name: str, *columns: Any, where: sa.ColumnElement[bool], unique: bool = False) -> sa.Index:
    return sa.Index(name, *columns, unique=unique, sqlite_where=where, postgresql_where=where)


def in_states(column: sa.Column[Any], states: Iterable[StrEnum]) -> sa.ColumnElement[bool]:
    """`column` is one of `states`, as words: with parameters neither database sees that a partial index fits."""
    literals: list[sa.ColumnElement[Any]] = [sa.literal_column(f"'{state.value}'") for state in sorted(states)]
    return column == literals[0] if len(literals) == 1 else column.in_(literals)


jobs = sa.Table(
    "jobs",
    metadata,
    sa.Column("id", sa.Uuid, primary_key=True),
    sa.Column("tenant", SafeText(253), nullable=False),
    sa.Column("name", SafeText(253)),
    sa.Column("uid", sa.Uuid),
    sa.Column("spec", SpecJson, nullable=False),
    sa.Column("config_hash", sa.Text, nullable=False),
    sa.Column("dedupe_key", sa.Text),
    sa.Column("region", sa.Text, nullable=False),
    sa.Column("priority", sa.Integer, nullable=False),
    sa.Column("state", _words(JobState), nullable=False),
    sa.Column("reason", _words(Reason), nullable=False),
    sa.Column("error", SafeText()),
    sa.Column("suspend", sa.Boolean, nullable=False),
    sa.Column("cancel_reason", _words(Reason)),
    sa.Column("submitter", sa.Uuid),
    sa.Column("keeper", sa.Uuid),
    sa.Column("kept_at", UtcDateTime),
    sa.Column("not_before", UtcDateTime),
    sa.Column("deadline_at", UtcDateTime),
    sa.Column("images_total", sa.Integer, nullable=False),
    sa.Column("images_done", sa.Integer, nullable=False),
    sa.Column("images_failed", sa.Integer, nullable=False),
    sa.Column("images_skipped", sa.Integer, nullable=False),
    sa.Column("shards_total", sa.Integer, nullable=False),
    sa.Column("shards_succeeded", sa.Integer, nullable=False),
    sa.Column("shards_dead", sa.Integer, nullable=False),
    sa.Column("shards_cancelled", sa.Integer, nullable=False),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("alive_at", UtcDateTime, nullable=False),
    sa.Column("expanded_at", UtcDateTime),
    sa.Column("started_at", UtcDateTime),
    sa.Column("finished_at", UtcDateTime),
    sa.Column("expires_at", UtcDateTime),
    sa.Column("published_at", UtcDateTime),
    sa.Column("updated_at", UtcDateTime, nullable=False),
    _one_of("state", JobState),
    sa.CheckConstraint(
        "images_done >= 0 AND images_failed >= 0 AND images_skipped >= 0"
        " AND images_done + images_failed + images_skipped <= images_total",
        name="images",
    ),
    sa.CheckConstraint(
        "shards_succeeded >= 0 AND shards_dead >= 0 AND shards_cancelled >= 0"
        " AND shards_succeeded + shards_dead + shards_cancelled <= shards_total",
        name="shards",
    ),
)
ACTIVE_JOB = in_states(jobs.c.state, JOB_ACTIVE)
ENDED_JOB = in_states(jobs.c.state, JOB_TERMINAL)
UNLISTED = sa.and_(ACTIVE_JOB, jobs.c.expanded_at.is_(None))
OVERDUE = sa.and_(ACTIVE_JOB, jobs.c.deadline_at.is_not(None))
UNPUBLISHED = sa.and_(in_states(jobs.c.state, JOB_TERMINAL), jobs.c.published_at.is_(None))
# An equal job is joined while it is active; a finished one is in nobody's way.
_partial("uq_jobs_dedupe", jobs.c.tenant, jobs.c.dedupe_key, where=ACTIVE_JOB, unique=True)
_partial("uq_jobs_uid", jobs.c.uid, where=jobs.c.uid.is_not(None), unique=True)
_partial("ix_jobs_active", jobs.c.state, jobs.c.created_at, where=ACTIVE_JOB)
_partial("ix_jobs_unlisted", jobs.c.created_at, where=UNLISTED)
_partial("ix_jobs_unpublished", jobs.c.finished_at, where=UNPUBLISHED)
_partial("ix_jobs_deadline", jobs.c.deadline_at, where=OVERDUE)
_partial("ix_jobs_expiry", jobs.c.expires_at, where=jobs.c.expires_at.is_not(None))
_partial("ix_jobs_finished_at", jobs.c.finished_at, where=jobs.c.finished_at.is_not(None))
# Lists page through these from the newest: by state, or by tenant and state. Those that are active have their own.
_partial("ix_jobs_ended", jobs.c.state, jobs.c.created_at, jobs.c.id, where=ENDED_JOB)
sa.Index("ix_jobs_tenant", jobs.c.tenant, jobs.c.state, jobs.c.created_at, jobs.c.id)
sa.Index("ix_jobs_name", jobs.c.name, jobs.c.created_at)
sa.Index("ix_jobs_created_at", jobs.c.created_at)

shards = sa.Table(
    "shards",
    metadata,
    sa.Column("id", sa.Uuid, primary_key=True),
    sa.Column("job_id", sa.Uuid, sa.ForeignKey("jobs.id"), nullable=False),
    sa.Column("index", sa.Integer, nullable=False),
    sa.Column("first_index", sa.Integer, nullable=False),
    sa.Column("images_total", sa.Integer, nullable=False),
    sa.Column("images_done", sa.Integer, nullable=False),
    sa.Column("state", _words(ShardState), nullable=False),
    sa.Column("held", sa.Boolean, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("failures", sa.Integer, nullable=False),
    sa.Column("region", sa.Text, nullable=False),
    sa.Column("tenant", SafeText(253), nullable=False),
    sa.Column("priority", sa.Integer, nullable=False),
    sa.Column("job_created_at", UtcDateTime, nullable=False),
    sa.Column("available_at", UtcDateTime, nullable=False),
    sa.Column("queue", sa.Text),
    sa.Column("incarnation", sa.Uuid),
    sa.Column("heartbeat_at", UtcDateTime),
    sa.Column("error_class", _words(ErrorClass)),
    sa.Column("error", SafeText()),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("dispatched_at", UtcDateTime),
    sa.Column("started_at", UtcDateTime),
    sa.Column("finished_at", UtcDateTime),
    sa.UniqueConstraint("job_id", "index"),
    _one_of("state", ShardState),
    sa.CheckConstraint("images_done BETWEEN 0 AND images_total", name="images"),
    postgresql_with={"fillfactor": 80},
)
# Which shards the queries ask for, in the words of the partial indexes: other words would walk the whole table.
QUEUED = in_states(shards.c.state, [ShardState.QUEUED])
ACTIVE = in_states(shards.c.state, [ShardState.DISPATCHED, ShardState.RUNNING])
# ACTIVE beside it, since Postgres does not see that one word is among two.
RUNNING = sa.and_(ACTIVE, shards.c.state == ShardState.RUNNING)
# The same, in words that fit no other index: Postgres cannot know which of two has many dead entries.
AT_WORK = sa.not_(in_states(shards.c.state, set(ShardState) - {ShardState.DISPATCHED, ShardState.RUNNING}))
CLAIMABLE = sa.and_(QUEUED, sa.not_(shards.c.held))
# In the order of a claim: over all, in one lane (region, tenant and priority), and in one job.
CLAIM_ORDER = (shards.c.priority.desc(), shards.c.available_at, shards.c.job_created_at, shards.c.index)
CLAIM_ORDER_IN_LANE = (shards.c.available_at, shards.c.job_created_at, shards.c.index)
CLAIM_ORDER_IN_JOB = (shards.c.available_at, shards.c.index)
LANE = (shards.c.region, shards.c.tenant, shards.c.priority)
_partial("ix_shards_claim", *CLAIM_ORDER, where=CLAIMABLE)
_partial("ix_shards_lane", *LANE, *CLAIM_ORDER_IN_LANE, where=CLAIMABLE)
_partial("ix_shards_claim_job", shards.c.job_id, *CLAIM_ORDER_IN_JOB, where=CLAIMABLE)
_partial("ix_shards_held", shards.c.job_id, shards.c.index, where=sa.and_(QUEUED, shards.c.held))
for _state in (ShardState.DISPATCHED, ShardState.RUNNING, ShardState.DEAD):
    _partial(f"ix_shards_{_state.value}", shards.c.id, where=in_states(shards.c.state, [_state]))
_partial("ix_shards_dead_tenant", shards.c.tenant, shards.c.id, where=in_states(shards.c.state, [ShardState.DEAD]))
_partial("ix_shards_active", shards.c.job_id, where=ACTIVE)
_partial("ix_shards_at_work", shards.c.dispatched_at, where=AT_WORK)

images = sa.Table(
    "images",
    metadata,
    sa.Column("job_id", sa.Uuid, sa.ForeignKey("jobs.id"), primary_key=True),
    sa.Column("index", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("key", ExactText, nullable=False),
    sa.Column("key_hash", sa.LargeBinary(16), nullable=False),
    sa.Column("uri", ExactText, nullable=False),
    sa.Column("uri_hash", sa.LargeBinary(16), nullable=False),
    sa.Column("prompts", PromptsJson),
    sa.Column("state", _words(ImageState), nullable=False),
    sa.Column("reason", _words(Reason)),
    sa.Column("quick_hash", sa.Text),
    sa.Column("content_hash", sa.Text),
    sa.Column("width", sa.Integer),
    sa.Column("height", sa.Integer),
    sa.Column("instances", sa.Integer),
    sa.Column("truncated", sa.Boolean, nullable=False),
    sa.Column("output_uri", ExactText),
    sa.Column("output_hash", sa.Text),
    sa.Column("error_class", _words(ErrorClass)),
    sa.Column("error", SafeText()),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("finished_at", UtcDateTime),
    _one_of("state", ImageState),
)
# The name first: one index keeps names unique in a job and finds a photo's history across jobs.
sa.Index("uq_images_key", images.c.key_hash, images.c.job_id, unique=True)
sa.Index("ix_images_uri", images.c.uri_hash)
_partial("ix_images_failed", images.c.job_id, images.c.index, where=in_states(images.c.state, [ImageState.FAILED]))

workers = sa.Table(
    "workers",
    metadata,
    sa.Column("incarnation", sa.Uuid, primary_key=True),
    sa.Column("pool", SafeText(253), nullable=False),
    sa.Column("region", SafeText(253), nullable=False),
    sa.Column("node", SafeText(253), nullable=False),
    sa.Column("pod", SafeText(253)),
    sa.Column("pid", sa.Integer, nullable=False),
    sa.Column("device", SafeText(253), nullable=False),
    sa.Column("model", SafeText(), nullable=False),
    sa.Column("revision", SafeText(253), nullable=False),
    sa.Column("state", _words(WorkerState), nullable=False),
    sa.Column("shard_id", sa.Uuid),
    sa.Column("images_total", sa.Integer, nullable=False),
    sa.Column("image_s", sa.Double),
    sa.Column("load_s", sa.Double),
    sa.Column("progressed_at", UtcDateTime),
    sa.Column("heartbeat_at", UtcDateTime, nullable=False),
    sa.Column("started_at", UtcDateTime, nullable=False),
    _one_of("state", WorkerState),
    postgresql_with={"fillfactor": 80},
)

# What the scaling has to know from one decision to the next, and what people ask of it.
pools = sa.Table(
    "pools",
    metadata,
    sa.Column("namespace", SafeText(253), primary_key=True),
    sa.Column("name", SafeText(253), primary_key=True),
    sa.Column("region", SafeText(253), nullable=False),
    sa.Column("engine", SafeText(253), nullable=False),
    sa.Column("desired", sa.Integer, nullable=False),
    sa.Column("ready", sa.Integer, nullable=False),
    sa.Column("busy", sa.Integer, nullable=False),
    sa.Column("reason", _words(Reason), nullable=False),
    sa.Column("message", SafeText(), nullable=False),
    sa.Column("changed_at", UtcDateTime),
    sa.Column("enough_since", UtcDateTime),
    sa.Column("enough", sa.Integer),
    sa.Column("image_s", sa.Double),
    sa.Column("load_s", sa.Double),
    sa.Column("updated_at", UtcDateTime, nullable=False),
    postgresql_with={"fillfactor": 80},
)

events = sa.Table(
    "events",
    metadata,
    # SQLite counts up by itself only in a column of exactly this type.
    sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
    sa.Column("job_id", sa.Uuid, sa.ForeignKey("jobs.id"), nullable=False),
    sa.Column("shard_id", sa.Uuid),
    sa.Column("image_index", sa.Integer),
    sa.Column("subject", _words(Subject), nullable=False),
    sa.Column("from_state", sa.Text),
    sa.Column("to_state", sa.Text, nullable=False),
    sa.Column("reason", _words(Reason), nullable=False),
    sa.Column("message", SafeText(), nullable=False),
    sa.Column("actor", SafeText(253), nullable=False),
    sa.Column("at", UtcDateTime, nullable=False),
    _one_of("subject", Subject),
)
sa.Index("ix_events_job", events.c.job_id, events.c.id)
# An image's own story, without walking its job's.
_partial(
    "ix_events_image",
    events.c.job_id,
    events.c.image_index,
    where=events.c.image_index.is_not(None),
)

# What a caller named its submission by, so that a second try finds the first: also one that joined an equal job, and as
# long as the job is remembered. Gone with the job by itself, since who forgets jobs may be older than this table.
idempotency_keys = sa.Table(
    "idempotency_keys",
    metadata,
    sa.Column("tenant", SafeText(253), primary_key=True),
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("request_hash", sa.Text, nullable=False),
    sa.Column("job_id", sa.Uuid, sa.ForeignKey("jobs.id", ondelete="CASCADE"), nullable=False),
    sa.Column("created_at", UtcDateTime, nullable=False),
)
sa.Index("ix_idempotency_keys_job", idempotency_keys.c.job_id)

# Requests by plain SQL: not validated yet, so not jobs yet. A trigger on Postgres wakes the controllers.
requests = sa.Table(
    "requests",
    metadata,
    sa.Column("id", sa.Uuid, primary_key=True, server_default=new_id()),
    sa.Column("tenant", sa.Text, nullable=False, server_default=DEFAULT_TENANT),
    sa.Column("name", sa.Text),
    sa.Column("spec", sa.JSON, nullable=False),
    sa.Column("created_at", UtcDateTime, nullable=False, server_default=db_now()),
    sa.Column("job_id", sa.Uuid),
    sa.Column("error", SafeText()),
    sa.Column("answered_at", UtcDateTime),
)
_partial("ix_requests_open", requests.c.created_at, where=requests.c.answered_at.is_(None))
sa.Index("ix_requests_answered_at", requests.c.answered_at)

# The outbox of webhooks: written with the end of the job, sent afterwards.
deliveries = sa.Table(
    "deliveries",
    metadata,
    sa.Column("id", sa.Uuid, primary_key=True),
    sa.Column("job_id", sa.Uuid, sa.ForeignKey("jobs.id"), nullable=False),
    sa.Column("payload", sa.JSON, nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("due_at", UtcDateTime),
    sa.Column("status", sa.Integer),
    sa.Column("error", SafeText()),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("delivered_at", UtcDateTime),
)
_partial("ix_deliveries_due", deliveries.c.due_at, where=deliveries.c.due_at.is_not(None))
sa.Index("ix_deliveries_job", deliveries.c.job_id)
