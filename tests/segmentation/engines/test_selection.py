"""From outputs on the device to candidates on the host."""

import numpy as np
import pytest
import torch

from samjobs.errors import DeviceFault
from samjobs.segmentation.engines.base import Selection
from samjobs.segmentation.engines.selection import Found, keep_all_matching, keep_best, mask_extents

pytestmark = pytest.mark.needs_torch

HALF = Selection(score=0.5, mask=0.5)


def found(scores: list[list[float]], boxes: bool = True) -> Found:
    """Slot j of pair i has logits 10 i + j everywhere, and box (i, j, i, j)."""
    table = torch.tensor(scores)
    pair, slot = torch.meshgrid(*(torch.arange(n, dtype=torch.float32) for n in table.shape), indexing="ij")
    logits = (10 * pair + slot)[..., None, None].expand(*table.shape, 4, 6)
    return Found(table, logits, torch.stack([pair, slot, pair, slot], -1) if boxes else None)


def test_slots_that_reach_the_threshold_come_best_first() -> None:
    first, second, third = keep_all_matching(found([[0.5, 0.2, 0.9], [0.1, 0.1, 0.1], [0.8, 0.8, 0.4]]), HALF)
    assert first.scores.tolist() == pytest.approx([0.9, 0.5])
    assert np.asarray(first.logits)[:, 0, 0].tolist() == [2, 0]
    assert first.boxes.tolist() == [[0, 2, 0, 2], [0, 0, 0, 0]]
    assert len(second) == 0
    assert np.asarray(second.logits).shape == (0, 4, 6)
    assert np.asarray(third.logits)[:, 0, 0].tolist() == [20, 21]  # equal scores stay in the order of the slots


def test_only_a_pair_whose_every_slot_passes_is_truncated() -> None:
    full, part = keep_all_matching(found([[0.6, 0.7], [0.6, 0.4]]), HALF)
    assert full.truncated
    assert not part.truncated


def test_the_best_slot_is_kept_below_the_threshold_too() -> None:
    first, second = keep_best(found([[0.1, 0.3], [0.9, 0.8]], boxes=False), HALF)
    assert first.scores.tolist() == pytest.approx([0.3])
    assert np.asarray(second.logits)[0, 0, 0] == 10
    assert not first.truncated


@pytest.mark.parametrize("keep", [keep_all_matching, keep_best])
def test_scores_that_are_not_numbers_are_a_fault_and_not_an_empty_answer(keep: object) -> None:
    assert callable(keep)
    with pytest.raises(DeviceFault, match="not numbers"):
        keep(found([[float("nan"), 0.2]]), HALF)


def test_logits_stay_finite_in_float16() -> None:
    huge = Found(torch.tensor([[0.9]]), torch.tensor([[[[1e30, -1e30]]]]), torch.zeros(1, 1, 4))
    (candidates,) = keep_all_matching(huge, HALF)
    assert np.isfinite(np.asarray(candidates.logits)).all()


def test_bfloat16_outputs_arrive_as_float16() -> None:
    given = found([[0.9, 0.2]])
    boxes = given.boxes
    assert boxes is not None
    (candidates,) = keep_all_matching(Found(given.scores.bfloat16(), given.logits.bfloat16(), boxes.bfloat16()), HALF)
    assert np.asarray(candidates.logits).dtype == np.float16
    assert candidates.scores.dtype == candidates.boxes.dtype == np.float32


def test_an_extent_is_a_fraction_of_the_mask_and_zero_where_there_is_none() -> None:
    logits = torch.full((2, 4, 8), -3.0)
    logits[0, 1:3, 2:7] = 3.0
    assert mask_extents(logits, 0.5).tolist() == [[2 / 8, 1 / 4, 7 / 8, 3 / 4], [0, 0, 0, 0]]


def test_an_extent_follows_the_mask_threshold() -> None:
    logits = torch.tensor([[[-0.5, 0.5, 3.0, 0.5]]])
    assert mask_extents(logits, 0.9).tolist() == [[0.5, 0, 0.75, 1]]
    assert mask_extents(logits, 0.3).tolist() == [[0, 0, 1, 1]]
