"""The whole system, once with Postgres itself and once through pgbouncer in transaction mode."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests import postgres
from tests.conftest import missing
from tests.redis_server import Server as RedisServer
from tests.system import pgbouncer
from tests.system.system import System


@pytest.fixture(scope="session")
def pgbouncer_url(postgres_process: postgres.Server) -> Iterator[str]:
    """The address of a pgbouncer in transaction mode before the tests' server, without a database."""
    program = pgbouncer.program()
    if program is None:
        missing(f"pgbouncer is missing: {pgbouncer.INSTALL}")
    with pgbouncer.before(program, postgres_process.port) as url:
        yield url


@pytest.fixture
def direct(postgres_url: str, own_redis: RedisServer, tmp_path: Path) -> Iterator[System]:
    """The system with Postgres itself."""
    yield from _system(postgres_url, postgres_url, own_redis, tmp_path)


def _system(url: str, direct_url: str, redis: RedisServer, root: Path) -> Iterator[System]:
    made = System(root, url, direct_url, redis, pooled=url != direct_url)
    with ExitStack() as stack:
        stack.callback(made.close)
        yield made


@pytest.fixture(params=["postgres", "pgbouncer"])
def system(
    request: pytest.FixtureRequest, postgres_url: str, own_redis: RedisServer, tmp_path: Path
) -> Iterator[System]:
    """The system with Postgres itself, and through pgbouncer, where nobody listens and all is noticed by polling."""
    url = postgres_url
    if request.param == "pgbouncer":
        url = f"{request.getfixturevalue('pgbouncer_url')}/{postgres_url.rsplit('/', 1)[1]}"
    yield from _system(url, postgres_url, own_redis, tmp_path)
