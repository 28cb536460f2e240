"""`samjobs queue`: what is queued on this machine, and what a person may do with it."""

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from samjobs.cli.context import AsJson, Database, Engines, Stop, open_store, settings_for, storage_for
from samjobs.cli.report import report_for
from samjobs.cli.run import Run, exit_code, work
from samjobs.errors import InvalidInput
from samjobs.execution.local import LocalWorker
from samjobs.states import JOB_ACTIVE, JobState
from samjobs.store import Connection, jobs, views
from samjobs.store.rows import Job

app = typer.Typer(no_args_is_help=True, help="What is queued on this machine.")

JobName = Annotated[str | None, typer.Option("--job", metavar="ID_OR_NAME", help="One job; left out: all of them.")]
ACTOR = "samjobs queue"


@app.command()
def status(job: JobName = None, db: Database = None, as_json: AsJson = False) -> None:
    """List jobs with their progress and, where they wait or failed, why."""
    with open_store(settings_for(db)) as store, store.read() as conn:
        found = _jobs(conn, job)
        rows = [_row(conn, one) for one in found]
    if as_json:
        for row in rows:
            print(json.dumps(row))
        return
    if not rows:
        print("nothing is queued; `samjobs process --help` tells how to start")
        return
    table = Table("JOB", "NAME", "STATE", "IMAGES", "DONE", "UNCHANGED", "FAILED", "WHY", box=None)
    for row in rows:
        cells = ("name", "state", "images", "done", "unchanged", "failed", "why")
        table.add_row(str(row["job"])[:8], *(str(row[cell]) for cell in cells))
    Console().print(table)


@app.command()
def process(
    job: JobName = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes at work.")] = 1,
    limit: Annotated[int | None, typer.Option(min=1, help="Stop after this many images.")] = None,
    db: Database = None,
    as_json: AsJson = False,
) -> None:
    """Work on what is queued."""
    settings = settings_for(db)
    report, stop, engines = report_for(as_json), Stop(), Engines(settings)
    with (
        open_store(settings) as store,
        storage_for(settings) as storage,
        LocalWorker(store, storage, settings, engines) as worker,
        stop.listening(report.say),
    ):
        with store.read() as conn:
            found = [one for one in _jobs(conn, job) if one.state in JOB_ACTIVE]
        run = Run(store, storage, settings, engines, worker, report, stop, limit)
        run.tally.total = sum(
            one.images_total - one.images_done - one.images_failed - one.images_skipped for one in found
        )
        report.begin(run.tally.total)
        job_id = found[0].id if job is not None and found else None
        if found:
            work(run, job_id, workers)
        report.end(run.tally.summary())
        code = exit_code(run, job_id)
    engines.close()
    raise typer.Exit(code)


@app.command()
def retry(job: JobName = None, db: Database = None) -> None:
    """Queue failed images and dead shards again; `samjobs queue process` works them."""
    with open_store(settings_for(db)) as store:
        with store.read() as conn:
            found = [one for one in _jobs(conn, job) if one.images_failed or one.shards_dead]
        for one in found:
            with store.begin() as conn:
                retried = jobs.retry_failed(conn, one.id, actor=ACTOR)
            print(f"{one.name}: {retried.images} failed images and {retried.shards} shards are queued again")
    if not found:
        print("nothing has failed")


@app.command()
def clear(job: JobName = None, db: Database = None) -> None:
    """Cancel what is queued and forget what has ended. Results in output folders stay."""
    with open_store(settings_for(db)) as store:
        with store.read() as conn:
            found = _jobs(conn, job)
        for one in found:
            with store.begin() as conn:
                if one.state in JOB_ACTIVE:
                    jobs.cancel(conn, one.id, actor=ACTOR)
                jobs.delete(conn, one.id)
    print(f"{len(found)} jobs forgotten; their results stay where they are")


def _jobs(conn: Connection, name: str | None) -> list[Job]:
    if name is None:
        return jobs.list_jobs(conn, limit=1000)
    found = jobs.find(conn, name)
    if found is None:
        raise InvalidInput(f"--job: no job {name!r}; `samjobs queue status` lists them")
    return [found]


def _row(conn: Connection, job: Job) -> dict[str, str | int | None]:
    progress = views.job_progress(conn, job.id)
    waits = job.state in JOB_ACTIVE or job.state is JobState.FAILED
    why = progress.verdict.message if progress is not None and waits else job.reason
    return {
        "job": str(job.id),
        "name": job.name,
        "state": job.state.value,
        "images": job.images_total,
        "done": job.images_done,
        "unchanged": job.images_skipped,
        "failed": job.images_failed,
        "why": job.error or why,
        "output": job.spec.output.uri,
    }
