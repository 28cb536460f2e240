"""What the store gives and takes: frozen dataclasses, so that nobody outside it needs to know SQLAlchemy.

`Job`, `Shard`, `Image`, `Worker`, `Pool`, `Request`, `Delivery` and `Event` have one field per column of their table
(`tables.py`).
"""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Self
from uuid import UUID

from samjobs.decisions.lifecycle import JobCounts
from samjobs.decisions.scaling import Current, Memory, Scale, Speed
from samjobs.errors import ErrorClass
from samjobs.names import Reason
from samjobs.spec import JobSpec, Prompts
from samjobs.states import ImageState, JobState, ShardState


class WorkerState(StrEnum):
    """What a worker process is doing."""

    LOADING = "loading"
    READY = "ready"
    BUSY = "busy"
    DRAINING = "draining"
    GONE = "gone"  # ended in order


class Subject(StrEnum):
    """Whose transition an event tells."""

    JOB = "job"
    SHARD = "shard"
    IMAGE = "image"


class LeaseAnswer(StrEnum):
    """What a heartbeat learns about the right to run a shard."""

    HELD = "held"
    LOST = "lost"  # somebody else's now: write nothing more
    CANCELLED = "cancelled"  # the job was cancelled: write nothing more
    SUSPENDED = "suspended"  # still held: finish the image in hand, then release


@dataclass(frozen=True)
class Job(JobCounts):
    """A batch of images, with its counters. Times are the database's."""

    id: UUID
    tenant: str
    name: str | None
    uid: UUID | None  # of the SamJob in front of it
    spec: JobSpec
    config_hash: str
    dedupe_key: str | None
    region: str
    priority: int
    state: JobState
    reason: Reason
    error: str | None  # why it failed, for a person
    suspend: bool
    cancel_reason: Reason | None
    submitter: UUID | None  # incarnation of the local process that lists its images
    keeper: UUID | None  # who lists its images, or gathers its results, on a cluster
    kept_at: datetime | None  # the keeper's last sign of life
    not_before: datetime | None
    deadline_at: datetime | None
    created_at: datetime
    alive_at: datetime  # last sign of life: creation, not_before, resumption, retry, or a committed image
    expanded_at: datetime | None  # all images are in the table
    started_at: datetime | None
    finished_at: datetime | None
    expires_at: datetime | None  # when it may be forgotten
    published_at: datetime | None  # merged result files are written
    updated_at: datetime


@dataclass(frozen=True)
class Shard:
    """A run of a job's images: indices `first_index` … `first_index + images_total - 1`."""

    id: UUID
    job_id: UUID
    index: int
    first_index: int
    images_total: int
    images_done: int  # no longer pending, whatever their outcome
    state: ShardState
    held: bool  # queued, but not to be claimed: its job is suspended or has its `parallelism` at work
    attempt: int
    failures: int
    region: str
    tenant: str
    priority: int
    job_created_at: datetime
    available_at: datetime
    queue: str | None  # of its last message
    incarnation: UUID | None
    heartbeat_at: datetime | None
    error_class: ErrorClass | None
    error: str | None
    created_at: datetime
    dispatched_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None


@dataclass(frozen=True)
class Image:
    """One input of a job and what became of it."""

    job_id: UUID
    index: int  # from 0, in input order
    key: str
    uri: str
    prompts: Prompts | None
    state: ImageState
    reason: Reason | None
    quick_hash: str | None
    content_hash: str | None
    width: int | None  # pixels of the upright photo
    height: int | None
    instances: int | None
    truncated: bool
    output_uri: str | None
    output_hash: str | None
    error_class: ErrorClass | None
    error: str | None
    created_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True)
class ImageOutcome:
    """What became of one image of a shard: done, failed or skipped."""

    index: int
    state: ImageState
    reason: Reason
    quick_hash: str | None = None
    content_hash: str | None = None
    width: int | None = None
    height: int | None = None
    instances: int | None = None
    truncated: bool = False
    output_uri: str | None = None
    output_hash: str | None = None
    error_class: ErrorClass | None = None
    error: str | None = None


