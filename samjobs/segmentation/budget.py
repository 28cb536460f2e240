"""How much memory may images take while they wait for the device?

A budget of bytes shared by the threads that read and decode. The image that is next in order is always let in,
whatever its size: otherwise images decoded early could hold the whole budget while the one they all wait for cannot
start. So the peak is the budget plus, at worst, one image in decoding and the small pictures that the device and the
writers have in hand.
"""

import threading


class ByteBudget:
    """Bytes that numbered images may hold; numbers are the order of consumption."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: dict[int, int] = {}
        self._head = 0
        self._closed = False
        self._changed = threading.Condition()

    def acquire(self, number: int, size: int) -> None:
        """Wait until image `number` may hold `size` bytes in all, or it is the next in order. Until then what it holds
        already stays counted.

        A closed budget lets everybody in, so that no thread is left waiting when the pipeline stops.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._closed or number <= self._head or self._fits(number, size))
            self._set(number, size)

    def hold(self, number: int, size: int) -> None:
        """Image `number` holds `size` bytes from now on, without waiting; 0 lets go of it."""
        with self._changed:
            self._set(number, size)

    def advance(self, number: int) -> None:
        """Image `number` is the next to be consumed."""
        with self._changed:
            self._head = number
            self._changed.notify_all()

    def close(self) -> None:
        """Let every waiter in."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _fits(self, number: int, size: int) -> bool:
        return sum(self._held.values()) - self._held.get(number, 0) + size <= self._limit

    def _set(self, number: int, size: int) -> None:
        if size:
            self._held[number] = size
        else:
            self._held.pop(number, None)
        self._changed.notify_all()
