"""Drawn scenes with known masks: circles, squares and triangles in four colours on dull, noisy ground.

A scene is decided by its seed and its size alone, on every machine with the same NumPy and Pillow. Shapes never
overlap, and each one's mask is known to the pixel.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

SIDE = 140  # pixels of the square that the tiny model works on
SHAPES = ("circle", "square", "triangle")
COLOURS = {"red": (215, 40, 40), "green": (40, 175, 60), "blue": (50, 80, 215), "yellow": (235, 210, 40)}

Kind = tuple[str, str]  # shape, colour
KINDS: tuple[Kind, ...] = tuple((shape, colour) for shape in SHAPES for colour in COLOURS)

_SUPERSAMPLING = 3  # shapes are drawn this much larger and averaged, for smooth edges
_CORNERS = {"circle": 48, "square": 4, "triangle": 3}
_REACH = {"circle": 1.0, "square": 1.15, "triangle": 1.25}  # corner distance in radii, so that areas are alike


@dataclass(frozen=True)
class Scene:
    """A picture and what is in it."""

    image: npt.NDArray[np.uint8]  # (height, width, 3) RGB
    ids: npt.NDArray[np.uint8]  # (height, width): 0 ground, i + 1 object i
    kinds: tuple[Kind, ...]  # of object i

    def masks(self) -> npt.NDArray[np.bool_]:
        """(objects, height, width)."""
        numbers = np.arange(1, len(self.kinds) + 1, dtype=np.uint8)
        masks: npt.NDArray[np.bool_] = self.ids[None] == numbers[:, None, None]
        return masks

    def boxes(self) -> list[tuple[int, int, int, int]]:
        """x0, y0, x1, y1 in pixels around each object, x1 and y1 one past its last pixel."""
        return [_extent(mask) for mask in self.masks()]


def _extent(mask: npt.NDArray[np.bool_]) -> tuple[int, int, int, int]:
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1


def matches(kind: Kind, wanted: tuple[str | None, str | None]) -> bool:
    """Whether an object of `kind` is a (shape, colour) as wanted; None stands for any.

    >>> matches(("circle", "red"), (None, "red"))
    True
    """
    return all(want is None or want == have for have, want in zip(kind, wanted, strict=True))


def make_scene(
    seed: int, width: int = SIDE, height: int = SIDE, *, squash: bool = False, count: int | None = None
) -> Scene:
    """Draw one scene.

    squash: stretch shapes at random, as a photo that is not square looks to the model. count: objects aimed at, 1…6 at
    random when left out; fewer are drawn where no room is left.
    """
    rng = np.random.default_rng(seed)
    image = _ground(rng, width, height)
    ids = np.zeros((height, width), np.uint8)
    stretch = np.exp(rng.uniform(-0.2, 0.2, 2)) if squash else np.ones(2)
    count = count or int(rng.integers(1, 7))
    # Most scenes repeat a few kinds, so that phrases and exemplars have more than one answer.
    pool = [KINDS[i] for i in rng.integers(0, len(KINDS), int(rng.integers(1, 4)) if rng.random() < 0.6 else 12)]
    placed: list[tuple[float, float, float]] = []
    kinds: list[Kind] = []
    for _ in range(count * 12):
        if len(kinds) == count:
            break
        spot = _free_spot(rng, placed, width, height)
        if spot is None:
            continue
        kind = pool[int(rng.integers(len(pool)))]
        outline = _outline(kind[0], spot[2], rng) * stretch + spot[:2]
        _paint(image, ids, outline, _shade(kind[1], rng), len(kinds) + 1)
        kinds.append(kind)
        placed.append(spot)
    image = image + rng.normal(0, rng.uniform(1, 12), image.shape)
    return Scene(np.clip(image, 0, 255).astype(np.uint8), ids, tuple(kinds))


def _ground(rng: np.random.Generator, width: int, height: int) -> npt.NDArray[np.float64]:
    """A dull gradient, in half of the scenes with smooth blotches. (height, width, 3), 0…255 and a little beyond."""
    y, x = np.mgrid[0:height, 0:width] / min(width, height)
    angle, base = rng.uniform(0, 2 * np.pi), rng.uniform(40, 215)
    tint = rng.uniform(-14, 14, 3)
    slope = np.cos(angle) * (x - 0.5) + np.sin(angle) * (y - 0.5)
    image: npt.NDArray[np.float64] = base + tint + (rng.uniform(0, 60) * slope)[..., None]
    if rng.random() < 0.5:
        coarse = rng.normal(0, rng.uniform(4, 14), (8, 8)).astype(np.float32)
        blotches = Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)
        image = image + np.asarray(blotches)[..., None]
    return image


def _free_spot(
    rng: np.random.Generator, placed: list[tuple[float, float, float]], width: int, height: int
) -> tuple[float, float, float] | None:
    """A centre and radius in pixels, or None where the first one tried overlaps an object."""
    radius = rng.uniform(0.085, 0.19) * min(width, height)
    margin = radius * 1.05
    x, y = rng.uniform(margin, width - margin), rng.uniform(margin, height - margin)
    if any(math.hypot(x - a, y - b) < (radius + c) * 1.02 for a, b, c in placed):
        return None
    return x, y, radius


def _outline(shape: str, radius: float, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Corners (n, 2) of a shape around the origin, turned at random."""
    corners = _CORNERS[shape]
    angles = np.arange(corners) * 2 * np.pi / corners + rng.uniform(0, 2 * np.pi)
    return np.stack([np.cos(angles), np.sin(angles)], 1) * (radius * _REACH[shape])


def _shade(colour: str, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """One shade of a colour, RGB 0…255."""
    shade = np.array(COLOURS[colour]) * rng.uniform(0.8, 1.1) + rng.uniform(-16, 16, 3)
    return np.clip(shade, 0, 255)


def _paint(
    image: npt.NDArray[np.float64],
    ids: npt.NDArray[np.uint8],
    outline: npt.NDArray[np.float64],
    shade: npt.NDArray[np.float64],
    number: int,
) -> None:
    """Paint a polygon into `image` with smooth edges, and `number` into `ids` where it covers more than half."""
    height, width = ids.shape
    x0, y0 = np.maximum(np.floor(outline.min(0)).astype(int) - 1, 0)
    x1, y1 = np.minimum(np.ceil(outline.max(0)).astype(int) + 2, (width, height))
    drawn = Image.new("L", (int(x1 - x0) * _SUPERSAMPLING, int(y1 - y0) * _SUPERSAMPLING))
    corners = [tuple((point - (x0, y0)) * _SUPERSAMPLING) for point in outline]
    ImageDraw.Draw(drawn).polygon(corners, fill=255)
    cover = np.asarray(drawn.reduce(_SUPERSAMPLING), np.float32)[..., None] / 255
    image[y0:y1, x0:x1] = image[y0:y1, x0:x1] * (1 - cover) + shade * cover
    ids[y0:y1, x0:x1][cover[..., 0] > 0.5] = number
