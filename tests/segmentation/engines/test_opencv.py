"""What the engine without a model finds on drawn pictures and on real photographs."""

from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image, ImageOps

from samjobs.errors import PromptError
from samjobs.segmentation.engines import opencv
from samjobs.segmentation.engines.base import Candidates, LongSide, Query, Selection, UInt8Image
from samjobs.segmentation.engines.colours import KNOWN, named_in
from samjobs.spec import Mode

PHOTOS = Path(__file__).parents[3] / "examples" / "photos"
KEEP = Selection(score=0.5, mask=0.5)

# what most people would call by that name
PAINT = {
    "red": (215, 25, 30),
    "orange": (255, 140, 0),
    "yellow": (250, 225, 20),
    "green": (30, 150, 50),
    "cyan": (0, 190, 200),
    "blue": (30, 70, 200),
    "purple": (120, 30, 140),
    "pink": (250, 130, 180),
    "brown": (120, 72, 30),
    "white": (252, 252, 252),
    "grey": (128, 128, 128),
    "black": (8, 8, 8),
}

Mask = npt.NDArray[np.bool_]


@pytest.fixture(scope="module")
def engine() -> opencv.OpenCVEngine:
    return opencv.load()


def ask(engine: opencv.OpenCVEngine, image: UInt8Image, mode: Mode, *queries: Query) -> list[Candidates]:
    return engine.segment(engine.encode([image]), mode, [queries], KEEP)[0]


def full(found: Candidates, index: int) -> Mask:
    assert found.crops is not None
    assert found.crop_size is not None
    crop = found.crops[index]
    mask = np.zeros(found.crop_size, np.bool_)
    height, width = crop.mask.shape
    mask[crop.y : crop.y + height, crop.x : crop.x + width] = crop.mask
    return mask


def iou(one: Mask, other: Mask) -> float:
    return float((one & other).sum() / (one | other).sum())


def circle(size: tuple[int, int], centre: tuple[int, int], radius: int) -> Mask:
    return cv2.circle(np.zeros(size, np.uint8), centre, radius, 1, -1).astype(bool)


def noisy(image: UInt8Image, sigma: float = 6) -> UInt8Image:
    noise = np.random.default_rng(7).normal(0, sigma, image.shape)
    return np.clip(image + noise, 0, 255).astype(np.uint8)


def photo(name: str) -> UInt8Image:
    return np.asarray(ImageOps.exif_transpose(Image.open(PHOTOS / name)).convert("RGB"))


@pytest.fixture(scope="module")
def discs() -> tuple[UInt8Image, list[Mask], Mask]:
    """Three red discs and a blue one on pale grey-green, with camera noise."""
    image = np.full((480, 640, 3), (205, 210, 200), np.uint8)
    reds = [
        circle((480, 640), centre, radius) for centre, radius in (((120, 120), 60), ((420, 150), 40), ((300, 360), 80))
    ]
    blue = circle((480, 640), (540, 380), 50)
    for mask in reds:
        image[mask] = PAINT["red"]
    image[blue] = PAINT["blue"]
    return noisy(image), reds, blue


