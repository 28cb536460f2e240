"""From pixels of the upright photo to what an engine is asked."""

from typing import Any

import pytest

from samjobs.errors import PromptError
from samjobs.segmentation.engines.base import Query
from samjobs.segmentation.prompts import ask, least_scores
from samjobs.spec import Mode, Prompts


def prompts(**given: Any) -> Prompts:
    return Prompts.model_validate(given)


def test_each_phrase_is_a_question_together_with_all_exemplars() -> None:
    given = prompts(
        text=["red car", {"text": "bus", "label": "coach", "scoreThreshold": 0.7}],
        boxes=[[0, 0, 100, 50], {"xyxy": [100, 50, 200, 100], "positive": False}],
    )
    first, second = ask(given, Mode.FIND_ALL, 200, 100)
    boxes, positives = ((0, 0, 0.5, 0.5), (0.5, 0.5, 1, 1)), (True, False)
    assert first.query == Query(text="red car", boxes=boxes, positives=positives)
    assert second.query == Query(text="bus", boxes=boxes, positives=positives)
    assert (first.label, second.label) == ("red car", "coach")
    assert (first.score_threshold, second.score_threshold) == (None, 0.7)


def test_exemplars_without_a_phrase_are_asked_by_label_with_all_negatives() -> None:
    given = prompts(
        boxes=[
            {"xyxy": [0, 0, 10, 10], "label": "bolt"},
            {"xyxy": [20, 20, 30, 30], "label": "nut"},
            {"xyxy": [40, 40, 50, 50], "label": "bolt"},
            {"xyxy": [60, 60, 70, 70], "positive": False},
        ]
    )
    bolt, nut = ask(given, Mode.FIND_ALL, 100, 100)
    assert (bolt.label, bolt.query.positives) == ("bolt", (True, True, False))
    assert (nut.label, nut.query.positives) == ("nut", (True, False))


def test_each_box_and_each_set_of_clicks_is_one_object() -> None:
    boxes = ask(prompts(boxes=[[0, 0, 10, 10], [10, 10, 20, 20]]), Mode.INSIDE_BOX, 20, 20)
    assert [len(asked.query.boxes) for asked in boxes] == [1, 1]
    points = ask(prompts(points=[[[5, 10], [15, 10, 0]], [1, 1]]), Mode.POINT, 20, 20)
    assert points[0].query == Query(points=((0.25, 0.5), (0.75, 0.5)), positives=(True, False))
    assert len(points) == 2


def test_a_box_over_the_edge_is_clipped() -> None:
    (asked,) = ask(prompts(boxes=[[-5, -5, 205, 105]]), Mode.INSIDE_BOX, 200, 100)
    assert asked.query.boxes == ((0, 0, 1, 1),)


@pytest.mark.parametrize(
    ("given", "mode", "words"),
    [
        (
            prompts(boxes=[[300, 0, 310, 10]]),
            Mode.INSIDE_BOX,
            r"box \(300, 0, 310, 10\) lies outside.*200 × 100.*upright",
        ),
        (prompts(points=[[[250, 10]]]), Mode.POINT, r"click \(250, 10\) lies outside.*200 × 100"),
        (prompts(), Mode.POINT, "no prompt for this image"),
    ],
)
def test_prompts_that_miss_the_photo_are_refused(given: Prompts, mode: Mode, words: str) -> None:
    with pytest.raises(PromptError, match=words):
        ask(given, mode, 200, 100)


def test_a_box_or_a_click_gets_its_mask_whatever_its_score() -> None:
    text = ask(prompts(text=["bus", {"text": "car", "scoreThreshold": 0.9}]), Mode.FIND_ALL, 10, 10)
    assert least_scores(text, Mode.FIND_ALL, 0.5) == [0.5, 0.9]
    box = ask(prompts(boxes=[[0, 0, 5, 5]]), Mode.INSIDE_BOX, 10, 10)
    assert least_scores(box, Mode.INSIDE_BOX, 0.5) == [0.0]
