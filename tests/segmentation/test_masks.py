"""Which candidates become instances, in which order, and with which masks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samjobs.segmentation.engines.base import Candidates, Crop
from samjobs.segmentation.masks import Selected, select
from samjobs.segmentation.rle import decode
from samjobs.spec import Thresholds

SIDE = 32
Frame = tuple[int, int, int, int]  # x0, y0, x1, y1 at low resolution


def logits_of(*frames: Frame) -> "np.ndarray[tuple[int, int, int], np.dtype[np.float16]]":
    """One mask per frame, 5 inside and -5 outside."""
    out = np.full((len(frames), SIDE, SIDE), -5, np.float16)
    for layer, (x0, y0, x1, y1) in zip(out, frames, strict=True):
        layer[y0:y1, x0:x1] = 5
    return out


def found(*frames: Frame, scores: list[float] | None = None, truncated: bool = False) -> Candidates:
    boxes = np.array(frames, np.float32).reshape(-1, 4) / SIDE
    values = scores or [0.9 - 0.01 * i for i in range(len(frames))]
    return Candidates(np.array(values, np.float32), boxes, logits=logits_of(*frames), truncated=truncated)


def chosen(
    *candidates: Candidates, least: float = 0.5, size: tuple[int, int] = (SIDE, SIDE), **limits: object
) -> Selected:
    thresholds = Thresholds.model_validate(limits)
    return select(candidates, [least] * len(candidates), thresholds, *size)


def frames_of(selected: Selected) -> list[tuple[int, int, int, int]]:
    return [instance.bbox for instance in selected.instances]


A, B, C = (2, 2, 8, 8), (12, 12, 20, 16), (24, 4, 30, 28)


def test_an_instance_has_its_query_score_box_frame_area_and_mask():
    (instance,) = chosen(found(B, scores=[0.75]), size=(64, 64)).instances
    assert (instance.query, instance.score) == (0, 0.75)
    assert instance.box == (24.0, 24.0, 40.0, 32.0)
    assert instance.bbox == (24, 24, 16, 8)
    mask = decode(instance.rle)
    assert mask.shape == (64, 64)
    assert instance.area == mask.sum()
    assert mask[25:31, 25:39].all()


def test_instances_come_best_score_first_over_all_queries():
    selected = chosen(found(A, B, scores=[0.6, 0.9]), found(C, scores=[0.7]))
    assert [(i.query, round(i.score, 2)) for i in selected.instances] == [(0, 0.9), (1, 0.7), (0, 0.6)]


def test_each_query_has_its_own_least_score_and_the_limit_itself_is_kept():
    both = found(A, B, scores=[0.5, 0.25]), found(C, scores=[0.25])
    selected = select(both, [0.5, 0.25], Thresholds(), SIDE, SIDE)
    assert [(i.query, i.score) for i in selected.instances] == [(0, 0.5), (1, 0.25)]


def test_scores_that_are_no_numbers_are_never_kept():
    assert not chosen(found(A, scores=[float("nan")]), least=0).instances


def test_a_predicted_box_is_cut_to_the_photo_and_replaced_when_it_is_no_numbers():
    candidates = found(A, B)
    candidates.boxes[:] = [[-1, 0, 2, 1], [np.nan, 0, 1, 1]]
    first, second = chosen(candidates).instances
    assert first.box == (0, 0, SIDE, SIDE)
    assert second.box == (12, 12, 20, 16)


def test_the_mask_threshold_is_a_probability():
    soft = found(A)
    soft.logits = np.where(soft.logits > 0, 1, -1).astype(np.float32)  # probabilities 0.73 and 0.27
    assert chosen(soft, mask=0.7).instances[0].area == 36
    assert not chosen(soft, mask=0.75).instances
    assert chosen(soft, mask=0.2).instances[0].area == SIDE * SIDE


def test_an_empty_mask_is_no_instance():
    assert frames_of(chosen(found((3, 3, 3, 3), A))) == [(2, 2, 6, 6)]


def test_area_limits_hold_in_pixels_of_the_photo():
    parts = found(A, B, C)  # at four times the area: about 144, 128 and 576 pixels
    areas = [i.area for i in chosen(parts, size=(64, 64)).instances]
    assert [i.area for i in chosen(parts, size=(64, 64), min_area=areas[0]).instances] == [areas[0], areas[2]]
    assert [i.area for i in chosen(parts, size=(64, 64), max_area=areas[0]).instances] == [areas[0], areas[1]]


def test_max_instances_keeps_the_best_and_says_that_there_were_more():
    assert [i.score for i in chosen(found(A, B, C), max_instances=2).instances] == pytest.approx([0.9, 0.89])
    assert chosen(found(A, B, C), max_instances=2).truncated
    assert not chosen(found(A, B, C), max_instances=3).truncated


def test_what_the_area_limits_or_the_overlap_drop_does_not_count_as_more():
    duplicates = found(A, B, B, scores=[0.9, 0.8, 0.7])
    assert not chosen(duplicates, max_instances=2, nms_iou=0.5).truncated
    assert not chosen(found(A, B), max_instances=1, max_area=35, min_area=33).truncated
    assert frames_of(chosen(found(A, B), max_instances=1, max_area=35)) == [(12, 12, 8, 4)]


def test_the_engines_own_cap_makes_the_result_truncated():
    assert chosen(found(A, truncated=True), found(B)).truncated


def test_of_two_overlapping_instances_of_one_query_the_better_stays():
    shifted = (3, 2, 9, 8)  # IoU with A: 30 / 42
    assert frames_of(chosen(found(shifted, A, scores=[0.6, 0.8]), nms_iou=0.7)) == [(2, 2, 6, 6)]
    assert len(chosen(found(shifted, A), nms_iou=0.72).instances) == 2
    assert len(chosen(found(shifted, A)).instances) == 2


def test_overlap_between_queries_counts_only_when_asked_for():
    assert len(chosen(found(A), found(A), nms_iou=0.5).instances) == 2
    assert len(chosen(found(A), found(A), nms_iou=0.5, nms_across_prompts=True).instances) == 1


def test_an_instance_that_is_itself_dropped_as_a_duplicate_does_not_suppress_others():
    chain = found((0, 0, 10, 10), (4, 0, 14, 10), (8, 0, 18, 10))
    assert frames_of(chosen(chain, nms_iou=0.4)) == [(0, 0, 10, 10), (8, 0, 10, 10)]


def test_an_instance_dropped_for_its_area_still_suppresses_its_duplicates():
    assert not chosen(found((0, 0, 10, 10), (0, 0, 10, 9)), nms_iou=0.5, max_area=95).instances


@given(
    st.lists(st.tuples(*[st.integers(0, 20)] * 2, *[st.integers(1, 12)] * 2), min_size=1, max_size=12),
    st.floats(0, 0.9),
)
def test_no_two_kept_masks_overlap_more_than_allowed_and_every_dropped_one_did(places, limit):
    frames = [(x, y, x + w, y + h) for x, y, w, h in places]
    masks = logits_of(*frames) > 0
    selected = chosen(found(*frames), nms_iou=limit, least=0)
    kept = [decode(i.rle) for i in selected.instances]

    def iou(one, other):
        return (one & other).sum() / (one | other).sum()

    assert all(iou(a, b) <= limit for i, a in enumerate(kept) for b in kept[:i])
    for mask in masks:
        assert any(np.array_equal(mask, k) or iou(mask, k) > limit for k in kept)


def crops(*parts: Crop, size: tuple[int, int]) -> Candidates:
    n = len(parts)
    return Candidates(np.full(n, 0.9, np.float32), np.zeros((n, 4), np.float32), crops=parts, crop_size=size)


def test_crops_of_a_photo_at_its_own_size_are_kept_to_the_pixel():
    ragged = np.random.default_rng(0).random((9, 7)) > 0.5
    (instance,) = chosen(crops(Crop(3, 4, ragged), size=(SIDE, SIDE))).instances
    expected = np.zeros((SIDE, SIDE), bool)
    expected[4:13, 3:10] = ragged
    assert np.array_equal(decode(instance.rle), expected)


@pytest.mark.parametrize("at", [(0, 0), (5, 7), (10, 8)])
def test_crops_of_a_smaller_working_image_are_scaled_to_the_photo(at: tuple[int, int]):
    x, y = at
    (instance,) = chosen(crops(Crop(x, y, np.ones((8, 6), bool)), size=(16, 16)), size=(64, 64)).instances
    mask = decode(instance.rle)
    assert instance.bbox == (4 * x, 4 * y, 24, 32)
    assert mask[4 * y + 2 : 4 * y + 30, 4 * x + 2 : 4 * x + 22].all()


def test_a_photo_smaller_than_the_candidates_gets_masks_too():
    (instance,) = chosen(found((0, 0, 16, 32)), size=(8, 4)).instances
    assert decode(instance.rle).tolist() == [[True] * 4 + [False] * 4] * 4
    (dot,) = chosen(found((0, 0, 32, 32)), size=(1, 1)).instances
    assert (dot.bbox, dot.area) == ((0, 0, 1, 1), 1)


def test_nothing_found_gives_nothing():
    nothing = Candidates(np.empty(0, np.float32), np.empty((0, 4), np.float32), logits=np.empty((0, 8, 8), np.float32))
    assert chosen(nothing) == Selected([], False)
    assert chosen() == Selected([], False)
