"""Celery over Redis, for `queue.py`, with the solo pool, which does not fork."""

from collections.abc import Iterator
from contextlib import contextmanager

from celery import Celery

from benchmarks.queue_servers import Servers
from benchmarks.queue_trial import System, Teller, worker

_TASK = "nothing"


def _app(url: str) -> Celery:
    app = Celery("bench", broker=url)
    app.conf.update(task_ignore_result=True, broker_connection_retry_on_startup=True)
    return app


@contextmanager
def system(servers: Servers) -> Iterator[System]:
    """Celery with its own defaults, and no results kept."""
    url = f"{servers.redis}/2"
    with _app(url) as app:
        yield System("Celery", lambda _: app.send_task(_TASK), [worker(__name__, url)])


def work(url: str) -> None:
    """Its worker."""
    app = _app(url)
    app.task(name=_TASK)(Teller().nothing)
    app.worker_main(["worker", "--pool=solo", "--loglevel=ERROR"])
