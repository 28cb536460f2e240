"""Work that may take long (a listing, a slow receiver of webhooks) runs beside the pass, in a thread of its own.

Such a thread does rounds: one at each wake-up, and the next one only after a rest, so that a storm of wake-ups costs
no more than one round per rest.
"""

import logging
import threading
from collections.abc import Callable

from controller.metrics import Metrics
from controller.outages import DATABASE, Outages
from samjobs.errors import DatabaseUnavailable

log = logging.getLogger("controller")


class Background:
    """One thread that does rounds of one duty.

    Args:
        do: one round; told `stop`, which it must heed between its parts. True when there is more to do at once.
        rest_s: least time between two rounds.
    """

    def __init__(
        self,
        name: str,
        do: Callable[[threading.Event], bool],
        *,
        rest_s: float,
        outages: Outages,
        metrics: Metrics,
    ) -> None:
        self._do = do
        self._rest_s = rest_s
        self._outages = outages
        self._metrics = metrics
        self._woken = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin to wait for wake-ups."""
        self._thread.start()

    def wake(self) -> None:
        """Let a round be done soon. Costs the caller nothing."""
        self._woken.set()

    def stop(self) -> None:
        """Ask the thread to end; it ends after the part in hand."""
        self._stop.set()
        self._woken.set()

    def join(self, timeout_s: float) -> bool:
        """Whether the thread has ended within `timeout_s`; True for one that was never started."""
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            self._woken.wait()
            self._woken.clear()
            if self._stop.is_set():
                return
            if self._round():
                self._woken.set()
            if self._stop.wait(max(self._rest_s, self._outages.pause_s(DATABASE))):
                return

    def _round(self) -> bool:
        """One round; a failure of any kind leaves the rest to the next wake-up."""
        try:
            more = self._do(self._stop)
        except DatabaseUnavailable as error:
            self._outages.failed(DATABASE, error)
            return False
        except Exception:
            log.exception("thread %s failed; it goes on", self._thread.name)
            self._metrics.unexpected(self._thread.name)
            return False
        return more
