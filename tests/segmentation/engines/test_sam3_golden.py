"""The real weights, where SAMJOBS_SAM3_PATH names them (folder of facebook/sam3): samjobs against transformers.

Defined only then: a test that is always skipped tells nobody anything.
"""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

PATH = os.environ.get("SAMJOBS_SAM3_PATH")

if PATH:
    from samjobs.segmentation.engines import sam3
    from samjobs.segmentation.engines.base import Query, Selection
    from samjobs.spec import Mode
    from tests.segmentation.engines.tiny import box_fractions, full_masks, overlap
    from tools.tiny_sam3.evaluate import Detector, pair_iou
    from tools.tiny_sam3.prompts import Prompt
    from tools.tiny_sam3.scenes import make_scene

    @pytest.mark.golden
    def test_the_real_weights_find_what_transformers_finds_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sam3, "choose_dtype", lambda device: torch.float32)  # what transformers is asked for below
        engine = sam3.load(model=PATH, device="cuda" if torch.cuda.is_available() else "cpu", batch=1)
        engine.warm_up()
        side = engine.network.side
        scene = make_scene(20_000_001, side, side, count=4)
        encoded = engine.encode([scene.image])
        half = Selection(score=0.5, mask=0.5)
        shape, _ = scene.kinds[0]
        truth = scene.masks()[[i for i, kind in enumerate(scene.kinds) if kind[0] == shape]]
        (found,) = engine.segment(encoded, Mode.FIND_ALL, [[Query(text=shape)]], half)[0]
        ours, theirs = full_masks(found, side, side), Detector(Path(str(PATH))).find(scene, Prompt(shape, ()), 0.5)
        assert len(ours) == len(theirs) > 0
        # transformers interpolates probabilities, samjobs logits: edges may differ by a fraction of a pixel.
        assert pair_iou(ours, theirs).max(axis=1).min() > 0.95
        assert (pair_iou(truth, ours).max(axis=1) > 0.85).mean() >= 0.75
        box = Query(boxes=(box_fractions(scene, 0),), positives=(True,))
        (boxed,) = engine.segment(encoded, Mode.INSIDE_BOX, [[box]], half)[0]
        assert overlap(full_masks(boxed, side, side)[0], scene.masks()[0]) > 0.85
        assert np.isfinite(boxed.scores).all()
        engine.close()
