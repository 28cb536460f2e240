"""SAM 3 by Meta's own package: the parts of its image model, called with several images and prompts at once.

The package's processor takes one image and one phrase and makes every mask full-size; here its model's parts are
called as that processor calls them, but batched, with phrases encoded once, and masks left at low resolution. Every
call runs under bfloat16 autocast, without which the package mixes types and fails, and leaves it again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from sam3.model.data_misc import FindStage
from sam3.model.geometry_encoders import Prompt
from torch import Tensor

from samjobs.segmentation.engines.base import Query
from samjobs.segmentation.engines.sam3_prompts import ONLY_BOXES, box_tensor, click_tensors, exemplar_tensors
from samjobs.segmentation.engines.selection import Found
from samjobs.spec import Mode

_PHRASES = 1024  # whose features are kept; one takes 16 kB
_SIDE = 1008  # position tables inside the model are made for this size
_TOP_LEFT, _BOTTOM_RIGHT = 2, 3  # labels of a box's corners among the tracker's points


@dataclass
class Features:
    """A batch of encoded images."""

    detector: dict[str, Any]  # feature maps and position encodings
    tracker: list[Tensor]  # its feature maps (batch, c, h, w), from fine to coarse


class Sam3MetaNetwork:
    """`torch_engine.Network` on `sam3.build_sam3_image_model(enable_inst_interactivity=True)`."""

    side = _SIDE
    mean = (0.5, 0.5, 0.5)
    std = (0.5, 0.5, 0.5)

    def __init__(self, model: Any, device: torch.device) -> None:
        self.slots: int = model.transformer.decoder.num_queries
        self.token_limit: int = model.backbone.language_backbone.context_length
        self.model = model
        self._tracker = model.inst_interactive_predictor.model
        self._device = device
        self._phrase = lru_cache(_PHRASES)(self._encode)

    def _autocast(self) -> torch.autocast:
        return torch.autocast(self._device.type, dtype=torch.bfloat16)

    def count_tokens(self, phrase: str) -> int:
        """Length of `phrase` in tokens, its start and end mark counted."""
        return len(self.model.backbone.language_backbone.tokenizer.encode(phrase)) + 2

    def vision(self, pixels: Tensor) -> Features:
        """See `Network`."""
        with self._autocast():
            output = self.model.backbone.forward_image(pixels)
            fine, middle, coarse = output["sam2_backbone_out"]["backbone_fpn"]
            decoder = self._tracker.sam_mask_decoder
            no_memory = self._tracker.no_mem_embed.view(1, -1, 1, 1)
            tracker = [decoder.conv_s0(fine), decoder.conv_s1(middle), coarse + no_memory]
        return Features({key: output[key] for key in ("backbone_fpn", "vision_pos_enc")}, tracker)

    def find(self, features: Features, images: Tensor, queries: Sequence[Query]) -> Found:
        """See `Network`. Score = sigmoid(query) × sigmoid(presence), as Meta's processor has it."""
        numbers = torch.arange(len(queries), device=self._device)
        with self._autocast():
            phrases = [self._phrase(query.text if query.text is not None else ONLY_BOXES) for query in queries]
            output = self.model.forward_grounding(
                backbone_out={
                    **features.detector,
                    "language_features": torch.cat([embedding for embedding, _ in phrases], dim=1),
                    "language_mask": torch.cat([mask for _, mask in phrases], dim=0),
                },
                find_input=FindStage(
                    img_ids=images,
                    text_ids=numbers,
                    input_boxes=None,
                    input_boxes_mask=None,
                    input_boxes_label=None,
                    input_points=None,
                    input_points_mask=None,
                ),
                find_target=None,
                geometric_prompt=self._exemplars(queries),
            )
        presence = output["presence_logit_dec"].float().sigmoid()
        return Found(
            scores=output["pred_logits"].squeeze(-1).float().sigmoid() * presence,
            logits=output["pred_masks"],
            boxes=output["pred_boxes_xyxy"],
        )

    def _exemplars(self, queries: Sequence[Query]) -> Any:
        """The package's prompt object: sequence first, and True in its mask means a filler."""
        boxes, positives, valid = exemplar_tensors(queries, torch.float32)
        return Prompt(
            box_embeddings=boxes.transpose(0, 1).to(self._device),
            box_mask=(~valid).to(self._device),
            box_labels=positives.long().transpose(0, 1).to(self._device),
        )

    def _encode(self, text: str) -> tuple[Tensor, Tensor]:
        """Features (tokens, 1, width) of `text` and its padding mask (1, tokens)."""
        output = self.model.backbone.forward_text([text], device=self._device)
        return output["language_features"], output["language_mask"]

    def trace(self, features: Features, images: Tensor, mode: Mode, queries: Sequence[Query]) -> Found:
        """See `Network`. A box is given as two points, its corners, as Meta's predictor does.

        The score is the model's own estimate of the mask's IoU.
        """
        if mode is Mode.INSIDE_BOX:
            points = box_tensor(queries, self.side).view(-1, 2, 2)
            labels = torch.tensor([[_TOP_LEFT, _BOTTOM_RIGHT]]).expand(len(queries), 2)
        else:
            points, labels = click_tensors(queries, self.side)
        prompt, decoder = self._tracker.sam_prompt_encoder, self._tracker.sam_mask_decoder
        with self._autocast():
            clicks = (points.to(self._device), labels.int().to(self._device))
            sparse, dense = prompt(points=clicks, boxes=None, masks=None)
            fine, middle, coarse = (level[images] for level in features.tracker)
            masks, iou, _, _ = decoder(
                image_embeddings=coarse,
                image_pe=prompt.get_dense_pe(),
                sparse_prompt_embeddings=sparse,
                dense_prompt_embeddings=dense,
                multimask_output=True,
                repeat_image=False,
                high_res_features=[fine, middle],
            )
        return Found(scores=iou, logits=masks, boxes=None)
