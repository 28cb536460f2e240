"""What bodies and answers look like: each model is the JSON of one kind of thing, in camelCase, times in UTC.

Here jobs and what belongs to them; `api/queue_models.py` has the queue, the processes and the callers.

Made from the store's rows here and nowhere else. Words that may hold what a file system allows and JSON does not are
written with escapes.
"""

from datetime import datetime
from typing import Annotated, Any, Generic, Literal, Self, TypeVar
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, model_validator
from pydantic.alias_generators import to_camel

from samjobs.errors import ErrorClass, storable
from samjobs.names import DEFAULT_TENANT, Reason
from samjobs.spec import JobSpec, Mode, Name
from samjobs.states import ImageState, JobState, ShardState
from samjobs.store import rows
from samjobs.store.rows import Subject

Text = Annotated[str, PlainSerializer(storable, return_type=str)]
Item = TypeVar("Item")

EXAMPLE_ID = "7d9f3c1e-5b0a-4c57-9c44-2f6f0b9a1d10"
EXAMPLE_SPEC: dict[str, Any] = {
    "images": {"prefix": "s3://photos/trip"},
    "prompts": {"text": ["red car"]},
    "output": {"uri": "s3://masks/trip"},
}


class Model(BaseModel):
    """Base: camelCase outside."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True)


class Given(Model):
    """Base of bodies: no unknown fields."""

    model_config = ConfigDict(extra="forbid")


class Submission(Given):
    """A job that is asked for."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"name": "trip", "tenant": DEFAULT_TENANT, "spec": EXAMPLE_SPEC}]}
    )

    name: Name | None = Field(None, description="What people call it; several jobs may have one name.")
    tenant: Name | None = Field(None, description="Whom it belongs to; left out: the caller's own, or `default`.")
    spec: JobSpec = Field(description="See docs/reference/job.md.")


What = Literal["all", "dead", "images"]


class RetryOrder(Given):
    """What to do again."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"what": "images"}]})

    what: What = Field("all", description="Failed images and dead shards, or one of the two.")


class DeadOrder(Given):
    """Whose dead shards: of some jobs, or of a tenant."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"jobIds": [EXAMPLE_ID]}, {"tenant": DEFAULT_TENANT}]})

    job_ids: tuple[UUID, ...] | None = Field(None, min_length=1, max_length=200, description="These jobs.")
    tenant: Name | None = Field(None, description="All jobs of this tenant, of 200 shards in one call.")

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.job_ids is None) == (self.tenant is None):
            raise ValueError("give either jobIds or tenant")
        return self


class Why(Model):
    """Why a job waits, or what it does instead."""

    reason: Reason
    message: Text


class ImageCounts(Model):
    """A job's images; the rest of `total` is pending."""

    total: int
    done: int
    failed: int
    skipped: int = Field(description="An earlier result still holds.")


class ShardCounts(Model):
    """A job's shards."""

    total: int
    done: int
    dead: int
    cancelled: int


class Job(Model):
    """A job."""

    id: UUID
    tenant: str
    name: str | None
    state: JobState
    reason: Reason
    why: Why | None = Field(description="Only of a single job: why it waits, in words.")
    error: str | None = Field(description="Why it failed, for a person.")
    region: str
    priority: int
    suspend: bool
    mode: Mode
    engine: str
    images: ImageCounts
    shards: ShardCounts
    output_uri: Text
    created_at: datetime
    not_before: datetime | None
    deadline_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    published_at: datetime | None = Field(description="When its gathered files were written.")
    expires_at: datetime | None = Field(description="When it may be forgotten.")
    updated_at: datetime
    spec: JobSpec | None = Field(None, description="Only of a single job.")

    @classmethod
    def of(cls, job: rows.Job, why: tuple[Reason, str] | None = None, *, whole: bool = False) -> Self:
        """A row; `whole`: with its spec."""
        return cls(
            id=job.id,
            tenant=job.tenant,
            name=job.name,
            state=job.state,
            reason=job.reason,
            why=None if why is None else Why(reason=why[0], message=why[1]),
            error=job.error,
            region=job.region,
            priority=job.priority,
            suspend=job.suspend,
            mode=job.spec.mode,
            engine=job.spec.engine,
            images=ImageCounts(
                total=job.images_total, done=job.images_done, failed=job.images_failed, skipped=job.images_skipped
            ),
            shards=ShardCounts(
                total=job.shards_total,
                done=job.shards_succeeded,
                dead=job.shards_dead,
                cancelled=job.shards_cancelled,
            ),
            output_uri=job.spec.output.uri,
            created_at=job.created_at,
            not_before=job.not_before,
            deadline_at=job.deadline_at,
            started_at=job.started_at,
            finished_at=job.finished_at,
            published_at=job.published_at,
            expires_at=job.expires_at,
            updated_at=job.updated_at,
            spec=job.spec if whole else None,
        )