class TestFindAll:
    def test_every_red_disc_is_an_instance_with_its_exact_mask(self, engine, discs) -> None:
        image, reds, _ = discs
        [found] = ask(engine, image, Mode.FIND_ALL, Query(text="red disc"))
        assert len(found) == 3
        for red in reds:
            assert max(iou(red, full(found, index)) for index in range(3)) >= 0.95

    def test_boxes_are_fractions_that_frame_their_masks(self, engine, discs) -> None:
        image, _, _ = discs
        [found] = ask(engine, image, Mode.FIND_ALL, Query(text="red"))
        for index, box in enumerate(found.boxes * (640, 480, 640, 480)):
            rows, columns = np.nonzero(full(found, index))
            assert box == pytest.approx((columns.min(), rows.min(), columns.max() + 1, rows.max() + 1), abs=1e-3)

    @pytest.mark.parametrize("name", KNOWN)
    def test_each_colour_finds_its_own_patch_on_a_chart_and_scores_it_high(self, engine, name) -> None:
        names = list(PAINT)
        image = np.full((420, 560, 3), (235, 205, 170), np.uint8)  # beige: none of the names
        for index in range(12):
            row, column = divmod(index, 4)
            image[20 + row * 140 : 120 + row * 140, 20 + column * 140 : 120 + column * 140] = PAINT[names[index]]
        row, column = divmod(names.index(name), 4)
        truth = np.zeros((420, 560), np.bool_)
        truth[20 + row * 140 : 120 + row * 140, 20 + column * 140 : 120 + column * 140] = True
        [found] = ask(engine, noisy(image, 3), Mode.FIND_ALL, Query(text=name))
        assert len(found) == 1
        assert iou(truth, full(found, 0)) >= 0.95
        assert found.scores[0] >= 0.9

    def test_the_better_colour_scores_higher(self, engine) -> None:
        image = np.full((200, 400, 3), 255, np.uint8)
        image[50:150, 50:150] = (155, 88, 84)  # pale
        image[50:150, 250:350] = PAINT["red"]
        [found] = ask(engine, image, Mode.FIND_ALL, Query(text="red"))
        assert found.boxes[0][0] == pytest.approx(250 / 400, abs=0.01)
        assert list(found.scores) == sorted(found.scores, reverse=True)

    def test_specks_are_no_instances(self, engine) -> None:
        image = np.full((600, 800, 3), 255, np.uint8)
        rng = np.random.default_rng(3)
        image[rng.integers(0, 600, 300), rng.integers(0, 800, 300)] = PAINT["red"]
        [found] = ask(engine, image, Mode.FIND_ALL, Query(text="red"))
        assert len(found) == 0
        assert found.boxes.shape == (0, 4)

    def test_a_ring_keeps_its_hole(self, engine) -> None:
        ring = circle((300, 300), (150, 150), 100) & ~circle((300, 300), (150, 150), 60)
        image = np.full((300, 300, 3), 255, np.uint8)
        image[ring] = PAINT["blue"]
        [found] = ask(engine, image, Mode.FIND_ALL, Query(text="blue"))
        assert iou(ring, full(found, 0)) >= 0.95

    def test_an_exemplar_box_finds_all_of_its_colour(self, engine, discs) -> None:
        image, reds, _ = discs
        exemplar = Query(boxes=((60 / 640, 60 / 480, 180 / 640, 180 / 480),), positives=(True,))
        [found] = ask(engine, image, Mode.FIND_ALL, exemplar)
        assert len(found) == 3
        assert min(max(iou(red, full(found, index)) for index in range(3)) for red in reds) >= 0.95

    def test_a_negative_box_takes_its_colour_out(self, engine) -> None:
        image = np.full((200, 420, 3), 255, np.uint8)
        image[50:150, 40:140] = (215, 25, 30)
        image[50:150, 260:360] = (130, 20, 30)  # a darker red
        boxes = ((260 / 420, 0.25, 360 / 420, 0.75),)
        [both] = ask(engine, image, Mode.FIND_ALL, Query(text="red"))
        [one] = ask(engine, image, Mode.FIND_ALL, Query(text="red", boxes=boxes, positives=(False,)))
        assert len(both) == 2
        assert [round(float(box[0]) * 420) for box in one.boxes] == [40]

    def test_more_regions_than_its_cap_are_cut_and_said_so(self, engine) -> None:
        image = np.full((640, 640, 3), 255, np.uint8)
        for row in range(16):
            for column in range(16):
                image[row * 40 + 4 : row * 40 + 36, column * 40 + 4 : column * 40 + 36] = PAINT["green"]
        [found] = ask(engine, image, Mode.FIND_ALL, Query(text="green"))
        assert len(found) == opencv.MAX_INSTANCES
        assert found.truncated

    def test_each_image_has_an_answer_to_each_of_its_queries(self, engine, discs) -> None:
        image, _, _ = discs
        answers = ask(engine, image, Mode.FIND_ALL, Query(text="red"), Query(text="blue"), Query(text="yellow"))
        assert [len(answer) for answer in answers] == [3, 1, 0]

    def test_a_single_pixel_is_no_trouble(self, engine) -> None:
        [found] = ask(engine, np.zeros((1, 1, 3), np.uint8), Mode.FIND_ALL, Query(text="black"))
        assert len(found) == 0


