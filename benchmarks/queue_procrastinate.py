"""procrastinate, for `queue.py`: Postgres alone, woken by NOTIFY."""

from collections.abc import Iterator
from contextlib import contextmanager

import procrastinate

from benchmarks.queue_servers import Servers
from benchmarks.queue_trial import System, Teller, worker

_TASK = "nothing"


@contextmanager
def system(servers: Servers) -> Iterator[System]:
    """procrastinate with its own defaults: one job at a time."""
    url = servers.database("procrastinate")
    app = procrastinate.App(connector=procrastinate.SyncPsycopgConnector(conninfo=url))
    with app.open():
        app.schema_manager.apply_schema()
        deferrer = app.configure_task(_TASK)
        yield System("procrastinate", lambda _: deferrer.defer(), [worker(__name__, url)])


def work(url: str) -> None:
    """Its worker."""
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url))
    teller = Teller()

    async def nothing() -> None:
        teller.nothing()

    app.task(name=_TASK)(nothing)
    app.run_worker()
