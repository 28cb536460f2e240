"""How much waits, for how long, who works, and what has ended since the last look: for the metrics."""

from controller.context import Context, Counts
from samjobs.store import measures


def run(ctx: Context) -> Counts:
    """Note it."""
    with ctx.store.read() as conn:
        found = measures.measure(
            conn, alive_within_s=ctx.settings.stale_job_timeout_seconds, ended_since=ctx.ended_until
        )
    ctx.ended_until = found.ended_until
    ctx.metrics.measured(found, ctx.limits)
    return {}