class Listing(Model, Generic[Item]):
    """A page of a list."""

    items: list[Item]
    next_cursor: str | None = Field(
        description="Give it as `cursor` for the next page, which may be empty; null: that was all."
    )


class Changed(Model):
    """What came of an act."""

    changed: bool = Field(description="False: it was so already, or the job has ended.")
    job: Job


class Retried(Changed):
    """What went back to work."""

    images: int
    shards: int


class Purged(Changed):
    """What was given up."""

    shards: int


class Image(Model):
    """One input of a job, and what became of it."""

    index: int = Field(description="From 0, in input order.")
    key: Text = Field(description="Its path below the input.")
    uri: Text
    state: ImageState
    reason: Reason | None
    error: Text | None
    error_class: ErrorClass | None
    width: int | None = Field(description="Of the upright photo, in pixels.")
    height: int | None
    instances: int | None
    truncated: bool
    finished_at: datetime | None

    @classmethod
    def of(cls, image: rows.Image) -> Self:
        """A row."""
        return cls(**{name: getattr(image, name) for name in cls.model_fields})


class Shard(Model):
    """A run of a job's images: what a worker takes."""

    id: UUID
    job_id: UUID
    index: int
    first_image: int
    images: int
    images_done: int
    state: ShardState
    held: bool = Field(description="By suspend or parallelism.")
    attempt: int
    failures: int
    region: str
    queue: str | None = Field(description="Of its last message.")
    worker: UUID | None = Field(description="The process that runs it, or ran it last.")
    heartbeat_at: datetime | None
    available_at: datetime
    error_class: ErrorClass | None
    error: str | None
    started_at: datetime | None
    finished_at: datetime | None

    @classmethod
    def of(cls, shard: rows.Shard, **more: Any) -> Self:
        """A row, and what else the model has."""
        other = {"first_image": shard.first_index, "images": shard.images_total, "worker": shard.incarnation}
        same = {name: getattr(shard, name) for name in Shard.model_fields if name not in other}
        return cls(**same, **other, **more)


class DeadShard(Shard):
    """A shard that waits for a person, with its job."""

    tenant: str
    job_name: str | None


class DeadDone(Model):
    """What came of an order for the dead list."""

    jobs: int
    shards: int
    more: bool = Field(description="The tenant has more of them, and some were moved: ask once more.")
    refused: list["RefusedJob"] = Field(description="Jobs that were left as they are, and why.")


class RefusedJob(Model):
    """A job that was left as it is."""

    job_id: UUID
    detail: str


class Event(Model):
    """One transition: who, from, to, why, when."""

    id: int
    subject: Subject
    shard_id: UUID | None
    image_index: int | None
    from_state: str | None
    to_state: str
    reason: Reason
    message: str
    actor: str
    at: datetime

    @classmethod
    def of(cls, event: rows.Event) -> Self:
        """A row."""
        return cls(**{name: getattr(event, name) for name in cls.model_fields})


class Events(Model):
    """Some of a job's story, oldest first."""

    items: list[Event]
    next_after: int | None = Field(description="Give it as `after` for the next page; null: that was all.")
