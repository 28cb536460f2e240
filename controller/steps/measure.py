"""How much waits, for how long, and what is at work, by region: for the metrics."""

from controller.context import Context, Counts
from samjobs.store import views


def run(ctx: Context) -> Counts:
    """Note it."""
    with ctx.store.read() as conn:
        ctx.metrics.queue(views.regions(conn))
    return {}
