"""`samjobs watch JOB`: how a job goes on, to its end."""

import json
import signal
from uuid import UUID

import typer

from samjobs.cli.context import AsJson, JobName, JobTable, open_client, settings_for
from samjobs.cli.exits import Exit
from samjobs.cli.shown import job_object, progress
from samjobs.cli.streams import print_out
from samjobs.client import Client
from samjobs.states import JOB_TERMINAL, JobState
from samjobs.store.rows import Job


def watch(job: JobName, db: JobTable = None, as_json: AsJson = False) -> None:
    """Tell a job's progress to its end. Exit code 0: all images are done; 1: some are not."""
    with open_client(settings_for(db), "watch") as client:
        code = follow(client, job, as_json=as_json)
    raise typer.Exit(code)


def follow(client: Client, job: UUID | str, *, as_json: bool) -> int:
    """Print a line for each change, until the job has ended or nobody reads any more; the exit code."""
    told, now = "", None
    for now in client.watch(job):
        line = json.dumps(job_object(now)) if as_json else _line(client, now)
        if line != told and not print_out(line):
            return Exit.BY_SIGNAL + signal.SIGPIPE
        told = line
    assert now is not None, "a job is told at least once"
    return Exit.DONE if now.state is JobState.SUCCEEDED and not now.images_failed else Exit.SOME_FAILED


def _line(client: Client, job: Job) -> str:
    line = f"{job.updated_at:%H:%M:%S}  {job.state.value}  {progress(job)} images"
    line += f", {job.images_failed} failed" if job.images_failed else ""
    if job.state is JobState.RUNNING:
        return line
    return (
        f"{line}  {job.error or job.reason.value}" if job.state in JOB_TERMINAL else f"{line}  {client.why(job.id)[1]}"
    )
