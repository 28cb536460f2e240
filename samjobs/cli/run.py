"""What one run over a queue holds, from the first line to the summary; `work.py` does it.

Used by `process` and by `queue process`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from samjobs.cli.context import database_file, open_store, settings_for
from samjobs.cli.report import Report, Tally, image_line, report_for
from samjobs.cli.space import MeteredStorage, outlook
from samjobs.cli.stop import Allowance, Stop
from samjobs.execution.local import LocalWorker
from samjobs.execution.machine import Engines, access_for
from samjobs.execution.presence import locks_folder
from samjobs.execution.shard import End
from samjobs.segmentation.work import Outcome
from samjobs.settings import Settings
from samjobs.states import ImageState
from samjobs.store import Store, jobs, shards
from samjobs.store.rows import Job, Shard


@dataclass
class Run:
    """What a run shares between its parts."""

    store: Store
    storage: MeteredStorage
    settings: Settings
    engines: Engines
    worker: LocalWorker
    report: Report
    stop: Stop
    allowance: Allowance
    scope: list[UUID] = field(default_factory=list)  # the jobs that it is about
    only: UUID | None = None  # work on this job alone
    tally: Tally = field(default_factory=Tally)

    # What the local worker tells.

    def image(self, job: Job, outcome: Outcome) -> None:
        self.line(image_line(outcome))

    def shard_ended(self, job: Job, shard: Shard, end: End) -> None:
        if end in (End.RETRY, End.DEAD):
            with self.store.read() as conn:
                now = shards.get(conn, shard.id)
            what = "is put off and tried again" if end is End.RETRY else "is given up; see `samjobs queue retry`"
            self.report.say(f"shard {shard.index} of {job.name} {what}: {now.error if now else 'the job is gone'}")

    def line(self, line: dict[str, Any]) -> None:
        """Count and tell the object of one image."""
        self.tally.add(line)
        self.report.image(line)

    def jobs(self) -> list[Job]:
        """The jobs of this run that still exist."""
        with self.store.read() as conn:
            found = [jobs.get(conn, job_id) for job_id in self.scope]
        return [job for job in found if job is not None]

    def outlook(self) -> str:
        """What room the rest needs, where that can be told."""
        found = self.jobs()
        if not found:
            return ""
        left = sum(job.images_open for job in found)
        finished = self.tally.states[ImageState.DONE] + self.tally.states[ImageState.FAILED]
        return outlook(self.storage, found[0].spec.output.uri, finished=finished, left=left)


@contextmanager
def open_run(db: str | None, as_json: bool, limit: int | None) -> Iterator[Run]:
    """Everything that a run needs, given back at its end."""
    settings, stop = settings_for(db), Stop()
    report = report_for(as_json, stop.reader_gone)
    with open_store(settings) as store, MeteredStorage(access_for(settings)) as storage, Engines(settings) as engines:
        _prune(store)
        locks = locks_folder(database_file(settings))
        with LocalWorker(store, storage, settings, engines, locks) as worker, stop.listening():
            yield Run(store, storage, settings, engines, worker, report, stop, Allowance(stop, limit))


def _prune(store: Store) -> None:
    """Forget old jobs, some thousand rows at most, so that no start is slow for it."""
    for _ in range(20):
        with store.begin() as conn:
            if not jobs.prune_finished(conn):
                return
