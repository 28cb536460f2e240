"""How is a mask written as COCO's compressed run lengths, and read back, without ever holding it whole?

Runs go down the columns, left to right, as in pycocotools' `maskApi.c`; the strings are byte-identical to what
`pycocotools.mask.encode` gives for the full mask. Work is proportional to the mask's own frame and to its number of
runs, not to the photo. This module does not simplify or repair masks.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, cast

import cv2
import numpy as np
import numpy.typing as npt
from pycocotools import mask as coco_mask

from samjobs.errors import InvalidInput

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
MAX_PIXELS = 2**32 - 1  # maskApi.c counts in unsigned 32-bit integers


@dataclass(frozen=True)
class Rle:
    """A mask of height × width pixels as COCO's compressed run lengths."""

    height: int
    width: int
    counts: str


class Runs(NamedTuple):
    """The stretches of a mask's pixels, numbered column by column (pixel = x · height + y), in order, disjoint."""

    starts: Ints  # (n,) first pixel
    ends: Ints  # (n,) one past the last pixel


def encode(mask: Bools) -> Rle:
    """The RLE of a whole mask (height, width)."""
    height, width = mask.shape
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if not rows.size:
        return from_runs(runs_of_crop(mask[:0, :0], 0, 0, height), height, width)
    top, left = int(rows[0]), int(columns[0])
    return encode_crop(mask[top : rows[-1] + 1, left : columns[-1] + 1], left, top, height, width)


def encode_crop(crop: Bools, x: int, y: int, height: int, width: int) -> Rle:
    """The RLE of a mask of height × width that is `crop` (h, w) with its top left pixel at (x, y), and empty elsewhere.

    Raises:
        ValueError: the crop does not lie inside the mask.
    """
    h, w = crop.shape
    if x < 0 or y < 0 or x + w > width or y + h > height:
        raise ValueError(f"crop of {w} x {h} at ({x}, {y}) is not inside {width} x {height}")
    return from_runs(runs_of_crop(crop, x, y, height), height, width)


def runs_of_crop(crop: Bools, x: int, y: int, height: int) -> Runs:
    """The runs of `crop` (h, w) placed at (x, y) of a mask of `height` rows."""
    h = crop.shape[0]
    if not crop.size:
        return Runs(np.empty(0, np.int64), np.empty(0, np.int64))
    # One empty row above keeps the runs of neighbouring columns apart.
    padded = cv2.copyMakeBorder(np.ascontiguousarray(crop).view(np.uint8), 1, 0, 0, 0, cv2.BORDER_CONSTANT, value=0)
    flat = cv2.transpose(padded).ravel()
    edges = np.flatnonzero(flat[1:] != flat[:-1]) + 1
    if edges.size % 2:  # the last run ends with the last column
        edges = np.append(edges, flat.size)
    # Every second edge is one past the last pixel of a run, and that may be the empty one above the next column.
    past = np.arange(edges.size) % 2
    column, row = np.divmod(edges - past, h + 1)
    edges = (column + x) * height + (row - 1 + y) + past
    return Runs(edges[0::2], edges[1::2])


def from_runs(runs: Runs, height: int, width: int) -> Rle:
    """Compress runs. Empty ones are left out; those that touch, also from one column to the next, become one."""
    total = height * width
    if not 0 < total <= MAX_PIXELS:
        raise ValueError(
            f"a mask of {width} x {height} pixels cannot be written as COCO RLE (1 to {MAX_PIXELS} pixels)"
        )
    starts, ends = joined(runs)
    edges = np.empty(2 * starts.size + 1, np.int64)
    edges[0:-1:2], edges[1:-1:2], edges[-1] = starts, ends, total
    counts = np.diff(edges, prepend=0)
    if starts.size and ends[-1] == total:
        counts = counts[:-1]
    packed = coco_mask.frPyObjects({"size": [height, width], "counts": counts}, height, width)
    return Rle(height, width, packed["counts"].decode("ascii"))


def joined(runs: Runs) -> Runs:
    """The same pixels with no empty runs and none that touch each other."""
    filled = runs.ends > runs.starts
    starts, ends = runs.starts[filled], runs.ends[filled]
    apart = starts[1:] > ends[:-1]
    return Runs(
        starts[np.append(True, apart)] if starts.size else starts, ends[np.append(apart, True)] if ends.size else ends
    )


