"""The whole system on real servers: a controller and workers as processes, and an independent witness of commits.

Times are short (a lease of 3 s, a poll each half second), so that a test waits for "the lease and one poll" in seconds.
Every commit of an image's outcome is written down by a trigger in the database, which no code of samjobs knows.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID
from zlib import crc32

import psycopg
from PIL import Image, ImageDraw

from samjobs.inputs import NewImage
from samjobs.queue import RedisQueue
from samjobs.spec import Images, JobSpec, Output, Prompts, TextPrompt
from samjobs.states import JOB_TERMINAL, ImageState
from samjobs.store import Store, connect, images, jobs, shards
from samjobs.store.rows import Event, Job, Shard
from samjobs.store.rows import Image as ImageRow
from tests.redis_server import Server as RedisServer
from tests.waiting import until

WITNESS = Path(__file__).parent / "witness"
STALE_S, POLL_S = 3.0, 0.5
SETTINGS = {
    "POLLER_INTERVAL_SECONDS": POLL_S,
    "STALE_JOB_TIMEOUT_SECONDS": STALE_S,
    "FAILED_JOB_TIMEOUT_SECONDS": 0,
    "HEARTBEAT_SECONDS": 0.5,
    "PROGRESS_SECONDS": 0.05,
    "HEALTH_PORT": 0,
    "ENGINE": "opencv",
    "DECODE_THREADS": 1,
}
COMMITS = """
CREATE TABLE commits (job_id uuid, index int, incarnation uuid);
CREATE FUNCTION note_commit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO commits SELECT new.job_id, new.index, shards.incarnation FROM shards WHERE shards.job_id = new.job_id
    AND new.index >= first_index AND new.index < first_index + images_total;
  RETURN NULL; END $$;
CREATE TRIGGER note_commit AFTER UPDATE OF state ON images FOR EACH ROW
  WHEN (new.state <> 'pending') EXECUTE FUNCTION note_commit();
