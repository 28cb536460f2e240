"""The loop: from which queues in which order, what `rq info` shows of it, and which classes it may be."""

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any
from uuid import UUID, uuid4

import pytest
import redis
import rq
from rq import worker as rq_workers

from samjobs.errors import InvalidInput
from samjobs.names import listened_queues, message_id
from samjobs.queue import RedisQueue
from tests.redis_server import Server as RedisServer
from tests.waiting import until
from worker.drain import Drain
from worker.loop import ShardWorker, worker_class
from worker.metrics import Metrics

FORKING = [rq_workers.Worker, rq_workers.SpawnWorker, rq_workers.HerokuWorker, rq_workers.RoundRobinWorker]


class Loop:
    """A loop at work in a thread, whose shards are only noted."""

    def __init__(self, url: str, kind: type[ShardWorker] = ShardWorker) -> None:
        self.queue = RedisQueue.connect(url)
        self.drain = Drain()
        self.seen: list[tuple[UUID, int]] = []
        self.worker = kind(
            self.queue,
            "asia",
            uuid4(),
            run=lambda shard_id, attempt: self.seen.append((shard_id, attempt)),
            drain=self.drain,
            metrics=Metrics(),
        )
        self._thread = threading.Thread(target=self.worker.work)

    @contextmanager
    def running(self) -> Iterator["Loop"]:
        self._thread.start()
        try:
            yield self
        finally:
            self.end()

    def end(self) -> None:
        self.drain.requested = True
        self._thread.join()
        self.queue.close()

    def until_seen(self, count: int) -> None:
        until(lambda: len(self.seen) >= count, f"{count} messages are seen to")


@pytest.fixture
def client(redis_url: str) -> Iterator[redis.Redis]:
    with closing(redis.Redis.from_url(redis_url)) as opened:
        yield opened


def test_global_retries_come_first_then_the_regions_then_first_tries(redis_url: str) -> None:
    loop = Loop(redis_url)
    shards = {queue: uuid4() for queue in reversed(listened_queues("asia"))}
    loop.queue.push([(queue, message_id(shard, 3)) for queue, shard in shards.items()])
    loop.queue.push([(listened_queues("europe")[-1], message_id(uuid4(), 1))])
    with loop.running():
        loop.until_seen(3)
    assert loop.seen == [(shards[queue], 3) for queue in listened_queues("asia")]


def test_rq_shows_it_while_it_works(redis_url: str, client: redis.Redis) -> None:
    with Loop(redis_url).running() as loop:
        until(lambda: len(_shown(client)) == 1, "it is registered")
        (shown,) = _shown(client)
        assert shown.name == loop.worker.name
        assert tuple(shown.queue_names()) == listened_queues("asia")
        assert shown.pid == loop.worker.pid
        until(lambda: _shown(client)[0].get_state() == "idle", "it is idle")
    assert _shown(client) == []


def test_rq_shows_it_again_after_redis_was_emptied(
    redis_server: RedisServer, redis_url: str, client: redis.Redis
) -> None:
    with Loop(redis_url).running() as loop:
        until(lambda: len(_shown(client)) == 1, "it is registered")
        redis_server.forget()
        loop.queue.push([(listened_queues("asia")[0], message_id(uuid4(), 1))])
        loop.until_seen(1)
        until(lambda: len(_shown(client)) == 1, "it is registered again")


def test_nothing_of_a_message_stays_in_redis(redis_url: str, client: redis.Redis) -> None:
    with Loop(redis_url).running() as loop:
        loop.queue.push([(listened_queues("asia")[0], message_id(uuid4(), 1))])
        loop.until_seen(1)
    assert client.keys("rq:job:*") == []
    assert client.keys("rq:queue:*") == []


def test_what_a_shard_raises_ends_the_loop_and_its_registration(redis_url: str, client: redis.Redis) -> None:
    loop = Loop(redis_url)

    def broken(shard_id: UUID, attempt: int) -> None:
        raise RuntimeError("the device is gone")

    loop.worker._run = broken
    loop.queue.push([(listened_queues("asia")[0], message_id(uuid4(), 1))])
    with pytest.raises(RuntimeError, match="the device is gone"):
        loop.worker.work()
    assert _shown(client) == []
    loop.queue.close()


class Around(ShardWorker):
    """A class of somebody's own."""


@pytest.mark.parametrize("kind", [ShardWorker, Around])
def test_a_class_made_from_ours_will_do(kind: type[ShardWorker]) -> None:
    assert worker_class(f"{kind.__module__}.{kind.__name__}") is kind


@pytest.mark.parametrize("kind", FORKING)
def test_a_class_that_forks_is_refused(kind: type[Any]) -> None:
    with pytest.raises(InvalidInput, match="child process, which CUDA does not survive"):
        worker_class(f"rq.worker.{kind.__name__}")


def test_rqs_simple_worker_is_refused_too() -> None:
    assert issubclass(ShardWorker, rq.SimpleWorker)
    with pytest.raises(InvalidInput, match="runs whatever function a message in Redis names"):
        worker_class("rq.SimpleWorker")


@pytest.mark.parametrize("path", ["", "worker", "worker.loop.Missing", "no.such.module.Class", "os.path.join"])
def test_what_is_no_worker_is_refused(path: str) -> None:
    with pytest.raises(InvalidInput, match="SAMJOBS_WORKER_CLASS"):
        worker_class(path)


def _shown(client: redis.Redis) -> list[Any]:
    return list(rq.Worker.all(connection=client))
