"""Masks lie where the objects are: on upright photos, on turned ones, and on those that are shown smaller."""

import base64
import io
import json
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image, ImageDraw
from playwright.sync_api import Page, expect
from pycocotools import mask as coco

from samjobs.segmentation.rle import Rle, sample
from tests.api.web.conftest import Visit
from tests.api.web.site import Site

ORIENTATIONS = range(1, 9)
LARGE = "large.png"  # 2500 pixels wide, shown with 1600

PIXELS = """(selector) => {
  const shown = document.querySelector(selector);
  const canvas = document.createElement("canvas");
  canvas.width = shown.naturalWidth ?? shown.width;
  canvas.height = shown.naturalHeight ?? shown.height;
  canvas.getContext("2d").drawImage(shown, 0, 0);
  return canvas.toDataURL("image/png");
}"""


def scene(width: int, height: int) -> Image.Image:
    """Red things that look different however they are turned or mirrored: an L, and a disc beside it."""
    image = Image.new("RGB", (width, height), (128, 128, 128))
    pen = ImageDraw.Draw(image)
    unit = width // 20
    pen.rectangle((unit, unit, 3 * unit, 9 * unit), fill=(220, 20, 30))
    pen.rectangle((unit, 7 * unit, 8 * unit, 9 * unit), fill=(220, 20, 30))
    pen.ellipse((12 * unit, 2 * unit, 16 * unit, 6 * unit), fill=(220, 20, 30))
    return image


@pytest.fixture(scope="module")
def job(site: Site) -> UUID:
    """A job over one scene with each orientation in its EXIF, and a large one."""
    folder = site.system.root / "photos" / "turned"
    folder.mkdir(parents=True)
    for orientation in ORIENTATIONS:
        exif = Image.Exif()
        exif[0x0112] = orientation
        scene(200, 120).save(folder / f"{orientation}.jpg", exif=exif, quality=95, subsampling=0)
    scene(2500, 1500).save(folder / LARGE)
    site.worker()
    job_id = site.submit("turned", prefix=folder, thresholds={"minArea": 100})
    site.until_ended(job_id)
    assert site.state(job_id) == "succeeded"
    return job_id


def record_of(site: Site, job_id: UUID, index: int) -> dict[str, Any]:
    with site.api() as api:
        answer = api.get(f"/api/v1/jobs/{job_id}/images/{index}/result")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def pixels(page: Page, selector: str) -> npt.NDArray[np.uint8]:
    """What an element shows, (h, w, 4)."""
    _, data = page.evaluate(PIXELS, selector).split(",")
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(data))).convert("RGBA"))


@pytest.mark.filterwarnings("ignore:__array__ implementation")  # pycocotools' own decoder under numpy 2
def test_the_masks_are_pycocotools_masks_pixel_by_pixel_and_lie_on_what_is_red(
    site: Site, visit: Visit, job: UUID
) -> None:
    tab = visit(f"/jobs/{job}")
    for index in range(len(ORIENTATIONS)):
        record = record_of(site, job, index)
        assert record["exif"]["orientation"] == int(Path(record["key"]).stem)
        assert len(record["instances"]) == 2, record["key"]
        tab.page.goto(f"{site.url}/#/jobs/{job}/images/{index}")
        expect(tab.page.get_by_alt_text(f"The photo {record['key']}")).to_be_visible()
        expect(tab.page.locator(".instances li")).to_have_count(2)
        tab.page.evaluate("() => new Promise(requestAnimationFrame)")
        masks, photo = pixels(tab.page, "#masks"), pixels(tab.page, ".layers img").astype(int)
        expected = np.zeros((record["height"], record["width"]), bool)
        for instance in record["instances"]:
            one = coco.decode({**instance["segmentation"], "counts": instance["segmentation"]["counts"].encode()})
            assert one.sum() == instance["area"]
            expected |= one.astype(bool)
        np.testing.assert_array_equal(masks[:, :, 3] > 0, expected, err_msg=record["key"])
        red = photo[:, :, 0] - photo[:, :, 1] > 60
        assert red.shape == expected.shape
        assert (red ^ expected).mean() < 0.01, f"{record['key']}: masks lie beside what is red"
    tab.check()


def test_a_photo_that_is_shown_smaller_has_its_masks_sampled_to_the_same_size(
    site: Site, visit: Visit, job: UUID
) -> None:
    record = record_of(site, job, len(ORIENTATIONS))
    assert (record["key"], record["width"], record["height"]) == (LARGE, 2500, 1500)
    tab = visit(f"/jobs/{job}/images/{len(ORIENTATIONS)}")
    expect(tab.page.locator(".instances li")).to_have_count(2)
    tab.page.evaluate("() => new Promise(requestAnimationFrame)")
    masks, photo = pixels(tab.page, "#masks"), pixels(tab.page, ".layers img").astype(int)
    assert masks.shape == photo.shape == (960, 1600, 4)
    expected = np.zeros((960, 1600), bool)
    for instance in record["instances"]:
        x, y, crop = sample(Rle(1500, 2500, instance["segmentation"]["counts"]), 960, 1600)
        expected[y : y + crop.shape[0], x : x + crop.shape[1]] |= crop
    np.testing.assert_array_equal(masks[:, :, 3] > 0, expected)
    assert ((photo[:, :, 0] - photo[:, :, 1] > 60) ^ expected).mean() < 0.005
    boxes = json.loads(
        tab.page.locator(".layers svg").evaluate(
            "(svg) => JSON.stringify([...svg.querySelectorAll('rect')].map((box) => {"
            " const own = box.getBBox(); return [own.x, own.y, own.width, own.height]; }))"
        )
    )
    assert sorted(boxes) == sorted(instance["bbox"] for instance in record["instances"])
    tab.check()
