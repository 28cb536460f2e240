"""Which connections does this server cut, because nobody at their other end goes on?

Uvicorn waits for ever for the head of a request of which something has come, for a first one of which nothing has, for
the end of a body that is not read any more, and for a caller who does not take an answer: anybody could hold all of its
connections so. A request in hand is no such case, nor a slow caller who takes some of its answer now and then.
"""

import time
from collections.abc import Collection

from uvicorn.protocols.http.h11_impl import H11Protocol

# What changes when a connection goes on: its request, and how much of an answer nobody has taken yet.
_Standing = tuple[H11Protocol, object, int]


class Silent:
    """Cuts them. Asked in the event loop, again and again.

    Args:
        patience_s: for how long a connection may stand still.
    """

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._since: dict[_Standing, float] = {}

    def cut(self, connections: Collection[object]) -> None:
        """End those of `connections` that have stood still for too long."""
        now = time.monotonic()
        standing = [_standing(one) for one in connections if isinstance(one, H11Protocol) and _waits_for_caller(one)]
        self._since = {one: self._since.get(one, now) for one in standing}
        for (connection, _, _), since in self._since.items():
            if now - since > self._patience_s:
                connection.transport.abort()


def _waits_for_caller(one: H11Protocol) -> bool:
    return one.cycle is None or one.cycle.response_complete or one.flow.write_paused


def _standing(one: H11Protocol) -> _Standing:
    return one, one.cycle, one.transport.get_write_buffer_size()
