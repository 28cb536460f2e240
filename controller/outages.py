"""Which servers are away, since when, and when may they be asked again?

Told of every failure and every success, it logs one line when an outage begins and one when it ends, however often
somebody asks meanwhile, and spaces the asking: 1, 2, 4 … seconds, at most `longest_s`.
"""

import logging
import threading
import time
from dataclasses import dataclass

from samjobs.errors import DatabaseUnavailable, OutputUnwritable, SamjobsError, SchemaMismatch

DATABASE = "database"
REDIS = "redis"
KUBERNETES = "kubernetes"
FIRST_PAUSE_S = 1.0
# What a database raises that is away, full, or of another version.
DATABASE_FAULTS = (DatabaseUnavailable, OutputUnwritable, SchemaMismatch)

log = logging.getLogger("controller")


@dataclass
class _Outage:
    since: float
    pause_s: float
    ask_at: float


class Outages:
    """The servers that are away. Safe to share between threads."""

    def __init__(self, longest_s: float) -> None:
        self._longest_s = longest_s
        self._lock = threading.Lock()
        self._away: dict[str, _Outage] = {}

    def failed(self, server: str, error: SamjobsError) -> None:
        """Note that `server` did not do what it was asked."""
        with self._lock:
            at = time.monotonic()
            outage = self._away.get(server)
            if outage is not None and at < outage.ask_at:
                return  # another thread met the same failure
            pause_s = min(self._longest_s, FIRST_PAUSE_S if outage is None else 2 * outage.pause_s)
            self._away[server] = _Outage(at if outage is None else outage.since, pause_s, at + pause_s)
        if outage is None:
            log.warning("outage server=%s began: %s", server, error)

    def fine(self, server: str) -> None:
        """Note that `server` did what it was asked."""
        if not self._away:
            return
        with self._lock:
            outage = self._away.pop(server, None)
        if outage is not None:
            log.warning("outage server=%s over after %.1f s", server, time.monotonic() - outage.since)

    def away(self, server: str) -> bool:
        """Whether an outage of `server` is on."""
        return server in self._away

    def pause_s(self, server: str) -> float:
        """Seconds for which `server` is better left alone; 0: ask it."""
        with self._lock:
            outage = self._away.get(server)
        return 0.0 if outage is None else max(0.0, outage.ask_at - time.monotonic())
