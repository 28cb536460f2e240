"""How does peak memory grow with the photo's size and the number of instances?

Each case runs in a process of its own: candidates at SAM 3's resolution become instances with RLE masks, by samjobs and
by the usual way (interpolate all masks, stack them, encode with pycocotools). The usual way is left out where it would
need more than the machine has free.
"""

import multiprocessing
import os
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from pycocotools import mask as coco_mask

from benchmarks.logits import SHARES, candidates
from benchmarks.report import Section, main
from samjobs.segmentation.engines.base import Candidates
from samjobs.segmentation.masks import select
from samjobs.spec import Thresholds

MIB = 1024 * 1024
SIZES = {"2 MP": (1920, 1080), "12 MP": (4000, 3000), "72 MP": (12_000, 6_000)}
Way = Callable[[Candidates, int, int], int]


def by_samjobs(found: Candidates, width: int, height: int) -> int:
    """How many instances came out."""
    return len(select([found], [0.0], Thresholds(), width, height).instances)


def by_stacking(found: Candidates, width: int, height: int) -> int:
    """How many instances came out."""
    assert found.logits is not None
    masks = np.stack([cv2.resize(layer.astype(np.float32), (width, height)) for layer in found.logits]) > 0
    return len(coco_mask.encode(np.asfortranarray(masks.transpose(1, 2, 0).astype(np.uint8))))


def measure(quick: bool) -> list[Section]:
    """Peak memory by photo and count, for masks that span the whole photo and for small ones."""
    counts = (10, 200) if quick else (1, 10, 50, 200)
    sizes = ("12 MP", "72 MP") if quick else tuple(SIZES)
    extents = ("whole photo",) if quick else ("small", "whole photo")
    return [
        Section(
            f"Peak MiB above a process that holds the candidates; masks: {extent}",
            [_row(size, count, extent, limit=2_000 if quick else None) for size in sizes for count in counts],
            "–: not run, it needs more memory than there is free" + (" (or than --quick allows)" if quick else ""),
        )
        for extent in extents
    ]


def _row(size: str, count: int, extent: str, limit: int | None) -> dict[str, Any]:
    width, height = SIZES[size]
    stacked = width * height * count * (4 + 4 + 1 + 1) / MIB  # masks, their stack in float32, bool, uint8
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / MIB
    room = min(free / 2, limit or float("inf"))
    ours, total = peak(by_samjobs, count, extent, width, height)
    theirs = peak(by_stacking, count, extent, width, height)[0] if stacked < room else None
    return {
        "photo": size,
        "instances": count,
        "samjobs": ours,
        "samjobs, whole process": total,
        "stack + pycocotools": theirs,
        "its arrays, computed": stacked,
    }


def peak(way: Way, count: int, extent: str, width: int, height: int) -> tuple[float, float]:
    """The peak in MiB of `way` in a fresh process: above its state with the candidates, and in all."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_child, args=(sender, way, count, extent, width, height))
    child.start()
    sender.close()
    try:
        before, after = receiver.recv()
    except EOFError:
        raise RuntimeError(f"the process that measured {way.__name__} died") from None
    finally:
        child.join()
    return (after - before) / MIB, after / MIB


def _child(sender: Connection, way: Way, count: int, extent: str, width: int, height: int) -> None:
    found = candidates(count, SHARES[extent])
    way(candidates(1, SHARES[extent]), 64, 64)  # what libraries set up at their first call is not counted
    before = _resident("VmRSS")
    assert way(found, width, height) == count
    sender.send((before, max(before, _resident("VmHWM"))))


def _resident(field: str) -> int:
    """Bytes of this process in memory: now (VmRSS) or at most (VmHWM). Linux."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


if __name__ == "__main__":
    main(__doc__ or "", measure)
