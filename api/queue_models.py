"""What answers about the queue, the processes and the callers look like; see `api/models.py`."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Self
from uuid import UUID

from pydantic import Field

from api.models import Model
from api.sampling import Picture, Sample
from samjobs.names import Reason
from samjobs.states import JobState
from samjobs.store import rows
from samjobs.store.rows import RegionStatus, WorkerState


class WorkerCounts(Model):
    """Worker processes that are alive, by what they do."""

    loading: int
    ready: int
    busy: int
    draining: int


class Region(Model):
    """What waits and what is at work in a region, in shards."""

    region: str
    due: int
    waiting: int = Field(description="For their time.")
    held: int = Field(description="By suspend or parallelism.")
    dispatched: int
    running: int
    dead: int
    oldest_due_age_seconds: float | None
    workers: WorkerCounts | None = Field(None, description="Left out for who may not see them.")

    @classmethod
    def of(cls, region: str, status: RegionStatus | None, workers: WorkerCounts | None) -> Self:
        """A row, or its absence."""
        names = ("due", "waiting", "held", "dispatched", "running", "dead")
        counts = {name: getattr(status, f"shards_{name}") if status else 0 for name in names}
        age = status.oldest_due_age_s if status else None
        return cls(region=region, oldest_due_age_seconds=age, workers=workers, **counts)


class QueueStatus(Model):
    """The queue now."""

    at: datetime
    regions: list[Region]
    jobs: dict[JobState, int] = Field(description="By active state. What is finished is not counted.")


def regions_of(picture: Picture) -> list[Region]:
    """Every region with work or a worker."""
    by_name = {one.region: one for one in picture.regions}
    here = [(one.region, one.state) for one in picture.workers]
    return [
        Region.of(name, by_name.get(name), _workers_of(here, name))
        for name in sorted({*by_name, *(region for region, _ in here)})
    ]


def _workers_of(here: Sequence[tuple[str, WorkerState]], region: str) -> WorkerCounts:
    counted: Mapping[str, int] = {state.value: here.count((region, state)) for state in WorkerState}
    return WorkerCounts(**{name: counted[name] for name in WorkerCounts.model_fields})


class QueueSample(Model):
    """The queue at one time."""

    at: datetime
    due: int
    dispatched: int
    running: int
    dead: int
    workers: int
    busy: int

    @classmethod
    def of(cls, sample: Sample) -> Self:
        """What was kept."""
        return cls(**{name: getattr(sample, name) for name in cls.model_fields})


class QueueHistory(Model):
    """The queue over time, as this process saw it."""

    since: datetime | None = Field(description="Of the first sample.")
    every_seconds: float
    samples: list[QueueSample]


class Worker(Model):
    """A worker process."""

    incarnation: UUID = Field(description="New at each start.")
    pool: str
    region: str
    node: str
    pod: str | None
    pid: int
    device: str
    model: str
    revision: str
    state: WorkerState
    shard_id: UUID | None
    images_total: int
    image_seconds: float | None = Field(description="Per image, lately.")
    load_seconds: float | None
    progressed_at: datetime | None
    heartbeat_at: datetime
    started_at: datetime

    @classmethod
    def of(cls, worker: rows.Worker) -> Self:
        """A row."""
        other = {"image_seconds": worker.image_s, "load_seconds": worker.load_s}
        return cls(**{name: getattr(worker, name) for name in cls.model_fields if name not in other}, **other)


class Pool(Model):
    """A pool of workers, as the controller last decided on it."""

    namespace: str
    name: str
    region: str
    engine: str
    desired: int
    ready: int
    busy: int
    reason: Reason
    message: str
    changed_at: datetime | None
    updated_at: datetime | None

    @classmethod
    def of(cls, pool: rows.Pool) -> Self:
        """A row."""
        return cls(**{name: getattr(pool, name) for name in cls.model_fields})


class Workers(Model):
    """All worker processes that are alive, oldest first."""

    items: list[Worker]


class Pools(Model):
    """All pools, by namespace and name."""

    items: list[Pool]


class Table(Model):
    """A table of the database, by what the database's own statistics say."""

    name: str
    rows: int | None = Field(description="About; null: never counted.")
    bytes: int | None


class RuntimeStats(Model):
    """What this process is and has."""

    version: str
    python: str
    schema_revision: str
    uptime_seconds: float
    database: str = Field(description="Its address without a password.")
    database_bytes: int | None
    tables: list[Table]
    connections: int = Field(description="In use now.")
    watchers: int
    listening: bool = Field(description="Whether the database tells of changes.")
    settings: dict[str, Any] = Field(description="Those that matter to the API; none is a secret.")


class Me(Model):
    """What a caller is and may do."""

    name: str
    tenants: list[str] | None = Field(description="Where its requests are about when they name none; null: none.")
    everywhere: list[str] = Field(description="Verbs that it has over all tenants.")
    verbs: dict[str, list[str]] = Field(description="Verbs that it has in each of `tenants`, and in the one asked for.")


class Health(Model):
    """That all is well, or why not."""

    status: str
