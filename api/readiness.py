"""Can requests be answered now? Probes ask often, and anybody may: the database is asked once a second at most."""

import threading
import time

from samjobs.errors import SamjobsError
from samjobs.store import Store, check_schema

FRESH_S = 1.0


class Readiness:
    """What both ports tell."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._asking = threading.Lock()
        self._asked_at = float("-inf")
        self._why_not: str | None = None

    def why_not(self) -> str | None:
        """None: all is well; else why not, for a person."""
        with self._asking:
            if time.monotonic() - self._asked_at > FRESH_S:
                try:
                    check_schema(self._store)
                    self._why_not = None
                except SamjobsError:
                    self._why_not = "the database is away, or not of this version: the log tells"
                self._asked_at = time.monotonic()
            return self._why_not
