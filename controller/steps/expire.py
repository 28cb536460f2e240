"""Which jobs have run out of time?

Those past their own deadline; and those of which nothing has been heard for `failed_job_timeout_seconds`, while their
region did nothing either, so that a job deep in a queue that moves is left alone.
"""

from controller import ACTOR
from controller.context import MOST_CHANGES, Context, Counts
from samjobs.names import Reason
from samjobs.store import jobs
from samjobs.store.rows import Job


def run(ctx: Context) -> Counts:
    """End them as failed."""
    silent_s = ctx.settings.failed_job_timeout_seconds
    with ctx.store.read() as conn:
        overdue = jobs.overdue(conn, limit=MOST_CHANGES)
        silent = jobs.silent(conn, timeout_s=silent_s, limit=MOST_CHANGES) if silent_s else []
    ctx.more |= MOST_CHANGES in (len(overdue), len(silent))
    lifeless = f"no sign of life for {silent_s:g} s, of the job or of its region"
    return {
        "overdue": sum(_stop(ctx, job, Reason.DEADLINE_EXCEEDED, _late(job)) for job in overdue),
        "silent": sum(_stop(ctx, job, Reason.NO_PROGRESS, lifeless) for job in silent),
    }


def _late(job: Job) -> str:
    finished = job.images_total - job.images_open
    return (
        f"not finished within its activeDeadlineSeconds of {job.spec.active_deadline_seconds}:"
        f" {finished} of {job.images_total} images finished"
    )


def _stop(ctx: Context, job: Job, reason: Reason, message: str) -> bool:
    with ctx.store.begin() as conn:
        return jobs.stop(conn, job.id, reason=reason, message=message, actor=ACTOR)
