"""Training batches: scenes turned and mirrored, with prompts, clicks, boxes and their targets as tensors."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from tools.tiny_sam3.model import MASK_SIDE
from tools.tiny_sam3.prompts import sample
from tools.tiny_sam3.scenes import SIDE, Kind, Scene

FILLER = -10  # what transformers' processors fill boxes and labels up with

ClickMode = Literal["point", "points", "box"]


@dataclass(frozen=True)
class Example:
    """A scene of SIDE × SIDE pixels with its targets."""

    image: npt.NDArray[np.uint8]
    ids: npt.NDArray[np.uint8]
    kinds: tuple[Kind, ...]
    masks: Tensor  # (objects, MASK_SIDE, MASK_SIDE) cover 0…1
    boxes: Tensor  # (objects, 4) centre x, centre y, width, height, 0…1

    @classmethod
    def of(cls, scene: Scene) -> "Example":
        """The targets of a drawn scene."""
        cover = torch.from_numpy(scene.masks())[None].float()
        corners = torch.tensor(scene.boxes(), dtype=torch.float32) / SIDE
        return cls(
            scene.image,
            scene.ids,
            scene.kinds,
            F.interpolate(cover, size=(MASK_SIDE, MASK_SIDE), mode="area")[0],
            torch.cat([(corners[:, :2] + corners[:, 2:]) / 2, corners[:, 2:] - corners[:, :2]], 1),
        )

    def turned(self, quarters: int, *, mirror: bool) -> "Example":
        """By quarter turns, then mirrored."""
        image, ids = np.rot90(self.image, quarters), np.rot90(self.ids, quarters)
        masks, boxes = torch.rot90(self.masks, quarters, (1, 2)), self.boxes
        for _ in range(quarters):
            boxes = torch.stack([boxes[:, 1], 1 - boxes[:, 0], boxes[:, 3], boxes[:, 2]], 1)
        if mirror:
            image, ids, masks = image[:, ::-1], ids[:, ::-1], masks.flip(2)
            boxes = torch.cat([1 - boxes[:, :1], boxes[:, 1:]], 1)
        return Example(np.ascontiguousarray(image), np.ascontiguousarray(ids), self.kinds, masks, boxes)


@dataclass(frozen=True)
class Clicks:
    """Prompts and targets of the tracker, k objects per image. Coordinates in pixels of the SIDE × SIDE square."""

    mode: ClickMode
    points: Tensor  # (images, k, 2, 2): a point on the object, a point beside it
    boxes: Tensor  # (images, k, 4) x0, y0, x1, y1
    masks: Tensor  # (images, k, MASK_SIDE, MASK_SIDE)


@dataclass(frozen=True)
class Batch:
    """What one training step sees: several prompts per image, in the order of the images."""

    pixels: Tensor  # (images, 3, SIDE, SIDE), -1…1
    ids: Tensor  # (prompts, tokens)
    attention: Tensor
    boxes: Tensor | None  # (prompts, m, 4) exemplars, filled up with FILLER
    labels: Tensor | None  # (prompts, m)
    targets: list[tuple[Tensor, Tensor]]  # per prompt: boxes (n, 4) and masks (n, MASK_SIDE, MASK_SIDE)
    clicks: Clicks


def make_batch(
    pool: Sequence[Example], tokenizer: Any, rng: random.Random, *, images: int, prompts: int, clicks: int, boxes: bool
) -> Batch:
    """Draw `images` scenes with `prompts` prompts and `clicks` clicks or boxes each; `boxes`: with exemplars."""
    seen = [pool[rng.randrange(len(pool))].turned(rng.randrange(4), mirror=rng.random() < 0.5) for _ in range(images)]
    texts: list[str] = []
    targets: list[tuple[Tensor, Tensor]] = []
    exemplars: list[list[tuple[list[float], int]]] = []
    for example in seen:
        for _ in range(prompts):
            prompt = sample(example.kinds, rng, boxes=boxes)
            chosen = list(prompt.targets)
            texts.append(prompt.text or "")
            targets.append((example.boxes[chosen], example.masks[chosen]))
            exemplars.append([(_jittered(example.boxes[i], rng), int(positive)) for i, positive in prompt.exemplars])
    tokens = tokenizer(texts, padding=True, return_tensors="pt")
    shown, labels = _filled(exemplars) if boxes else (None, None)
    pixels = torch.stack([torch.from_numpy(example.image) for example in seen])
    return Batch(
        pixels=pixels.permute(0, 3, 1, 2).float() / 127.5 - 1,
        ids=tokens.input_ids,
        attention=tokens.attention_mask,
        boxes=shown,
        labels=labels,
        targets=targets,
        clicks=_clicks(seen, rng, clicks),
    )


def _filled(exemplars: list[list[tuple[list[float], int]]]) -> tuple[Tensor, Tensor]:
    """Exemplars and labels as tensors, filled up as Sam3Processor does."""
    most = max(1, max(len(own) for own in exemplars))
    filler = [float(FILLER), float(FILLER), 0.0, 0.0]
    boxes = [[box for box, _ in own] + [filler] * (most - len(own)) for own in exemplars]
    labels = [[label for _, label in own] + [FILLER] * (most - len(own)) for own in exemplars]
    return torch.tensor(boxes), torch.tensor(labels)


def _clicks(seen: Sequence[Example], rng: random.Random, count: int) -> Clicks:
    modes: tuple[ClickMode, ...] = ("point", "point", "points", "box")
    mode = rng.choice(modes)
    points, boxes, masks = [], [], []
    for example in seen:
        for _ in range(count):
            number = rng.randrange(len(example.kinds))
            box = example.boxes[number] * SIDE
            x, y, width, height = box.tolist()
            near = (x, y, 0.25 * min(width, height)) if rng.random() < 0.6 else None
            inside = example.ids == number + 1
            others = (example.ids > 0) & ~inside
            beside = others if others.any() else example.ids == 0
            points.append([_pixel(inside, rng, near), _pixel(beside, rng)])
            centre_x, centre_y, w, h = _jittered(box, rng)
            boxes.append([centre_x - w / 2, centre_y - h / 2, centre_x + w / 2, centre_y + h / 2])
            masks.append(example.masks[number])
    shape = (len(seen), count)
    return Clicks(
        mode=mode,
        points=torch.tensor(points).view(*shape, 2, 2),
        boxes=torch.tensor(boxes).view(*shape, 4),
        masks=torch.stack(masks).view(*shape, MASK_SIDE, MASK_SIDE),
    )


def _pixel(
    where: npt.NDArray[np.bool_], rng: random.Random, near: tuple[float, float, float] | None = None
) -> list[float]:
    """A random true pixel as [x, y]; with `near` (x, y, radius) one at most so far from there, if there is one."""
    flat = np.flatnonzero(where)
    if near is not None:
        distance = np.hypot(flat % SIDE - near[0], flat // SIDE - near[1])
        flat = flat[distance <= max(near[2], distance.min())]
    chosen = int(flat[rng.randrange(len(flat))])
    return [float(chosen % SIDE), float(chosen // SIDE)]


def _jittered(box: Tensor, rng: random.Random, share: float = 0.06) -> list[float]:
    """A box (centre x, centre y, width, height) moved and resized by a share of its size, as people draw them."""
    x, y, width, height = box.tolist()
    return [
        x + rng.uniform(-share, share) * width,
        y + rng.uniform(-share, share) * height,
        width * (1 + rng.uniform(-share, share) * 1.5),
        height * (1 + rng.uniform(-share, share) * 1.5),
    ]
