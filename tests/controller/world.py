"""A controller's context on real servers, a worker that the test plays, and a clock that the test moves."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID, uuid4

import psycopg

from controller.background import Background
from controller.context import Context
from controller.lister import Lister
from controller.metrics import Metrics
from controller.outages import Outages
from controller.outbox import Outbox
from samjobs.names import listened_queues, message_id, parse_message_id
from samjobs.queue import RedisQueue
from samjobs.settings import Settings
from samjobs.store import Store, connect, jobs, shards, workers
from samjobs.store.rows import Event, Job, Shard, WorkerState
from tests.store.builders import outcomes


class World:
    """What the steps of one controller see and do."""

    def __init__(self, url: str, redis_url: str, **settings: Any) -> None:
        self.url = url
        self.settings = Settings(database_url=url, redis_url=redis_url, **settings)
        self.store: Store = connect(url)
        self.queue = RedisQueue.connect(redis_url)
        metrics, outages = Metrics(), Outages(60.0)
        self.lister = Lister(self.settings, self.store)
        self.outbox = Outbox(self.settings, self.store, metrics)
        threads: dict[str, Any] = {"rest_s": 0.0, "outages": outages, "metrics": metrics}
        self.ctx = Context(
            self.settings,
            self.store,
            self.queue,
            outages,
            metrics,
            self.lister,
            Background("listing", self.lister.list_next, **threads),
            Background("sending", self.outbox.send, **threads),
        )

    def close(self) -> None:
        self.lister.close()
        self.queue.close()
        self.store.close()

    # Workers.

    def worker(self, region: str = "default", state: WorkerState = WorkerState.READY) -> UUID:
        """A worker that is listed; it takes what `pop` gives."""
        incarnation = uuid4()
        with self.store.begin() as conn:
            workers.register(conn, incarnation, pool="default", region=region, node="node", pid=1)
            workers.set_state(conn, incarnation, state)
        return incarnation

    def pop(self, region: str = "default") -> tuple[UUID, int] | None:
        """What a worker of the region would take now."""
        found = self.queue.pop(listened_queues(region), 0.01)
        return None if found is None else parse_message_id(found)

    def start(self, incarnation: UUID, region: str = "default") -> Shard:
        """The next message of a region, taken and started."""
        message = self.pop(region)
        assert message is not None, f"no message waits for region {region}: {self.queue.waiting()}"
        with self.store.begin() as conn:
            started = shards.start(conn, *message, incarnation)
        assert started is not None, f"the message {message} is of no use"
        return started[1]

    def finish(self, shard: Shard) -> None:
        with self.store.begin() as conn:
            assert shards.record(conn, shard.id, shard.attempt, outcomes(shard))
            assert shards.finish(conn, shard.id, shard.attempt)

    def waiting(self) -> dict[str, str]:
        """Messages in Redis with their queues."""
        return self.queue.waiting()

    # The table.

    def job(self, job_id: UUID) -> Job:
        with self.store.read() as conn:
            found = jobs.get(conn, job_id)
        assert found is not None
        return found

    def shards(self, job_id: UUID) -> list[Shard]:
        with self.store.read() as conn:
            return shards.of_job(conn, job_id)

    def states(self, job_id: UUID) -> list[str]:
        return [shard.state.value for shard in self.shards(job_id)]

    def messages(self, job_id: UUID) -> list[str]:
        """The ids of the messages that the job's shards should have."""
        return [message_id(shard.id, shard.attempt) for shard in self.shards(job_id)]

    def events(self, job_id: UUID) -> list[Event]:
        with self.store.read() as conn:
            return jobs.events(conn, job_id, limit=1000)

    def sql(self, statement: str, *values: object) -> None:
        with psycopg.connect(self.url, autocommit=True) as conn:
            conn.execute(statement.encode(), values or None)

    def age(self, table: str, column: str, seconds: float) -> None:
        """Let what is in a column have happened so many seconds earlier."""
        self.sql(f"UPDATE {table} SET {column} = {column} - make_interval(secs => {seconds})")

    def metric(self, name: str, /, **labels: str) -> float | None:
        return self.ctx.metrics.registry.get_sample_value(name, labels)


@contextmanager
def opened(url: str, redis_url: str, **settings: Any) -> Iterator[World]:
    world = World(url, redis_url, **settings)
    try:
        yield world
    finally:
        world.close()
