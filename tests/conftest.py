"""Real servers for the tests, started once per session; and an environment that holds no setting of samjobs."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from samjobs.store import Store, connect, migrate
from tests import postgres
from tests import redis_server as redis_servers

pytest_plugins = ["tests.cluster.fixtures", "tests.sharing"]


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("SAMJOBS_") and name != "SAMJOBS_SAM3_PATH"]:
        monkeypatch.delenv(name)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what a test needs from the fixtures that it asks for."""
    for item in items:
        names = set(getattr(item, "fixturenames", ()))
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        if "postgres_url" in names or parameters.get("store_url") == "postgres":
            item.add_marker(pytest.mark.needs_postgres)
        if names & {"redis_server", "own_redis"}:
            item.add_marker(pytest.mark.needs_redis)


def missing(what: str) -> NoReturn:
    """Skip the test; where everything has to be there, fail it."""
    if os.environ.get("CI") == "true":
        pytest.fail(what)
    pytest.skip(what)


@pytest.fixture(scope="session")
def postgres_process() -> Iterator[postgres.Server]:
    """A PostgreSQL server, for tests that stop it and start it again."""
    programs = postgres.programs()
    if programs is None:
        missing(f"PostgreSQL is missing: {postgres.INSTALL}")
    with postgres.server(programs) as server:
        yield server


@pytest.fixture(scope="session")
def postgres_server(postgres_process: postgres.Server) -> str:
    """The address of a PostgreSQL server; `tests.postgres.database` makes databases on it."""
    return postgres_process.url


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """The address of an empty, migrated database, gone after the test."""
    with postgres.database(postgres_server) as url:
        yield url


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """The address of a SQLite file that does not exist yet."""
    return f"sqlite:///{tmp_path / 'jobs.db'}"


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest) -> str:
    """Each of the two databases in turn."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    """A migrated, empty store, on each of the two databases in turn."""
    opened = connect(store_url)
    migrate(opened)
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def redis_server() -> Iterator[redis_servers.Server]:
    """A Redis for all tests that leave it running as it is; `redis_url` empties it for each of them."""
    program = redis_servers.programs()
    if program is None:
        missing(f"Redis is missing: {redis_servers.INSTALL}")
    with redis_servers.server(program) as server:
        yield server


@pytest.fixture
def redis_url(redis_server: redis_servers.Server) -> str:
    """The address of an empty Redis."""
    redis_server.forget()
    return redis_server.url


@pytest.fixture
def own_redis() -> Iterator[redis_servers.Server]:
    """A Redis of this test alone, which it may stop, kill, start again and set up as it likes."""
    program = redis_servers.programs()
    if program is None:
        missing(f"Redis is missing: {redis_servers.INSTALL}")
    with redis_servers.server(program) as server:
        yield server
