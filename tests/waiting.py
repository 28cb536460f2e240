"""Waiting for another thread, process or server."""

import time
from collections.abc import Callable

PATIENCE_S = 120


def until(condition: Callable[[], bool], what: str, patience_s: float = PATIENCE_S) -> None:
    """Poll until `condition` holds; fail after a time that no healthy system takes."""
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, f"waited {patience_s:.0f} s in vain until {what}"
        time.sleep(0.05)
