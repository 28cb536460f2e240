"""What the commands have in common: the database, the storage, the engines, and stopping on signals."""

import ipaddress
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from samjobs import settings as settings_module
from samjobs.errors import InvalidInput
from samjobs.segmentation.engines import load
from samjobs.segmentation.engines.base import Engine
from samjobs.settings import Settings
from samjobs.spec import JobSpec
from samjobs.storage import Access, Storage
from samjobs.store import Store, connect, migrate

Database = Annotated[
    str | None,
    typer.Option(
        "--db", metavar="FILE", help="Queue file (SQLite); SAMJOBS_DATABASE_URL otherwise, or one in your home."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object a line on standard output.")]


def settings_for(db: str | None) -> Settings:
    """The settings of this process, with `--db` in place of the database's."""
    settings = settings_module.load()
    if db is None:
        return settings
    return settings.model_copy(update={"database_url": f"sqlite:///{Path(db).expanduser().absolute()}"})


@contextmanager
def open_store(settings: Settings) -> Iterator[Store]:
    """The database of this machine, with its tables up to date.

    Raises:
        InvalidInput: it is not a SQLite file.
    """
    url = settings.database_url
    if not url.startswith("sqlite:///"):
        raise InvalidInput(
            "this command works on a SQLite file, and SAMJOBS_DATABASE_URL names a server: use --db FILE"
        )
    Path(url.removeprefix("sqlite:///")).parent.mkdir(parents=True, exist_ok=True)
    store = connect(url)
    try:
        migrate(store)
        yield store
    finally:
        store.close()


def storage_for(settings: Settings) -> Storage:
    """The storage, with the hosts and networks that the settings allow."""
    networks = tuple(entry for entry in settings.allowed_hosts if _is_network(entry))
    hosts = tuple(entry for entry in settings.allowed_hosts if entry not in networks)
    return Storage(Access(hosts=hosts, networks=networks))


def _is_network(entry: str) -> bool:
    try:
        ipaddress.ip_network(entry, strict=False)
    except ValueError:
        return False
    return True


class Engines:
    """Engines by what a job asks for, each loaded once."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._loaded: dict[tuple[str, str | None, str | None], Engine] = {}

    def __call__(self, spec: JobSpec) -> Engine:
        key = (spec.engine, spec.model, spec.revision)
        if key not in self._loaded:
            self.close()  # one model in memory
            engine = load(
                spec.engine,
                model=spec.model or self._default_model(spec.engine),
                revision=spec.revision or (self._settings.sam3_revision if spec.engine == "sam3" else None),
                device=self._settings.device,
                batch=self._settings.batch,
            )
            engine.warm_up()
            self._loaded[key] = engine
        return self._loaded[key]

    def close(self) -> None:
        """Give the devices' memory back."""
        for engine in self._loaded.values():
            engine.close()
        self._loaded.clear()

    def _default_model(self, engine: str) -> str | None:
        return {"sam3": self._settings.sam3_model, "sam3-meta": self._settings.sam3_meta_checkpoint}.get(engine)


class Stop:
    """Ctrl-C and SIGTERM: the first lets the image in hand be finished, the second ends the process at once."""

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None

    @contextmanager
    def listening(self, said: Callable[[str], None]) -> Iterator[None]:
        """Take over both signals; `said` is told what happens."""

        def on_signal(number: int, frame: FrameType | None) -> None:
            if self.signal is not None:
                raise KeyboardInterrupt
            self.signal = signal.Signals(number)
            said("stopping after the image in hand; once more to stop at once")

        before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @property
    def exit_code(self) -> int | None:
        """128 + the signal's number, as shells have it; None when nobody stopped."""
        return None if self.signal is None else 128 + self.signal