"""


@dataclass
class Process:
    """A controller or a worker, with all that it said."""

    kind: str
    popen: "subprocess.Popen[bytes]"
    log: Path

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")

    @property
    def alive(self) -> bool:
        return self.popen.poll() is None

    def kill(self) -> None:
        """As the kernel does it."""
        self.popen.kill()
        self.popen.wait()

    def pause(self) -> None:
        self.popen.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.popen.send_signal(signal.SIGCONT)

    def stop(self, code: int = 0) -> None:
        """In order, by SIGTERM."""
        self.popen.send_signal(signal.SIGTERM)
        self.ends(code)

    def ends(self, code: int) -> None:
        found = self.popen.wait(60)
        assert found == code, f"{self.kind} ended with {found}, not {code}:\n{self.said}"


@dataclass
class Held:
    """A process held at a step by `witness/sitecustomize.py`."""

    gate: Path
    note: Path

    @property
    def pid(self) -> int | None:
        """Of the process that is held, once one is."""
        return int(self.note.read_text()) if self.note.exists() and self.note.read_text() else None

    def let_go(self) -> None:
        with self.gate.open("wb"):
            pass


@dataclass
class System:
    """Processes of samjobs on one database and one Redis."""

    root: Path
    url: str  # as the processes know the database
    direct_url: str  # as this test knows it
    redis: RedisServer
    pooled: bool = False
    settings: dict[str, object] = field(default_factory=dict)
    processes: list[Process] = field(default_factory=list)
    store: Store = field(init=False)

    def __post_init__(self) -> None:
        self.store = connect(self.direct_url)
        with psycopg.connect(self.direct_url) as conn:
            conn.execute(COMMITS)

    # Processes.

    def environment(self, **settings: object) -> dict[str, str]:
        known: dict[str, object] = {
            **SETTINGS,
            "DATABASE_URL": self.url,
            "DATABASE_POOLED": self.pooled,
            "REDIS_URL": self.redis.url,
            **self.settings,
            **settings,
        }
        return {f"SAMJOBS_{name}": str(value) for name, value in known.items()}

    def start(self, kind: str, *, held: tuple[str, Held] | None = None, **settings: object) -> Process:
        """Start a `controller` or a `worker`; `held`: at which step it is to wait."""
        environment = os.environ | self.environment(**settings) | {"PYTHONPATH": str(WITNESS), "PYTHONUNBUFFERED": "1"}
        if kind == "worker":
            environment["WITNESS_FILE"] = str(self.root / "witness.txt")
        if held is not None:
            step, place = held
            environment |= {"HOLD_AT": step, "HOLD_GATE": str(place.gate), "HOLD_NOTE": str(place.note)}
        log = self.root / f"{kind}-{len(self.processes)}.log"
        with log.open("wb") as out:
            popen = subprocess.Popen(
                [sys.executable, "-m", kind], stdout=out, stderr=out, env=environment, start_new_session=True
            )
        self.processes.append(Process(kind, popen, log))
        return self.processes[-1]

    def start_all(self, workers: int = 1) -> list[Process]:
        """A controller, then workers; the workers."""
        self.start("controller")
        return [self.start("worker") for _ in range(workers)]

    def hold(self) -> Held:
        gate, note = self.root / f"gate-{len(self.processes)}", self.root / f"note-{len(self.processes)}"
        os.mkfifo(gate)
        return Held(gate, note)

    def close(self) -> None:
        for process in self.processes:
            if process.alive:
                process.go_on()
                process.kill()
        self.store.close()

    def told(self) -> str:
        """The ends of all logs, for a failed test."""
        return "\n".join(f"--- {one.log.name}\n{one.said[-3000:]}" for one in self.processes)

    # Work.

    def spec(self, name: str, **changes: Any) -> JobSpec:
        defaults = {
            "images": Images(prefix=str(self.root / "photos" / name)),
            "prompts": Prompts(text=(TextPrompt(text="red disc"),)),
            "output": Output(uri=str(self.root / "out" / name)),
            "engine": "opencv",
            "shard_size": 10,
        }
        return JobSpec(**(defaults | changes))

    def photos(self, name: str, count: int) -> list[Path]:
        folder = self.root / "photos" / name
        return [draw(folder / f"{number:04}.png", number, mark=crc32(name.encode())) for number in range(count)]

    def submit(self, name: str, count: int = 20, *, tenant: str = "default", **changes: Any) -> UUID:
        """A job over `count` drawn photos, complete."""
        items = [NewImage(path.name, str(path)) for path in self.photos(name, count)]
        return self.submit_items(name, items, tenant=tenant, **changes)

    def submit_items(self, name: str, items: list[NewImage], *, tenant: str = "default", **changes: Any) -> UUID:
        with self.store.begin() as conn:
            job_id = jobs.submit(conn, self.spec(name, **changes), name=name, tenant=tenant).job_id
            jobs.add_images(conn, job_id, items)
            jobs.mark_expanded(conn, job_id)
        return job_id

    def submit_listed(self, name: str, **changes: Any) -> UUID:
        """A job over the folder of photos of that name, which the controller has to list."""
        with self.store.begin() as conn:
            return jobs.submit(conn, self.spec(name, **changes), name=name).job_id

    def cli(self, *arguments: str, code: int | None = 0) -> str:
        """What the `samjobs` command prints."""
        ran = subprocess.run(
            [sys.executable, "-m", "samjobs.cli", *arguments],
            env=os.environ | self.environment(),
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert code in (None, ran.returncode), f"exit code {ran.returncode}, not {code}\n{ran.stdout}\n{ran.stderr}"
        return ran.stdout

    # What the table says.

    def job(self, job_id: UUID) -> Job:
        with self.store.read() as conn:
            found = jobs.get(conn, job_id)
        assert found is not None
        return found

    def shards(self, job_id: UUID) -> list[Shard]:
        with self.store.read() as conn:
            return shards.of_job(conn, job_id)

    def images(self, job_id: UUID) -> list[ImageRow]:
        with self.store.read() as conn:
            return images.iterate(conn, job_id)

    def events(self, job_id: UUID) -> list[Event]:
        with self.store.read() as conn:
            return jobs.events(conn, job_id, limit=10_000)

    def reasons(self, job_id: UUID) -> Counter[str]:
        return Counter(event.reason.value for event in self.events(job_id))

    def commits(self, job_id: UUID) -> Counter[int]:
        """How often the outcome of each image was committed, by its index."""
        with psycopg.connect(self.direct_url) as conn:
            return Counter(row[0] for row in conn.execute("SELECT index FROM commits WHERE job_id = %s", [job_id]))

    def worked(self) -> Counter[str]:
        """How often each picture was given to an engine."""
        witness = self.root / "witness.txt"
        lines = witness.read_text().splitlines() if witness.exists() else []
        return Counter(line.split()[1] for line in lines)

    def redis_ids(self) -> list[str]:
        """All messages in Redis."""
        with closing(RedisQueue.connect(self.redis.url)) as queue:
            return list(queue.waiting())

    def count(self, table: str, condition: str) -> int:
        with psycopg.connect(self.direct_url) as conn:
            row = conn.execute(f"SELECT count(*) FROM {table} WHERE {condition}".encode()).fetchone()
        assert row is not None
        return int(row[0])

    def plant_orphans(self, count: int) -> UUID:
        """A job whose shards all run by a worker that nobody knows, silent for a day."""
        job_id = self.submit("orphans", 1)
        with psycopg.connect(self.direct_url) as conn:
            conn.execute(
                "INSERT INTO shards SELECT (copied).* FROM (SELECT jsonb_populate_record(shards, jsonb_build_object("
                " 'id', gen_random_uuid(), 'index', n, 'first_index', n, 'state', 'running', 'attempt', 1,"
                " 'incarnation', gen_random_uuid(), 'heartbeat_at', now() - interval '1 day')) AS copied"
                " FROM shards, generate_series(1, %s) AS n WHERE job_id = %s) AS rows",
                [count, job_id],
            )
            conn.execute("UPDATE jobs SET shards_total = shards_total + %s WHERE id = %s", [count, job_id])
        return job_id

    # Waiting and judging.

    def let_pass(self, seconds: float) -> None:
        """An outage of so many seconds: the fault under test, not a wait for something."""
        time.sleep(seconds)

    def until(self, condition: Callable[[], bool], what: str, patience_s: float = 60) -> None:
        try:
            until(condition, what, patience_s)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.told()}") from None

    def until_ended(self, *job_ids: UUID, patience_s: float = 60) -> None:
        self.until(
            lambda: all(self.job(job_id).state in JOB_TERMINAL for job_id in job_ids),
            f"jobs end: {[(one.name, one.state.value) for one in map(self.job, job_ids)]}",
            patience_s,
        )

    def check_done_once(self, job_id: UUID) -> None:
        """Every image of the job has one result, committed once, and its record lies in the output place."""
        job = self.job(job_id)
        assert job.state.value == "succeeded", f"{job.state} {job.error}\n{self.told()}"
        # Skipped: its result was published by a worker that died before it could say so, and still holds.
        assert {image.state for image in self.images(job_id)} <= {ImageState.DONE, ImageState.SKIPPED}
        assert self.commits(job_id) == Counter(range(job.images_total)), "an image was lost, or committed twice"
        assert job.images_done + job.images_skipped == job.images_total
        assert job.shards_succeeded == job.shards_total
        for image in self.images(job_id):
            record = json.loads((Path(job.spec.output.uri) / "records" / f"{image.key}.json").read_bytes())
            assert len(record["instances"]) == 1


def draw(path: Path, number: int = 0, *, mark: int = 0, size: tuple[int, int] = (64, 48)) -> Path:
    """A picture with one red disc on grey; pictures of different numbers or marks differ."""
    image = Image.new("RGB", size, (128, 128, 128))
    left = 4 + number % 16
    ImageDraw.Draw(image).ellipse((left, 10, left + 24, 34), fill=(220, 20, 30))
    image.putpixel((0, 0), (100 + number // 100, 100 + number % 100, 128))
    image.putpixel((1, 0), (100 + mark % 100, 100 + mark // 100 % 100, 100 + mark // 10_000 % 100))
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path)
    return path
