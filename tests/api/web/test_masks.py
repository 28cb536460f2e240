"""Masks are read in the browser as pycocotools reads them."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from playwright.sync_api import Browser, Page
from pycocotools import mask as coco

from samjobs.segmentation.overlay import colour_of
from samjobs.segmentation.rle import Rle, sample
from tests.api.web import browser as browsers

Mask = npt.NDArray[np.uint8]

SAMPLED = """async ([segmentations, width, height]) => {
  const { sample } = await import("/static/rle.js");
  return segmentations.map((one) => Array.from(sample(one, width, height)));
}"""


@pytest.fixture(scope="module")
def page(browser: Browser, files: str) -> Iterator[Page]:
    with browsers.tab(browser, files) as tab:
        tab.page.goto(files)
        yield tab.page
        tab.check()


def encoded(mask: Mask) -> dict[str, Any]:
    """As a record has it."""
    rle = coco.encode(np.asfortranarray(mask))
    return {"size": list(rle["size"]), "counts": rle["counts"].decode()}


def drawn(spans: list[int], height: int, width: int) -> Mask:
    """The mask of the browser's spans."""
    mask = np.zeros((height, width), np.uint8)
    for column, top, bottom in np.array(spans, int).reshape(-1, 3):
        assert mask[top:bottom, column].sum() == 0, "spans do not overlap"
        mask[top:bottom, column] = 1
    return mask


def random_masks(count: int) -> list[Mask]:
    """Of all shapes: empty, full, noise, blobs, lines of one pixel."""
    chance = np.random.default_rng(6)
    masks: list[Mask] = [np.zeros((5, 7), np.uint8), np.ones((5, 7), np.uint8), np.ones((1, 1), np.uint8)]
    for _ in range(count):
        height, width = chance.integers(1, 70, 2)
        noise = chance.random((height, width)) < chance.random()
        rows, columns = np.ogrid[:height, :width]
        y, x, size = chance.random() * height, chance.random() * width, chance.random() * 40
        blob = (rows - y) ** 2 + 2 * (columns - x) ** 2 < size**2
        masks += [noise.astype(np.uint8), blob.astype(np.uint8)]
    return masks


@pytest.mark.filterwarnings("ignore:__array__ implementation")  # pycocotools' own decoder under numpy 2
def test_masks_of_all_shapes_are_read_as_pycocotools_reads_them(page: Page) -> None:
    for mask in random_masks(150):
        segmentation = encoded(mask)
        height, width = mask.shape
        [spans] = page.evaluate(SAMPLED, [[segmentation], width, height])
        expected = coco.decode({"size": segmentation["size"], "counts": segmentation["counts"].encode()})
        np.testing.assert_array_equal(drawn(spans, height, width), expected)


def test_a_mask_of_a_large_photo_with_long_runs_keeps_every_pixel(page: Page) -> None:
    mask = np.zeros((5000, 3000), np.uint8)
    mask[1000:4000, 500:2500] = 1
    mask[4999, 2999] = 1  # after a run of millions of pixels, whose length takes most characters
    [spans] = page.evaluate(SAMPLED, [[encoded(mask)], 3000, 5000])
    np.testing.assert_array_equal(drawn(spans, 5000, 3000), mask)


@pytest.mark.parametrize(("width", "height"), [(40, 30), (64, 48), (7, 5), (100, 90)])
def test_at_another_size_a_mask_is_sampled_as_the_overlay_files_do(page: Page, width: int, height: int) -> None:
    masks = [mask for mask in random_masks(40) if min(mask.shape) > 4]
    answers = page.evaluate(SAMPLED, [[encoded(mask) for mask in masks], width, height])
    for mask, spans in zip(masks, answers, strict=True):
        x, y, crop = sample(Rle(*mask.shape, encoded(mask)["counts"]), height, width)
        expected = np.zeros((height, width), np.uint8)
        expected[y : y + crop.shape[0], x : x + crop.shape[1]] = crop
        np.testing.assert_array_equal(drawn(spans, height, width), expected)


@pytest.mark.parametrize(
    "counts", ["", "0", "abc\x01", "o", "P"], ids=["nothing", "too few", "not a length", "cut short", "negative"]
)
def test_what_is_no_mask_is_said_and_not_drawn(page: Page, counts: str) -> None:
    told = page.evaluate(
        """async (counts) => {
          const { sample } = await import("/static/rle.js");
          try { sample({ size: [3, 3], counts }, 3, 3); return "drawn"; } catch (error) { return error.message; }
        }""",
        counts,
    )
    assert "mask" in told


def test_an_instance_has_the_colour_that_it_has_in_overlay_files(page: Page) -> None:
    colours = page.evaluate(
        """async () => {
          const { colourOf } = await import("/static/overlay.js");
          return Array.from({ length: 200 }, (_, place) => colourOf(place + 1));
        }"""
    )
    for number, colour in enumerate(colours, 1):
        assert np.abs(np.array(colour) - colour_of(number)).max() <= 1, f"instance {number}"
