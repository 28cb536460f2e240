"""SAM 3 by transformers: detector and tracker on one vision backbone.

`Sam3Model` answers find_all and `Sam3TrackerModel` inside_box and point. Both load from one folder; the tracker takes
the detector's backbone over, so that half of its weights exist once and each image is encoded once. The features of a
phrase are computed once and kept together with their attention mask: without it the model would attend to the
padding behind the phrase.

What is computed is what transformers' processors and models compute, but that masks stay small.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from transformers.modeling_outputs import BaseModelOutputWithPooling
from transformers.models.sam3.modeling_sam3 import Sam3VisionEncoderOutput

from samjobs.segmentation.engines.base import Query
from samjobs.segmentation.engines.sam3_prompts import ONLY_BOXES, box_tensor, click_tensors, exemplar_tensors
from samjobs.segmentation.engines.selection import Found
from samjobs.spec import Mode

# Phrases whose features are kept; one takes 16 kB in bfloat16. A job has at most 64, a manifest may bring more.
_PHRASES = 1024

# Sam3Model's own label of a box that only fills a row up.
_FILLER = -10


@dataclass
class Features:
    """A batch of encoded images."""

    hidden: Tensor  # (batch, tokens, width) of the backbone
    maps: tuple[Tensor, ...]  # the detector's pyramid, (batch, c, h, w) each, from fine to coarse
    positions: tuple[Tensor, ...]  # their position encodings, (1, c, h, w): alike for every image
    tracker: list[Tensor] | None = None  # the tracker's pyramid, once a box or click asks for it


class Sam3Network:
    """`torch_engine.Network` on transformers' two models, which share `vision_encoder.backbone`."""

    def __init__(self, detector: Any, tracker: Any, processor: Any) -> None:
        images, config = processor.image_processor, detector.config
        self.side: int = images.size["height"]
        self.mean = tuple(images.image_mean)
        self.std = tuple(images.image_std)
        self.slots: int = config.detr_decoder_config.num_queries
        self.token_limit: int = config.text_config.max_position_embeddings
        self.detector = detector
        self.tracker = tracker
        self._tokenizer = processor.tokenizer
        self._phrase = lru_cache(_PHRASES)(self._encode)

    def count_tokens(self, phrase: str) -> int:
        """Length of `phrase` in tokens, its start and end mark counted."""
        return len(self._tokenizer(phrase, verbose=False)["input_ids"])

    def vision(self, pixels: Tensor) -> Features:
        """See `Network`."""
        output = self.detector.get_vision_features(pixel_values=pixels.to(self.detector.dtype))
        return Features(
            hidden=output.last_hidden_state,
            maps=tuple(output.fpn_hidden_states),
            positions=tuple(position[:1] for position in output.fpn_position_encoding),
        )

    def find(self, features: Features, images: Tensor, queries: Sequence[Query]) -> Found:
        """See `Network`. Score = sigmoid(query) × sigmoid(presence), as transformers' post-processing has it."""
        count = len(queries)
        # The model wants one set of feature maps per phrase.
        vision = Sam3VisionEncoderOutput(
            fpn_hidden_states=tuple(level[images] for level in features.maps),
            fpn_position_encoding=tuple(level.expand(count, -1, -1, -1) for level in features.positions),
        )
        phrases = [self._phrase(query.text if query.text is not None else ONLY_BOXES) for query in queries]
        output = self.detector(
            vision_embeds=vision,
            # The whole output object since transformers 5.9; earlier versions took the bare tensor.
            text_embeds=BaseModelOutputWithPooling(pooler_output=torch.cat([embedding for embedding, _ in phrases])),
            attention_mask=torch.cat([mask for _, mask in phrases]),
            **self._exemplars(queries),
        )
        return Found(
            scores=output.pred_logits.float().sigmoid() * output.presence_logits.float().sigmoid(),
            logits=output.pred_masks,
            boxes=output.pred_boxes,
        )

    def _exemplars(self, queries: Sequence[Query]) -> dict[str, Tensor]:
        if not queries[0].boxes:
            return {}
        boxes, positives, valid = exemplar_tensors(queries, self.detector.dtype)
        labels = torch.where(valid, positives.long(), _FILLER)
        device = self.detector.device
        return {"input_boxes": boxes.to(device), "input_boxes_labels": labels.to(device)}

    def _encode(self, text: str) -> tuple[Tensor, Tensor]:
        """Features (1, tokens, width) of `text` and their attention mask (1, tokens)."""
        tokens = self._tokenizer(text, padding="max_length", max_length=self.token_limit, return_tensors="pt")
        mask = tokens["attention_mask"].to(self.detector.device)
        ids = tokens["input_ids"].to(self.detector.device)
        return self.detector.get_text_features(ids, attention_mask=mask).pooler_output, mask

    def trace(self, features: Features, images: Tensor, mode: Mode, queries: Sequence[Query]) -> Found:
        """See `Network`. Each pair is an image of its own with one object, so ragged counts need no fillers.

        The score is the model's own estimate of the mask's IoU.
        """
        if features.tracker is None:
            features.tracker = self._tracker_maps(features.hidden)
        device = self.tracker.device
        if mode is Mode.INSIDE_BOX:
            prompt = {"input_boxes": box_tensor(queries, self.side)[:, None].to(device)}
        else:
            points, labels = click_tensors(queries, self.side)
            prompt = {"input_points": points[:, None].to(device), "input_labels": labels[:, None].to(device)}
        maps = [level[images] for level in features.tracker]
        output = self.tracker(image_embeddings=maps, multimask_output=True, **prompt)
        return Found(scores=output.iou_scores[:, 0], logits=output.pred_masks[:, 0], boxes=None)

    def _tracker_maps(self, hidden: Tensor) -> list[Tensor]:
        """The tracker's three feature maps from the shared backbone's tokens (batch, tokens, width).

        The same as `Sam3VideoModel.get_vision_features_for_tracker` and the no-memory embedding that its first frame
        gets. `Sam3TrackerModel.get_image_embeddings` adds that embedding to the level below, which it then drops.
        """
        height, width = self.tracker.prompt_encoder.image_embedding_size
        grid = hidden.transpose(1, 2).reshape(len(hidden), -1, height, width)
        fine, middle, coarse = self.tracker.vision_encoder.neck(grid)[0][:3]
        decoder = self.tracker.mask_decoder
        no_memory = self.tracker.no_memory_embedding.view(1, -1, 1, 1)
        return [decoder.conv_s0(fine), decoder.conv_s1(middle), coarse + no_memory]