class TestPhrases:
    @pytest.mark.parametrize(
        ("phrase", "colour"),
        [
            ("Red car", "red"),
            ("a gray cat", "grey"),
            ("teal", "cyan"),
            ("ripe oranges", "orange"),
            ("VIOLET", "purple"),
        ],
    )
    def test_the_colour_word_counts_in_any_case_and_by_its_other_names(self, phrase, colour) -> None:
        assert named_in(phrase) == colour

    @pytest.mark.parametrize("phrase", ["car", "Reddish", "123", "colourful dog"])
    def test_a_phrase_without_a_colour_is_refused_with_the_known_ones(self, engine, phrase) -> None:
        with pytest.raises(PromptError, match=r"names no colour.*red, orange.*black.*sam3"):
            engine.check(Mode.FIND_ALL, Query(text=phrase))

    def test_two_colours_in_one_phrase_are_refused(self, engine) -> None:
        with pytest.raises(PromptError, match=r"black and white.*one phrase per colour"):
            engine.check(Mode.FIND_ALL, Query(text="black and white cow"))

    def test_negative_exemplars_alone_are_refused(self, engine) -> None:
        with pytest.raises(PromptError, match="positive exemplar"):
            engine.check(Mode.FIND_ALL, Query(boxes=((0, 0, 1, 1),), positives=(False,)))


class TestInsideBox:
    def test_the_object_is_cut_out_of_a_loose_box(self, engine, discs) -> None:
        image, reds, blue = discs
        queries = [
            Query(boxes=((200 / 640, 260 / 480, 400 / 640, 460 / 480),)),
            Query(boxes=((470 / 640, 310 / 480, 610 / 640, 450 / 480),)),
        ]
        third, other = ask(engine, image, Mode.INSIDE_BOX, *queries)
        assert iou(reds[2], full(third, 0)) >= 0.95
        assert iou(blue, full(other, 0)) >= 0.95
        assert third.scores[0] >= 0.9

    def test_a_large_box_is_worked_on_smaller_and_still_exact(self, engine) -> None:
        truth = circle((1500, 2000), (1000, 750), 560)
        image = np.full((1500, 2000, 3), (90, 140, 90), np.uint8)
        image[truth] = PAINT["orange"]
        box = (380 / 2000, 120 / 1500, 1620 / 2000, 1380 / 1500)
        [found] = ask(engine, noisy(image), Mode.INSIDE_BOX, Query(boxes=(box,)))
        assert iou(truth, full(found, 0)) >= 0.95

    def test_the_mask_never_leaves_the_box(self, engine, discs) -> None:
        image, _, _ = discs
        [found] = ask(engine, image, Mode.INSIDE_BOX, Query(boxes=((90 / 640, 60 / 480, 180 / 640, 180 / 480),)))
        assert not full(found, 0)[:, :90].any()

    def test_a_box_over_the_whole_image_takes_its_rim_for_background(self, engine) -> None:
        truth = circle((240, 320), (160, 120), 70)
        image = np.full((240, 320, 3), (230, 230, 225), np.uint8)
        image[truth] = PAINT["blue"]
        [found] = ask(engine, noisy(image), Mode.INSIDE_BOX, Query(boxes=((0.0, 0.0, 1.0, 1.0),)))
        assert iou(truth, full(found, 0)) >= 0.95

    def test_the_background_alone_scores_below_an_object(self, engine, discs) -> None:
        image, _, _ = discs
        anything = Selection(0.0, 0.5)
        [[empty, real]] = engine.segment(
            engine.encode([image]),
            Mode.INSIDE_BOX,
            [[Query(boxes=((0.02, 0.6, 0.2, 0.9),)), Query(boxes=((0.08, 0.1, 0.3, 0.4),))]],
            anything,
        )
        assert len(empty) == 0 or empty.scores[0] < 0.8 < real.scores[0]


