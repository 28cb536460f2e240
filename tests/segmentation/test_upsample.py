"""Upsampled masks are those of bilinear interpolation, though no pixel of the photo is computed."""

import cv2
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samjobs.segmentation.rle import decode, from_runs
from samjobs.segmentation.upsample import Grid, runs_above

Float32 = npt.NDArray[np.float32]
NEAR = 1e-4  # values so near the threshold may fall either way: other programs add the same products in another order


def upsampled(values: Float32, height: int, width: int, threshold: float = 0.0, strip_pixels: int = 10**6):
    grid = Grid.of(values.shape, height, width)
    return decode(from_runs(runs_above(values, 0, 0, grid, threshold, strip_pixels), height, width))


def interpolated(values: Float32, height: int, width: int) -> npt.NDArray[np.float64]:
    """Bilinear with half-pixel centres, written out in the plainest way."""

    def matrix(source: int, out: int) -> npt.NDArray[np.float64]:
        place = np.clip((np.arange(out) + 0.5) * source / out - 0.5, 0, source - 1)
        low = np.floor(place).astype(int)
        weights = np.zeros((out, source))
        weights[np.arange(out), low] += 1 - (place - low)
        weights[np.arange(out), np.minimum(low + 1, source - 1)] += place - low
        return weights

    return matrix(values.shape[0], height) @ values @ matrix(values.shape[1], width).T


sides = st.integers(1, 14)
outs = st.integers(1, 60)


@given(sides, sides, outs, outs, st.integers(0, 2**32 - 1), st.floats(-1, 1), st.integers(1, 200))
def test_any_size_to_any_size_agrees_with_plain_interpolation(h, w, height, width, seed, threshold, strip_pixels):
    values = np.random.default_rng(seed).normal(size=(h, w)).astype(np.float32)
    expected = interpolated(values, height, width)
    clear = np.abs(expected - threshold) > NEAR
    ours = upsampled(values, height, width, threshold, strip_pixels)
    assert np.array_equal(ours[clear], (expected > threshold)[clear])


@given(sides, sides, st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_sharp_values_that_meet_the_threshold_exactly_are_not_above_it(h, w, factor, seed):
    values = np.random.default_rng(seed).choice([-1, 1], size=(h, w)).astype(np.float32)
    expected = interpolated(values, h * factor, w * factor)
    exact = np.round(expected * factor * factor * 4) / (factor * factor * 4)
    clear = (np.abs(exact) > NEAR) | (factor in (1, 2, 4))  # powers of two have no rounding at all
    assert np.array_equal(upsampled(values, h * factor, w * factor)[clear], (exact > 0)[clear])


def test_it_agrees_with_opencv_when_enlarging():
    values = cv2.GaussianBlur(np.random.default_rng(0).normal(size=(72, 72)).astype(np.float32), (0, 0), 3)
    expected = cv2.resize(values, (1001, 703), interpolation=cv2.INTER_LINEAR)
    clear = np.abs(expected) > NEAR
    assert np.array_equal(upsampled(values, 703, 1001)[clear], (expected > 0)[clear])


@pytest.mark.needs_torch
@pytest.mark.parametrize(("height", "width"), [(703, 1001), (72, 72), (50, 31), (1, 1), (2000, 3)])
def test_it_agrees_with_torch_both_when_enlarging_and_when_shrinking(height: int, width: int):
    torch = pytest.importorskip("torch")
    values = np.random.default_rng(0).normal(size=(72, 72)).astype(np.float16).astype(np.float32)
    tensor = torch.from_numpy(values)[None, None]
    expected = torch.nn.functional.interpolate(tensor, (height, width), mode="bilinear", align_corners=False)[
        0, 0
    ].numpy()
    clear = np.abs(expected) > NEAR
    assert np.array_equal(upsampled(values, height, width)[clear], (expected > 0)[clear])


def test_a_window_with_its_margin_gives_the_same_as_the_whole():
    values = np.full((20, 30), -1, np.float32)
    values[5:9, 11:20] = np.random.default_rng(0).normal(size=(4, 9))
    grid = Grid.of(values.shape, 111, 97)
    whole = from_runs(runs_above(values, 0, 0, grid, 0.0, 10**6), 111, 97)
    window = from_runs(runs_above(values[4:10, 10:21], 10, 4, grid, 0.0, 10**6), 111, 97)
    assert window == whole


def test_values_that_are_not_finite_are_taken_for_very_small_or_very_large():
    values = np.array([[np.nan, np.inf], [-np.inf, np.inf]], np.float32)
    assert upsampled(values, 2, 2).tolist() == [[False, True], [False, True]]
