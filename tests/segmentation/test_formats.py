"""The files beside the records hold the masks of the records, at the paths that mirror the input."""

import io
import itertools
import json
from collections.abc import Sequence
from typing import NamedTuple

import cv2
import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from samjobs.names import CLASSES_FILE
from samjobs.segmentation.formats import Scene, plan
from samjobs.segmentation.overlay import colour_of
from samjobs.spec import Format
from tests.segmentation.recorded import disc, instances_of

HEIGHT, WIDTH = 60, 101  # the width is no multiple of eight
RING = disc(HEIGHT, WIDTH, 30, 30, 20) & ~disc(HEIGHT, WIDTH, 30, 30, 8)
TWO_PARTS = disc(HEIGHT, WIDTH, 70, 15, 8) | disc(HEIGHT, WIDTH, 90, 45, 10)
FULL = np.ones((HEIGHT, WIDTH), bool)
DOT = np.zeros((HEIGHT, WIDTH), bool)
DOT[3, 99] = True
MASKS = [RING, TWO_PARTS, DOT, FULL]


class Made(NamedTuple):
    """A file that was planned and then made."""

    path: str
    lossy: bool
    data: bytes


def files(fmt: Format, masks: Sequence[npt.NDArray[np.bool_]] = MASKS, **fields: object) -> list[Made]:
    instances = instances_of(masks, fields.pop("names", None))
    key = fields.pop("key", "trip/day 1/a.b.jpg")
    scene = Scene(key, WIDTH, HEIGHT, instances, **fields)
    return [Made(one.path, one.lossy, one.make()) for one in plan(fmt, scene)]


def picture(data: bytes) -> npt.NDArray[np.uint8]:
    return np.asarray(Image.open(io.BytesIO(data)))


def test_the_label_image_holds_ids_with_the_better_score_on_top():
    (file,) = files(Format.LABEL_PNG)
    assert (file.path, file.lossy) == ("label-png/trip/day 1/a.b.jpg.png", False)
    labels = picture(file.data)
    assert labels.dtype == np.uint16
    expected = np.select(MASKS, [1, 2, 3, 4])
    assert np.array_equal(labels, expected)


def test_the_label_image_of_no_instances_is_all_zero():
    (file,) = files(Format.LABEL_PNG, [])
    assert not picture(file.data).any()


def test_the_label_image_keeps_ids_above_255():
    masks = [np.roll(np.pad([[True]], ((0, HEIGHT - 1), (0, WIDTH - 1))), i, axis=1) for i in range(100)] * 3
    (file,) = files(Format.LABEL_PNG, masks[::-1])
    assert picture(file.data).max() == 100
    (file,) = files(Format.LABEL_PNG, [FULL & False | DOT] * 299 + [FULL])
    assert picture(file.data).max() == 300


def test_each_instance_is_a_1_bit_png_with_exactly_its_mask():
    rendered = files(Format.INSTANCE_PNG)
    assert [file.path for file in rendered][:2] == [
        "instance-png/trip/day 1/a.b.jpg/0001.png",
        "instance-png/trip/day 1/a.b.jpg/0002.png",
    ]
    for file, mask in zip(rendered, MASKS, strict=True):
        assert Image.open(io.BytesIO(file.data)).mode == "1"
        assert np.array_equal(picture(file.data), mask)
        assert np.array_equal(cv2.imdecode(np.frombuffer(file.data, np.uint8), cv2.IMREAD_GRAYSCALE) > 0, mask)


def filled(polygons: list[list[float]], holes: list[list[float]] = ()) -> npt.NDArray[np.bool_]:
    out = np.zeros((HEIGHT, WIDTH), np.uint8)
    for value, rings in ((1, polygons), (0, holes)):
        for ring in rings:
            points = np.array(ring).reshape(-1, 2) - 0.5
            cv2.fillPoly(out, [points.round().astype(np.int32)], value)
    return out > 0


def iou(one: npt.NDArray[np.bool_], other: npt.NDArray[np.bool_]) -> float:
    return float((one & other).sum() / (one | other).sum())


def test_polygons_are_marked_lossy_and_tell_parts_and_holes():
    (file,) = files(Format.POLYGONS)
    assert (file.path, file.lossy) == ("polygons/trip/day 1/a.b.jpg.json", True)
    data = json.loads(file.data)
    assert (data["width"], data["height"], data["lossy"]) == (WIDTH, HEIGHT, True)
    ring, two, dot, full = data["instances"]
    assert (len(ring["segmentation"]), len(ring["holes"])) == (1, 1)
    assert (len(two["segmentation"]), len(two["holes"])) == (2, 0)
    assert iou(filled(ring["segmentation"], ring["holes"]), RING) > 0.9
    assert iou(filled(two["segmentation"]), TWO_PARTS) > 0.97
    assert dot["segmentation"] == [[99, 3, 100, 3, 100, 4, 99, 4]]
    assert iou(filled(full["segmentation"]), FULL) == 1


