"""What this process is and has: for whoever looks after it. No secret, and nothing that has to be counted."""

import platform
import time

from api.context import Context
from api.queue_models import RuntimeStats, Table
from samjobs import __version__
from samjobs.store import facts
from samjobs.store.migrations import HEAD

SETTINGS = (
    "profile",
    "database_pooled",
    "api_access",
    "api_audience",
    "api_max_body_bytes",
    "region_concurrency",
    "tenant_concurrency",
    "tenant_rate_per_minute",
    "dispatch_window",
    "poller_interval_seconds",
    "stale_job_timeout_seconds",
    "failed_job_timeout_seconds",
    "failover_after_seconds",
    "max_image_bytes",
    "max_image_pixels",
    "memory_bytes",
)
_STARTED = time.monotonic()


def stats_of(context: Context) -> RuntimeStats:
    """The answer of /admin/runtime/stats."""
    with context.store.read() as conn:
        found = facts.facts(conn)
    return RuntimeStats(
        version=__version__,
        python=platform.python_version(),
        schema_revision=HEAD,
        uptime_seconds=round(time.monotonic() - _STARTED, 3),
        database=context.store.name,
        database_bytes=found.bytes,
        tables=[Table(name=one.name, rows=one.rows, bytes=one.bytes) for one in found.tables],
        connections=facts.connections_in_use(context.store),
        watchers=len(context.watchers),
        listening=context.watchers.listening,
        settings={name: getattr(context.settings, name) for name in SETTINGS},
    )
