"""What the commands have in common: a few options, and the settings and the database that follow from them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated
from urllib.parse import quote, unquote

import typer

from samjobs import settings as settings_module
from samjobs.client import Client
from samjobs.client import opened as opened_at
from samjobs.errors import InvalidInput, OutputUnwritable
from samjobs.settings import Settings
from samjobs.store import Store, migrate

Database = Annotated[
    str | None,
    typer.Option(
        "--db", metavar="FILE", help="Queue file (SQLite); SAMJOBS_DATABASE_URL otherwise, or one in your home."
    ),
]
_SQLITE = "sqlite:///"
JobTable = Annotated[
    str | None,
    typer.Option("--db", metavar="FILE", help="A SQLite file in place of the Postgres of SAMJOBS_DATABASE_URL."),
]
JobName = Annotated[str, typer.Argument(metavar="JOB", help="Its id, the first digits of it, or its name.")]
JobNames = Annotated[list[str], typer.Argument(metavar="JOB...", help="Ids, their first digits, or names.")]
Tenant = Annotated[str | None, typer.Option("--tenant", "-n", help="Of this tenant alone.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object a line on standard output.")]


def settings_for(db: str | None) -> Settings:
    """The settings of this process, with `--db` in place of the database's.

    Raises:
        InvalidInput: a setting or the option has no meaning.
    """
    settings = settings_module.load()
    if db is None:
        return settings
    if not db:
        raise InvalidInput("--db is empty: give the queue's file, or leave it out")
    path = quote(str(Path(db).expanduser().absolute()), errors="surrogateescape")
    return settings.model_copy(update={"database_url": f"{_SQLITE}{path}"})


def database_file(settings: Settings) -> Path:
    """The SQLite file that the settings name.

    Raises:
        InvalidInput: they name a server.
    """
    url = settings.database_url
    if not _is_file(settings):
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
    database_file(settings)
    with opened(settings) as store:
        migrate(store)
        yield store


@contextmanager
def opened(settings: Settings) -> Iterator[Store]:
    """The database as it is; the folder of a SQLite file is made.

    Raises:
        InvalidInput: it is no database that samjobs can use, or SQLite on a network file system.
        OutputUnwritable: the folder cannot be made.
    """
    if _is_file(settings):
        folder = database_file(settings).parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputUnwritable(
                f"the queue's folder {folder} cannot be made: {error.strerror}; name another place by --db FILE"
            ) from error
    store = opened_at(settings.database_url, pooled=settings.database_pooled)
    try:
        yield store
    finally:
        store.close()


def _is_file(settings: Settings) -> bool:
    return settings.database_url.startswith(_SQLITE)


@contextmanager
def open_client(settings: Settings, command: str) -> Iterator[Client]:
    """The job table: of the cluster, or a SQLite file of this machine, which is made where there is none.

    Args:
        command: who acts, for the events.

    Raises:
        SchemaMismatch, DatabaseUnavailable, InvalidInput, OutputUnwritable: it cannot be used, and why.
    """
    if _is_file(settings):
        with open_store(settings):
            pass
    with Client(settings.database_url, pooled=settings.database_pooled, actor=f"samjobs {command}") as client:
        yield client
