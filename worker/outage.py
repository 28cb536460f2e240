"""A server is away: one line when that begins, one when it is over, and longer and longer pauses between two tries."""

import logging
import random
import time

log = logging.getLogger(__name__)

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 10.0


class Outage:
    """What one thread knows of one server. Not to be shared: another connection to the same server may be well."""

    def __init__(self, server: str) -> None:
        """`server`: whose outage, and for what, in words for the log."""
        self._server = server
        self._since: float | None = None
        self._pause_s = 0.0

    def failed(self, error: Exception) -> float:
        """Note a failure; the seconds to wait before the next try, with jitter so that many workers spread out."""
        if self._since is None:
            self._since = time.monotonic()
            self._pause_s = FIRST_PAUSE_S
            log.warning("%s: away, trying on: %s", self._server, error)
        else:
            self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
        return self._pause_s * random.uniform(0.5, 1)

    def over(self) -> None:
        """Note a success."""
        if self._since is not None:
            log.warning("%s: back after %.1f s", self._server, time.monotonic() - self._since)
            self._since = None
