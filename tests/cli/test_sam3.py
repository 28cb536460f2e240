"""The main job with SAM 3's real code: from photos with EXIF rotations to masks that lie on the objects.

Scenes are held out from the tiny checkpoint's training; every figure is taken from the files that the command wrote.
"""

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.optimize import linear_sum_assignment

from samjobs.segmentation import records
from samjobs.segmentation.records import Record
from samjobs.segmentation.rle import decode
from tests.cli.command import Samjobs
from tools.tiny_sam3.evaluate import Masks, pair_iou
from tools.tiny_sam3.scenes import Scene, make_scene

pytestmark = pytest.mark.needs_torch

CHECKPOINT = Path(__file__).resolve().parents[1] / "data" / "sam3-tiny"
FIRST_SEED, SCENES = 30_000_000, 24
# EXIF orientation → how the upright picture is stored
STORED = {
    1: None,
    3: Image.Transpose.ROTATE_180,
    6: Image.Transpose.ROTATE_90,
    8: Image.Transpose.ROTATE_270,
}


@dataclass
class Score:
    """Instances of many photos against what was drawn."""

    overlaps: list[float]
    wanted: int = 0
    given: int = 0

    def add(self, ours: Masks, theirs: Masks) -> None:
        self.wanted += len(theirs)
        self.given += len(ours)
        if len(ours) and len(theirs):
            iou = pair_iou(ours, theirs)
            self.overlaps += [float(one) for one in iou[linear_sum_assignment(-iou)] if one > 0.5]

    @property
    def recall(self) -> float:
        return len(self.overlaps) / self.wanted

    @property
    def precision(self) -> float:
        return len(self.overlaps) / self.given

    @property
    def iou(self) -> float:
        return float(np.mean(self.overlaps))


@pytest.fixture(scope="module")
def scenes() -> dict[str, Scene]:
    sizes = [(320, 240), (640, 480), (240, 320), (1280, 960)]
    return {
        f"{number % 3}/scene {number:02}.jpg": make_scene(FIRST_SEED + number, *sizes[number % len(sizes)])
        for number in range(SCENES)
    }


@pytest.fixture
def photos(samjobs: Samjobs, scenes: dict[str, Scene]) -> Samjobs:
    """The scenes as JPEGs, each stored in another of the four common orientations."""
    for number, (key, scene) in enumerate(scenes.items()):
        orientation = list(STORED)[number % 4]
        turn = STORED[orientation]
        picture = Image.fromarray(scene.image)
        exif = Image.Exif()
        exif[0x0112] = orientation
        path = samjobs.photos / key
        path.parent.mkdir(parents=True, exist_ok=True)
        (picture if turn is None else picture.transpose(turn)).save(path, quality=95, exif=exif)
    return samjobs


def process(samjobs: Samjobs, *more: str | Path) -> None:
    engine = ("--engine", "sam3", "--model", CHECKPOINT)
    said = samjobs.run("process", "--input", samjobs.photos, "--output", samjobs.out, "--json", *engine, *more)
    assert said.counts == (SCENES, 0, 0, 0)


def found(samjobs: Samjobs, key: str) -> Record:
    record = records.load((samjobs.out / "records" / f"{key}.json").read_bytes())
    assert isinstance(record, Record)
    return record


def masks(record: Record) -> Masks:
    shape = (len(record.instances), record.height, record.width)
    return np.array([decode(one.segmentation.rle) for one in record.instances], bool).reshape(shape)


def test_phrases_find_the_things_that_they_name(photos: Samjobs, scenes: dict[str, Scene]) -> None:
    process(photos, "--prompt", "red shape", "--prompt", "blue shape", "--format", "label-png")
    score = Score([])
    for key, scene in scenes.items():
        record = found(photos, key)
        assert (record.width, record.height) == scene.image.shape[1::-1], "the upright size"
        for colour in ("red", "blue"):
            theirs = scene.masks()[[kind[1] == colour for kind in scene.kinds]]
            ours = masks(record)[[one.label == f"{colour} shape" for one in record.instances]]
            score.add(ours, theirs)
    assert score.recall >= 0.9
    assert score.precision >= 0.9
    assert score.iou >= 0.87
    assert {record["exif"]["orientation"] for record in photos.results()} == set(STORED)
    assert len(photos.results()[0]["engine"]["fingerprint"]) >= 32


@pytest.mark.parametrize("mode", ["boxes", "points"])
def test_boxes_and_clicks_give_one_mask_each(photos: Samjobs, scenes: dict[str, Scene], mode: str) -> None:
    path = photos.root / f"{mode}.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["image", "x0", "y0", "x1", "y1"] if mode == "boxes" else ["image", "x", "y"])
        for key, scene in scenes.items():
            for mask, box in zip(scene.masks(), scene.boxes(), strict=True):
                ys, xs = np.nonzero(mask)
                writer.writerow([key, *(box if mode == "boxes" else (float(xs.mean()), float(ys.mean())))])
    process(photos, f"--{mode}", path)
    overlaps = []
    for key, scene in scenes.items():
        ours, theirs = masks(found(photos, key)), scene.masks()
        assert len(ours) == len(theirs), "one mask per prompt"
        iou = pair_iou(ours, theirs)
        overlaps += [float(one) for one in iou[linear_sum_assignment(-iou)]]
    assert np.mean(overlaps) >= 0.87
