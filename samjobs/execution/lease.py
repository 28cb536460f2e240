"""Does this process still own the shard it works on?

A thread with a connection of its own renews the lease and learns of cancel, suspend and loss. `held()` also looks at
the clock of this process: after a long stop (SIGSTOP, a laptop's sleep) the lease is taken for lost before the first
answer of the database. Once work has begun it stops renewing when no image was finished for the stall time: a hung
device must lose its lease, and only somebody else can tell that it hangs. Loading an engine may take any time.
"""

import logging
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self
from uuid import UUID

from samjobs.errors import SamjobsError
from samjobs.store import Store, shards, workers
from samjobs.store.rows import LeaseAnswer, Shard

log = logging.getLogger(__name__)

_OURS = (LeaseAnswer.HELD, LeaseAnswer.SUSPENDED)


class Lease:
    """The right to run one attempt of a shard, while in the `with` block."""

    def __init__(
        self,
        store: Store,
        shard: Shard,
        incarnation: UUID,
        *,
        stale_s: float,
        stall_s: float,
        beat_s: float,
        tell_stall: Callable[[str], None] = lambda why: None,
    ) -> None:
        """A lease that was just granted by `shards.start`.

        Args:
            stale_s: seconds without renewal after which others take it for lost.
            stall_s: seconds without a finished image after which it is renewed no more.
            beat_s: seconds between two renewals, and so until a cancel is learnt.
            tell_stall: told that work stalls, and for how long, from the renewing thread.
        """
        self._store, self._shard, self._incarnation = store, shard, incarnation
        self._stale_s, self._stall_s, self._beat_s = stale_s, stall_s, beat_s
        self._tell_stall = tell_stall
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
        if self._answer in _OURS and time.monotonic() - self._renewed >= self._stale_s:
            return LeaseAnswer.LOST
        return self._answer

    def held(self) -> bool:
        """Whether results may still be published."""
        return self.answer in _OURS

    def progressed(self) -> None:
        """Work has begun, or an image was finished."""
        self._progressed = time.monotonic()

    def lose(self) -> None:
        """A fenced write was refused."""
        self._answer = LeaseAnswer.LOST

    def _renew_until_stopped(self) -> None:
        failing = False
        while not self._stop.wait(self._beat_s):
            if self._progressed is not None and time.monotonic() - self._progressed >= self._stall_s:
                why = f"no image finished for {self._stall_s:.0f} s: the lease of shard {self._shard.id} runs out"
                log.error(why)
                self._tell_stall(why)
                return
            asked = time.monotonic()
            try:
                answer = self._renew()
            except SamjobsError as error:  # also a full disk: what this process does next will tell of it
                if not failing:
                    log.warning("heartbeat of shard %s: %s", self._shard.id, error)
                failing = True
                continue
            failing = False
            if self._answer is LeaseAnswer.LOST:
                return
            self._answer = answer
            self._renewed = asked

    def _renew(self) -> LeaseAnswer:
        with self._store.begin() as conn:
            answer = shards.heartbeat(conn, self._shard.id, self._shard.attempt, self._incarnation)
            workers.heartbeat(conn, self._incarnation)
        return answer
