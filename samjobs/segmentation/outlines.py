"""The outlines of a mask, for formats that know only polygons. Lossy: half a pixel on every side is lost.

OpenCV follows the centres of the border pixels and leaves out the points on straight lines. Coordinates are COCO's: the
centre of the top left pixel is (0.5, 0.5). A part that is a line or a single pixel would be a polygon without area; it
becomes the rectangle of its pixels.
"""

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from samjobs.segmentation.rle import Rle, decode_crop

Points = npt.NDArray[np.floating[Any]]  # (n, 2) x, y in pixels


@dataclass(frozen=True)
class Part:
    """A connected part of a mask with the holes in it."""

    outer: Points
    holes: tuple[Points, ...]


def outlines(rle: Rle) -> list[Part]:
    """The parts of a mask, from left to right."""
    x, y, mask = decode_crop(rle)
    if not mask.size:
        return []
    contours, tree = cv2.findContours(mask.view(np.uint8), cv2.RETR_CCOMP, cv2.CHAIN_APPROX_SIMPLE, offset=(x, y))
    children: dict[int, list[Points]] = {}
    for contour, (_, _, _, parent) in zip(contours, tree[0], strict=True):
        if parent >= 0 and len(contour) > 2:
            children.setdefault(int(parent), []).append(contour[:, 0] + 0.5)
    parts = [
        Part(_outer(contour[:, 0]), tuple(children.get(place, ())))
        for place, (contour, (_, _, _, parent)) in enumerate(zip(contours, tree[0], strict=True))
        if parent < 0
    ]
    return sorted(parts, key=lambda part: (part.outer[:, 0].min(), part.outer[:, 1].min()))


def _outer(points: npt.NDArray[Any]) -> Points:
    if cv2.contourArea(points) > 0:
        return np.asarray(points + 0.5)
    (x0, y0), (x1, y1) = points.min(axis=0).tolist(), (points.max(axis=0) + 1).tolist()
    return np.array([[x0, y0], [x1, y0], [x1, y1], [x0, y1]], np.float64)
