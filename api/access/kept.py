"""A few answers, each for a while: so that asking again costs nothing, and no flood of questions fills the memory."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Answer = TypeVar("Answer")


class Kept(Generic[Key, Answer]):
    """At most `most` answers, none older than `seconds`; the oldest give way. May be shared between threads.

    Args:
        clock: seconds that only grow.
    """

    def __init__(self, most: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._seconds, self._clock = most, seconds, clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[Key, tuple[float, Answer]] = OrderedDict()

    def get(self, key: Key) -> Answer | None:
        """The answer, unless it is too old or was never there."""
        with self._lock:
            until, answer = self._kept.get(key, (0.0, None))
            return answer if until > self._clock() else None

    def put(self, key: Key, answer: Answer) -> None:
        """Keep an answer from now on."""
        with self._lock:
            self._kept[key] = self._clock() + self._seconds, answer
            self._kept.move_to_end(key)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)

    def __len__(self) -> int:
        """How many are kept, those too old included."""
        return len(self._kept)
