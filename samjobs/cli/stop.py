"""Ctrl-C, SIGTERM and a reader that has gone away: how a run is asked to end early.

The first signal lets the image in hand be finished. The second one is left to the kernel, which ends the process at
once wherever it is; that loses no more than kill -9 does, and the next run goes on from there.
"""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from samjobs.cli.exits import Exit
from samjobs.segmentation.pipeline import Limit

SIGNALS = (signal.SIGINT, signal.SIGTERM)
STOPPING = "stopping after the image in hand; once more to stop at once"
_SHOW_CURSOR = "\x1b[?25h"  # a progress bar hides it, and the second signal leaves no time to show it again


class Stop:
    """Whether somebody asked this process to stop."""

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Take over both signals in the block."""

        def on_signal(number: int, frame: FrameType | None) -> None:
            self.signal = signal.Signals(number)
            for each in SIGNALS:
                signal.signal(each, signal.SIG_DFL)
            # Not by print(): the signal may have come in the middle of one.
            before, after = ("\n", _SHOW_CURSOR) if os.isatty(sys.stderr.fileno()) else ("", "")
            with suppress(OSError):  # standard error is full, or nobody reads it
                os.write(sys.stderr.fileno(), f"{before}samjobs: {STOPPING}{after}\n".encode())

        earlier = {number: signal.signal(number, on_signal) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in earlier.items():
                signal.signal(number, handler)

    def reader_gone(self) -> None:
        """Nobody reads standard output any more: stop as on Ctrl-C."""
        self.signal = self.signal or signal.SIGPIPE

    @property
    def exit_code(self) -> int | None:
        """128 + the signal's number, as shells have it; None when nobody stopped."""
        return None if self.signal is None else Exit.BY_SIGNAL + self.signal


class Allowance(Limit):
    """What `--limit` leaves, and nothing more once somebody asked to stop.

    Spent by what this process gives to an engine: images that fail before that cost next to nothing, and some that fail
    every time must not keep the next ones from their turn.
    """

    def __init__(self, stop: Stop, limit: int | None) -> None:
        super().__init__(limit)
        self._stop = stop

    def left(self) -> int | None:
        return super().left() if self._stop.signal is None else 0
