"""What the commands have in common: two options, and the settings and the database that follow from them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated
from urllib.parse import quote, unquote

import typer

from samjobs import settings as settings_module
from samjobs.errors import InvalidInput, OutputUnwritable
from samjobs.settings import Settings
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
