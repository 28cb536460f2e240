"""RQ alone, for `queue.py`: its own `enqueue`, and SimpleWorker, which does not fork."""

from collections.abc import Iterator
from contextlib import contextmanager

import redis
import rq

from benchmarks.queue_servers import Servers
from benchmarks.queue_trial import System, Teller, worker

_QUEUE = "bench"
_teller: Teller


def nothing() -> None:
    """The job."""
    _teller.nothing()


@contextmanager
def system(servers: Servers) -> Iterator[System]:
    """RQ with its own defaults."""
    url = f"{servers.redis}/1"
    with redis.Redis.from_url(url) as connection:
        queue = rq.Queue(_QUEUE, connection=connection)
        yield System("RQ", lambda _: queue.enqueue(nothing), [worker(__name__, url)])


def work(url: str) -> None:
    """Its worker."""
    global _teller
    _teller = Teller()
    with redis.Redis.from_url(url) as connection:
        rq.SimpleWorker([_QUEUE], connection=connection).work(logging_level="ERROR")