def test_every_polygon_has_at_least_three_points_and_lies_inside_the_photo():
    line = np.zeros((HEIGHT, WIDTH), bool)
    line[10, 5:20] = True
    (file,) = files(Format.POLYGONS, [line, np.random.default_rng(0).random((HEIGHT, WIDTH)) > 0.7, FULL])
    for instance in json.loads(file.data)["instances"]:
        for ring in instance["segmentation"] + instance["holes"]:
            points = np.array(ring).reshape(-1, 2)
            assert len(points) >= 3
            assert (points >= 0).all()
            assert (points <= (WIDTH, HEIGHT)).all()


def test_yolo_lines_have_the_class_of_the_given_order_and_one_part_each():
    (file,) = files(Format.YOLO_SEG, [TWO_PARTS, RING], names=["cat", "dog"], labels=["dog", "cat"])
    assert (file.path, file.lossy) == ("yolo-seg/trip/day 1/a.b.txt", True)
    lines = [line.split() for line in file.data.decode().splitlines()]
    assert [line[0] for line in lines] == ["1", "1", "0"]
    points = np.array(lines[0][1:], float)
    assert len(points) >= 6
    assert ((points >= 0) & (points <= 1)).all()
    assert (
        iou(
            filled([(np.array(line[1:], float).reshape(-1, 2) * (WIDTH, HEIGHT)).ravel() for line in lines[:2]]),
            TWO_PARTS,
        )
        > 0.95
    )


def test_a_photo_called_classes_does_not_take_the_place_of_the_class_names():
    (file,) = files(Format.YOLO_SEG, [RING], key="classes.jpg", labels=["thing 0"])
    assert file.path != CLASSES_FILE


@pytest.mark.parametrize("fmt", list(Format))
def test_a_folder_named_like_another_images_file_does_not_take_its_place(fmt: Format):
    preview = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    (first, *_) = files(fmt, [RING], key="a.jpg", labels=["thing 0"], preview=preview)
    name = first.path.split("/")[1]  # that file, or the folder of its instances
    (second, *_) = files(fmt, [RING], key=f"{name}/b.jpg", labels=["thing 0"], preview=preview)
    assert second.path.split("/")[1] == f"{name}~"


def test_an_image_without_instances_has_an_empty_yolo_file():
    (file,) = files(Format.YOLO_SEG, [])
    assert file.data == b""


def test_the_overlay_is_coloured_where_the_masks_are_and_untouched_elsewhere():
    grey = np.full((HEIGHT * 12, WIDTH * 12, 3), 90, np.uint8)
    (file,) = files(Format.OVERLAY, [TWO_PARTS], preview=grey)
    assert (file.path, file.lossy) == ("overlay/trip/day 1/a.b.jpg.jpg", True)
    drawn = picture(file.data).astype(int)
    assert drawn.shape == grey.shape
    colour = np.array(colour_of(1))
    inside, outside = drawn[45 * 12, 90 * 12], drawn[50 * 12, 20 * 12]
    assert np.abs(outside - 90).max() < 8
    assert np.abs(inside - (90 * 148 + colour * 108) / 256).max() < 12


def test_an_overlay_shows_objects_smaller_than_a_pixel_of_the_preview():
    photo = np.zeros((6000, 8000), bool)
    photo[2000:2003, 4000:4003] = True
    preview = np.full((600, 800, 3), 90, np.uint8)
    (file,) = plan(Format.OVERLAY, Scene("a.jpg", 8000, 6000, instances_of([photo]), preview=preview))
    assert np.abs(picture(file.make())[190:210, 390:410].astype(int) - 90).max() > 60


def test_small_previews_are_enlarged_so_that_the_names_can_be_read():
    (file,) = files(Format.OVERLAY, preview=np.zeros((HEIGHT, WIDTH, 3), np.uint8))
    assert max(picture(file.data).shape) >= 640


def test_an_overlay_survives_long_names_other_scripts_and_many_instances():
    names = ["x" * 200, "красный круг", "赤い丸", "line\nbreak"] * 60
    (file,) = files(Format.OVERLAY, MASKS * 60, names=names, preview=np.zeros((300, 505, 3), np.uint8))
    assert picture(file.data).shape[2] == 3


def test_colours_are_stable_and_neighbours_differ():
    colours = [np.array(colour_of(i)) for i in range(1, 200)]
    assert all(np.abs(a - b).max() > 60 for a, b in itertools.pairwise(colours))
    assert colour_of(7) == colour_of(7)


def test_an_overlay_without_a_preview_is_a_mistake_of_the_caller():
    with pytest.raises(ValueError, match="needs the photo's preview"):
        files(Format.OVERLAY)
