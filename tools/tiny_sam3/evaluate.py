"""Held-out figures of a tiny checkpoint: `python -m tools.tiny_sam3.evaluate DIR [--scenes 300 --seed 20000000]`.

Everything goes through transformers' own `from_pretrained`, processors and post-processing, one image and one prompt
at a time, on scenes whose seeds training never used and on other canvas sizes: the yardstick for samjobs' own engine,
which batches and caches. An instance counts as found at a mask IoU above 0.5, one to one.
"""

import argparse
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from scipy.optimize import linear_sum_assignment
from transformers import Sam3Model, Sam3Processor, Sam3TrackerModel, Sam3TrackerProcessor

from tools.tiny_sam3.prompts import Prompt, families
from tools.tiny_sam3.scenes import SIDE, Scene, make_scene

Masks = npt.NDArray[np.bool_]  # (n, height, width)

CANVASES = ((320, 240), (256, 256), (240, 320), (640, 480), (SIDE, SIDE))  # width, height


def held_out(number: int, first_seed: int) -> Scene:
    """The `number`th held-out scene; canvases take turns."""
    width, height = CANVASES[number % len(CANVASES)]
    return make_scene(first_seed + number, width, height)


def pair_iou(ours: Masks, theirs: Masks) -> npt.NDArray[np.float32]:
    """IoU of every mask with every other, (n, m)."""
    a = ours.reshape(len(ours), -1).astype(np.float32)
    b = theirs.reshape(len(theirs), -1).astype(np.float32)
    shared = a @ b.T
    iou: npt.NDArray[np.float32] = shared / np.maximum(a.sum(1)[:, None] + b.sum(1)[None] - shared, 1)
    return iou


@dataclass
class Tally:
    """Instances of one prompt family over many scenes."""

    prompts: int = 0
    exact: int = 0  # prompts with every object found and nothing else
    found: list[float] = field(default_factory=list)  # IoU of each found object
    false: int = 0  # instances that are no object asked for
    missed: int = 0

    def add(self, ours: Masks, theirs: Masks) -> None:
        """Count the instances `ours` against the objects `theirs` of one prompt."""
        iou = pair_iou(ours, theirs) if len(ours) and len(theirs) else np.zeros((len(ours), len(theirs)), np.float32)
        rows, columns = linear_sum_assignment(-iou)
        good = [float(value) for value in iou[rows, columns] if value > 0.5]
        self.prompts += 1
        self.exact += len(good) == len(ours) == len(theirs)
        self.found += good
        self.false += len(ours) - len(good)
        self.missed += len(theirs) - len(good)

    @property
    def recall(self) -> float | None:
        """Share of the objects that were found, None where there were none."""
        return _share(len(self.found), len(self.found) + self.missed)

    @property
    def precision(self) -> float | None:
        """Share of the instances that are objects, None where there were none."""
        return _share(len(self.found), len(self.found) + self.false)

    @property
    def mask_iou(self) -> float | None:
        """Mean IoU of the found."""
        return _share(sum(self.found), len(self.found))

    def figures(self) -> dict[str, float | int | None]:
        """For the report."""
        return {
            "prompts": self.prompts,
            "recall": _rounded(self.recall),
            "precision": _rounded(self.precision),
            "mask_iou": _rounded(self.mask_iou),
            "false_instances": self.false,
            "exact_count": _rounded(_share(self.exact, self.prompts)),
        }


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


class Detector:
    """`Sam3Model` as transformers' documentation uses it."""

    def __init__(self, folder: Path) -> None:
        self.model = Sam3Model.from_pretrained(folder, dtype=torch.float32).eval()
        self.processor = Sam3Processor.from_pretrained(folder)

    def find(self, scene: Scene, prompt: Prompt, threshold: float) -> Masks:
        """The instances of one prompt at the scene's size."""
        boxes = scene.boxes()
        geometry: dict[str, Any] = {}
        if prompt.exemplars:
            geometry["input_boxes"] = [[list(boxes[i]) for i, _ in prompt.exemplars]]
            geometry["input_boxes_labels"] = [[int(positive) for _, positive in prompt.exemplars]]
        inputs = self.processor(images=Image.fromarray(scene.image), text=prompt.text, return_tensors="pt", **geometry)
        sizes = inputs.pop("original_sizes").tolist()
        with torch.inference_mode():
            output = self.model(**inputs)
        answer = self.processor.post_process_instance_segmentation(output, threshold=threshold, target_sizes=sizes)[0]
        masks: Masks = answer["masks"].numpy().astype(bool)
        return masks


