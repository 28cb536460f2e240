"""How much memory may this process still take, and how does it keep Python's garbage collector out of the way?

What is loaded by then (libraries, tables, statements, an engine) lives to the end, yet each collection looks at it
again. A shard that waits for its worker makes some thousand objects on its way, which is enough for a collection in
every one of them; nearly all are freed without one.
"""

import gc
import os
from contextlib import suppress
from pathlib import Path

_FEWER = (50_000, 20, 20)  # new containers before a collection, and of the next generations; 700, 10, 10 by default


def settle() -> None:
    """Call it once, when all that lives to the end is loaded."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_FEWER)


# Where the kernel says what a container may take: control groups of version 2, and of version 1.
_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
_NO_LIMIT = 1 << 60  # how version 1 says it


def room(limits: tuple[Path, ...] = _LIMITS) -> int | None:
    """Bytes that this process may take beyond what it has, before its container is over its limit and killed; None
    where there is no limit. Other processes of the container are not counted."""
    for path in limits:
        with suppress(OSError, ValueError):
            if (limit := int(path.read_text())) < _NO_LIMIT:
                pages = int(Path("/proc/self/statm").read_text().split()[1])
                return max(0, limit - pages * os.sysconf("SC_PAGE_SIZE"))
    return None
