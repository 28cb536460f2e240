"""How well each pixel fits a colour: the names that the opencv engine understands, and colours taken from the photo.

Everything is measured in CIE L*a*b* (D65), where equal distances look about equally different: lightness L 0…100,
hue as an angle in degrees, chroma as the distance from grey. A fit is 1 for a pixel well inside a colour, ½ at its
edge, 0 outside, so that a threshold of ½ gives the region and the mean fit inside it is an honest score of ½…1.
It knows nothing of objects.
"""

import re
from dataclasses import dataclass

import cv2
import numpy as np

from samjobs.errors import PromptError
from samjobs.segmentation.engines.base import Float32, UInt8Image

SIMILAR_DISTANCE = 18.0  # of two colours that still look alike, by `distance_to`
LIGHTNESS_WEIGHT = 0.5  # shadows change lightness most; of a grey nothing else is left to go by, so there it is 1
GREY_CHROMA = 10.0
MAX_SAMPLES = 16_384  # pixels from which a main colour is taken


@dataclass(frozen=True)
class Region:
    """A part of colour space, in LCh; the hue goes from `hue[0]` upwards to `hue[1]`, through 360 if need be."""

    lightness: tuple[float, float]
    chroma: tuple[float, float]
    hue: tuple[float, float] | None = None  # None: any


# Generous edges, by eye on colour charts and photos; neighbours overlap as people's words do. Of red, dark and very
# vivid tones reach further towards orange than light ones: that is the saucer against the space suit.
REGIONS: dict[str, tuple[Region, ...]] = {
    "red": (
        Region((6, 50), (34, 200), (350, 47)),
        Region((30, 68), (34, 200), (350, 40)),
        Region((30, 68), (74, 200), (350, 50)),
    ),
    "orange": (
        Region((44, 90), (34, 76), (40, 56)),
        Region((49, 92), (26, 200), (48, 82)),
    ),
    "yellow": (Region((56, 103), (30, 200), (74, 112)),),
    "green": (Region((8, 103), (10, 200), (100, 180)),),
    "cyan": (Region((24, 103), (12, 200), (168, 236)),),
    "blue": (
        Region((-10, 94), (10, 200), (242, 316)),
        Region((24, 94), (16, 200), (230, 316)),
        Region((60, 98), (9, 200), (232, 300)),
    ),
    "purple": (Region((8, 66), (14, 200), (300, 342)),),
    "pink": (Region((48, 98), (12, 200), (326, 12)), Region((62, 98), (12, 50), (0, 36))),
    "brown": (Region((10, 56), (10, 56), (42, 88)),),
    "white": (Region((84, 112), (-10, 11)),),
    "grey": (Region((40, 86), (-10, 9)),),
    "black": (Region((-30, 22), (-10, 14)),),
}
_SYNONYMS = {
    "gray": "grey",
    "teal": "cyan",
    "turquoise": "cyan",
    "violet": "purple",
    "magenta": "pink",
    "silver": "grey",
    "navy": "blue",
    "crimson": "red",
    "scarlet": "red",
}
KNOWN = tuple(REGIONS)

# over which the fit falls from 1 to 0, centred on the edge: lightness, chroma, hue in degrees
_RAMP_L, _RAMP_C, _RAMP_H = 16.0, 10.0, 18.0


def named_in(phrase: str) -> str:
    """The colour that a phrase names: "red" for "Red car".

    Raises:
        PromptError: it names none, or two.
    """
    words = re.findall(r"[^\W\d_]+", phrase.lower())
    singular = [word.removesuffix("s") for word in words]
    found = {_SYNONYMS.get(word, word) for word in singular} & REGIONS.keys()
    if not found:
        raise PromptError(
            f"{phrase!r} names no colour: the opencv engine uses no model and finds colours only. "
            f"Name one of {', '.join(KNOWN)}, or take the engine sam3"
        )
    if len(found) > 1:
        raise PromptError(f"{phrase!r} names {' and '.join(sorted(found))}: give one phrase per colour")
    return str(found.pop())


