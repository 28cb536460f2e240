"""One run over a queue: the worker in this process, or several in processes of their own.

Used by `process` and by `queue process`. Ends with the merged files of each job that ended.
"""

import json
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import Any, TextIO
from uuid import UUID

from samjobs.cli.context import Engines, Stop
from samjobs.cli.report import Report, Tally, image_line
from samjobs.errors import OutputUnwritable
from samjobs.execution.local import LocalWorker
from samjobs.execution.merge import merge
from samjobs.execution.shard import End
from samjobs.segmentation.work import Outcome
from samjobs.settings import Settings
from samjobs.states import JOB_TERMINAL, JobState
from samjobs.storage import Storage
from samjobs.store import Store, jobs
from samjobs.store.rows import Job, Shard

SOME_FAILED = 1
CHILD_CRITICAL = 3


@dataclass
class Run:
    """What a run shares between its parts."""

    store: Store
    storage: Storage
    settings: Settings
    engines: Engines
    worker: LocalWorker
    report: Report
    stop: Stop
    limit: int | None
    tally: Tally = field(default_factory=Tally)

    def allowance(self) -> int | None:
        """Images that may still be segmented; see `pipeline.run`."""
        if self.stop.signal is not None:
            return 0
        return (
            None if self.limit is None else max(0, self.limit - self.tally.states["done"] - self.tally.states["failed"])
        )

    # What the local worker tells.

    def image(self, job: Job, outcome: Outcome) -> None:
        self.line(image_line(outcome))

    def shard_ended(self, job: Job, shard: Shard, end: End) -> None:
        if end in (End.RETRY, End.DEAD):
            self.report.say(f"shard {shard.index} of {job.name}: {end.value}; `samjobs queue status` tells why")

    def line(self, line: dict[str, Any]) -> None:
        """Count and tell the object of one image."""
        self.tally.add(line)
        self.report.image(line)


def work(run: Run, job_id: UUID | None, processes: int) -> None:
    """Work on the job, or on the whole queue, until nothing is left or somebody stops it.

    Raises:
        SamjobsError: of class worker or critical.
    """
    if processes == 1:
        run.worker.run(run, allowance=run.allowance, job_id=job_id)
    else:
        _Crew(run, job_id, processes).work()
    for job in _ended_unpublished(run.store, job_id):
        merge(run.store, run.storage, job, threads=run.settings.fetch_threads)


def exit_code(run: Run, job_id: UUID | None) -> int:
    """0 all done, 1 some images failed, 128 + signal when stopped."""
    if run.stop.exit_code is not None:
        return run.stop.exit_code
    with run.store.read() as conn:
        job = jobs.get(conn, job_id) if job_id is not None else None
    failed = bool(run.tally.states["failed"]) or (job is not None and job.state is JobState.FAILED)
    return SOME_FAILED if failed else 0


def _ended_unpublished(store: Store, job_id: UUID | None) -> list[Job]:
    with store.read() as conn:
        found = [jobs.get(conn, job_id)] if job_id is not None else jobs.list_jobs(conn, limit=1000)
    return [
        job
        for job in found
        if job is not None and job.published_at is None and job.state in JOB_TERMINAL - {JobState.CANCELLED}
    ]


class _Crew:
    """Several worker processes. One that dies is replaced while its job goes on; its shard is charged a failure."""

    def __init__(self, run: Run, job_id: UUID | None, processes: int) -> None:
        self._run, self._job_id, self._processes = run, job_id, processes
        self._lock = threading.Lock()

    def work(self) -> None:
        crew = [self._start(index) for index in range(self._processes)]
        told = False
        while any(process.poll() is None for process, _ in crew):
            if self._run.allowance() == 0 and not told:
                told = True
                for process, _ in crew:
                    process.terminate()
            for index, (process, reader) in enumerate(crew):
                if (
                    process.poll() is not None
                    and process.returncode < 0
                    and not told
                    and self._run.worker.put_back_orphans()
                ):
                    reader.join()
                    self._run.report.say(
                        f"worker process {process.pid} died by signal {-process.returncode}; starting another"
                    )
                    crew[index] = self._start(index)
            time.sleep(0.1)
        for _, reader in crew:
            reader.join()
        if any(process.returncode == CHILD_CRITICAL for process, _ in crew):
            raise OutputUnwritable("a worker process could not go on: see its message above")

    def _start(self, index: int) -> tuple["subprocess.Popen[str]", threading.Thread]:
        limit = self._run.limit
        command = [sys.executable, "-m", "samjobs.cli", "queue", "process", "--json", "--db", self._db()]
        command += ["--job", str(self._job_id)] if self._job_id is not None else []
        if limit is not None:
            share = limit // self._processes + (index < limit % self._processes)
            command += ["--limit", str(share)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None, "asked for a pipe"
        reader = threading.Thread(target=self._read, args=(process.stdout,), daemon=True)
        reader.start()
        return process, reader

    def _read(self, lines: TextIO) -> None:
        for text in lines:
            line = json.loads(text)
            if line["type"] == "image":
                with self._lock:
                    self._run.line(line)

    def _db(self) -> str:
        return self._run.settings.database_url.removeprefix("sqlite:///")
