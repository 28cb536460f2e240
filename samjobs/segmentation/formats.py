"""The files beside the records: the same instances for other programs and for people.

    label-png      <dir>/<key>.png         16 bit, pixel = instance id, 0 = nothing; the better score on top
    instance-png   <dir>/<key>/0001.png    1 bit per pixel, one file per instance
    polygons       <dir>/<key>.json        lossy: outlines through pixel centres, without the points on straight lines
    yolo-seg       <dir>/<key>.txt         key without its extension; lossy: no holes, one line per part
    overlay        <dir>/<key>.jpg         lossy: a picture for people

No more than one mask of the photo's size is held at once; the label PNG takes two bytes per pixel.
"""

import json
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import cv2
import numpy as np

from samjobs.segmentation.engines.base import UInt8Image
from samjobs.segmentation.outlines import Part, outlines
from samjobs.segmentation.overlay import draw
from samjobs.segmentation.records import InstanceRecord
from samjobs.segmentation.rle import strips
from samjobs.spec import LOSSY_FORMATS, Format

STRIP_PIXELS = 4_000_000
MAX_LABEL = 65_535
FAST = 1  # zlib level: masks compress well at any


@dataclass(frozen=True)
class Rendered:
    """One file."""

    path: str  # below the output root
    data: bytes
    lossy: bool


@dataclass(frozen=True)
class Scene:
    """What the files of one image are made from."""

    key: str  # path below the input
    width: int  # of the upright photo
    height: int
    instances: Sequence[InstanceRecord]  # best score first
    labels: Sequence[str] = ()  # class names in the order of YOLO's indices; those not named here follow as they appear
    preview: UInt8Image | None = None  # the upright photo, small; needed by the overlay


def render(fmt: Format, scene: Scene) -> Iterator[Rendered]:
    """The files of one format, one after the other."""
    for path, data in _RENDERERS[fmt](scene):
        yield Rendered(f"{fmt.value}/{path}", data, fmt in LOSSY_FORMATS)


def class_order(labels: Sequence[str], instances: Sequence[InstanceRecord]) -> list[str]:
    """YOLO's class names by index."""
    return list(dict.fromkeys([*labels, *(instance.label for instance in instances)]))


def _label_png(scene: Scene) -> Iterator[tuple[str, bytes]]:
    if len(scene.instances) > MAX_LABEL:
        raise ValueError(f"{len(scene.instances)} instances do not fit into a 16-bit label image ({MAX_LABEL})")
    labels = np.zeros((scene.height, scene.width), np.uint16)
    for instance in reversed(scene.instances):  # the best comes last and stays on top
        for x, y, mask in strips(instance.segmentation.rle, STRIP_PIXELS):
            labels[y : y + mask.shape[0], x : x + mask.shape[1]][mask] = instance.id
    _, data = cv2.imencode(".png", labels, [cv2.IMWRITE_PNG_COMPRESSION, FAST])
    yield f"{scene.key}.png", data.tobytes()


def _instance_png(scene: Scene) -> Iterator[tuple[str, bytes]]:
    for instance in scene.instances:
        # One line of the PNG: its filter byte, which stays 0 for none, then eight pixels a byte.
        lines = np.zeros((scene.height, 1 + (scene.width + 7) // 8), np.uint8)
        for x, y, mask in strips(instance.segmentation.rle, STRIP_PIXELS):
            eights = np.packbits(np.pad(mask, ((0, 0), (x % 8, 0))), axis=1)
            first = 1 + x // 8
            lines[y : y + mask.shape[0], first : first + eights.shape[1]] |= eights
        yield f"{scene.key}/{instance.id:04d}.png", _one_bit_png(lines, scene.width)


def _one_bit_png(lines: UInt8Image, width: int) -> bytes:
    """A PNG (ISO/IEC 15948) of 1-bit grey. Written here because Pillow would unpack every bit to a byte first."""
    header = struct.pack(">IIBBBBB", width, len(lines), 1, 0, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines.data, FAST)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in chunks
    )


def _polygons(scene: Scene) -> Iterator[tuple[str, bytes]]:
    data = {
        "image": scene.key,
        "width": scene.width,
        "height": scene.height,
        "lossy": True,
        "coordinates": "pixels of the upright photo; the centre of the top left pixel is 0.5, 0.5",
        "instances": [_polygon_instance(instance) for instance in scene.instances],
    }
    yield f"{scene.key}.json", json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode()


def _polygon_instance(instance: InstanceRecord) -> dict[str, Any]:
    parts = outlines(instance.segmentation.rle)
    return {
        "id": instance.id,
        "label": instance.label,
        "prompt": instance.prompt,
        "score": instance.score,
        "bbox": instance.bbox,
        "area": instance.area,
        "segmentation": [part.outer.ravel().tolist() for part in parts],  # as in COCO: without the holes
        "holes": [hole.ravel().tolist() for part in parts for hole in part.holes],
    }


def _yolo_seg(scene: Scene) -> Iterator[tuple[str, bytes]]:
    classes = {label: index for index, label in enumerate(class_order(scene.labels, scene.instances))}
    lines = [
        _yolo_line(classes[instance.label], part, scene)
        for instance in scene.instances
        for part in outlines(instance.segmentation.rle)
    ]
    yield f"{PurePosixPath(scene.key).with_suffix('')}.txt", "".join(lines).encode()


def _yolo_line(index: int, part: Part, scene: Scene) -> str:
    points = (part.outer / (scene.width, scene.height)).clip(0, 1)
    return f"{index} {' '.join(f'{value:.6f}' for value in points.ravel())}\n"


def _overlay(scene: Scene) -> Iterator[tuple[str, bytes]]:
    if scene.preview is None:
        raise ValueError("an overlay needs the photo's preview")
    yield f"{scene.key}.jpg", draw(scene.preview, scene.instances)


_RENDERERS = {
    Format.LABEL_PNG: _label_png,
    Format.INSTANCE_PNG: _instance_png,
    Format.POLYGONS: _polygons,
    Format.YOLO_SEG: _yolo_seg,
    Format.OVERLAY: _overlay,
}