class TestPoint:
    def test_the_region_under_the_click_is_the_object(self, engine, discs) -> None:
        image, reds, blue = discs
        queries = [
            Query(points=((120 / 640, 120 / 480),), positives=(True,)),
            Query(points=((550 / 640, 370 / 480),), positives=(True,)),
        ]
        first, second = ask(engine, image, Mode.POINT, *queries)
        assert iou(reds[0], full(first, 0)) >= 0.95
        assert iou(blue, full(second, 0)) >= 0.95

    def test_several_clicks_unite(self, engine, discs) -> None:
        image, reds, blue = discs
        query = Query(points=((120 / 640, 120 / 480), (540 / 640, 380 / 480)), positives=(True, True))
        [found] = ask(engine, image, Mode.POINT, query)
        assert len(found) == 1
        assert iou(reds[0] | blue, full(found, 0)) >= 0.95

    def test_a_negative_click_cuts_its_colour_away(self, engine) -> None:
        image = np.full((200, 400, 3), 250, np.uint8)
        image[50:150, 50:200] = (200, 60, 60)
        image[50:150, 200:350] = (196, 64, 56)  # so close that one click takes both
        [both] = ask(engine, image, Mode.POINT, Query(points=((0.3, 0.5),), positives=(True,)))
        [left] = ask(engine, image, Mode.POINT, Query(points=((0.3, 0.5), (0.7, 0.5)), positives=(True, False)))
        assert full(both, 0).sum() >= 0.95 * 100 * 300
        truth = np.zeros((200, 400), np.bool_)
        truth[50:150, 50:200] = True
        assert iou(truth, full(left, 0)) >= 0.95

    def test_a_click_on_the_very_edge_of_the_photo_is_inside_it(self, engine, discs) -> None:
        image, _, _ = discs
        [found] = ask(engine, image, Mode.POINT, Query(points=((1.0, 1.0),), positives=(True,)))
        assert len(found) == 1


class TestPhotographs:
    def test_the_flower_is_cut_out_of_its_box(self, engine) -> None:
        [found] = ask(engine, photo("outdoors/flower.jpg"), Mode.INSIDE_BOX, Query(boxes=((0.26, 0.19, 0.7, 0.86),)))
        # the bloom is nearly a disc, measured by hand
        assert iou(circle((427, 640), (307, 222), 137), full(found, 0)) >= 0.9

    def test_one_coin_as_an_exemplar_finds_nearly_all_coins(self, engine) -> None:
        [found] = ask(
            engine,
            photo("home/coins.jpg"),
            Mode.FIND_ALL,
            Query(boxes=((130 / 384, 35 / 303, 175 / 384, 80 / 303),), positives=(True,)),
        )
        assert 22 <= len(found) <= 26  # there are 24

    def test_the_night_sky_is_blue_and_the_rocket_is_not(self, engine) -> None:
        [found] = ask(engine, photo("space/rocket.jpg"), Mode.FIND_ALL, Query(text="blue sky"))
        assert full(found, 0)[100, 200]
        assert not full(found, 0)[250, 322]

    def test_the_saucer_stored_sideways_is_red_where_it_is_upright(self, engine) -> None:
        [found] = ask(engine, photo("home/coffee.jpg"), Mode.FIND_ALL, Query(text="red saucer"))
        assert full(found, 0)[230, 140]
        assert not full(found, 0)[150, 290]

    def test_the_same_question_has_the_same_answer(self, engine) -> None:
        image = photo("outdoors/temple.jpg")
        query = Query(boxes=((0.09, 0.05, 0.58, 0.94),))
        first, second = (ask(engine, image, Mode.INSIDE_BOX, query)[0] for _ in range(2))
        assert np.array_equal(full(first, 0), full(second, 0))
        assert first.scores[0] == second.scores[0]


class TestInfo:
    def test_it_says_that_no_model_was_used(self, engine) -> None:
        assert "No model was used" in engine.info.note
        assert engine.info.model == "none"

    def test_the_fingerprint_changes_with_the_algorithm_and_the_library(self, engine) -> None:
        assert opencv.ALGORITHM_VERSION in engine.info.fingerprint
        assert engine.info.fingerprint.endswith(cv2.__version__)
        assert engine.info.versions["opencv"] == cv2.__version__

    def test_it_works_at_a_long_side_one_image_at_a_time(self, engine) -> None:
        assert engine.info.input_size == LongSide(2048)
        assert engine.info.batch == 1
        assert engine.info.modes == frozenset(Mode)

    def test_it_warms_up(self, engine) -> None:
        engine.warm_up()
