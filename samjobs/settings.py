"""What an installation sets, as `SAMJOBS_*` environment variables.

A setting belongs to the machine or the cluster; what belongs to one batch of images is in `samjobs.spec`.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import (
    Field,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    SecretStr,
    StringConstraints,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from samjobs import alerts
from samjobs.errors import InvalidInput
from samjobs.names import DEFAULT_REGION
from samjobs.spec import Name, explain

MEBI = 1024 * 1024

# What the two profiles set where nothing else does: quick to notice, or slow to judge.
PROFILES: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {
        "dev": {
            "poller_interval_seconds": 5,
            "stale_job_timeout_seconds": 60,
            "failed_job_timeout_seconds": 120,
            "failover_after_seconds": 60,
        },
        "prod": {
            "poller_interval_seconds": 30,
            "stale_job_timeout_seconds": 600,
            "failed_job_timeout_seconds": 3600,
            "failover_after_seconds": 300,
        },
    }
)


def default_database_url() -> str:
    """A SQLite file in the user's own state folder."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return f"sqlite:///{Path(state) / 'samjobs' / 'samjobs.db'}"


class Settings(BaseSettings):
    """Every setting with its default."""

    model_config = SettingsConfigDict(env_prefix="SAMJOBS_", frozen=True, extra="ignore", hide_input_in_errors=True)

    profile: Literal["dev", "prod"] = Field("dev", description="Gives the four times below that say so.")

    database_url: str = Field(default_factory=default_database_url, description="SQLite or Postgres.", repr=False)
    database_pooled: bool = Field(
        False,
        description="Postgres is reached through pgbouncer in transaction mode: no prepared statements, no LISTEN; "
        "changes are noticed by polling.",
    )
    redis_url: str = Field("redis://localhost:6379/0", description="The Redis of controller and workers.", repr=False)

    region: Name = Field(DEFAULT_REGION, description="Whose work a worker takes.")
    pool: Name = Field("default", description="The set of equal workers that a worker belongs to.")
    engine: Literal["sam3", "sam3-meta", "opencv"] = Field("sam3", description="What a worker keeps loaded.")
    pod_name: str | None = Field(
        None, description="The worker's own pod, by which its pool knows who is busy; set by the pool."
    )
    health_port: int = Field(
        8080, ge=0, le=65535, description="Where /livez, /readyz and /metrics answer; 0: any free one."
    )
    health_host: str = Field("", description="The address of that port; left out: all of this machine's.")
    worker_class: str = Field(
        "worker.loop.ShardWorker", description="Dotted path of the worker's loop: that class, or one made from it."
    )

    region_concurrency: PositiveInt = Field(10, description="Shards of a region at work at once, at most.")
    tenant_concurrency: PositiveInt | None = Field(None, description="Shards of a tenant at work at once, at most.")
    tenant_rate_per_minute: PositiveInt | None = Field(None, description="Shards of a tenant sent out in a minute.")
    dispatch_window: PositiveInt = Field(2, description="Shards that wait in Redis per live worker of a region.")

    poller_interval_seconds: PositiveFloat = Field(description="Longest time between whole passes of a controller.")
    failed_job_timeout_seconds: NonNegativeFloat = Field(
        description="A job without a sign of life for this long, in a region without one, has failed; 0: never."
    )
    failover_after_seconds: PositiveFloat = Field(
        description="Work of a region without a worker goes to other regions after this."
    )
    webhook_secret: SecretStr | None = Field(
        None, description="Signs webhooks: whsec_ and base64; several, separated by spaces, while one is replaced."
    )
    webhook_secrets_dir: Path | None = Field(
        None, description="Folder with a file of such secrets per tenant, named by the tenant."
    )

    alert_thresholds: Annotated[Mapping[str, float], NoDecode] = Field(
        default_factory=dict,
        description="Other thresholds than those of docs/reference/metrics.md: `SamJobsQueueDeep=500,…`.",
    )

    kubernetes_config: Path | None = Field(
        None, description="Makes a controller watch SamJobs and run pools: the file that the chart mounts."
    )

    api_host: str = Field("", description="The address on which the API listens; left out: all of this machine's.")
    api_port: int = Field(8000, ge=0, le=65535, description="The API's port; 0: any free one.")
    api_access: Literal["tokens", "kubernetes"] = Field(
        "tokens", description="Who may call the API: holders of a token in a file, or of one that Kubernetes made."
    )
    api_tokens_file: Path | None = Field(
        None, description="The file of tokens, each with its tenant and role; `samjobs token` makes them."
    )
    api_audience: Annotated[str, StringConstraints(min_length=1)] = Field(
        "samjobs", description="The audience that a Kubernetes token must have been made for."
    )
    api_max_body_bytes: PositiveInt = Field(2 * MEBI, description="Largest body of a request to the API.")

    device: str | None = Field(None, description="cpu or cuda; left out: cuda where there is one.")
    sam3_model: str | None = Field(
        None, description="Path or hub id of the sam3 engine's weights; left out: Meta's own model on the hub."
    )
    sam3_revision: str | None = Field(None, description="Commit of a hub model.")
    sam3_meta_checkpoint: str | None = Field(None, description="Path of sam3.pt for the sam3-meta engine.")
    model_sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")] | None = Field(
        None, description="SHA-256 of the weights file that is set above; another one is not loaded."
    )
    batch: PositiveInt | None = Field(None, description="Images per forward pass; left out: the engine's choice.")

    max_job_images: PositiveInt = Field(
        2_000_000, description="Images of a job that a controller lists; of a manifest each takes 150 bytes there."
    )
    max_image_bytes: PositiveInt = Field(512 * MEBI, description="Largest file taken for an image.")
    max_image_pixels: PositiveInt = Field(400_000_000, description="Largest image, width × height.")
    memory_bytes: PositiveInt = Field(1024 * MEBI, description="What images in the pipeline may take together.")
    decode_threads: PositiveInt = Field(
        default_factory=lambda: len(os.sched_getaffinity(0)), description="Images decoded at once."
    )
    fetch_threads: PositiveInt = Field(16, description="Remote images fetched at once.")
    in_flight: int | None = Field(
        None,
        ge=0,
        description="Segmented images whose results may still be unwritten while the device goes on; left out: none on "
        "a CPU, so that a crash costs one image, and two batches on a GPU, so that it never waits.",
    )

    tenant_places: str | None = Field(
        None,
        description="Where each tenant's photos, manifests and results may lie: a map from tenant (`*` for all) to a "
        "list of places, as YAML or JSON, or the path of a file with it. Left out: wherever the workers can reach.",
    )
    allowed_hosts: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="Comma-separated hosts and CIDRs that may be fetched although they are private."
    )
    denied_networks: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="Comma-separated CIDRs that may not be fetched although they are public: a cluster's pods, say."
    )
    stale_job_timeout_seconds: PositiveFloat = Field(description="A lease without heartbeat is lost after this.")
    heartbeat_seconds: PositiveFloat = Field(
        5, description="Time between two heartbeats; never more than a third of the lease."
    )
    stall_timeout_seconds: PositiveFloat = Field(
        300, description="A shard without a finished image for this long is given up by its worker."
    )
    progress_seconds: PositiveFloat = Field(1, description="Least time between two progress writes of a worker.")
    critical_pause_seconds: NonNegativeFloat = Field(
        60,
        description="A shard whose results could not be written anywhere is not given to a worker again for so long.",
    )

    @model_validator(mode="before")
    @classmethod
    def _by_profile(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        return {**PROFILES.get(str(values.get("profile", "dev")), PROFILES["dev"]), **values}

    @property
    def beat_s(self) -> float:
        """Seconds between two heartbeats: two may fail before the lease is lost."""
        return min(self.heartbeat_seconds, self.stale_job_timeout_seconds / 3)

    def model_for(self, engine: str) -> str | None:
        """Path or hub id of the weights that are set for an engine; None: the engine's own default, or it has none."""
        return {"sam3": self.sam3_model, "sam3-meta": self.sam3_meta_checkpoint}.get(engine)

    @field_validator("alert_thresholds", mode="before")
    @classmethod
    def _thresholds(cls, value: object) -> object:
        return alerts.parse(value) if isinstance(value, str) else value

    @field_validator("allowed_hosts", "denied_networks", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


def load() -> Settings:
    """The settings of this process.

    Raises:
        InvalidInput: naming the variable, its value and what is allowed.
    """
    try:
        return Settings()
    except ValidationError as error:
        raise InvalidInput("\n".join(_named(line) for line in explain(error, "").splitlines())) from None


def _named(line: str) -> str:
    """`: decode_threads: …` as `SAMJOBS_DECODE_THREADS: …`."""
    field, rest = line.removeprefix(": ").split(":", 1)
    return f"SAMJOBS_{field.upper()}:{rest}"
