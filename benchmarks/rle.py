"""What does one mask cost, from the model's logits to COCO's compressed run lengths?

samjobs goes from logits to runs without a mask of the photo's size. The usual way interpolates the whole mask and hands
it to pycocotools, which wants it column by column: on large photos that transposing costs most, so the factor is given
without it too. The last columns, for engines that give sharp masks: a full mask by samjobs and by pycocotools.
"""

import time
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
from pycocotools import mask as coco_mask

from benchmarks.logits import SHARES, SIDE, candidates
from benchmarks.report import Section, main
from samjobs.segmentation import rle
from samjobs.segmentation.masks import select
from samjobs.spec import Thresholds

SIZES = {"2 MP": (1920, 1080), "12 MP": (4000, 3000), "72 MP": (12_000, 6_000)}


def measure(quick: bool) -> list[Section]:
    """The time of one mask by each way, by photo and by the mask's extent."""
    repeats = 2 if quick else 10
    rows = [_row(size, extent, repeats) for size in SIZES for extent in SHARES]
    return [Section(f"Milliseconds per mask, from {SIDE} × {SIDE} logits; median of {repeats}", rows)]


def _row(size: str, extent: str, repeats: int) -> dict[str, Any]:
    width, height = SIZES[size]
    found = candidates(1, SHARES[extent])
    assert found.logits is not None
    logits = found.logits[0].astype(np.float32)

    def interpolated() -> rle.Bools:
        return np.asarray(cv2.resize(logits, (width, height), interpolation=cv2.INTER_LINEAR) > 0)

    mask = interpolated()
    ours, result = timed(lambda: select([found], [0.0], Thresholds(), width, height), repeats)
    resized, _ = timed(interpolated, repeats)
    by_columns = np.asfortranarray(mask.astype(np.uint8))
    plain, reference = timed(lambda: coco_mask.encode(np.asfortranarray(mask.astype(np.uint8))), repeats)
    alone, _ = timed(lambda: coco_mask.encode(by_columns), repeats)
    cropped, encoded = timed(lambda: rle.encode(mask), repeats)
    assert encoded.counts == reference["counts"].decode(), "not byte-identical to pycocotools"
    differing = np.count_nonzero(rle.decode(result.instances[0].rle) != mask)
    assert differing <= mask.size / 1e6, "not the interpolated mask"  # rounding at the threshold, in one of a million
    return {
        "photo": size,
        "mask": extent,
        "samjobs logits → RLE": ours,
        "cv2.resize + pycocotools": resized + plain,
        "times faster": (resized + plain) / ours,
        "without its transposing": (resized + alone) / ours,
        "full mask → RLE, samjobs": cropped,
        "full mask → RLE, pycocotools": plain,
        "alone, transposed before": alone,
        "RLE bytes": len(encoded.counts),
    }


def timed(call: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """Median milliseconds, and the result."""
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        result = call()
        times.append((time.perf_counter() - started) * 1000)
    return float(np.median(times)), result


if __name__ == "__main__":
    main(__doc__ or "", measure)
