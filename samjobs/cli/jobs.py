"""`samjobs get`, and what a person does to a job: cancel, suspend, resume, retry; and what was done to it: events."""

import json
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated
from uuid import UUID

import typer

from samjobs.cli.context import AsJson, JobName, JobNames, JobTable, Tenant, open_client, settings_for
from samjobs.cli.shown import JOB_HEADER, event_line, event_object, job_object, job_row, short
from samjobs.cli.streams import print_out
from samjobs.cli.tables import Table
from samjobs.client import POLL_S, Client
from samjobs.errors import InvalidInput
from samjobs.states import JOB_TERMINAL, JobState
from samjobs.store.retrying import What
from samjobs.store.rows import Job

EVENTS_A_PAGE = 1000


def get(
    job: Annotated[str | None, typer.Argument(metavar="[JOB]", help="One job; left out: the newest ones.")] = None,
    tenant: Tenant = None,
    region: Annotated[str | None, typer.Option(help="Of this region alone.")] = None,
    state: Annotated[JobState | None, typer.Option(help="In this state alone.")] = None,
    active: Annotated[bool, typer.Option("--active", help="Without those that have ended.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="This many at most, the newest ones.")] = 50,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Go on, and print what changes.")] = False,
    db: JobTable = None,
    as_json: AsJson = False,
) -> None:
    """List jobs, or show one."""

    def look(client: Client) -> Sequence[Job]:
        if job is not None:
            return [client.get(job)]
        return client.list(tenant=tenant, region=region, state=state, active_only=active, limit=limit)

    with open_client(settings_for(db), "get") as client:
        printer = _Printer(as_json)
        found = look(client)
        if not found and not as_json:
            print_out("no jobs; `samjobs submit --help` tells how to start")
        reading = printer.show(found, client.now())
        while watch and reading and not (job is not None and found[0].state in JOB_TERMINAL):
            time.sleep(POLL_S)
            found = look(client)
            reading = printer.show(found, client.now())


class _Printer:
    """Prints each job once, and again when it has changed."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._table = Table(*JOB_HEADER)
        self._shown: dict[UUID, Job] = {}

    def show(self, found: Sequence[Job], at: datetime) -> bool:
        """Print what is new in `found`; False when nobody reads any more."""
        changed = [job for job in found if self._shown.get(job.id) != job]
        first = not self._shown
        self._shown = {job.id: job for job in found}
        if self._as_json:
            return all(print_out(json.dumps(job_object(job))) for job in changed)
        lines = self._table.lines([job_row(job, at) for job in changed], header=first) if changed else []
        return all(print_out(line) for line in lines)


def cancel(jobs: JobNames, db: JobTable = None) -> None:
    """End jobs now. Their results stay."""
    _each(jobs, db, "cancel", lambda client, job: "cancelled" if client.cancel(job.id) else _ended(job))


def suspend(jobs: JobNames, db: JobTable = None) -> None:
    """Take jobs off the workers, each shard after the image in hand, until they are resumed."""
    _each(jobs, db, "suspend", lambda client, job: "suspended" if client.suspend(job.id) else _as_it_was(job))


def resume(jobs: JobNames, db: JobTable = None) -> None:
    """Let suspended jobs go on where they were."""
    _each(jobs, db, "resume", lambda client, job: "resumed" if client.resume(job.id) else _as_it_was(job))


def retry(
    jobs: JobNames,
    dead: Annotated[bool, typer.Option("--dead", help="Dead shards alone.")] = False,
    failed_images: Annotated[bool, typer.Option("--failed-images", help="Failed images alone.")] = False,
    db: JobTable = None,
) -> None:
    """Put failed images and dead shards of jobs back to work. On one machine see `samjobs queue retry` too."""
    if dead and failed_images:
        raise InvalidInput("--dead and --failed-images: give one of them; without either, both are retried")
    what: What = "dead" if dead else "images" if failed_images else "all"

    def act(client: Client, job: Job) -> str:
        retried = client.retry(job.id, what=what)
        if not retried.shards:
            return "nothing to retry"
        return f"{retried.images} failed images and {retried.shards} shards are queued again"

    _each(jobs, db, "retry", act)


def _each(names: Sequence[str], db: str | None, command: str, act: Callable[[Client, Job], str]) -> None:
    with open_client(settings_for(db), command) as client:
        for job in [client.get(name) for name in names]:  # all are there, or nothing is done
            print_out(f"{short(job)}: {act(client, job)}")


def _ended(job: Job) -> str:
    return f"has ended already: {job.state.value}"


def _as_it_was(job: Job) -> str:
    return _ended(job) if job.state in JOB_TERMINAL else "is so already" if job.suspend else "is not suspended"


def events(job: JobName, db: JobTable = None, as_json: AsJson = False) -> None:
    """Tell all that happened to a job, its shards and its images, oldest first."""
    with open_client(settings_for(db), "events") as client:
        job_id, after = client.get(job).id, 0
        while page := client.events(job_id, after=after, limit=EVENTS_A_PAGE):
            after = page[-1].id
            if not all(print_out(json.dumps(event_object(one)) if as_json else event_line(one)) for one in page):
                return
