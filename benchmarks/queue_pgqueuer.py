"""pgqueuer, for `queue.py`: Postgres alone, woken by NOTIFY, jobs taken ten at a time.

With asyncpg: with psycopg a waiting worker holds its only connection for up to a second, and picks up that late.
"""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg
import psycopg
from pgqueuer import PgQueuer
from pgqueuer.adapters.drivers.psycopg import SyncPsycopgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries, SyncQueries

from benchmarks.queue_servers import Servers
from benchmarks.queue_trial import System, Teller, worker

_ENTRYPOINT = "nothing"


@contextmanager
def system(servers: Servers) -> Iterator[System]:
    """pgqueuer with its own defaults."""
    url = servers.database("pgqueuer")
    asyncio.run(_install(url))
    with psycopg.connect(url, autocommit=True) as connection:
        queries = SyncQueries(SyncPsycopgDriver(connection))
        yield System("pgqueuer", lambda _: queries.enqueue(_ENTRYPOINT, b""), [worker(__name__, url)])


def work(url: str) -> None:
    """Its worker."""
    asyncio.run(_work(url))


async def _install(url: str) -> None:
    connection = await asyncpg.connect(url)
    await Queries.from_asyncpg_connection(connection).install()
    await connection.close()


async def _work(url: str) -> None:
    teller = Teller()
    connection = await asyncpg.connect(url)
    app = PgQueuer.from_asyncpg_connection(connection)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, app.shutdown.set)

    async def nothing(_job: Job) -> None:
        teller.nothing()

    app.entrypoint(_ENTRYPOINT)(nothing)
    await app.run()
    await connection.close()
