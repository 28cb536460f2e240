"""Real servers for the tests, started once per session; and an environment that holds no setting of samjobs."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from samjobs.store import Store, connect, migrate
from tests import postgres


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


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The address of a PostgreSQL server; `tests.postgres.database` makes databases on it."""
    programs = postgres.programs()
    if programs is None:
        missing = f"PostgreSQL is missing: {postgres.INSTALL}"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    with postgres.server(programs) as url:
        yield url


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
