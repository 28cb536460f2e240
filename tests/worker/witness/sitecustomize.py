"""Breaks the opencv engine of a process: with FAULT_AT=n the device fails at its n-th call (the warm-up is the first
one, the canary the second), for good. With HOLD_LOAD the warm-up waits at WITNESS_GATE, a named pipe.

Python imports this module at its start where this folder is on PYTHONPATH. Pictures are noted and held by the witness
of the CLI's tests.
"""

import os
import runpy
from pathlib import Path
from typing import Any

runpy.run_path(str(Path(__file__).parents[2] / "cli" / "witness" / "sitecustomize.py"))

if "FAULT_AT" in os.environ:
    from samjobs.errors import DeviceFault
    from samjobs.segmentation.engines.opencv import OpenCVEngine

    _segment = OpenCVEngine.segment
    _seen = 0

    def _faulty(self: OpenCVEngine, encoded: Any, *rest: Any) -> Any:
        global _seen
        _seen += 1
        if _seen >= int(os.environ["FAULT_AT"]):
            raise DeviceFault("CUDA error: device-side assert triggered")
        return _segment(self, encoded, *rest)

    OpenCVEngine.segment = _faulty  # type: ignore[method-assign, assignment]

if "HOLD_LOAD" in os.environ:
    from samjobs.segmentation.engines.opencv import OpenCVEngine as Held

    def _held(self: Held) -> None:
        os.close(os.open(os.environ["WITNESS_GATE"], os.O_RDONLY))

    Held.warm_up = _held  # type: ignore[method-assign]
