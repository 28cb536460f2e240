"""What the commands have in common: the settings, the database, the storage and the engines."""

import ipaddress
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, unquote

import typer

from samjobs import settings as settings_module
from samjobs.cli.space import MeteredStorage
from samjobs.errors import InvalidInput, OutputUnwritable
from samjobs.segmentation.engines import load
from samjobs.segmentation.engines.base import Candidates, Engine, EngineInfo, Query, Selection, UInt8Image
from samjobs.settings import Settings
from samjobs.spec import JobSpec, Mode
from samjobs.storage import Access
from samjobs.store import Store, connect, migrate

Database = Annotated[
    str | None,
    typer.Option(
        "--db", metavar="FILE", help="Queue file (SQLite); SAMJOBS_DATABASE_URL otherwise, or one in your home."
    ),
]
_SQLITE = "sqlite:///"
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object a line on standard output.")]


def settings_for(db: str | None) -> Settings:
    """The settings of this process, with `--db` in place of the database's."""
    settings = settings_module.load()
    if db is None:
        return settings
    path = quote(str(Path(db).expanduser().absolute()), errors="surrogateescape")
    return settings.model_copy(update={"database_url": f"{_SQLITE}{path}"})


def database_file(settings: Settings) -> Path:
    """The SQLite file that the settings name.

    Raises:
        InvalidInput: they name a server.
    """
    url = settings.database_url
    if not url.startswith(_SQLITE):
        raise InvalidInput(
            "this command works on a SQLite file, and SAMJOBS_DATABASE_URL names a server: use --db FILE"
        )
    return Path(unquote(url.removeprefix(_SQLITE), errors="surrogateescape"))


@contextmanager
def open_store(settings: Settings) -> Iterator[Store]:
    """The database of this machine, with its tables up to date.

    Raises:
        InvalidInput: it is not a SQLite file, or lies on a network file system.
        OutputUnwritable: it cannot be written.
    """
    folder = database_file(settings).parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputUnwritable(
            f"the queue's folder {folder} cannot be made: {error.strerror}; name another place by --db FILE"
        ) from error
    store = connect(settings.database_url)
    try:
        migrate(store)
        yield store
    finally:
        store.close()


def storage_for(settings: Settings) -> MeteredStorage:
    """The storage, with the hosts and networks that the settings allow."""
    networks = tuple(entry for entry in settings.allowed_hosts if _is_network(entry))
    hosts = tuple(entry for entry in settings.allowed_hosts if entry not in networks)
    return MeteredStorage(Access(hosts=hosts, networks=networks))


def _is_network(entry: str) -> bool:
    try:
        ipaddress.ip_network(entry, strict=False)
    except ValueError:
        return False
    return True


class CountedEngine:
    """An engine that counts the images it is given."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.images = 0

    @property
    def info(self) -> EngineInfo:
        return self._engine.info

    def warm_up(self) -> None:
        self._engine.warm_up()

    def check(self, mode: Mode, query: Query) -> None:
        self._engine.check(mode, query)

    def encode(self, images: Sequence[UInt8Image]) -> Any:
        self.images += len(images)
        return self._engine.encode(images)

    def segment(
        self, encoded: Any, mode: Mode, queries: Sequence[Sequence[Query]], selection: Selection
    ) -> list[list[Candidates]]:
        return self._engine.segment(encoded, mode, queries, selection)

    def close(self) -> None:
        self._engine.close()


class Engines(AbstractContextManager["Engines"]):
    """Engines by what a job asks for, one of them loaded at a time."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._loaded: dict[tuple[str, str | None, str | None], CountedEngine] = {}
        self._counted = 0  # by engines that are closed

    @property
    def images(self) -> int:
        """How many images were given to an engine so far."""
        return self._counted + sum(engine.images for engine in self._loaded.values())

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
            self._loaded[key] = CountedEngine(engine)
        return self._loaded[key]

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the device's memory back."""
        self._counted = self.images
        for engine in self._loaded.values():
            engine.close()
        self._loaded.clear()

    def _default_model(self, engine: str) -> str | None:
        return {"sam3": self._settings.sam3_model, "sam3-meta": self._settings.sam3_meta_checkpoint}.get(engine)