def to_lab(image: UInt8Image) -> Float32:
    """(H, W, 3) L 0…100, a, b of an RGB image, slightly smoothed so that noise does not tear regions."""
    smooth = cv2.medianBlur(image, 3)
    return np.asarray(cv2.cvtColor(smooth.astype(np.float32) / 255, cv2.COLOR_RGB2LAB), dtype=np.float32)


def fit_name(lab: Float32, name: str) -> Float32:
    """(H, W) fit 0…1 of each pixel to a colour of `KNOWN`."""
    light, a, b = lab[..., 0], lab[..., 1], lab[..., 2]
    chroma, hue = np.hypot(a, b), np.degrees(np.arctan2(b, a))
    fits = [_fit_region(light, chroma, hue, region) for region in REGIONS[name]]
    return np.asarray(np.maximum.reduce(fits), dtype=np.float32)


def _fit_region(light: Float32, chroma: Float32, hue: Float32, region: Region) -> Float32:
    fit = np.minimum(_inside(light, *region.lightness, _RAMP_L), _inside(chroma, *region.chroma, _RAMP_C))
    if region.hue is not None:
        low, high = region.hue
        half = ((high - low) % 360) / 2
        distance = np.abs((hue - (low + half) + 180) % 360 - 180)
        fit = np.minimum(fit, np.clip((half - distance) / _RAMP_H + 0.5, 0, 1))
    return np.asarray(fit, dtype=np.float32)


def _inside(value: Float32, low: float, high: float, ramp: float) -> Float32:
    """1 well between low and high, ½ at both, 0 well outside."""
    fit = np.minimum(value - low, high - value) / ramp + 0.5
    return np.asarray(np.clip(fit, 0, 1), dtype=np.float32)


def distance_to(lab: Float32, colour: Float32) -> Float32:
    """(…) distance of each pixel of (…, 3) to a Lab colour, lightness at half weight unless the colour is a grey."""
    grey = np.hypot(colour[1], colour[2]) < GREY_CHROMA
    weights = np.array([1 if grey else LIGHTNESS_WEIGHT, 1, 1], np.float32)
    return np.asarray(np.linalg.norm((lab - colour) * weights, axis=-1), dtype=np.float32)


def fit_distance(distance: Float32, edge: float = SIMILAR_DISTANCE) -> Float32:
    """Fit 0…1 of a distance: 1 at none, ½ at `edge`, 0 at twice that."""
    return np.asarray(np.clip(1 - distance / (2 * edge), 0, 1), dtype=np.float32)


def dominant(pixels: Float32, surround: Float32) -> Float32:
    """The Lab colour that is most of `pixels` (n, 3), and rather not that of `surround` (m, 3).

    k-means with three clusters from a fixed seed; of them the one whose share of `pixels`, less half its share of the
    surround, is largest. Half, because like objects may stand around.
    """
    flat = np.ascontiguousarray(pixels[:: 1 + len(pixels) // MAX_SAMPLES], dtype=np.float32)
    surround = surround[:: 1 + len(surround) // MAX_SAMPLES]
    clusters = min(3, len(np.unique(flat, axis=0)))
    criteria = (cv2.TERM_CRITERIA_EPS + cv2.TERM_CRITERIA_MAX_ITER, 20, 0.5)
    start = np.zeros((len(flat), 1), np.int32)
    cv2.setRNGSeed(1)
    _, labels, centres = cv2.kmeans(flat, clusters, start, criteria, 3, cv2.KMEANS_PP_CENTERS)
    inside = np.bincount(np.asarray(labels).ravel(), minlength=clusters) / len(flat)
    around = [
        float((distance_to(surround, centre) < SIMILAR_DISTANCE).mean()) if len(surround) else 0.0 for centre in centres
    ]
    return np.asarray(centres[int(np.argmax(inside - 0.5 * np.array(around)))], dtype=np.float32)
