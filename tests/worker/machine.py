"""Worker processes on a real database and a real Redis, without a controller: shards are sent out by hand."""

import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from prometheus_client.parser import text_string_to_metric_families as families

from samjobs.names import message_id, queue_of
from samjobs.queue import RedisQueue
from samjobs.states import JOB_TERMINAL
from samjobs.store import Store, connect, jobs, shards, workers
from samjobs.store.rows import Job, Shard, Worker, WorkerState
from tests.execution.builders import job
from tests.waiting import until

WITNESS = Path(__file__).parent / "witness"
REGION = "default"
SETTINGS = {
    "ENGINE": "opencv",
    "HEALTH_HOST": "127.0.0.1",
    "HEALTH_PORT": 0,
    "HEARTBEAT_SECONDS": 0.2,
    "PROGRESS_SECONDS": 1e-6,
    "DECODE_THREADS": 1,
    "FETCH_THREADS": 2,
}


@dataclass
class Process:
    """A worker process, and what it said."""

    popen: "subprocess.Popen[bytes]"
    log: Path

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")

    @property
    def last_line(self) -> str:
        return self.said.splitlines()[-1]

    @property
    def alive(self) -> bool:
        return self.popen.poll() is None

    def signal(self, number: signal.Signals = signal.SIGTERM) -> None:
        self.popen.send_signal(number)

    def ends(self) -> int:
        """Its exit code, at its end."""
        return self.popen.wait(60)

    def until_said(self, text: str) -> None:
        until(lambda: text in self.said or not self.alive, f"the worker says {text!r}")
        assert text in self.said, self.said

    def probe(self, page: str) -> tuple[int, str]:
        """Status and text of a page of its health port."""
        port = self.said.partition("probes on port ")[2].split()[0]
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}", timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def metric(self, sample: str) -> float:
        """One sample of its metrics, as it is written there but for the labels that all of them have."""
        ((wanted,),) = (family.samples for family in families(f"{sample} 0\n"))
        found = [
            one.value
            for family in families(self.probe("metrics")[1])
            for one in family.samples
            if one.name == wanted.name and wanted.labels.items() <= one.labels.items()
        ]
        assert len(found) == 1, f"{sample} is not among the metrics"
        return found[0]


@dataclass
class Machine:
    """Where workers are started, and jobs sent to them."""

    root: Path
    database_url: str
    redis_url: str
    processes: list[Process] = field(default_factory=list)
    store: Store = field(init=False)

    def __post_init__(self) -> None:
        self.store = connect(self.database_url)

    def close(self) -> None:
        for process in self.processes:
            if process.alive:
                process.popen.kill()
            process.ends()
        self.store.close()

    def settings(self, **settings: object) -> dict[str, str]:
        """The environment of a worker."""
        known = SETTINGS | {"DATABASE_URL": self.database_url, "REDIS_URL": self.redis_url} | settings
        return {f"SAMJOBS_{name}": str(value) for name, value in known.items()}

    def start(self, *, environment: dict[str, str] | None = None, **settings: object) -> Process:
        """A worker that has just been started."""
        witness = {"PYTHONPATH": str(WITNESS), "WITNESS_FILE": str(self.root / "witness.txt")}
        log = self.root / f"worker-{len(self.processes)}.log"
        with log.open("wb") as out:
            popen = subprocess.Popen(
                [sys.executable, "-m", "worker"],
                stdout=out,
                stderr=out,
                env=os.environ | self.settings(**settings) | witness | (environment or {}),
                start_new_session=True,
            )
        self.processes.append(Process(popen, log))
        return self.processes[-1]

    def ready(self, *, environment: dict[str, str] | None = None, **settings: object) -> Process:
        """A worker that is ready."""
        process = self.start(environment=environment, **settings)
        process.until_said("is ready")
        return process

    def hold_at(self, picture: int) -> "Gate":
        """Holds a worker with its n-th picture in hand; at 0 it is held while it loads its engine."""
        gate = Gate(self.root / f"gate-{len(self.processes)}", picture)
        os.mkfifo(gate.path)
        return gate

    # Work.

    def job(self, name: str, count: int = 1, **changes: object) -> UUID:
        """A job over `count` drawn pictures, all in one shard, not sent out yet."""
        return job(self.store, self.root / name, count, **({"shard_size": 100} | changes))

    def claim(self, job_id: UUID) -> str:
        """The message of the job's next shard, which was claimed and not sent."""
        with self.store.begin() as conn:
            (claimed,) = shards.claim(conn, limit=1, job_id=job_id)
        return message_id(claimed.id, claimed.attempt)

    def send(self, job_id: UUID) -> str:
        """Send the job's next shard out, as a controller does; its message."""
        message = self.claim(job_id)
        self.push(message)
        return message

    def push(self, message: str) -> None:
        with closing(RedisQueue.connect(self.redis_url)) as queue:
            queue.push([(queue_of(REGION), message)])

    def read(self, job_id: UUID) -> Job:
        with self.store.read() as conn:
            found = jobs.get(conn, job_id)
        assert found is not None
        return found

    def shard(self, job_id: UUID) -> Shard:
        with self.store.read() as conn:
            return shards.of_job(conn, job_id)[0]

    def until_ended(self, job_id: UUID) -> Job:
        said = "\n".join(process.said[-2000:] for process in self.processes)
        until(lambda: self.read(job_id).state in JOB_TERMINAL, f"the job ends; {said}")
        return self.read(job_id)

    def done(self, name: str) -> Job:
        """A job of one picture, sent out and done: the worker lives."""
        job_id = self.job(name)
        self.send(job_id)
        ended = self.until_ended(job_id)
        assert (ended.state.value, ended.images_done) == ("succeeded", 1)
        return ended

    def listed(self) -> Worker:
        """The newest worker in the table."""
        with self.store.read() as conn:
            return workers.listing(conn)[-1]

    def until_state(self, state: WorkerState) -> None:
        def states() -> list[WorkerState]:
            with self.store.read() as conn:
                return [worker.state for worker in workers.listing(conn)]

        until(lambda: states()[-1:] == [state], f"the worker is {state.value}")

    def pictures(self) -> list[str]:
        """What each picture given to an engine looked like, in order."""
        witness = self.root / "witness.txt"
        lines = witness.read_text().splitlines() if witness.exists() else []
        return [line.split()[1] for line in lines]


@dataclass
class Gate:
    """A named pipe at which a process waits with a picture in hand."""

    path: Path
    picture: int

    @property
    def environment(self) -> dict[str, str]:
        which = {"WITNESS_HOLD_AFTER": str(self.picture)} if self.picture else {"HOLD_LOAD": "yes"}
        return which | {"WITNESS_GATE": str(self.path)}

    def open(self) -> None:
        with self.path.open("wb"):
            self.path.unlink()
