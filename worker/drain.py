"""What happens on SIGTERM?

The first signal asks for an end: no further message is popped, the running shard stops after the image in hand, its
outcomes are written and it goes back uncharged. Heartbeats and cancels go on meanwhile. Before there is any work, while
the model loads, the process ends at once. The second signal leaves wherever it is; what was in hand is found by its
lease, or by the pass that looks for lost messages.

Nothing here takes a lock: a handler runs in the middle of whatever the main thread does, which may hold that lock.
"""

import os
import signal
import sys
import time
from contextlib import suppress
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGINT)
_SLICE_S = 0.1  # a sleep goes on after a signal, so a pause looks around this often


class Drain:
    """Whether this process was asked to end. To the pipeline it is an allowance: without limit, until then nothing."""

    def __init__(self) -> None:
        self.requested = False
        self._at_work = False

    def listen(self) -> None:
        """Take over the signals, for good."""
        for number in SIGNALS:
            signal.signal(number, self._on_signal)

    def begin(self) -> None:
        """From now on there may be work in hand, which a signal lets be finished."""
        self._at_work = True

    def pause(self, seconds: float) -> None:
        """Wait, or less if asked to end."""
        until = time.monotonic() + seconds
        while not self.requested and (left := until - time.monotonic()) > 0:
            time.sleep(min(_SLICE_S, left))

    def left(self) -> int | None:
        """See `pipeline.Allowance`."""
        return 0 if self.requested else None

    def spend(self, images: int) -> None:
        """There is no limit to spend."""

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        name = signal.Signals(number).name
        if self.requested:
            _say(f"{name} again: leaving at once; what was in hand is found and done by others")
            os._exit(128 + number)
        self.requested = True
        if not self._at_work:
            _say(f"{name} before any work was begun: leaving")
            raise SystemExit(0)
        _say(f"{name}: draining: the image in hand is finished, then its shard given back; once more to leave at once")


def _say(text: str) -> None:
    # Not by logging: the signal may have come in the middle of a line of it.
    with suppress(OSError):  # standard error is full, or nobody reads it
        os.write(sys.stderr.fileno(), f"worker: {text}\n".encode())
