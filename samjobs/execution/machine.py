"""What do this machine's settings give to the processes that work on it: which engines, and access to which places?"""

from contextlib import AbstractContextManager
from dataclasses import dataclass

from samjobs.segmentation.engines import load
from samjobs.segmentation.engines.base import Engine
from samjobs.settings import Settings
from samjobs.spec import JobSpec
from samjobs.storage import access_for

__all__ = ["Engines", "access_for"]


@dataclass(frozen=True)
class Wanted:
    """Which weights of which engine, with what this machine sets where a job leaves it open."""

    engine: str
    model: str | None = None  # path or hub id; None: the engine's own default, or it has none
    revision: str | None = None
    sha256: str | None = None  # of the weights file; None: whatever it is

    def __str__(self) -> str:
        """For people: `sam3 facebook/sam3@0123abc`."""
        return self.engine + (f" {self.model}" if self.model else "") + (f"@{self.revision}" if self.revision else "")


def wanted_by(settings: Settings, engine: str, model: str | None = None, revision: str | None = None) -> Wanted:
    """What to load for a job that asks for `engine`, `model` and `revision`.

    The revision that is set is one of the model that is set, and of no other; and the checksum is of both.
    """
    own_revision = settings.sam3_revision if engine == "sam3" else None
    if model is None:
        revision = revision or own_revision
    model = model or settings.model_for(engine)
    own = (settings.engine, settings.model_for(engine), own_revision)
    return Wanted(engine, model, revision, settings.model_sha256 if (engine, model, revision) == own else None)


class Engines(AbstractContextManager["Engines"]):
    """Engines by what a job asks for, one of them loaded at a time: two models seldom fit one device."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._wanted: Wanted | None = None
        self._engine: Engine | None = None

    @property
    def loaded(self) -> Wanted | None:
        """What is loaded now."""
        return None if self._engine is None else self._wanted

    def __call__(self, spec: JobSpec) -> Engine:
        """The engine of a job: see `get`."""
        return self.get(wanted_by(self._settings, spec.engine, spec.model, spec.revision))

    def get(self, wanted: Wanted) -> Engine:
        """An engine, loaded and warmed up, until the next call for another one.

        Raises:
            InvalidInput, ModelUnavailable, OutOfMemory, DeviceFault: see `engines.load`.
        """
        if self._engine is None or wanted != self.loaded:
            self.close()
            engine = load(
                wanted.engine,
                model=wanted.model,
                revision=wanted.revision,
                sha256=wanted.sha256,
                device=self._settings.device,
                batch=self._settings.batch,
            )
            engine.warm_up()
            self._wanted, self._engine = wanted, engine
        return self._engine

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the device's memory back."""
        if self._engine is not None:
            self._engine.close()
        self._engine = None
