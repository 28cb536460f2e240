"""A picture of the results for people: the photo with each mask filled, outlined and named.

Masks are seen at the preview's size, so a mask smaller than one of its pixels shows as its frame only. Names are drawn
best score first and only where they do not cover an earlier one.
"""

import colorsys
import io
from collections.abc import Sequence

import cv2
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from samjobs.segmentation.engines.base import UInt8Image
from samjobs.segmentation.records import InstanceRecord
from samjobs.segmentation.rle import sample

LEAST_SIDE = 640  # smaller previews are enlarged, or no text could be read
FILL = 108  # of 256: the colour's share in the fill
QUALITY = 88
CROWD = 40  # with more instances the names are written smaller
GOLDEN_ANGLE = 0.61803398875  # steps of the hue by it stay apart however many there are

Colour = tuple[int, int, int]
Rectangle = tuple[float, float, float, float]  # x0, y0, x1, y1


def draw(preview: UInt8Image, instances: Sequence[InstanceRecord]) -> bytes:
    """A JPEG of the preview (h, w, 3) with the instances on it."""
    picture = _canvas(preview)
    height, width = picture.shape[:2]
    stroke = max(2, round(max(height, width) / 640))
    for instance in reversed(instances):  # the best on top
        _paint(picture, instance, colour_of(instance.id), stroke)
    image = Image.fromarray(picture)
    _write_names(image, instances)
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=QUALITY, subsampling=0)
    return buffer.getvalue()


def colour_of(number: int) -> Colour:
    """The colour of instance `number`: always the same, and far from those of its neighbours in number."""
    hue = (number * GOLDEN_ANGLE) % 1.0
    red, green, blue = colorsys.hsv_to_rgb(hue, (0.95, 0.8)[number % 2], (1.0, 0.95)[number // 2 % 2])
    return round(red * 255), round(green * 255), round(blue * 255)


def _canvas(preview: UInt8Image) -> UInt8Image:
    """A copy to draw on, enlarged by a whole number where the preview is small."""
    scale = -(-LEAST_SIDE // max(preview.shape[:2])) if max(preview.shape[:2]) < LEAST_SIDE else 1
    if scale == 1:
        return preview.copy()
    return np.asarray(cv2.resize(preview, None, fx=scale, fy=scale, interpolation=cv2.INTER_CUBIC), dtype=np.uint8)


def _paint(picture: UInt8Image, instance: InstanceRecord, colour: Colour, stroke: int) -> None:
    height, width = picture.shape[:2]
    x, y, mask = sample(instance.segmentation.rle, height, width)
    if not mask.size:
        x0, y0, x1, y1 = (round(value) for value in _frame(instance, width, height))
        cv2.rectangle(picture, (x0 - 2, y0 - 2), (x1 + 2, y1 + 2), colour, stroke, cv2.LINE_AA)
        return
    part = picture[y : y + mask.shape[0], x : x + mask.shape[1]]
    part[mask] = (part[mask].astype(np.uint16) * (256 - FILL) + np.array(colour, np.uint16) * FILL) >> 8
    contours, _ = cv2.findContours(mask.view(np.uint8), cv2.RETR_CCOMP, cv2.CHAIN_APPROX_NONE, offset=(x, y))
    cv2.drawContours(picture, contours, -1, (0, 0, 0), stroke + 2, cv2.LINE_AA)  # a dark rim shows on any background
    cv2.drawContours(picture, contours, -1, colour, stroke, cv2.LINE_AA)


def _write_names(image: Image.Image, instances: Sequence[InstanceRecord]) -> None:
    pen = ImageDraw.Draw(image)
    crowded = len(instances) > CROWD
    font = ImageFont.load_default(max(12 if crowded else 14, round(max(image.size) / (100 if crowded else 64))))
    pad = max(3, round(max(image.size) / 320))
    taken: list[Rectangle] = []
    for instance in instances:
        text = f"{_short(instance.label)} {instance.score:.2f}"
        x0, y0, x1, y1 = pen.textbbox((0, 0), text, font=font)
        size = x1 - x0 + 2 * pad, y1 - y0 + 2 * pad
        place = _free_place(_frame(instance, *image.size), size, image.size, taken)
        if place is None:
            continue
        taken.append(place)
        colour = colour_of(instance.id)
        pen.rounded_rectangle(place, radius=pad, fill=colour, outline=(0, 0, 0))
        ink = (0, 0, 0) if np.dot(colour, (0.299, 0.587, 0.114)) > 120 else (255, 255, 255)
        pen.text((place[0] + pad - x0, place[1] + pad - y0), text, fill=ink, font=font)


def _free_place(
    frame: Rectangle, size: tuple[float, float], canvas: tuple[int, int], taken: Sequence[Rectangle]
) -> Rectangle | None:
    """Above the frame, inside its top, below it, or in its middle: the first that covers no other name."""
    x0, y0, x1, y1 = frame
    width, height = size
    middle = (x0 + x1 - width) / 2, (y0 + y1 - height) / 2
    for x, y in ((x0, y0 - height - 2), (x0, y0 + 2), (x0, y1 + 2), middle):
        left = min(max(0, x), max(0, canvas[0] - width - 1))
        top = min(max(0, y), max(0, canvas[1] - height - 1))
        place = left, top, left + width, top + height
        if not any(_touch(place, other) for other in taken):
            return place
    return None


def _touch(one: Rectangle, other: Rectangle) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _frame(instance: InstanceRecord, width: int, height: int) -> Rectangle:
    """The mask's frame on a canvas of width × height."""
    full_height, full_width = instance.segmentation.size
    x, y, w, h = instance.bbox
    across, down = width / full_width, height / full_height
    return x * across, y * down, (x + w) * across, (y + h) * down


def _short(label: str) -> str:
    return label if len(label) <= 28 else label[:27] + "…"
