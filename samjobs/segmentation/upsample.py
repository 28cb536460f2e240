"""Which pixels of the photo belong to a mask that is known at low resolution?

The answer is the one of bilinear interpolation with half-pixel centres and no antialiasing, then `> threshold`: what
`torch.nn.functional.interpolate(mode="bilinear", align_corners=False)` and, when enlarging, `cv2.resize(INTER_LINEAR)`
give, also where the photo is smaller than the mask. But no pixel is computed that need not be: down a column, the
interpolated value is linear between two rows of the low-resolution mask, so each run ends where that line crosses
the threshold. The work is (low rows × photo columns), not the photo's pixels, and the result is runs, never a mask.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from samjobs.segmentation.rle import Ints, Runs

Float32 = npt.NDArray[np.float32]
HUGE = 1e30  # stands for infinity: keeps differences finite
STRIP_PIXELS = 500_000  # mask pixels in hand at once: more is no faster


@dataclass(frozen=True)
class Axis:
    """Where each output pixel of one axis reads: between source pixels `low` and `low + 1`, at `weight` of the latter.

    In float32, as torch computes it, so that ties fall alike.
    """

    low: Ints  # (out,) 0…source - 1
    weight: Float32  # (out,) 0…1
    starts: Ints  # (source + 1,) the first output pixel whose `low` is at least this

    @property
    def source(self) -> int:
        return self.starts.size - 1

    @classmethod
    def of(cls, source: int, out: int) -> "Axis":
        """The axis from `source` to `out` pixels."""
        place = (np.arange(out, dtype=np.float32) + np.float32(0.5)) * np.float32(source / out) - np.float32(0.5)
        place = np.maximum(place, np.float32(0))
        low = np.minimum(place.astype(np.int64), source - 1)
        starts = np.searchsorted(low, np.arange(source + 1), "left")
        return cls(low, (place - low.astype(np.float32)).clip(0, 1), starts)

    def reach(self, first: int, end: int) -> tuple[int, int]:
        """The range of output pixels that read any of the source pixels first … end - 1."""
        return int(self.starts[max(0, first - 1)]), int(self.starts[end])


@dataclass(frozen=True)
class Grid:
    """From a low-resolution mask to the photo."""

    rows: Axis
    columns: Axis

    @classmethod
    def of(cls, low: tuple[int, int], height: int, width: int) -> "Grid":
        """From `low` (h, w) to height × width."""
        return cls(Axis.of(low[0], height), Axis.of(low[1], width))


def runs_above(window: Float32, x: int, y: int, grid: Grid, threshold: float, strip_pixels: int = STRIP_PIXELS) -> Runs:
    """The photo's pixels whose interpolated value is above `threshold`.

    Args:
        window: (h, w) values of a part of the low-resolution mask, its top left at (x, y); whatever lies outside must
            not be above the threshold, and the window holds one pixel of it on each side where there is one.
        strip_pixels: values held at once.
    """
    values = np.nan_to_num(window, nan=-HUGE, posinf=HUGE, neginf=-HUGE)
    first, end = grid.columns.reach(x, x + window.shape[1])
    step = max(1, strip_pixels // window.shape[0])
    parts = [
        _strip(values, x, y, start, min(start + step, end), grid, np.float32(threshold))
        for start in range(first, end, step)
    ]
    return Runs(np.concatenate([p.starts for p in parts]), np.concatenate([p.ends for p in parts]))


def _strip(values: Float32, x: int, y: int, first: int, end: int, grid: Grid, threshold: np.float32) -> Runs:
    """The runs in the photo's columns first … end - 1."""
    h, w = values.shape
    low = grid.columns.low[first:end] - x
    weight = grid.columns.weight[first:end, None]
    by_column = values.T
    # (columns, h): a row of this array is a column of the photo, at the low-resolution rows
    lines = by_column[low.clip(0, w - 1)] * (1 - weight) + by_column[(low + 1).clip(0, w - 1)] * weight
    above = np.zeros((end - first, h + 2), np.bool_)
    np.greater(lines, threshold, out=above[:, 1:-1])
    # Down each column they alternate: begin, end, begin, end. The columns are stored one behind the other.
    column, gap = np.divmod(np.flatnonzero(above[:, 1:] != above[:, :-1]), h + 1)
    edges = np.where(gap == 0, 0, grid.rows.low.size)  # nothing lies above the first low row or below the last one
    inner = (gap > 0) & (gap < h)
    pairs = lines[column[inner], gap[inner] - 1], lines[column[inner], gap[inner]]
    edges[inner] = _crossings(*pairs, gap[inner] - 1 + y, grid.rows, threshold)
    edges += (column + first) * grid.rows.low.size
    return Runs(edges[0::2], edges[1::2])


def _crossings(upper: Float32, lower: Float32, low: Ints, rows: Axis, threshold: np.float32) -> Ints:
    """The first of the photo's rows beyond each crossing of the threshold.

    Args:
        upper, lower: (n,) the values at the low-resolution rows `low` and `low` + 1.
    """
    start, stop = rows.starts[low], rows.starts[low + 1]
    rising = lower > upper
    out = rows.low.size

    def is_beyond(row: Ints) -> npt.NDArray[np.bool_]:
        weight = rows.weight[row.clip(0, out - 1)]
        value = upper * (1 - weight) + lower * weight
        return np.asarray((value > threshold) == rising)

    share = (threshold - upper) / (lower - upper)
    guess = np.ceil((low + share + 0.5) * (out / rows.source) - 0.5).astype(np.int64).clip(start, stop)
    # Exact arithmetic and float32 may differ by one row where the line meets the threshold: ask the formula itself.
    guess = np.where((guess > start) & is_beyond(guess - 1), guess - 1, guess)
    return np.where((guess < stop) & ~is_beyond(guess), guess + 1, guess)
