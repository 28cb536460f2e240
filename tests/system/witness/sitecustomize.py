"""Holds a process of the system at a named step, so that a test can kill it just there; and a picture that kills.

Python imports this module at its start where this folder is on PYTHONPATH. With HOLD_AT=<step> and HOLD_GATE=<named
pipe> the process that first comes to that step notes its pid in HOLD_NOTE and waits until somebody writes to the pipe.
Pictures given to the opencv engine are noted in WITNESS_FILE by the witness of the CLI's tests. A picture of POISON
size ends its process as the kernel's out-of-memory killer would.
"""

import os
import runpy
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

HOLD_AT = os.environ.get("HOLD_AT")
ROWS = 48  # of the tests' photos
POISON = (ROWS, 50)  # rows and columns of one that no other photo has


def _hold() -> None:
    gate, note = os.environ["HOLD_GATE"], os.environ["HOLD_NOTE"]
    try:
        mine = os.open(note, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    except FileExistsError:
        return  # somebody else is held already, or was
    os.write(mine, str(os.getpid()).encode())
    os.close(mine)
    os.close(os.open(gate, os.O_RDONLY))


def _before(function: Callable[..., Any]) -> Callable[..., Any]:
    def held(*arguments: Any, **options: Any) -> Any:
        _hold()
        return function(*arguments, **options)

    return held


def _with_a_photo(function: Callable[..., Any]) -> Callable[..., Any]:
    """Not with the pictures by which a worker tries its engine."""

    def held(engine: Any, encoded: Any, *rest: Any) -> Any:
        if encoded[0].rgb.shape[0] == ROWS:
            _hold()
        return function(engine, encoded, *rest)

    return held


def _after(function: Callable[..., Any]) -> Callable[..., Any]:
    def held(*arguments: Any, **options: Any) -> Any:
        result = function(*arguments, **options)
        if result is not None:
            _hold()
        return result

    return held


def _set_up(step: str) -> None:
    from samjobs.execution import shard as runner
    from samjobs.queue import RedisQueue
    from samjobs.segmentation.engines.opencv import OpenCVEngine
    from samjobs.store import shards
    from worker.gather import Gatherer

    patched: dict[str, list[tuple[Any, str, Callable[..., Any]]]] = {
        "popped": [(RedisQueue, "pop", _after)],
        "started": [(runner, "run_shard", _before)],
        "mid-image": [(OpenCVEngine, "segment", _with_a_photo)],
        "written": [(shards, "record", _before), (shards, "finish", _before)],
        "committed": [(Gatherer, "wake", _before)],
        "dispatched": [(RedisQueue, "push", _before)],
    }
    for owner, name, hold in patched[step]:
        setattr(owner, name, hold(getattr(owner, name)))


if "WITNESS_FILE" in os.environ:
    runpy.run_path(str(Path(__file__).parents[2] / "cli" / "witness" / "sitecustomize.py"))

    from samjobs.segmentation.engines.opencv import OpenCVEngine as Engine

    _segment = Engine.segment

    def _poisoned(self: Engine, encoded: Any, *rest: Any) -> Any:
        if encoded[0].rgb.shape[:2] == POISON:
            os.kill(os.getpid(), signal.SIGKILL)
        return _segment(self, encoded, *rest)

    Engine.segment = _poisoned  # type: ignore[method-assign, assignment]

if HOLD_AT is not None:
    _set_up(HOLD_AT)
