"""How much of the device's memory is taken, and how often did it run out? Asked without loading torch.

A process whose engine needs no torch has none; so what torch knows is asked only where it is loaded already.
"""

import sys
from typing import Any


class Shrinks:
    """How often this process cut work into smaller parts because memory ran out."""

    def __init__(self) -> None:
        self.count = 0

    def add(self) -> None:
        """Once more. From the thread that owns the device."""
        self.count += 1


SHRINKS = Shrinks()


def gpu_bytes() -> dict[str, int]:
    """Bytes of the GPU that torch has in use (`allocated`), has taken (`reserved`), and had in use at most (`peak`).

    Empty where no GPU is in use. Cheap, and from any thread.
    """
    torch: Any = sys.modules.get("torch")
    # `cuda` may not be there yet: torch is being imported by another thread.
    cuda = getattr(torch, "cuda", None)
    if cuda is None or not cuda.is_initialized():
        return {}
    return {
        "allocated": cuda.memory_allocated(),
        "reserved": cuda.memory_reserved(),
        "peak": cuda.max_memory_allocated(),
    }
