"""The controller as a process: how it starts, ends, and gets over what happens to its servers."""

import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

import psycopg
import pytest

from samjobs.names import Reason, parse_message_id
from samjobs.store import shards
from tests.controller.process import Controller
from tests.controller.world import World, opened
from tests.redis_server import Server
from tests.store.builders import job
from tests.waiting import until

Start = Callable[..., Controller]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start controllers; those that still run in the end are killed."""
    folder = tmp_path / "logs"
    folder.mkdir()
    started: list[Controller] = []

    def start(**settings: object) -> Controller:
        started.append(Controller(folder, **settings))
        return started[-1]

    yield start
    for one in started:
        one.close()


class TestStart:
    def test_a_sqlite_file_is_refused(self, start: Start, tmp_path: Path) -> None:
        refused = start(DATABASE_URL=f"sqlite:///{tmp_path}/jobs.db")

        refused.ends(3)
        assert "is a SQLite file" in refused.said
        assert "give postgresql://user:password@host:port/name" in refused.said

    def test_a_database_without_the_tables_is_refused_with_the_remedy(self, start: Start, postgres_url: str) -> None:
        with psycopg.connect(postgres_url, autocommit=True) as conn:
            conn.execute("DROP SCHEMA public CASCADE")
            conn.execute("CREATE SCHEMA public")

        refused = start(DATABASE_URL=postgres_url)

        refused.ends(3)
        assert "schema revision none" in refused.said
        assert "samjobs migrate" in refused.said

    def test_a_database_that_does_not_answer_is_named_without_its_password(self, start: Start) -> None:
        refused = start(DATABASE_URL="postgresql://me:hunter2@127.0.0.1:1/none")

        refused.ends(3)
        assert "127.0.0.1:1/none is unavailable" in refused.said
        assert "SAMJOBS_DATABASE_URL" in refused.said
        assert "hunter2" not in refused.said

    def test_a_wrong_setting_is_named(self, start: Start, postgres_url: str) -> None:
        refused = start(DATABASE_URL=postgres_url, POLLER_INTERVAL_SECONDS="soon")

        refused.ends(3)
        assert "SAMJOBS_POLLER_INTERVAL_SECONDS" in refused.said


def test_it_tells_at_its_start_with_what_it_works_and_no_password(
    start: Start, postgres_url: str, redis_url: str
) -> None:
    one = start(
        DATABASE_URL=postgres_url.replace("samjobs@", "samjobs:hunter2@"),
        REDIS_URL=redis_url.replace("redis://", "redis://:hunter2@"),
        PROFILE="prod",
    )
    one.until_said("probes=")

    assert "profile=prod poll=30s lease=600s no-progress=3600s failover=300s" in one.said
    assert "hunter2" not in one.said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order(number: signal.Signals, start: Start, postgres_url: str, redis_url: str) -> None:
    one = start(DATABASE_URL=postgres_url, REDIS_URL=redis_url)
    one.until_ready()

    one.stop(number)

    assert one.said.rstrip().endswith("ended")


def test_a_signal_while_it_starts_ends_it_in_order_too(start: Start, postgres_url: str, redis_url: str) -> None:
    one = start(DATABASE_URL=postgres_url, REDIS_URL=redis_url)
    until(lambda: blocks_sigterm(one.process.pid), "the process has begun")

    one.stop()


def blocks_sigterm(pid: int) -> bool:
    """Whether a process has set SIGTERM aside, as the kernel tells."""
    status = Path(f"/proc/{pid}/status").read_text()
    mask = int(next(line for line in status.splitlines() if line.startswith("SigBlk:")).split()[1], 16)
    return bool(mask & 1 << (signal.SIGTERM - 1))


def test_its_probes_and_metrics_answer(start: Start, postgres_url: str, redis_url: str) -> None:
    one = start(DATABASE_URL=postgres_url, REDIS_URL=redis_url)
    one.until_ready()

    assert one.ask("/livez") == (200, "ok\n")
    until(lambda: "samjobs_controller_listener_connected 1.0" in one.ask("/metrics")[1], "it listens")
    metrics = one.ask("/metrics")[1]
    for wanted in (
        'samjobs_controller_pass_seconds_count{step="reclaim"}',
        'samjobs_dependency_up{name="redis"} 1.0',
        'samjobs_controller_actions_total{step="heal",what="requeued"} 0.0',
        "samjobs_redis_eviction_unsafe 0.0",
    ):
        assert wanted in metrics


def test_it_starts_without_redis_and_sends_when_there_is_one(
    start: Start, postgres_url: str, own_redis: Server
) -> None:
    own_redis.stop()
    one = start(DATABASE_URL=postgres_url, REDIS_URL=own_redis.url, POLLER_INTERVAL_SECONDS=0.5)
    one.until_ready()
    with opened(postgres_url, own_redis.url) as world:
        job_id = job(world.store, 2)
        until(lambda: one.said.count("outage server=redis began") == 1, "the outage is told")
        assert world.states(job_id) == ["queued"]

        own_redis.start()

        until(lambda: len(world.waiting()) == 1, f"the shard is sent:\n{one.said}")
        assert one.said.count("outage server=redis") == 2
        assert world.shards(job_id)[0].attempt == 1


def test_it_goes_on_after_all_its_connections_were_cut(start: Start, postgres_url: str, redis_url: str) -> None:
    one = start(DATABASE_URL=postgres_url, REDIS_URL=redis_url, POLLER_INTERVAL_SECONDS=3600)
    one.until_ready()
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    until(lambda: one.said.count("wake-ups are heard") == 2, "it listens again")

    with opened(postgres_url, redis_url) as world:
        job(world.store, 2)
        until(lambda: len(world.waiting()) == 1, "the shard is sent, and not by a poll")


def test_tables_that_it_does_not_know_are_an_outage_and_no_end(start: Start, postgres_url: str, redis_url: str) -> None:
    one = start(DATABASE_URL=postgres_url, REDIS_URL=redis_url, POLLER_INTERVAL_SECONDS=0.2)
    one.until_ready()
    with psycopg.connect(postgres_url, autocommit=True) as conn:
        conn.execute("ALTER TABLE shards RENAME TO hidden")
        until(lambda: one.ask("/readyz")[0] == 503, "it takes no work")
        conn.execute("ALTER TABLE hidden RENAME TO shards")

    one.until_ready()
    assert one.said.count("outage server=database began") == 1
    assert "Traceback" not in one.said


class Crew:
    """Workers that the test plays: they take messages, note them, and finish their shards at once."""

    def __init__(self, world: World, count: int) -> None:
        self.world = world
        self.taken: list[str] = []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._work, args=(world.worker(),)) for _ in range(count)]

    def __enter__(self) -> "Crew":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _work(self, incarnation: UUID) -> None:
        while not self._stop.is_set():
            found = self.world.queue.pop(["samjobs:region:default"], 0.1)
            if found is None:
                continue
            self.taken.append(found)
            message = parse_message_id(found)
            assert message is not None
            with self.world.store.begin() as conn:
                started = shards.start(conn, *message, incarnation)
            if started is not None:
                self.world.finish(started[1])


def test_two_controllers_send_every_shard_once(start: Start, postgres_url: str, redis_url: str) -> None:
    both = [start(DATABASE_URL=postgres_url, REDIS_URL=redis_url, POLLER_INTERVAL_SECONDS=0.2) for _ in range(2)]
    for one in both:
        one.until_ready()
    with opened(postgres_url, redis_url) as world, Crew(world, 4) as crew:
        ids = [job(world.store, 60, shard_size=1, tenant=tenant) for tenant in ("a", "b", "c")]
        until(
            lambda: all(world.job(job_id).state == "succeeded" for job_id in ids),
            "all jobs have ended",
        )
        told = Counter(
            event.shard_id for job_id in ids for event in world.events(job_id) if event.reason is Reason.CLAIMED
        )

        assert len(told) == 180
        assert set(told.values()) == {1}
        assert {shard.attempt for job_id in ids for shard in world.shards(job_id)} == {1}
        assert Counter(crew.taken) == Counter(message for job_id in ids for message in world.messages(job_id))
        assert sorted(event.reason for job_id in ids for event in world.events(job_id)).count(Reason.MESSAGE_LOST) == 0
    for one in both:
        one.stop()
        assert "Traceback" not in one.said
