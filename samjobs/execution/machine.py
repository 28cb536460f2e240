"""What do this machine's settings give to the processes that work on it: which engines, and access to which places?"""

import ipaddress
from contextlib import AbstractContextManager

from samjobs.segmentation.engines import load
from samjobs.segmentation.engines.base import Engine
from samjobs.settings import Settings
from samjobs.spec import JobSpec
from samjobs.storage import Access


class Engines(AbstractContextManager["Engines"]):
    """Engines by what a job asks for, one of them loaded at a time: two models seldom fit one device."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._asked: tuple[str, str | None, str | None] | None = None
        self._engine: Engine | None = None

    def __call__(self, spec: JobSpec) -> Engine:
        """The engine of a job, loaded and warmed up, until the next call for another one.

        Raises:
            InvalidInput, ModelUnavailable, OutOfMemory, DeviceFault: see `engines.load`.
        """
        asked = (spec.engine, spec.model, spec.revision)
        if self._engine is None or asked != self._asked:
            self.close()
            engine = load(
                spec.engine,
                model=spec.model or self._settings.model_for(spec.engine),
                revision=spec.revision or self._revision_for(spec),
                device=self._settings.device,
                batch=self._settings.batch,
            )
            engine.warm_up()
            self._asked, self._engine = asked, engine
        return self._engine

    def _revision_for(self, spec: JobSpec) -> str | None:
        """The revision that is set, which is one of the model that is set, and of no other."""
        return self._settings.sam3_revision if spec.engine == "sam3" and spec.model is None else None

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the device's memory back."""
        if self._engine is not None:
            self._engine.close()
        self._engine = None


def access_for(settings: Settings) -> Access:
    """Which hosts and networks may be fetched from although they are private."""
    networks = tuple(entry for entry in settings.allowed_hosts if _is_network(entry))
    return Access(hosts=tuple(entry for entry in settings.allowed_hosts if entry not in networks), networks=networks)


def _is_network(entry: str) -> bool:
    try:
        ipaddress.ip_network(entry, strict=False)
    except ValueError:
        return False
    return True
