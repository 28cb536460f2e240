"""RLE strings are byte-identical to pycocotools', whatever the mask, and read back to the same pixels."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from pycocotools import mask as coco_mask

from samjobs.errors import InvalidInput
from samjobs.segmentation import rle
from samjobs.segmentation.rle import Rle, Runs

Mask = npt.NDArray[np.bool_]
masks = arrays.arrays(np.bool_, arrays.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=12))


def reference(mask: Mask) -> dict[str, object]:
    return coco_mask.encode(np.asfortranarray(mask.astype(np.uint8)))


def striped(height: int, width: int) -> Mask:
    return (np.arange(height)[:, None] + np.arange(width)) % 2 == 0


CASES = {
    "one pixel set": np.ones((1, 1), bool),
    "one pixel unset": np.zeros((1, 1), bool),
    "empty": np.zeros((5, 7), bool),
    "full": np.ones((5, 7), bool),
    "one row": np.array([[0, 1, 1, 0, 1]], bool),
    "one column": np.array([[0], [1], [1], [0], [1]], bool),
    "chequered": striped(6, 9),
    "left half": np.arange(8)[None].repeat(4, 0) < 4,
    "lower half": np.arange(4)[:, None].repeat(8, 1) >= 2,
    "last pixel": np.pad(np.ones((1, 1), bool), ((3, 0), (4, 0))),
    "bottom of one column and top of the next": np.array([[0, 1], [0, 0], [1, 0]], bool),
    "runs longer than one character can tell": np.pad(np.ones((400, 300), bool), ((500, 300), (70, 20))),
}


@pytest.mark.parametrize("mask", CASES.values(), ids=CASES.keys())
def test_known_masks_are_written_as_pycocotools_writes_them(mask: Mask):
    expected = reference(mask)["counts"].decode()
    assert rle.encode(mask).counts == expected
    assert rle.encode_crop(mask, 0, 0, *mask.shape).counts == expected
    assert np.array_equal(rle.decode(rle.encode(mask)), mask)


@given(masks)
def test_any_mask_is_written_as_pycocotools_writes_it_and_read_back(mask: Mask):
    ours, theirs = rle.encode(mask), reference(mask)
    assert (ours.height, ours.width, ours.counts) == (*theirs["size"], theirs["counts"].decode())
    assert np.array_equal(rle.decode(ours), mask)


@given(masks, st.data())
def test_a_crop_anywhere_is_written_like_the_whole_mask(crop: Mask, data: st.DataObject):
    left, right, top, bottom = (data.draw(st.integers(0, 5)) for _ in range(4))
    whole = np.pad(crop, ((top, bottom), (left, right)))
    assert rle.encode_crop(crop, left, top, *whole.shape).counts == reference(whole)["counts"].decode()


@given(masks)
def test_area_and_frame_are_those_of_pycocotools(mask: Mask):
    runs, theirs = rle.to_runs(rle.encode(mask)), reference(mask)
    assert rle.area(runs) == coco_mask.area(theirs)
    assert list(rle.bbox(runs, mask.shape[0])) == coco_mask.toBbox(theirs).tolist()


@given(masks, st.integers(1, 40))
def test_strips_put_together_are_the_mask(mask: Mask, pixels: int):
    out = np.zeros_like(mask)
    for x, y, strip in rle.strips(rle.encode(mask), pixels):
        assert strip.size <= pixels or strip.shape[1] == 1
        out[y : y + strip.shape[0], x : x + strip.shape[1]] = strip
    assert np.array_equal(out, mask)


@given(masks, st.integers(1, 30), st.integers(1, 30))
def test_a_mask_at_another_size_is_sampled_below_each_pixels_centre(mask: Mask, height: int, width: int):
    rows = ((np.arange(height) + 0.5) * mask.shape[0] / height).astype(int)
    columns = ((np.arange(width) + 0.5) * mask.shape[1] / width).astype(int)
    x, y, small = rle.sample(rle.encode(mask), height, width)
    out = np.zeros((height, width), bool)
    out[y : y + small.shape[0], x : x + small.shape[1]] = small
    assert np.array_equal(out, mask[np.ix_(rows, columns)])


def test_runs_that_touch_become_one_and_empty_ones_vanish():
    runs = Runs(np.array([0, 2, 3, 7, 9]), np.array([2, 2, 5, 9, 12]))
    assert rle.from_runs(runs, 3, 4) == rle.encode(np.array([1, 1, 0, 1, 1, 0, 0, 1, 1, 1, 1, 1], bool).reshape(4, 3).T)


def test_a_crop_outside_the_mask_is_refused():
    with pytest.raises(ValueError, match=r"crop of 2 x 2 at \(3, 0\) is not inside 4 x 4"):
        rle.encode_crop(np.ones((2, 2), bool), 3, 0, 4, 4)


@pytest.mark.parametrize("counts", ["", "0", "é", "zz~", "P", "4oooooooooo1", " "])
def test_a_string_that_is_no_rle_of_that_size_is_refused(counts: str):
    with pytest.raises(InvalidInput, match="are not a mask of 3 x 2 pixels"):
        rle.to_runs(Rle(2, 3, counts))


@given(st.text(st.characters(min_codepoint=40, max_codepoint=120), max_size=12))
def test_any_string_is_refused_or_is_a_mask_of_its_size(counts: str):
    try:
        runs = rle.to_runs(Rle(3, 4, counts))
    except InvalidInput:
        return
    assert (runs.starts <= runs.ends).all()
    assert runs.starts.size == 0 or 0 <= runs.starts[0] <= runs.ends[-1] <= 12
