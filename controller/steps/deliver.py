"""Who is told that a job has ended? See `controller/outbox.py`."""

from controller.context import Context, Counts


def run(ctx: Context) -> Counts:
    """Let the outbox's thread look for what is due."""
    ctx.sending.wake()
    return {}