class Tracker:
    """`Sam3TrackerModel` as transformers' documentation uses it."""

    def __init__(self, folder: Path) -> None:
        self.model = Sam3TrackerModel.from_pretrained(folder, dtype=torch.float32).eval()
        self.processor = Sam3TrackerProcessor.from_pretrained(folder)

    def trace(self, scene: Scene, *, multimask: bool, **prompt: Any) -> Masks:
        """One mask per prompt at the scene's size: the candidate that the model thinks best."""
        inputs = self.processor(images=Image.fromarray(scene.image), return_tensors="pt", **prompt)
        sizes = inputs.pop("original_sizes")
        with torch.inference_mode():
            output = self.model(**inputs, multimask_output=multimask)
        candidates = self.processor.post_process_masks([output.pred_masks[0]], sizes)[0].numpy()
        masks: Masks = candidates[np.arange(len(candidates)), output.iou_scores[0].argmax(-1).numpy()]
        return masks


def click_prompts(scene: Scene, rng: random.Random) -> dict[str, dict[str, Any]]:
    """Clicks and boxes for every object of a scene, in the tracker processor's words."""
    centres, anywhere = [], []
    for mask in scene.masks():
        ys, xs = np.nonzero(mask)
        centres.append([[float(xs.mean()), float(ys.mean())]])
        chosen = rng.randrange(len(xs))
        anywhere.append([[float(xs[chosen]), float(ys[chosen])]])
    labels = [[[1]] * len(centres)]
    return {
        "click at centre": {"input_points": [centres], "input_labels": labels},
        "click anywhere inside": {"input_points": [anywhere], "input_labels": labels},
        "box": {"input_boxes": [[list(box) for box in scene.boxes()]]},
    }


def evaluate(folder: Path, *, scenes: int, first_seed: int, threshold: float) -> dict[str, dict[str, Any]]:
    """The figures by prompt family."""
    detector, tracker, rng = Detector(folder), Tracker(folder), random.Random(7)
    tallies: dict[str, Tally] = {}
    overlaps: dict[str, list[float]] = {}
    for number in range(scenes):
        scene = held_out(number, first_seed)
        truth = scene.masks()
        for family, prompt in families(scene.kinds, rng).items():
            tally = tallies.setdefault(family, Tally())
            tally.add(detector.find(scene, prompt, threshold), truth[list(prompt.targets)])
        for family, click in click_prompts(scene, rng).items():
            for multimask, suffix in ((True, "best of 3"), (False, "single")):
                masks = tracker.trace(scene, multimask=multimask, **click)
                overlaps.setdefault(f"{family} ({suffix})", []).extend(
                    float((ours & theirs).sum() / max(1, (ours | theirs).sum()))
                    for ours, theirs in zip(masks, truth, strict=True)
                )
    report: dict[str, dict[str, Any]] = {family: tally.figures() for family, tally in tallies.items()}
    for family, values in overlaps.items():
        iou = np.array(values)
        report[family] = {
            "objects": len(iou),
            "mean_iou": round(float(iou.mean()), 3),
            "over_half": round(float((iou > 0.5).mean()), 3),
        }
    return report


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the figures; with --save also write them beside the weights."""
    parser = argparse.ArgumentParser(prog="python -m tools.tiny_sam3.evaluate", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scenes", type=int, default=200)
    parser.add_argument("--seed", type=int, default=10_000_000, help="of the first scene")
    parser.add_argument("--threshold", type=float, default=0.5)
    parser.add_argument("--save", action="store_true", help="write heldout.json into the folder")
    options = parser.parse_args(arguments)
    report = evaluate(options.folder, scenes=options.scenes, first_seed=options.seed, threshold=options.threshold)
    for family, figures in report.items():
        print(f"{family:34s}", figures)
    if options.save:
        (options.folder / "heldout.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
