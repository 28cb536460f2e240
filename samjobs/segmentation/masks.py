"""Which candidates become instances of the photo, and what are their masks?

Candidates are taken best score first. Each one meets, in this order: the score threshold, the overlap with better ones
(at the low resolution of the candidates), the upsampling of its own window to runs, and the area limits. The walk ends
when `max_instances` are kept, so nothing is upsampled that cannot be kept. No mask of the photo's size is ever held.

A candidate that is dropped for its area still suppresses its worse duplicates: they are as much too large or too small.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from samjobs.segmentation.engines.base import Candidates, Crop
from samjobs.segmentation.rle import Bools, Ints, Rle, Runs, area, bbox, from_runs, joined, runs_of_crop
from samjobs.segmentation.upsample import Float32, Grid, runs_above
from samjobs.spec import Thresholds

Box = tuple[float, float, float, float]
Logits = npt.NDArray[np.float16] | Float32


@dataclass(frozen=True)
class Instance:
    """One object of the photo."""

    query: int  # which question it answers
    score: float  # 0…1
    box: Box  # predicted x0, y0, x1, y1 in pixels of the upright photo; may differ from the mask's own frame
    bbox: tuple[int, int, int, int]  # x, y, width, height of the mask
    area: int  # pixels
    rle: Rle


@dataclass(frozen=True)
class Selected:
    """The instances of one photo, best first."""

    instances: list[Instance]
    truncated: bool  # there were more: by the engine's cap or by max_instances


@dataclass(frozen=True)
class Small:
    """A candidate's mask inside its frame at low resolution."""

    x: int
    y: int
    mask: Bools  # (h, w)


class Masks(Protocol):
    """The masks of one query's candidates, whatever the engine gave."""

    def small(self, index: int) -> Small | None:
        """The mask at low resolution, None when it is empty."""

    def runs(self, index: int, small: Small) -> Runs:
        """The mask on the photo."""


def select(
    found: Sequence[Candidates], scores: Sequence[float], thresholds: Thresholds, width: int, height: int
) -> Selected:
    """The instances of one upright photo of width × height pixels.

    Args:
        found: what each query found.
        scores: the least score of an instance, per query.
    """
    masks = [_masks(candidates, thresholds.mask, width, height) for candidates in found]
    truncated = any(candidates.truncated for candidates in found)
    better = _Better(thresholds.nms_iou, thresholds.nms_across_prompts)
    kept: list[Instance] = []
    for query, index in _best_first(found, scores):
        small = masks[query].small(index)
        if small is None or better.overlaps(query, small):
            continue
        runs = joined(masks[query].runs(index, small))
        pixels = area(runs)
        if not pixels or pixels < thresholds.min_area or pixels > (thresholds.max_area or math.inf):
            continue
        if len(kept) == thresholds.max_instances:
            truncated = True
            break
        frame = bbox(runs, height)
        box = _to_pixels(found[query].boxes[index], frame, width, height)
        score = float(found[query].scores[index])
        kept.append(Instance(query, score, box, frame, pixels, from_runs(runs, height, width)))
    return Selected(kept, truncated)


def _best_first(found: Sequence[Candidates], scores: Sequence[float]) -> Iterator[tuple[int, int]]:
    """(query, index) of the candidates above their threshold; equal scores in the order of the queries."""
    chosen = [
        (-float(score), query, index)
        for query, candidates in enumerate(found)
        for index, score in enumerate(candidates.scores)
        if score >= scores[query]
    ]
    return ((query, index) for _, query, index in sorted(chosen))


def _to_pixels(box: Float32, frame: tuple[int, int, int, int], width: int, height: int) -> Box:
    """A box in fractions as pixels inside the photo; the mask's own frame where the engine gave no finite numbers."""
    if not np.isfinite(box).all():
        x, y, w, h = frame
        return float(x), float(y), float(x + w), float(y + h)
    x0, y0, x1, y1 = (box.astype(float).clip(0, 1) * [width, height, width, height]).tolist()
    return x0, y0, x1, y1


