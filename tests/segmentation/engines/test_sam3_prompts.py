"""What SAM 3 accepts as a prompt, and prompts as tensors."""

import math

import pytest
import torch

from samjobs.errors import PromptError
from samjobs.segmentation.engines.base import Query
from samjobs.segmentation.engines.sam3_prompts import box_tensor, check_query, click_tensors, exemplar_tensors
from samjobs.spec import Mode

pytestmark = pytest.mark.needs_torch

BOX = (0.25, 0.5, 0.75, 1.0)


@pytest.mark.parametrize(
    ("mode", "query", "message"),
    [
        (Mode.FIND_ALL, Query(), "a phrase or at least one positive"),
        (Mode.FIND_ALL, Query(text="  "), "the phrase is empty"),
        (Mode.FIND_ALL, Query(boxes=(BOX,), positives=(False,)), "at least one positive exemplar"),
        (Mode.FIND_ALL, Query(boxes=(BOX,)), "1 boxes come with 0 positive flags"),
        (Mode.FIND_ALL, Query(text="cat", points=((0.5, 0.5),), positives=(True,)), "use mode point"),
        (Mode.FIND_ALL, Query(text="one two three four"), "4 tokens long.*at most 3"),
        (Mode.INSIDE_BOX, Query(boxes=(BOX, BOX), positives=(True, True)), "exactly one box and nothing else, not 2"),
        (Mode.INSIDE_BOX, Query(boxes=(BOX,), positives=(False,)), "only in find_all"),
        (Mode.INSIDE_BOX, Query(text="cat", boxes=(BOX,), positives=(True,)), "nothing else"),
        (Mode.POINT, Query(points=((0.5, 0.5),), positives=(False,)), "at least one positive click"),
        (Mode.POINT, Query(points=((0.5, 0.5),)), "1 clicks come with 0 positive flags"),
        (Mode.POINT, Query(), "at least one positive click"),
        (Mode.POINT, Query(text="cat", points=((0.5, 0.5),), positives=(True,)), "clicks and nothing else"),
        (Mode.POINT, Query(points=((0.5, 1.5),), positives=(True,)), "1.5 is outside the photo"),
        (Mode.POINT, Query(points=((math.nan, 0.5),), positives=(True,)), "nan is outside the photo"),
    ],
)
def test_a_query_that_the_mode_cannot_take_is_refused_with_the_reason(mode: Mode, query: Query, message: str) -> None:
    with pytest.raises(PromptError, match=message):
        check_query(mode, query, lambda phrase: len(phrase.split()), 3)


@pytest.mark.parametrize(
    ("mode", "query"),
    [
        (Mode.FIND_ALL, Query(text="red car")),
        (Mode.FIND_ALL, Query(boxes=(BOX, BOX), positives=(True, False))),
        (Mode.FIND_ALL, Query(text="car", boxes=(BOX,), positives=(False,))),
        (Mode.INSIDE_BOX, Query(boxes=(BOX,), positives=(True,))),
        (Mode.POINT, Query(points=((0.0, 1.0), (0.5, 0.5)), positives=(True, False))),
    ],
)
def test_a_query_that_fits_its_mode_passes(mode: Mode, query: Query) -> None:
    check_query(mode, query, lambda phrase: len(phrase.split()), 3)


def test_exemplars_are_centres_and_sizes_filled_up_to_the_longest_row() -> None:
    one = Query(boxes=(BOX,), positives=(False,))
    two = Query(boxes=(BOX, (0.0, 0.0, 0.5, 0.5)), positives=(True, False))
    boxes, positives, valid = exemplar_tensors([one, two], torch.float32)
    assert boxes[0, 0].tolist() == [0.5, 0.75, 0.5, 0.5]
    assert boxes[1, 1].tolist() == [0.25, 0.25, 0.5, 0.5]
    assert positives.tolist() == [[False, False], [True, False]]
    assert valid.tolist() == [[True, False], [True, True]]


def test_clicks_and_boxes_are_pixels_of_the_square() -> None:
    points, labels = click_tensors([Query(points=((0.5, 1.0), (0.0, 0.25)), positives=(True, False))], 100)
    assert points.tolist() == [[[50, 100], [0, 25]]]
    assert labels.tolist() == [[1, 0]]
    assert box_tensor([Query(boxes=(BOX,), positives=(True,))], 100).tolist() == [[25, 50, 75, 100]]
