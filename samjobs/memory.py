"""How does a process that has started keep Python's garbage collector out of the way?

What is loaded by then (libraries, tables, statements, an engine) lives to the end, yet each collection looks at it
again. A shard that waits for its worker makes some thousand objects on its way, which is enough for a collection in
every one of them; nearly all are freed without one.
"""

import gc

_FEWER = (50_000, 20, 20)  # new containers before a collection, and of the next generations; 700, 10, 10 by default


def settle() -> None:
    """Call it once, when all that lives to the end is loaded."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_FEWER)
