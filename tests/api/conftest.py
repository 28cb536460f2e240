"""An API on a database of its own, for all tests that do not care what others put there: to start takes seconds."""

from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from samjobs.store import Store, connect
from tests.api.server import Api
from tests.postgres import database


@pytest.fixture(scope="session")
def api_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("api")


@pytest.fixture(scope="session")
def api_database(postgres_server: str) -> Iterator[str]:
    """A database for all of them."""
    with database(postgres_server) as url:
        yield url


@pytest.fixture(scope="session")
def api(api_folder: Path, api_database: str) -> Iterator[Api]:
    one = Api(api_folder, api_database)
    try:
        yield one.until_ready()
    finally:
        one.close()


@pytest.fixture
def api_store(api_database: str) -> Iterator[Store]:
    """The API's own table."""
    opened = connect(api_database)
    yield opened
    opened.close()


@pytest.fixture
def http(api: Api) -> Iterator[Callable[[str | None], httpx.Client]]:
    """Makes clients by their token: `http("ada")`; None has none."""
    made: list[httpx.Client] = []

    def client(token: str | None = "root") -> httpx.Client:
        made.append(api.client(token))
        return made[-1]

    yield client
    for one in made:
        one.close()


@pytest.fixture
def root(http: Callable[[str | None], httpx.Client]) -> httpx.Client:
    """Who may do everything."""
    return http("root")
