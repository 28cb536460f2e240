"""What may be forgotten? Jobs past their `ttlSecondsAfterFinished`; and what tells people of requests and workers.

Rows go in batches, each in a transaction of its own, so that no other step waits for a job of a million images.
"""

from controller.context import Context, Counts
from samjobs.store import jobs, requests, workers

BATCH = 1000
BATCHES = 10  # of one pass
# The row of a worker that is gone tells for an hour what became of it, an answered request for a week.
WORKER_KEPT_S = 3600.0
REQUEST_KEPT_S = 7 * 24 * 3600.0


def run(ctx: Context) -> Counts:
    """Delete the next of them."""
    counts = {"rows": 0}
    for _ in range(BATCHES):
        with ctx.store.begin() as conn:
            gone = jobs.prune_finished(conn, limit=BATCH)
        counts["rows"] += gone
        if gone == 0:
            break
    else:
        ctx.more = True
    # Its last heartbeat also says for how long a region has had no worker.
    kept_s = max(WORKER_KEPT_S, 2 * ctx.settings.failover_after_seconds)
    with ctx.store.begin() as conn:
        counts["workers"] = workers.prune(conn, older_than_s=kept_s, limit=BATCH)
    with ctx.store.begin() as conn:
        counts["requests"] = requests.prune(conn, older_than_s=REQUEST_KEPT_S, limit=BATCH)
    return counts
