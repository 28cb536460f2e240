"""Whoever can write to Redis gets nothing done: of a message only its id is believed, and that only if it fits a row.

One worker process serves all these tests: each attack is followed by a real shard, which it must do.
"""

import json
import os
import zlib
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import uuid4

import psutil
import pytest
import redis
from rq import Callback, Queue
from rq import Worker as ForkingWorker
from rq.command import send_kill_horse_command, send_shutdown_command
from rq.job import Job as RQJob
from rq.webhook import Webhook

from samjobs.metrics import WORKER_REJECTED, WORKER_SHARDS
from samjobs.names import message_id, queue_of
from tests import postgres
from tests.redis_server import Server as RedisServer
from tests.waiting import until
from tests.worker.machine import REGION, Machine, Process

MEBI = 1 << 20
STALE = f'{WORKER_SHARDS.name}{{end="stale"}}'


@pytest.fixture(scope="module")
def machine(
    tmp_path_factory: pytest.TempPathFactory, postgres_server: str, redis_server: RedisServer
) -> Iterator[Machine]:
    with postgres.database(postgres_server) as url:
        opened = Machine(tmp_path_factory.mktemp("messages"), url, redis_server.url)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def worker(machine: Machine) -> Process:
    return machine.ready()


@pytest.fixture
def client(machine: Machine) -> Iterator[redis.Redis]:
    with closing(redis.Redis.from_url(machine.redis_url)) as opened:
        yield opened


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """What an attack would write."""
    return tmp_path / "traces"


def _under_a_real_id(machine: Machine, client: redis.Redis, func: Any, *args: Any, **more: Any) -> None:
    """Put RQ's hash of a hostile job under the id of a real shard; the shard must be done, and nothing else."""
    job_id = machine.job(uuid4().hex)
    message = machine.claim(job_id)
    hostile = RQJob.create(func, args, id=message, connection=client, origin=queue_of(REGION), **more)
    Queue(queue_of(REGION), connection=client).enqueue_job(hostile)
    assert machine.until_ended(job_id).images_done == 1


def _still_works(machine: Machine, worker: Process) -> None:
    machine.done(uuid4().hex)
    assert worker.alive, worker.said


def test_a_function_that_a_message_names_is_not_called(
    machine: Machine, worker: Process, client: redis.Redis, traces: Path
) -> None:
    _under_a_real_id(machine, client, "os.mkdir", str(traces))
    _still_works(machine, worker)
    assert not traces.exists()


def test_callbacks_of_a_message_are_not_called(machine: Machine, worker: Process, client: redis.Redis) -> None:
    abort = Callback("os.abort")
    _under_a_real_id(machine, client, "os.getpid", on_success=abort, on_failure=abort, on_stopped=abort)
    _still_works(machine, worker)


class _Opened:
    """When unpickled, makes a folder."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self._path,)


def test_a_pickled_payload_is_not_opened(machine: Machine, worker: Process, client: redis.Redis, traces: Path) -> None:
    _under_a_real_id(machine, client, "os.getpid", _Opened(traces))
    _still_works(machine, worker)
    assert not traces.exists()


def test_webhooks_of_a_message_are_not_called(machine: Machine, worker: Process, client: redis.Redis) -> None:
    asked: list[str] = []

    class Listening(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Listening) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}/"
        hooks = [Webhook(url, "finished"), Webhook(url, "failed")]
        _under_a_real_id(machine, client, "os.getpid", webhooks=hooks)
        _still_works(machine, worker)
        server.shutdown()
        thread.join()
    assert asked == []


def test_nobody_commands_a_worker_through_redis(machine: Machine, worker: Process, client: redis.Redis) -> None:
    (shown,) = ForkingWorker.all(connection=client)
    send_shutdown_command(client, shown.name)
    send_kill_horse_command(client, shown.name)
    assert client.pubsub_numsub(shown.pubsub_channel_name)[0][1] == 0, "nobody listens"
    client.set("rq:suspended", 1)
    _still_works(machine, worker)
    client.delete("rq:suspended")


def test_a_payload_that_grows_without_limit_is_not_decompressed(
    machine: Machine, worker: Process, client: redis.Redis
) -> None:
    before = psutil.Process(worker.popen.pid).memory_info().rss
    packer = zlib.compressobj(9)
    bomb = b"".join(packer.compress(bytes(MEBI)) for _ in range(512)) + packer.flush()
    message = message_id(uuid4(), 1)
    client.hset(RQJob.key_for(message), mapping={"data": bomb, "created_at": "2026-01-01T00:00:00Z"})
    client.rpush(Queue(queue_of(REGION), connection=client).key, message)
    _still_works(machine, worker)
    assert psutil.Process(worker.popen.pid).memory_info().rss < before + 256 * MEBI


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"os.system", "malformed"),
        (b"", "malformed"),
        (b"\xff\xfe\x00", "undecodable"),
        (b"A" * MEBI, "malformed"),
        (f"{uuid4()}-{2**31}".encode(), "malformed"),
        (f"{uuid4()}-0".encode(), "malformed"),
        (json.dumps({"id": str(uuid4())}).encode(), "malformed"),
    ],
    ids=["a name", "nothing", "no text", "a megabyte", "an attempt beyond numbers", "attempt 0", "JSON"],
)
def test_what_is_no_id_is_counted_and_thrown_away(
    machine: Machine, worker: Process, client: redis.Redis, message: bytes, reason: str
) -> None:
    before = _count(worker, reason)
    client.rpush(Queue(queue_of(REGION), connection=client).key, message)
    until(lambda: _count(worker, reason) == before + 1, "the message is counted")
    _still_works(machine, worker)
    told = [line for line in worker.said.splitlines() if f"({reason};" in line]
    assert len(told) == 1, "said once for each reason"
    assert told[0].isascii()
    assert len(told[0]) < 300


@pytest.mark.parametrize("attempt", [2, 999_999_999])
def test_an_id_that_fits_no_row_is_stale(machine: Machine, worker: Process, attempt: int) -> None:
    job_id = machine.job(uuid4().hex)
    before = worker.metric(STALE)
    machine.push(message_id(machine.shard(job_id).id, attempt))
    _still_works(machine, worker)
    assert machine.shard(job_id).attempt == 0
    assert worker.metric(STALE) == before + 1


def test_a_message_that_comes_twice_is_one_piece_of_work(machine: Machine, worker: Process) -> None:
    job_id = machine.job(uuid4().hex)
    before = worker.metric(STALE)
    machine.push(machine.send(job_id))
    assert machine.until_ended(job_id).images_done == 1
    until(lambda: worker.metric(STALE) == before + 1, "the second one is known for stale")


def _count(worker: Process, reason: str) -> float:
    return worker.metric(f'{WORKER_REJECTED.name}{{reason="{reason}"}}')