class _Better:
    """The better candidates met so far, to which the next one is compared: greedy NMS by the IoU of masks."""

    def __init__(self, iou: float | None, across: bool) -> None:
        self._iou = iou
        self._across = across
        self._masks: dict[int, list[Small]] = {}
        self._frames: dict[int, list[tuple[int, int, int, int, int]]] = {}  # x0, y0, x1, y1, pixels

    def overlaps(self, query: int, small: Small) -> bool:
        """Whether a better one of the same query (or of any) overlaps it too much. If not, it joins them."""
        if self._iou is None:
            return False
        group = 0 if self._across else query
        h, w = small.mask.shape
        frame = (small.x, small.y, small.x + w, small.y + h, int(np.count_nonzero(small.mask)))
        frames, masks = self._frames.setdefault(group, []), self._masks.setdefault(group, [])
        if frames and any(_iou(small, masks[i]) > self._iou for i in self._near(frame, np.array(frames))):
            return True
        frames.append(frame)
        masks.append(small)
        return False

    def _near(self, frame: tuple[int, int, int, int, int], frames: Ints) -> list[int]:
        """Those that could reach the limit: frames that intersect by enough for the two areas."""
        x0, y0, x1, y1, pixels = frame
        across = np.minimum(frames[:, 2], x1) - np.maximum(frames[:, 0], x0)
        down = np.minimum(frames[:, 3], y1) - np.maximum(frames[:, 1], y0)
        shared = np.minimum(across.clip(0) * down.clip(0), np.minimum(frames[:, 4], pixels))
        limit = self._iou or 0
        return [int(i) for i in np.flatnonzero(shared > limit * (frames[:, 4] + pixels - shared))]


def _iou(one: Small, other: Small) -> float:
    """Intersection over union of two masks of the same photo."""
    x0, y0 = max(one.x, other.x), max(one.y, other.y)
    x1 = min(one.x + one.mask.shape[1], other.x + other.mask.shape[1])
    y1 = min(one.y + one.mask.shape[0], other.y + other.mask.shape[0])
    if x0 >= x1 or y0 >= y1:
        return 0.0
    parts = [m.mask[y0 - m.y : y1 - m.y, x0 - m.x : x1 - m.x] for m in (one, other)]
    shared = int(np.count_nonzero(parts[0] & parts[1]))
    return shared / (int(np.count_nonzero(one.mask)) + int(np.count_nonzero(other.mask)) - shared)


def _masks(candidates: Candidates, threshold: float, width: int, height: int) -> Masks:
    if candidates.logits is not None:
        return _LogitMasks(candidates.logits, threshold, width, height)
    if candidates.crops is None or candidates.crop_size is None:
        raise ValueError("candidates hold neither logits nor crops with their crop_size")
    return _CropMasks(candidates.crops, candidates.crop_size, width, height)


class _LogitMasks:
    """Masks as logits of the whole photo (n, h, w): a pixel belongs where its probability is above the threshold."""

    def __init__(self, logits: Logits, threshold: float, width: int, height: int) -> None:
        self._logits = logits
        self._threshold = math.log(threshold / (1 - threshold))
        self._grid = Grid.of(logits.shape[1:], height, width)

    def small(self, index: int) -> Small | None:
        return _trimmed(self._logits[index].astype(np.float32, copy=False) > np.float32(self._threshold))

    def runs(self, index: int, small: Small) -> Runs:
        """Interpolated from the mask's frame and one pixel around it: beyond that nothing can be above."""
        h, w = small.mask.shape
        x, y = max(0, small.x - 1), max(0, small.y - 1)
        window = self._logits[index, y : small.y + h + 1, x : small.x + w + 1].astype(np.float32)
        return runs_above(window, x, y, self._grid, self._threshold)


class _CropMasks:
    """Masks that are already sharp, at the size of the working image, each inside its frame."""

    def __init__(self, crops: Sequence[Crop], size: tuple[int, int], width: int, height: int) -> None:
        self._crops = crops
        self._size = size
        self._height = height
        self._grid = Grid.of(size, height, width) if size != (height, width) else None

    def small(self, index: int) -> Small | None:
        crop = self._crops[index]
        small = _trimmed(crop.mask)
        return Small(small.x + crop.x, small.y + crop.y, small.mask) if small else None

    def runs(self, index: int, small: Small) -> Runs:
        """As it is where the working image is the photo; else midway between inside (1) and outside (-1)."""
        if self._grid is None:
            return runs_of_crop(small.mask, small.x, small.y, self._height)
        h, w = small.mask.shape
        left, top = min(1, small.x), min(1, small.y)
        right, bottom = min(1, self._size[1] - small.x - w), min(1, self._size[0] - small.y - h)
        window = np.full((top + h + bottom, left + w + right), -1, np.float32)
        window[top : top + h, left : left + w][small.mask] = 1
        return runs_above(window, small.x - left, small.y - top, self._grid, 0.0)


def _trimmed(mask: Bools) -> Small | None:
    """`mask` cut to its own frame."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if not rows.size:
        return None
    y, x = int(rows[0]), int(columns[0])
    return Small(x, y, mask[y : rows[-1] + 1, x : columns[-1] + 1])