@dataclass(frozen=True)
class Worker:
    """A worker process, as it last told of itself. What it has loaded is "" until it has."""

    incarnation: UUID  # new at each start
    pool: str
    region: str
    node: str
    pod: str | None  # on Kubernetes
    pid: int
    device: str
    model: str
    revision: str
    state: WorkerState
    shard_id: UUID | None
    images_total: int  # images that it has committed
    image_s: float | None  # seconds per image, lately
    load_s: float | None  # seconds until its engine was loaded and had shown that it works
    progressed_at: datetime | None  # when it committed the last one
    heartbeat_at: datetime
    started_at: datetime


@dataclass(frozen=True)
class Pool:
    """A pool of workers, as it was last decided on."""

    namespace: str
    name: str
    region: str
    engine: str
    desired: int  # workers
    ready: int
    busy: int
    reason: Reason
    message: str
    changed_at: datetime | None  # see `Memory`
    enough_since: datetime | None
    enough: int | None
    image_s: float | None  # see `Speed`; kept while nobody works
    load_s: float | None
    updated_at: datetime | None = field(default=None, compare=False)  # None: not saved yet

    @classmethod
    def of(
        cls,
        namespace: str,
        name: str,
        *,
        region: str,
        engine: str,
        current: Current,
        speed: Speed | None,
        scale: Scale,
    ) -> Self:
        """What is to be remembered of a decision."""
        speed, memory = speed or Speed(), scale.memory
        return cls(
            namespace=namespace,
            name=name,
            region=region,
            engine=engine,
            desired=scale.replicas,
            ready=current.ready,
            busy=current.busy,
            reason=scale.reason,
            message=scale.message,
            changed_at=memory.changed_at,
            enough_since=memory.enough_since,
            enough=memory.enough,
            image_s=speed.image_s,
            load_s=speed.load_s,
        )

    @property
    def memory(self) -> Memory:
        """What the next decision has to know."""
        return Memory(self.changed_at, self.enough_since, self.enough)

    @property
    def speed(self) -> Speed:
        """What its workers had measured."""
        return Speed(self.image_s, self.load_s)


@dataclass(frozen=True)
class Request:
    """A job asked for by plain SQL, as its row says: nothing in it is validated."""

    id: UUID
    tenant: str
    name: str | None
    spec: Any
    created_at: datetime
    job_id: UUID | None  # the job that came of it
    error: str | None  # why none did
    answered_at: datetime | None


@dataclass(frozen=True)
class Delivery:
    """A webhook on its way."""

    id: UUID
    job_id: UUID
    payload: Any
    attempts: int
    due_at: datetime | None  # None: delivered, or given up
    status: int | None  # HTTP status of the last answer
    error: str | None
    created_at: datetime
    delivered_at: datetime | None


@dataclass(frozen=True)
class Event:
    """One transition: who, from, to, why, when."""

    id: int
    job_id: UUID
    shard_id: UUID | None
    image_index: int | None
    subject: Subject
    from_state: str | None  # None: it began to exist
    to_state: str
    reason: Reason
    message: str
    actor: str
    at: datetime


@dataclass(frozen=True)
class Submitted:
    """Where a submission went."""

    job_id: UUID
    created: bool  # False: an equal job that is still active


@dataclass(frozen=True)
class Retried:
    """What a retry put back to work."""

    images: int
    shards: int


@dataclass(frozen=True)
class ImageHistory:
    """One image in one job."""

    job_id: UUID
    job_name: str | None
    job_state: JobState
    job_created_at: datetime
    image: Image
    events: list[Event]


@dataclass(frozen=True)
class QueueStatus:
    """What is at work and what waits. Nothing that is finished is counted, but the dead, who wait for a person."""

    jobs: dict[JobState, int]  # active states only
    shards_due: int
    shards_waiting: int  # for their time
    shards_held: int  # by suspend or parallelism
    shards_dispatched: int
    shards_running: int
    shards_dead: int
    oldest_due_age_s: float | None  # of the shard that is due for longest
    at: datetime


@dataclass(frozen=True)
class RegionStatus:
    """What is at work and what waits in one region; the fields are those of QueueStatus."""

    region: str
    shards_due: int
    shards_waiting: int
    shards_held: int
    shards_dispatched: int
    shards_running: int
    shards_dead: int
    oldest_due_age_s: float | None
