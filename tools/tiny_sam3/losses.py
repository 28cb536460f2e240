"""The losses: a set loss for the detector, as DETR has it, and best-of-three masks for the tracker."""

import random
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from scipy.optimize import linear_sum_assignment
from torch import Tensor
from torchvision.ops import generalized_box_iou
from transformers.models.sam3.modeling_sam3 import box_cxcywh_to_xyxy, inverse_sigmoid

from tools.tiny_sam3.batches import Clicks
from tools.tiny_sam3.model import MASK_SIDE

Targets = list[tuple[Tensor, Tensor]]  # per prompt: boxes (n, 4) and masks (n, MASK_SIDE, MASK_SIDE)


@dataclass(frozen=True)
class Layers:
    """What each layer of the detector's decoder says; L layers, N prompts, Q slots."""

    boxes: Tensor  # (L, N, Q, 4) centre x, centre y, width, height
    logits: Tensor  # (L, N, Q)
    presence: Tensor  # (L, N)


class Recorder:
    """Keeps what the decoder's layers say in a forward pass; the model itself returns the last one only."""

    def __init__(self, detector: Any) -> None:
        self._detector = detector
        self._decoded: Any = None
        self._scored: Tensor | None = None
        detector.detr_decoder.register_forward_hook(self._keep_decoded)
        detector.dot_product_scoring.register_forward_hook(self._keep_scored)

    def _keep_decoded(self, _module: Any, _inputs: Any, output: Any) -> None:
        self._decoded = output

    def _keep_scored(self, _module: Any, _inputs: Any, output: Tensor) -> None:
        self._scored = output

    def layers(self) -> Layers:
        """Of the latest forward pass."""
        if self._decoded is None or self._scored is None:
            raise RuntimeError("the detector has not run yet")
        reference = inverse_sigmoid(self._decoded.reference_boxes)
        offsets = self._detector.detr_decoder.box_head(self._decoded.intermediate_hidden_states)
        presence = self._decoded.presence_logits.squeeze(-1)
        return Layers((reference + offsets).sigmoid(), self._scored.squeeze(-1), presence)


def mask_loss(logits: Tensor, target: Tensor) -> Tensor:
    """5 × cross-entropy + dice loss per mask, (…, h, w) → (…)."""
    entropy = F.binary_cross_entropy_with_logits(logits, target, reduction="none").mean((-2, -1))
    cover = logits.sigmoid()
    dice = (2 * (cover * target).sum((-2, -1)) + 1) / (cover.sum((-2, -1)) + target.sum((-2, -1)) + 1)
    return 5 * entropy + 1 - dice


@dataclass(frozen=True)
class Matched:
    """Which slot of which prompt answers which of all targets."""

    prompts: list[int]
    slots: list[int]
    targets: list[int]


def _match(boxes: Tensor, logits: Tensor, wanted: Tensor, sizes: list[int]) -> Matched:
    """The cheapest one-to-one assignment per prompt: L1 and GIoU of the boxes, and the score."""
    prompts, slots = logits.shape
    with torch.no_grad():
        flat = boxes.reshape(-1, 4)
        overlap = generalized_box_iou(box_cxcywh_to_xyxy(flat), box_cxcywh_to_xyxy(wanted))
        cost = 5 * torch.cdist(flat, wanted, p=1) - 2 * overlap - 2 * logits.sigmoid().reshape(-1, 1)
    table = cost.view(prompts, slots, -1).numpy()
    matched = Matched([], [], [])
    start = 0
    for prompt, size in enumerate(sizes):
        if size:
            chosen, answered = linear_sum_assignment(table[prompt][:, start : start + size])
            matched.prompts.extend([prompt] * size)
            matched.slots.extend(chosen.tolist())
            matched.targets.extend((answered + start).tolist())
        start += size
    return matched


def detector_loss(layers: Layers, output: Any, targets: Targets) -> dict[str, Tensor]:
    """Scores, presence and boxes on every layer of the decoder; masks on the last."""
    sizes = [len(boxes) for boxes, _ in targets]
    wanted = torch.cat([boxes for boxes, _ in targets])
    masks = torch.cat([masks for _, masks in targets])
    total = max(1, len(wanted))
    present = torch.tensor([float(size > 0) for size in sizes])
    losses = {name: torch.zeros(()) for name in ("cls", "presence", "box", "giou")}
    for boxes, logits, presence in zip(layers.boxes, layers.logits, layers.presence, strict=True):
        matched = _match(boxes, logits, wanted, sizes)
        losses["cls"] = losses["cls"] + 2 * _focal(logits, matched) / total
        losses["presence"] = losses["presence"] + F.binary_cross_entropy_with_logits(presence, present)
        ours, theirs = boxes[matched.prompts, matched.slots], wanted[matched.targets]
        losses["box"] = losses["box"] + 5 * F.l1_loss(ours, theirs, reduction="sum") / total
        overlap = torch.diag(generalized_box_iou(box_cxcywh_to_xyxy(ours), box_cxcywh_to_xyxy(theirs)))
        losses["giou"] = losses["giou"] + 2 * (1 - overlap).sum() / total
    drawn = output.pred_masks[matched.prompts, matched.slots]
    losses["mask"] = 2 * mask_loss(drawn, masks[matched.targets]).sum() / total
    empty = torch.zeros(MASK_SIDE, MASK_SIDE)
    union = torch.stack([masks.amax(0) if len(masks) else empty for _, masks in targets])
    losses["sem"] = mask_loss(output.semantic_seg[:, 0], union).mean()
    return losses


def _focal(logits: Tensor, matched: Matched) -> Tensor:
    """Focal cross-entropy (gamma 1) of the slots' scores, summed."""
    hot = torch.zeros_like(logits)
    hot[matched.prompts, matched.slots] = 1
    score = logits.sigmoid()
    weight = torch.where(hot > 0, 1 - score, score).detach()
    return (weight * F.binary_cross_entropy_with_logits(logits, hot, reduction="none")).sum()


def tracker_loss(tracker: Any, maps: list[Tensor], clicks: Clicks, rng: random.Random) -> tuple[Tensor, float]:
    """Loss of one mask per click or box: best of the candidates, the IoU head, objectness. Also the mean IoU."""
    labels = torch.tensor([1, 0]).expand(clicks.points.shape[:3])
    prompt: dict[str, Tensor]
    if clicks.mode == "box":
        prompt = {"input_boxes": clicks.boxes}
    else:
        used = 1 if clicks.mode == "point" else 2
        prompt = {"input_points": clicks.points[:, :, :used], "input_labels": labels[:, :, :used]}
    output = tracker(image_embeddings=maps, multimask_output=rng.random() < 0.6, **prompt)
    target = clicks.masks[:, :, None].expand_as(output.pred_masks)
    each = mask_loss(output.pred_masks, target)
    with torch.no_grad():
        ours, theirs = output.pred_masks > 0, target > 0.5
        iou = (ours & theirs).sum((-2, -1)) / (ours | theirs).sum((-2, -1)).clamp(min=1)
    loss = (
        (each.min(-1).values + each.mean(-1)).mean() * 1.5
        + F.mse_loss(output.iou_scores, iou)
        + 0.1 * F.softplus(-output.object_score_logits).mean()
    )
    return loss, float(iou.mean())
