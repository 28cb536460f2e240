"""From the file to the mask: whatever the photo's orientation, the mask lies on the object in the upright photo."""

import numpy as np
import pytest

from samjobs.segmentation.engines.base import Candidates, Crop, LongSide, Square
from samjobs.segmentation.images import Limits, decode
from samjobs.segmentation.masks import select
from samjobs.segmentation.rle import decode as decode_rle
from samjobs.spec import Thresholds
from tests.segmentation.pictures import turned_file

SIZE = (960, 640)
OBJECT = (8, 4, 40, 20)  # the red box of the scene, in pixels of the upright photo


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize(
    "target", [Square(288), LongSide(480), LongSide(5000)], ids=["squashed", "reduced", "full size"]
)
@pytest.mark.parametrize("kind", ["JPEG", "TIFF"])
def test_the_mask_of_a_known_object_lines_up_with_the_upright_photo(
    kind: str, target: Square | LongSide, orientation: int
):
    options = {"quality": 95, "subsampling": 0} if kind == "JPEG" else {}
    photo = decode(turned_file(kind, orientation, SIZE, **options), target, Limits())
    red = photo.pixels[..., 0].astype(np.float32) - photo.pixels[..., 2]
    scores, boxes = np.ones(1, np.float32), np.zeros((1, 4), np.float32)
    if isinstance(target, Square):
        found = Candidates(scores, boxes, logits=(red[None] - 105) / 20)
    else:
        found = Candidates(scores, boxes, crops=[Crop(0, 0, red > 105)], crop_size=red.shape)
    (instance,) = select([found], [0.5], Thresholds(), photo.width, photo.height).instances
    x0, y0, x1, y1 = OBJECT
    expected = np.zeros((SIZE[1], SIZE[0]), bool)
    expected[y0:y1, x0:x1] = True
    mask = decode_rle(instance.rle)
    assert mask.shape == expected.shape
    assert (mask & expected).sum() / (mask | expected).sum() > (0.97 if target == LongSide(5000) else 0.85)
