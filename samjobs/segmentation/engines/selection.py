"""From a network's outputs on the device to `Candidates` in host memory.

Scores are thresholded and ranked where they were computed, so that only what is kept is copied, in one transfer per
chunk, as float16. Masks stay at the network's resolution: making them full-size is `masks.py`'s work.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from samjobs.errors import DeviceFault
from samjobs.segmentation.engines.base import Candidates, Selection

# float16 ends at 65504; a larger logit would become infinite and then not a number when it is interpolated.
_FLOAT16_LIMIT = 6e4


@dataclass(frozen=True)
class Found:
    """What a network answers to n (image, query) pairs, each with k slots."""

    scores: Tensor  # (n, k) 0…1
    logits: Tensor  # (n, k, h, w): the whole photo, probability = sigmoid
    boxes: Tensor | None  # (n, k, 4) x0, y0, x1, y1 as fractions of the photo; None: the extent of the mask


def keep_all_matching(found: Found, selection: Selection) -> list[Candidates]:
    """Of each pair's slots those that score at least `selection.score`, best first.

    A pair whose every slot passes is `truncated`: the network has no more slots to answer with.

    Raises:
        DeviceFault: a score is not a number.
    """
    scores = found.scores.float()
    ranked, slots = scores.sort(dim=1, descending=True, stable=True)
    pair, rank = (ranked >= selection.score).nonzero(as_tuple=True)
    slot = slots[pair, rank]
    return _to_host(found, selection, pair, slot, finite=scores.isfinite().all())


def keep_best(found: Found, selection: Selection) -> list[Candidates]:
    """Of each pair's slots the one with the highest score, whatever it is: the prompt names one object.

    Raises:
        DeviceFault: a score is not a number.
    """
    scores = found.scores.float()
    pair = torch.arange(len(scores), device=scores.device)
    return _to_host(found, selection, pair, scores.argmax(dim=1), finite=scores.isfinite().all(), capped=False)


def _to_host(
    found: Found, selection: Selection, pair: Tensor, slot: Tensor, *, finite: Tensor, capped: bool = True
) -> list[Candidates]:
    """Copy the chosen (pair, slot) entries, ordered by pair, and split them by pair."""
    count, slots = found.scores.shape
    logits = found.logits[pair, slot]
    boxes = mask_extents(logits, selection.mask) if found.boxes is None else found.boxes[pair, slot]
    small = torch.cat([found.scores[pair, slot].float()[:, None], boxes.float()], dim=1).cpu()
    masks = logits.clamp(-_FLOAT16_LIMIT, _FLOAT16_LIMIT).half().cpu()
    if not bool(finite):
        raise DeviceFault(
            "the network's scores are not numbers: broken weights or a broken device. Restart this process"
        )
    sizes = torch.bincount(pair, minlength=count).tolist()
    return [
        Candidates(
            scores=values[:, 0].numpy(),
            boxes=values[:, 1:].numpy(),
            logits=own.numpy(),
            truncated=capped and len(values) == slots,
        )
        for values, own in zip(torch.split_with_sizes(small, sizes), torch.split_with_sizes(masks, sizes), strict=True)
    ]


def mask_extents(logits: Tensor, probability: float) -> Tensor:
    """Boxes (n, 4) x0, y0, x1, y1 as fractions around the pixels of `logits` (n, h, w) above `probability`.

    All zero where there is no such pixel. Uses projections: coordinate grids per mask would take n × h × w numbers.
    """
    height, width = logits.shape[-2:]
    inside = logits > math.log(probability / (1 - probability))
    x0, x1 = _extent(inside.any(dim=-2))
    y0, y1 = _extent(inside.any(dim=-1))
    return torch.stack([x0 / width, y0 / height, x1 / width, y1 / height], dim=-1)


def _extent(line: Tensor) -> tuple[Tensor, Tensor]:
    """First true position and one past the last in each row of `line` (n, length); 0, 0 where none is true."""
    on = line.int()
    length = line.shape[-1]
    some = line.any(dim=-1)
    first = on.argmax(dim=-1)
    last = length - on.flip(-1).argmax(dim=-1)
    return torch.where(some, first, 0), torch.where(some, last, 0)
