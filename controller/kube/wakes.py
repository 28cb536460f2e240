"""What did the watch see since somebody last looked? Handed from its thread to the one that acts."""

import threading
from dataclasses import dataclass
from uuid import UUID


@dataclass(frozen=True)
class Woken:
    """An object that changed, or that the watch met for the first time."""

    plural: str
    namespace: str
    name: str
    uid: UUID
    generation: int
    deleting: bool = False
    deleted: bool = False


class Wakes:
    """The objects that changed; of each the last word. Shared between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed: dict[UUID, Woken] = {}
        self._announced: set[UUID] = set()

    def put(self, woken: Woken) -> None:
        """Tell of a change."""
        with self._lock:
            self._changed[woken.uid] = woken
            if woken.deleted:
                self._announced.discard(woken.uid)
            else:
                self._announced.add(woken.uid)

    def take(self) -> list[Woken]:
        """All changes since the last call."""
        with self._lock:
            taken, self._changed = self._changed, {}
        return list(taken.values())

    def never_told(self, uids: frozenset[UUID]) -> frozenset[UUID]:
        """Those of `uids` that the watch never told of."""
        with self._lock:
            return uids - self._announced
