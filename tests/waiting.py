"""Waiting for another thread, process or server."""

import time
from collections.abc import Callable

PATIENCE_S = 120


def until(condition: Callable[[], bool], what: str, patience_s: float = PATIENCE_S, every_s: float = 0.05) -> None:
    """Poll until `condition` holds; fail after a time that no healthy system takes.

    `every_s`: the rest between two looks; longer where a look costs a process.
    """
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, f"waited {patience_s:.0f} s in vain until {what}"
        time.sleep(every_s)
