"""The files beside the records: the same instances for other programs and for people.

    label-png      <dir>/<key>.png         16 bit, pixel = instance id, 0 = nothing; the better score on top
    instance-png   <dir>/<key>/0001.png    1 bit per pixel, one file per instance
    polygons       <dir>/<key>.json        lossy: outlines through pixel centres, without the points on straight lines
    yolo-seg       <dir>/<key>.txt         key without its extension; lossy: no holes, one line per part
    overlay        <dir>/<key>.jpg         lossy: a picture for people

`<key>` is the path below the input as `storage.mirrored` writes it. No more than one mask of the photo's size is held
at once, at one byte per pixel; the label PNG takes two.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath
from typing import Any

import cv2
import numpy as np

from samjobs.segmentation.engines.base import UInt8Image
from samjobs.segmentation.outlines import Part, outlines
from samjobs.segmentation.overlay import draw
from samjobs.segmentation.records import InstanceRecord
from samjobs.segmentation.rle import strips
from samjobs.segmentation.upsample import STRIP_PIXELS
from samjobs.spec import LOSSY_FORMATS, Format
from samjobs.storage import mirrored

MAX_LABEL = 65_535
FAST = 1  # zlib level: masks compress well at any


File = tuple[str, Callable[[], bytes]]  # path below the format's folder, and what makes it


@dataclass(frozen=True)
class Planned:
    """One file: its name is known before it is made, and it is made only when asked for."""

    path: str  # below the output root
    lossy: bool
    make: Callable[[], bytes]


@dataclass(frozen=True)
class Scene:
    """What the files of one image are made from."""

    key: str  # path below the input
    width: int  # of the upright photo
    height: int
    instances: Sequence[InstanceRecord]  # best score first
    labels: Sequence[str] = ()  # class names in the order of YOLO's indices, those of all instances among them
    preview: UInt8Image | None = None  # the upright photo, small; needed by the overlay


def plan(fmt: Format, scene: Scene) -> list[Planned]:
    """The files of one format."""
    return [Planned(f"{fmt.value}/{path}", fmt in LOSSY_FORMATS, make) for path, make in _FILES[fmt](scene)]


def _label_png(scene: Scene) -> bytes:
    if len(scene.instances) > MAX_LABEL:
        raise ValueError(f"{len(scene.instances)} instances do not fit into a 16-bit label image ({MAX_LABEL})")
    labels = np.zeros((scene.height, scene.width), np.uint16)
    for instance in reversed(scene.instances):  # the best comes last and stays on top
        for x, y, mask in strips(instance.segmentation.rle, STRIP_PIXELS):
            labels[y : y + mask.shape[0], x : x + mask.shape[1]][mask] = instance.id
    _, data = cv2.imencode(".png", labels, [cv2.IMWRITE_PNG_COMPRESSION, FAST])
    return data.tobytes()


def _instance_png(scene: Scene, instance: InstanceRecord) -> bytes:
    pixels = np.zeros((scene.height, scene.width), np.uint8)
    for x, y, mask in strips(instance.segmentation.rle, STRIP_PIXELS):
        pixels[y : y + mask.shape[0], x : x + mask.shape[1]][mask] = 255
    _, data = cv2.imencode(".png", pixels, [cv2.IMWRITE_PNG_BILEVEL, 1, cv2.IMWRITE_PNG_COMPRESSION, FAST])
    return data.tobytes()


def _polygons(scene: Scene) -> bytes:
    data = {
        "image": scene.key,
        "width": scene.width,
        "height": scene.height,
        "lossy": True,
        "coordinates": "pixels of the upright photo; the centre of the top left pixel is 0.5, 0.5",
        "instances": [_polygon_instance(instance) for instance in scene.instances],
    }
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode()


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


def _yolo_seg(scene: Scene) -> bytes:
    classes = {label: index for index, label in enumerate(scene.labels)}
    lines = [
        _yolo_line(classes[instance.label], part, scene)
        for instance in scene.instances
        for part in outlines(instance.segmentation.rle)
    ]
    return "".join(lines).encode()


def _yolo_line(index: int, part: Part, scene: Scene) -> str:
    points = (part.outer / (scene.width, scene.height)).clip(0, 1)
    return f"{index} {' '.join(f'{value:.6f}' for value in points.ravel())}\n"


def _overlay(scene: Scene) -> bytes:
    if scene.preview is None:
        raise ValueError("an overlay needs the photo's preview")
    return draw(scene.preview, scene.instances)


def _one(suffix: str, make: Callable[[Scene], bytes]) -> Callable[[Scene], list[File]]:
    """A format of one file per image."""
    return lambda scene: [(mirrored(scene.key) + suffix, partial(make, scene))]


def _one_per_instance(scene: Scene) -> list[File]:
    folder = mirrored(scene.key)
    return [(f"{folder}/{one.id:04d}.png", partial(_instance_png, scene, one)) for one in scene.instances]


def _by_stem(scene: Scene) -> list[File]:
    """YOLO looks for labels by the photo's name without its extension."""
    return [(f"{PurePosixPath(mirrored(scene.key)).with_suffix('')}.txt", partial(_yolo_seg, scene))]


_FILES: dict[Format, Callable[[Scene], list[File]]] = {
    Format.LABEL_PNG: _one(".png", _label_png),
    Format.INSTANCE_PNG: _one_per_instance,
    Format.POLYGONS: _one(".json", _polygons),
    Format.YOLO_SEG: _by_stem,
    Format.OVERLAY: _one(".jpg", _overlay),
}
