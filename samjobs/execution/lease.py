"""Does this process still own the shard it works on?

A thread with a connection of its own renews the lease and learns of cancel, suspend and loss. `held()` also looks at
the clock of this process: after a long stop (SIGSTOP, a laptop's sleep) the lease is taken for lost before the first
answer of the database. Once work has begun it stops renewing when no image was finished for the stall time: a hung
device must lose its lease, and only somebody else can tell that it hangs. Loading an engine may take any time.
"""

import logging
import threading
import time
from types import TracebackType
from typing import Self
from uuid import UUID

from samjobs.errors import SamjobsError
from samjobs.store import Store, shards, workers
from samjobs.store.rows import LeaseAnswer, Shard

log = logging.getLogger(__name__)


class Lease:
    """The right to run one attempt of a shard, while in the `with` block."""

    def __init__(self, store: Store, shard: Shard, incarnation: UUID, *, stale_s: float, stall_s: float) -> None:
        self._store, self._shard, self._incarnation = store, shard, incarnation
        self._stale_s, self._stall_s = stale_s, stall_s
        self._renewed = time.monotonic()
        self._progressed: float | None = None
        self._answer = LeaseAnswer.HELD
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._renew_until_stopped, name="lease", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def answer(self) -> LeaseAnswer:
        """The last thing that the database said, or LOST by this process's own clock."""
        if self._answer is LeaseAnswer.HELD and time.monotonic() - self._renewed >= self._stale_s:
            return LeaseAnswer.LOST
        return self._answer

    def held(self) -> bool:
        """Whether results may still be published."""
        return self.answer in (LeaseAnswer.HELD, LeaseAnswer.SUSPENDED)

    def progressed(self) -> None:
        """Work has begun, or an image was finished."""
        self._progressed = time.monotonic()

    def lose(self) -> None:
        """A fenced write was refused."""
        self._answer = LeaseAnswer.LOST

    def _renew_until_stopped(self) -> None:
        # A third of the stale time: two renewals may fail before the lease is lost.
        while not self._stop.wait(self._stale_s / 3):
            if self._progressed is not None and time.monotonic() - self._progressed >= self._stall_s:
                log.error("no image finished for %.0f s: the lease is left to run out", self._stall_s)
                return
            asked = time.monotonic()
            try:
                with self._store.begin() as conn:
                    answer = shards.heartbeat(conn, self._shard.id, self._shard.attempt, self._incarnation)
                    workers.heartbeat(conn, self._incarnation)
            except SamjobsError as error:  # also a full disk: what this process does next will tell of it
                log.warning("heartbeat: %s", error)
                continue
            if self._answer is LeaseAnswer.LOST:
                return
            self._answer = answer
            self._renewed = asked
