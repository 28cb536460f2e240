"""Doing a run: here or by several processes, then the gathered files, the summary and the exit code.

The summary is told also when an error ends the run, and the gathered files are written for each job that has ended.
"""

from typing import Any
from uuid import UUID

from samjobs.cli.crew import Crew
from samjobs.cli.exits import Exit
from samjobs.cli.run import Run
from samjobs.errors import OutputUnwritable
from samjobs.execution.merge import merge
from samjobs.states import JOB_TERMINAL, ImageState, JobState
from samjobs.store import Connection, jobs
from samjobs.store.rows import Job


def work(run: Run, processes: int) -> int:
    """Work on `run.only`, or on the whole queue, until nothing is left or somebody stops it; the exit code.

    Raises:
        SamjobsError: of class worker or critical, after the summary was told.
    """
    run.report.begin(run.tally.total)
    try:
        if processes == 1:
            run.worker.run(run, allowance=run.allowance, job_id=run.only)
        else:
            Crew(run, processes).work()
        if run.stop.signal is None:
            _gather(run)
    except OutputUnwritable as error:
        more = run.outlook()
        raise OutputUnwritable(f"{error} ({more})" if more else str(error)) from error
    finally:
        run.report.end(summary(run))
    return exit_code(run)


def summary(run: Run) -> dict[str, Any]:
    """What this run did, and where its jobs are."""
    found = run.jobs()
    told = run.tally.summary(left=sum(job.images_open for job in found))
    if run.only is not None and found:
        told |= {"job": str(found[0].id), "jobState": found[0].state.value, "output": found[0].spec.output.uri}
    return told


def exit_code(run: Run) -> int:
    """0 all done, 1 some images failed or were not done, 128 + signal when stopped."""
    if run.stop.exit_code is not None:
        return run.stop.exit_code
    found = run.jobs()
    if len(found) < len(run.scope):
        run.report.say("a job was cleared by somebody while this process worked on it; what it wrote stays")
        return Exit.SOME_FAILED
    for job in found:
        if job.state is JobState.CANCELLED:
            run.report.say(f"job {job.name} was cancelled ({job.reason}); what it wrote stays")
    bad = any(job.images_failed or job.state in (JobState.FAILED, JobState.CANCELLED) for job in found)
    return Exit.SOME_FAILED if bad or run.tally.states[ImageState.FAILED] else Exit.DONE


def _gather(run: Run) -> None:
    """Write the gathered files of what has ended. One process at a time: who waited finds it done."""
    with run.store.read() as conn:
        ended = _unpublished(conn, run.only)
    for job in ended:
        with run.worker.presence.alone("gather"):
            with run.store.read() as conn:
                now = jobs.get(conn, job.id)
            if now is not None and now.published_at is None and now.state in JOB_TERMINAL:
                merge(run.store, run.storage, now, threads=run.settings.fetch_threads)


def _unpublished(conn: Connection, only: UUID | None) -> list[Job]:
    """Jobs that ended and lack their gathered files; of several with one output place only the newest may write."""
    newest: dict[str, Job] = {}
    for job in jobs.list_jobs(conn, limit=1000):
        if job.state is not JobState.CANCELLED:
            newest.setdefault(job.spec.output.uri, job)
    return [
        job
        for job in newest.values()
        if job.published_at is None and job.state in JOB_TERMINAL and only in (None, job.id)
    ]
