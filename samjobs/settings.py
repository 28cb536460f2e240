"""What an installation sets, as `SAMJOBS_*` environment variables.

A setting belongs to the machine or the cluster; what belongs to one batch of images is in `samjobs.spec`.
"""

import os
from pathlib import Path
from typing import Annotated

from pydantic import Field, PositiveFloat, PositiveInt, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from samjobs.errors import InvalidInput
from samjobs.spec import explain

MEBI = 1024 * 1024


def default_database_url() -> str:
    """A SQLite file in the user's own state folder."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return f"sqlite:///{Path(state) / 'samjobs' / 'samjobs.db'}"


class Settings(BaseSettings):
    """Every setting with its default."""

    model_config = SettingsConfigDict(env_prefix="SAMJOBS_", frozen=True, extra="ignore")

    database_url: str = Field(default_factory=default_database_url, description="SQLite or Postgres.")

    device: str | None = Field(None, description="cpu or cuda; left out: cuda where there is one.")
    sam3_model: str | None = Field(
        None, description="Path or hub id of the sam3 engine's weights; left out: Meta's own model on the hub."
    )
    sam3_revision: str | None = Field(None, description="Commit of a hub model.")
    sam3_meta_checkpoint: str | None = Field(None, description="Path of sam3.pt for the sam3-meta engine.")
    batch: PositiveInt | None = Field(None, description="Images per forward pass; left out: the engine's choice.")

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

    allowed_hosts: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="Comma-separated hosts and CIDRs that may be fetched although they are private."
    )
    stale_job_timeout_seconds: PositiveFloat = Field(60, description="A lease without heartbeat is lost after this.")
    stall_timeout_seconds: PositiveFloat = Field(
        300, description="A shard without a finished image for this long is given up by its worker."
    )
    progress_seconds: PositiveFloat = Field(1, description="Least time between two progress writes of a worker.")

    def model_for(self, engine: str) -> str | None:
        """Path or hub id of the weights that are set for an engine; None: the engine's own default, or it has none."""
        return {"sam3": self.sam3_model, "sam3-meta": self.sam3_meta_checkpoint}.get(engine)

    @field_validator("allowed_hosts", mode="before")
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