def to_runs(rle: Rle) -> Runs:
    """Read the runs back.

    The format is `rleToString` of maskApi.c: 5 bits a character from 48 up, lowest first, bit 5 says that more follow,
    and from the fourth number on each is the difference to the number two before it.

    Raises:
        InvalidInput: the string is no RLE of that size.
    """
    counts = _numbers(rle.counts)
    if counts is not None:
        counts[1::2] = np.cumsum(counts[1::2])
        counts[2::2] = np.cumsum(counts[2::2])
        if not (counts < 0).any() and counts.sum() == rle.height * rle.width:
            edges = np.cumsum(counts)
            return Runs(edges[0 : 2 * (edges.size // 2) : 2], edges[1::2])
    raise InvalidInput(f"RLE counts {rle.counts[:40]!r} are not a mask of {rle.width} x {rle.height} pixels")


def _numbers(text: str) -> Ints | None:
    """The signed numbers of a compressed string, or None where it is none."""
    if not text or not text.isascii():
        return None
    digits = np.frombuffer(text.encode("ascii"), np.uint8).astype(np.int64) - 48
    if digits.min() < 0 or digits.max() > 63 or digits[-1] & 32:
        return None
    last = np.flatnonzero((digits & 32) == 0)
    first = np.append(0, last[:-1] + 1)
    lengths = last - first + 1
    if lengths.max() > 7:  # 35 bits hold every 32-bit number with its sign
        return None
    place = np.arange(digits.size) - np.repeat(first, lengths)
    values = np.add.reduceat((digits & 31) << (5 * place), first)
    negative = (digits[last] & 16) != 0
    values[negative] -= np.int64(1) << (5 * lengths[negative])
    return cast(Ints, values)


def decode(rle: Rle) -> Bools:
    """The whole mask (height, width).

    Raises:
        InvalidInput: as `to_runs`.
    """
    mask = np.zeros((rle.height, rle.width), np.bool_)
    x, y, crop = decode_crop(rle)
    mask[y : y + crop.shape[0], x : x + crop.shape[1]] = crop
    return mask


def decode_crop(rle: Rle) -> tuple[int, int, Bools]:
    """x, y and the mask (h, w) inside its own frame; of an empty mask 0, 0 and an array of 0 × 0.

    Raises:
        InvalidInput: as `to_runs`.
    """
    for x, y, crop in strips(rle, rle.height * rle.width):
        return x, y, crop
    return 0, 0, np.zeros((0, 0), np.bool_)


def strips(rle: Rle, pixels: int) -> Iterator[tuple[int, int, Bools]]:
    """The mask inside its own frame, in strips of columns of at most `pixels` pixels (or one column), left to right.

    Yields x, y and the mask (h, w) of each strip: a way to paint a mask of any size in little memory.

    Raises:
        InvalidInput: as `to_runs`.
    """
    runs = to_runs(rle)
    left, top, w, h = bbox(runs, rle.height)
    if not w:
        return
    step = max(1, pixels // h)
    for x in range(left, left + w, step):
        columns = min(step, left + w - x)
        inside = _between(runs, x * rle.height, (x + columns) * rle.height)
        yield x, top, _dense(inside, x, top, columns, h, rle.height)


def _between(runs: Runs, first: int, end: int) -> Runs:
    """The parts of runs that lie in the pixels first … end - 1."""
    low, high = np.searchsorted(runs.ends, first, "right"), np.searchsorted(runs.starts, end, "left")
    return Runs(runs.starts[low:high].clip(first, end), runs.ends[low:high].clip(first, end))


def _dense(runs: Runs, x: int, y: int, w: int, h: int, height: int) -> Bools:
    """The frame (h, w) at (x, y) of a mask with `height` rows, which must hold all of `runs`."""
    # A run over several columns fills the frame's height, so inside the frame, too, it is one run. The last pixel of a
    # run has a column and row of its own; the one past it may not.
    edges = np.stack((runs.starts, runs.ends - 1))
    column, row = np.divmod(edges, height)
    edges = (column - x) * h + row - y
    steps = np.zeros(w * h + 1, np.int8)
    steps[edges[0]] += 1
    steps[edges[1] + 1] -= 1
    columns = np.cumsum(steps[:-1], dtype=np.int8, out=steps[:-1]).reshape(w, h)
    return cast(Bools, cv2.transpose(columns).reshape(h, w).view(np.bool_))


def area(runs: Runs) -> int:
    """Pixels in the mask."""
    return int((runs.ends - runs.starts).sum())


def bbox(runs: Runs, height: int) -> tuple[int, int, int, int]:
    """x, y, width, height of the smallest frame around the mask's pixels, as COCO writes it; zeros when empty."""
    if not runs.starts.size:
        return 0, 0, 0, 0
    first_x, first_y = np.divmod(runs.starts, height)
    last_x, last_y = np.divmod(runs.ends - 1, height)
    x0, x1 = int(first_x[0]), int(last_x[-1])
    if (first_x != last_x).any():  # a run over the end of a column touches the bottom row and the top row
        return x0, 0, x1 - x0 + 1, height
    y0, y1 = int(first_y.min()), int(last_y.max())
    return x0, y0, x1 - x0 + 1, y1 - y0 + 1


def sample(rle: Rle, height: int, width: int) -> tuple[int, int, Bools]:
    """The mask at another size, height × width, by the nearest pixel: for pictures, not for areas.

    Returns:
        x, y and the mask (h, w) inside its own frame, as `decode_crop`.

    Raises:
        InvalidInput: as `to_runs`.
    """
    runs = to_runs(rle)
    first = ((np.arange(width) + 0.5) * rle.width / width).astype(np.int64) * rle.height  # of the columns looked at
    low, high = np.searchsorted(runs.ends, first, "right"), np.searchsorted(runs.starts, first + rle.height, "left")
    column = np.repeat(np.arange(width), high - low)
    which = np.arange(column.size) + np.repeat(low - np.append(0, np.cumsum(high - low)[:-1]), high - low)
    rows = np.stack((runs.starts[which], runs.ends[which])) - first[column]
    starts, ends = np.ceil(rows.clip(0, rle.height) * (height / rle.height) - 0.5).astype(np.int64) + column * height
    small = joined(Runs(starts, ends))
    x, y, w, h = bbox(small, height)
    return x, y, _dense(small, x, y, w, h, height) if w else np.zeros((0, 0), np.bool_)
