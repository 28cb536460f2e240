"""Made candidates for benchmarks: mask logits at SAM 3's resolution, as an engine would hand them over."""

import numpy as np

from samjobs.segmentation.engines.base import Candidates

SIDE = 288  # SAM 3's masks
SHARES = {"small": 0.1, "medium": 0.35, "whole photo": 0.95}  # of the photo's width and height that a mask spans


def candidates(count: int, share: float) -> Candidates:
    """`count` wavy blobs that span `share` of the photo, all over it, each different from the others."""
    random = np.random.default_rng(7)
    rows, columns = np.mgrid[:SIDE, :SIDE].astype(np.float32)
    logits = np.empty((count, SIDE, SIDE), np.float16)
    for layer in logits:
        x, y = random.uniform(share / 2, 1 - share / 2, 2) * SIDE
        angle = np.arctan2(rows - y, columns - x)
        radius = share / 2 * SIDE * (0.9 + 0.1 * np.sin(angle * random.integers(3, 9)))
        layer[:] = np.clip((radius - np.hypot(rows - y, columns - x)) / 4, -10, 10)
    return Candidates(np.linspace(1, 0.5, count, dtype=np.float32), np.zeros((count, 4), np.float32), logits=logits)
