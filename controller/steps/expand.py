"""Which images does a job have, whose prefix or manifest has to be listed? See `controller/lister.py`."""

from controller.context import Context, Counts


def run(ctx: Context) -> Counts:
    """Let the lister's thread look for such jobs, and keep the one in its hands from being taken over."""
    ctx.lister.renew()
    ctx.listing.wake()
    return {}
