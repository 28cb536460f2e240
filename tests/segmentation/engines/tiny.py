"""The tiny checkpoint through samjobs' own engine: scenes as queries, candidates as masks."""

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from PIL import Image

from samjobs.segmentation.engines.base import Candidates, Query, Selection, UInt8Image
from samjobs.segmentation.engines.torch_engine import TorchEngine
from samjobs.spec import Mode
from tools.tiny_sam3.evaluate import Tally, held_out
from tools.tiny_sam3.prompts import Prompt, families
from tools.tiny_sam3.scenes import SIDE, Scene

TINY = Path(__file__).parents[2] / "data" / "sam3-tiny"
FIRST_SEED = 20_000_000  # held out: training used seeds below 300,000
SELECTION = Selection(score=0.5, mask=0.5)

Masks = npt.NDArray[np.bool_]


def squashed(image: UInt8Image) -> UInt8Image:
    """A photo of any size as the model's square."""
    return np.asarray(Image.fromarray(image).resize((SIDE, SIDE), Image.Resampling.BILINEAR))


def box_fractions(scene: Scene, number: int) -> tuple[float, float, float, float]:
    """The box around an object as fractions of the scene."""
    height, width = scene.ids.shape
    x0, y0, x1, y1 = scene.boxes()[number]
    return x0 / width, y0 / height, x1 / width, y1 / height


def centre_fractions(scene: Scene, number: int) -> tuple[float, float]:
    """The middle of an object as fractions of the scene."""
    height, width = scene.ids.shape
    ys, xs = np.nonzero(scene.masks()[number])
    return float(xs.mean()) / width, float(ys.mean()) / height


def as_query(scene: Scene, prompt: Prompt) -> Query:
    """A find_all prompt of the tools as a query of the engine."""
    return Query(
        text=prompt.text,
        boxes=tuple(box_fractions(scene, number) for number, _ in prompt.exemplars),
        positives=tuple(positive for _, positive in prompt.exemplars),
    )


def full_masks(candidates: Candidates, height: int, width: int) -> Masks:
    """The candidates' masks (n, height, width) at the photo's size: probability above one half."""
    if len(candidates) == 0:
        return np.zeros((0, height, width), bool)
    logits = torch.from_numpy(np.asarray(candidates.logits)).float()[None]
    probability = F.interpolate(logits, size=(height, width), mode="bilinear", align_corners=False).sigmoid()
    masks: Masks = (probability[0] > 0.5).numpy()
    return masks


def ask(
    engine: TorchEngine, scenes: Sequence[Scene], mode: Mode, queries: Sequence[Sequence[Query]]
) -> list[list[Candidates]]:
    """Encode and segment a batch of scenes."""
    encoded = engine.encode([squashed(scene.image) for scene in scenes])
    return engine.segment(encoded, mode, queries, SELECTION)


def tallies(engine: TorchEngine, scenes: int) -> dict[str, Tally]:
    """Every find_all family over held-out scenes, all prompts of a scene in one call."""
    found: dict[str, Tally] = {}
    rng = random.Random(7)
    for number in range(scenes):
        scene = held_out(number, FIRST_SEED)
        prompts = families(scene.kinds, rng)
        (answers,) = ask(engine, [scene], Mode.FIND_ALL, [[as_query(scene, prompt) for prompt in prompts.values()]])
        truth = scene.masks()
        for (family, prompt), candidates in zip(prompts.items(), answers, strict=True):
            masks = full_masks(candidates, *scene.ids.shape)
            found.setdefault(family, Tally()).add(masks, truth[list(prompt.targets)])
    return found


def overlap(ours: Masks, theirs: Masks) -> float:
    """IoU of two masks."""
    return float((ours & theirs).sum() / max(1, (ours | theirs).sum()))
