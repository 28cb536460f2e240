"""How do pixels of any kind become 8-bit RGB at the size that is asked for?

The source is converted and shrunk in bands, so that beside the decoded picture only little memory is used. Rules, the
same for every file: transparency is laid on white (as transformers' processors do); more than 8 bits per channel are
stretched between the 0.1 and 99.9 percentiles of all channels together; CMYK is converted by formula. Colour profiles
are not applied: masks depend on shapes more than on exact colours.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
from PIL import Image, ImageChops

BAND_PIXELS = 4_000_000
GAP = 3  # whole-number reduction stops at three times the wanted size; the rest is bilinear (Pillow's reducing_gap)
SAMPLES = 1000  # rows and columns looked at to find the percentiles
ON_WHITE = "transparency was laid on white"
DEEP_MODES = frozenset({"I", "I;16", "I;16B", "I;16L", "I;16N", "F"})

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Source:
    """Decoded pixels from which RGB bands can be cut."""

    width: int
    height: int
    band: Callable[[int, int], Image.Image]  # rows first … end - 1 as RGB, whole width
    notes: tuple[str, ...]
    rgb: Image.Image | None = None  # all of it, where it is 8-bit RGB already


def of_image(image: Image.Image) -> Source:
    """A loaded Pillow image of any mode."""
    if image.mode in DEEP_MODES:
        return of_array(image.size, lambda first, end: np.asarray(_rows(image, first, end)))
    notes = [ON_WHITE] if _transparent(image) else []
    if image.mode == "CMYK":
        notes.append("CMYK was converted without its colour profile")
    # Pillow takes every CMYK JPEG for one of Adobe's, whose values are inverted; without Adobe's marker they are not.
    inverted = image.mode == "CMYK" and image.format in ("JPEG", "MPO") and "adobe" not in image.info

    def band(first: int, end: int) -> Image.Image:
        rows = _rows(image, first, end)
        return _rgb(ImageChops.invert(rows) if inverted else rows)

    return Source(*image.size, band, tuple(notes), image if image.mode == "RGB" and not _transparent(image) else None)


def of_array(size: tuple[int, int], rows: Callable[[int, int], Array]) -> Source:
    """Pixels of more than 8 bits: `rows(first, end)` gives (h, width), or (h, width, 3 or 4) as RGB or RGBA."""
    low, high = _levels(size, rows)
    scale = 255.0 / (high - low) if high > low else 0.0
    with_alpha = rows(0, 1).shape[2:] == (4,)

    def band(first: int, end: int) -> Image.Image:
        values = rows(first, end)
        deep = values[..., :3] if with_alpha else values
        stretched = (np.nan_to_num(deep.astype(np.float32), nan=low, posinf=high, neginf=low) - low) * scale
        eight = Image.fromarray(stretched.clip(0, 255).round().astype(np.uint8))
        if with_alpha:
            eight.putalpha(Image.fromarray((values[..., 3] >> 8).astype(np.uint8)))
        return _rgb(eight)

    notes = [f"more than 8 bits per channel: stretched from {low:g} to {high:g}"]
    if with_alpha:
        notes.append(ON_WHITE)
    return Source(*size, band, tuple(notes))


def of_deep_colour(data: bytes, size: tuple[int, int]) -> Source | None:
    """A file of 16-bit colour, which Pillow would cut to 8 bits. None when OpenCV cannot read it as such.

    OpenCV applies the orientation of a TIFF, as Pillow does, and not that of a PNG.
    """
    try:
        pixels = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    except cv2.error:
        return None
    if pixels is None or pixels.dtype != np.uint16 or pixels.ndim != 3 or pixels.shape[1::-1] != size:
        return None
    order = [2, 1, 0, 3][: pixels.shape[2]]  # OpenCV's blue, green, red
    return of_array(size, lambda first, end: pixels[first:end][..., order])


def shrink(source: Source, size: tuple[int, int]) -> tuple[Image.Image, tuple[float, float]]:
    """`source` as RGB, reduced by whole numbers to no less than GAP times `size` (width, height) where it is larger.

    Returns:
        the image, and what part of its width and height, in its own pixels, is the photo: the last row and column may
        cover less than a whole block.
    """
    across, down = reductions((source.width, source.height), size)
    if across == down == 1 and source.rgb is not None:
        return source.rgb, (float(source.width), float(source.height))
    small = Image.new("RGB", (-(-source.width // across), -(-source.height // down)))
    step = max(1, BAND_PIXELS // (source.width * down)) * down
    for first in range(0, source.height, step):
        band = source.band(first, min(first + step, source.height))
        small.paste(band.reduce((across, down)), (0, first // down))
    return small, (source.width / across, source.height / down)


def reductions(have: tuple[int, int], want: tuple[int, int]) -> tuple[int, int]:
    """By how much `shrink` reduces width and height."""
    return max(1, int(have[0] / want[0] / GAP)), max(1, int(have[1] / want[1] / GAP))


def _levels(size: tuple[int, int], rows: Callable[[int, int], Array]) -> tuple[float, float]:
    """The 0.1 and 99.9 percentiles, or the least and greatest where those are equal, of a regular sample of pixels."""
    width, height = size
    across, down = max(1, width // SAMPLES), max(1, height // SAMPLES)
    lines = (rows(y, y + 1)[0, ::across] for y in range(0, height, down))
    sample = np.concatenate([line[..., :3].ravel() if line.ndim == 2 else line for line in lines]).astype(np.float64)
    sample = sample[np.isfinite(sample)]
    if not sample.size:
        return 0.0, 0.0
    low, high = np.percentile(sample, (0.1, 99.9))
    if low == high:
        low, high = sample.min(), sample.max()
    return float(low), float(high)


def _rows(image: Image.Image, first: int, end: int) -> Image.Image:
    return image.crop((0, first, image.width, end))


def _transparent(image: Image.Image) -> bool:
    return image.mode in ("LA", "PA", "RGBA", "La", "RGBa") or "transparency" in image.info


def _rgb(image: Image.Image) -> Image.Image:
    """8-bit RGB on white."""
    if not _transparent(image):
        return image.convert("RGB")
    straight = image.convert("RGBA")
    white = Image.new("RGBA", image.size, (255, 255, 255, 255))
    return Image.alpha_composite(white, straight).convert("RGB")
