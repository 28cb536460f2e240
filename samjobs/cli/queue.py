"""`samjobs queue`: what is queued on this machine, and what a person may do with it."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any
from uuid import uuid4

import typer

from samjobs.cli.context import AsJson, Database, database_file, open_store, settings_for
from samjobs.cli.run import open_run
from samjobs.cli.streams import print_out
from samjobs.cli.work import work
from samjobs.errors import InvalidInput
from samjobs.execution.local import at_work
from samjobs.execution.presence import Presence, locks_folder
from samjobs.states import JOB_ACTIVE, JobState
from samjobs.store import Connection, Store, jobs, shards, workers
from samjobs.store.rows import Job

app = typer.Typer(no_args_is_help=True, help="What is queued on this machine.")

JobName = Annotated[str | None, typer.Option("--job", metavar="ID_OR_NAME", help="One job; left out: all of them.")]
ACTOR = "samjobs queue"
LISTED = 1000  # jobs, the newest ones
WIDE = 1000  # characters


@app.command()
def status(job: JobName = None, db: Database = None, as_json: AsJson = False) -> None:
    """List jobs with their progress and, where they wait or failed, why."""
    with _queue(db) as (store, presence), store.read() as conn:
        rows = [_row(conn, presence, one) for one in _jobs(conn, job)]
    if as_json:
        for row in rows:
            print_out(json.dumps(row))
        return
    if not rows:
        print_out("nothing is queued; `samjobs process --help` tells how to start")
        return
    _print_table(rows)


def _print_table(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console  # they take long to import, and nothing else here needs them
    from rich.table import Table

    table = Table("JOB", "NAME", "STATE", "IMAGES", "DONE", "UNCHANGED", "FAILED", "WHY", box=None)
    for row in rows:
        cells = ("name", "state", "images", "done", "unchanged", "failed", "why")
        table.add_row(row["job"][:8], *(str(row[cell]) for cell in cells))
    # Without a terminal nobody wraps the lines but the one who reads them.
    console = Console(markup=False, highlight=False, width=None if sys.stdout.isatty() else WIDE)
    with console.capture() as drawn:
        console.print(table)
    print_out(drawn.get().rstrip("\n"))


@app.command()
def process(
    job: JobName = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes at work.")] = 1,
    limit: Annotated[int | None, typer.Option(min=1, help="Segment this many images at most.")] = None,
    db: Database = None,
    as_json: AsJson = False,
) -> None:
    """Work on what is queued."""
    with open_run(db, as_json, limit) as run:
        with run.store.read() as conn:
            found = _jobs(conn, job)
        active = [one for one in found if one.state in JOB_ACTIVE]
        if job is None and not active:
            run.report.say("nothing is queued; `samjobs queue retry` queues what has failed")
        run.only = found[0].id if job is not None else None
        run.scope = [one.id for one in active]
        run.tally.total = sum(one.images_open for one in active)
        code = work(run, workers if active else 1)
    raise typer.Exit(code)


@app.command()
def retry(job: JobName = None, db: Database = None) -> None:
    """Queue failed images and dead shards again; `samjobs queue process` works them."""
    with _queue(db) as (store, _):
        with store.read() as conn:
            found = [one for one in _jobs(conn, job) if one.images_failed or one.shards_dead]
        for one in found if job is not None else _latest(found):
            with store.begin() as conn:
                retried = jobs.retry_failed(conn, one.id, actor=ACTOR)
            print_out(f"{one.name}: {retried.images} failed images and {retried.shards} shards are queued again")
    if not found:
        print_out("nothing has failed")


@app.command()
def clear(job: JobName = None, db: Database = None) -> None:
    """Cancel what is queued and forget what has ended. Results in output folders stay.

    Jobs that a process is at work on are left alone: stop it first.
    """
    with _queue(db) as (store, presence):
        with store.read() as conn:
            found = _jobs(conn, job)
        busy = [text for one in found if (text := _clear(store, presence, one))]
    if busy and job is not None:
        raise InvalidInput(f"--job: {busy[0]}: stop it first (Ctrl-C, or kill), then clear")
    for text in busy:
        print_out(f"left alone: {text}")
    print_out(f"{len(found) - len(busy)} jobs forgotten; their results stay where they are")


def _clear(store: Store, presence: Presence, job: Job) -> str:
    """Forget one job; or, when somebody is at work on it, say who."""
    with store.begin() as conn:
        if job.state in JOB_ACTIVE:
            if busy := _at_work(conn, presence, job):
                return f"{job.name} ({str(job.id)[:8]}): {busy}"
            jobs.cancel(conn, job.id, actor=ACTOR)
        jobs.delete(conn, job.id)
    return ""


@contextmanager
def _queue(db: str | None) -> Iterator[tuple[Store, Presence]]:
    settings = settings_for(db)
    with open_store(settings) as store:
        # Only to look at others: this process works on nothing, so it holds no lock.
        yield store, Presence(locks_folder(database_file(settings)), uuid4())


def _jobs(conn: Connection, name: str | None) -> list[Job]:
    if name is None:
        return jobs.list_jobs(conn, limit=LISTED)
    found = jobs.find(conn, name)
    if found is None:
        raise InvalidInput(f"--job: no job {name!r}; `samjobs queue status` lists them")
    return [found]


def _latest(found: list[Job]) -> list[Job]:
    """Of equal jobs the newest one: it has the others' images too. Cancelled ones cannot be retried."""
    newest: dict[str | None, Job] = {}
    for one in found:
        if one.state is not JobState.CANCELLED:
            newest.setdefault(one.dedupe_key, one)
    return list(newest.values())


def _row(conn: Connection, presence: Presence, job: Job) -> dict[str, Any]:
    return {
        "job": str(job.id),
        "name": job.name,
        "state": job.state.value,
        "images": job.images_total,
        "done": job.images_done,
        "unchanged": job.images_skipped,
        "failed": job.images_failed,
        "why": _why(conn, presence, job),
        "output": job.spec.output.uri,
    }


def _why(conn: Connection, presence: Presence, job: Job) -> str:
    """Why a job waits, or how it ended."""
    if job.state not in JOB_ACTIVE and job.state is not JobState.FAILED:
        return job.reason.value
    parts = [jobs.verdict_of(job).message]
    if job.state in JOB_ACTIVE:
        parts.append(_at_work(conn, presence, job) or "no process is at work on it: see `samjobs queue process`")
    parts += [f"shard {shard.index}: {shard.error}" for shard in shards.of_job(conn, job.id) if shard.error][:1]
    return "; ".join(parts)


def _at_work(conn: Connection, presence: Presence, job: Job) -> str:
    """Which processes are at work on a job; "" for none."""
    listed = [workers.get(conn, incarnation) for incarnation in at_work(conn, presence, job)]
    pids = ", ".join(str(worker.pid) for worker in listed if worker is not None)
    return f"at work on it: process {pids}" if pids else ""
