"""samjobs itself, for `queue.py`: the client, `python -m controller`, and `python -m worker` with the opencv engine.

The worker is the real one, but that it tells the benchmark when the run of a shard begins and ends. Of a bare job the
run is replaced: it writes the image's outcome and ends the shard, so what is left is what a shard costs the queue.
"""

import os
import runpy
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import cv2
import numpy as np
import sqlalchemy as sa

from benchmarks.queue_servers import Servers
from benchmarks.queue_trial import System, Teller, Trial, worker
from benchmarks.queue_trial import begin as begin_trial
from controller.process import _context
from controller.steps import dispatch
from samjobs.client import Client
from samjobs.execution import shard as execution
from samjobs.execution.shard import End, Host
from samjobs.names import Reason
from samjobs.queue import RedisQueue
from samjobs.settings import load
from samjobs.spec import JobSpec
from samjobs.states import ImageState
from samjobs.store import connect, shards
from samjobs.store.rows import ImageOutcome, Shard

NAME = "samjobs"
LISTED = 50  # images of a job of many; a backlog is a multiple of it
BARE_JOBS = "jobs of one bare shard"
NOTE = (
    "samjobs: a shard is one image, and three transactions (claim; start; outcome and end), with the settings'"
    " defaults: a\nbacklog passes through a window of two shards in Redis. Bare shards run no pipeline; whole ones read"
    " a picture of\n64 × 48, segment it by the opencv engine and write its record. The others: jobs that do nothing."
)
_START = sa.text("UPDATE shards SET state = 'running' WHERE state = 'dispatched'")
_END = sa.text("UPDATE shards SET state = 'succeeded' WHERE state = 'running'")
_BARE = "bare"  # the output folder of bare jobs


class Pictures:
    """Jobs over tiny pictures."""

    def __init__(self, client: Client, folder: Path) -> None:
        self._client = client
        self._folder = folder
        self._jobs = 0
        self._paths = [str(folder / f"{number:03}.png") for number in range(LISTED)]
        for path in self._paths:
            cv2.imwrite(path, np.full((48, 64, 3), 128, np.uint8))

    def submit(self, images: int = 1, *, bare: bool = False, tenant: str = "default") -> None:
        """One job of so many images, each a shard; one transaction."""
        self._jobs += 1
        self._client.submit(
            {
                "images": {"list": [{"image": path} for path in self._paths[:images]]},
                "prompts": {"text": ["red"]},
                "output": {"uri": str(self._folder / str(self._jobs) / (_BARE if bare else "whole"))},
                "engine": "opencv",
                "shardSize": 1,
            },
            tenant=tenant,
        )


@dataclass(frozen=True)
class Ours:
    """samjobs at work."""

    trial: Trial  # of whole shards in jobs of one
    pictures: Pictures

    def rates(self, backlog: int) -> dict[str, float]:
        """Shards per second of one worker, by what a shard is and in what jobs they come."""
        return {
            "jobs of one whole shard": self.trial.jobs_per_s,
            f"jobs of {LISTED} whole shards": self._rate(backlog, LISTED, bare=False),
            BARE_JOBS: self._rate(backlog, 1, bare=True),
            f"jobs of {LISTED} bare shards": self._rate(backlog, LISTED, bare=True),
        }

    def _rate(self, backlog: int, images: int, *, bare: bool) -> float:
        with self.trial.worked.held():
            for _ in range(backlog // images):
                self.pictures.submit(images, bare=bare)
        return self.trial.worked.rate(backlog)


def begin(stack: ExitStack, servers: Servers, backlog: int) -> Ours:
    """A controller and a worker that have worked off a backlog; they go on until `stack` ends."""
    pictures, environment = stack.enter_context(_deployed(servers))
    processes = [["-m", "controller"], worker(__name__)]
    system = System(NAME, lambda _: pictures.submit(), processes, environment)
    return Ours(begin_trial(stack, system, backlog), pictures)


@contextmanager
def _deployed(servers: Servers) -> Iterator[tuple[Pictures, dict[str, str]]]:
    """A client of a new database, and the environment of our processes."""
    with (
        servers.ours() as url,
        TemporaryDirectory(prefix="samjobs-bench-") as folder,
        Client(url) as client,
    ):
        environment = {
            "SAMJOBS_DATABASE_URL": url,
            "SAMJOBS_REDIS_URL": f"{servers.redis}/0",
            "SAMJOBS_ENGINE": "opencv",
            "SAMJOBS_HEALTH_HOST": "127.0.0.1",
            "SAMJOBS_HEALTH_PORT": "0",
        }
        yield Pictures(client, Path(folder)), environment


def work() -> None:
    """The real worker, told to say when it begins to run a shard and when it has."""
    teller, whole = Teller(), execution.run_shard

    def run_shard(host: Host, shard: Shard, spec: JobSpec, *engine: Any, **watched: Any) -> End:
        began = time.monotonic_ns()
        bare = spec.output.uri.endswith(f"/{_BARE}")
        try:
            return _bare(host, shard) if bare else whole(host, shard, spec, *engine, **watched)
        finally:
            teller.tell(began)

    execution.run_shard = run_shard
    runpy.run_module("worker", run_name="__main__")


def _bare(host: Host, shard: Shard) -> End:
    done = [ImageOutcome(shard.first_index, ImageState.DONE, Reason.PROCESSED)]
    with host.store.begin() as conn:
        assert shards.finish(conn, shard.id, shard.attempt, done)
    return End.FINISHED


def dispatch_rates(servers: Servers, count: int) -> list[dict[str, Any]]:
    """A row per backlog of `count` shards that are all sent by passes of the controller's step."""
    rows = []
    for shards_per_pass, tenants in ((20, 1), (20, 10), (count, 10)):
        with _deployed(servers) as (pictures, environment):
            for number in range(count // LISTED):
                pictures.submit(LISTED, tenant=f"tenant-{number % tenants}")
            seconds = _dispatch_all(environment, count, shards_per_pass)
        rows.append({"shards a pass": shards_per_pass, "tenants": tenants, "shards/s": count / seconds})
    return rows


def _dispatch_all(environment: dict[str, str], count: int, shards_per_pass: int) -> float:
    """Seconds that the steps took; between two of them what was sent is taken for done."""
    with patch.dict(os.environ, environment), ExitStack() as stack:
        settings = load().model_copy(update={"dispatch_window": shards_per_pass, "region_concurrency": count})
        store = connect(settings.database_url)
        stack.callback(store.close)
        queue = RedisQueue.connect(settings.redis_url)
        stack.callback(queue.close)
        ctx = _context(settings, store, queue, stack)
        sent, spent = 0, 0.0
        while sent < count:
            started = time.perf_counter()
            sent += dispatch.run(ctx)["sent"]
            spent += time.perf_counter() - started
            with store.engine.begin() as conn:
                conn.execute(_START)
                conn.execute(_END)
        with queue.client() as redis:
            redis.flushdb()
    return spent
