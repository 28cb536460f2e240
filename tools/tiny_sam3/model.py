"""The tiny model: its vocabulary, its configuration, its start values and its folder.

The classes are transformers' own `Sam3Model` and `Sam3TrackerModel`, only small; the folder has the layout of
facebook/sam3, so that whatever loads that loads this. None of Meta's weights are in it.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from torch import nn
from transformers import (
    PreTrainedTokenizerFast,
    Sam3Config,
    Sam3ImageProcessor,
    Sam3Model,
    Sam3Processor,
    Sam3TrackerConfig,
    Sam3TrackerModel,
    Sam3VideoConfig,
)

from tools.tiny_sam3.prompts import ONLY_BOXES
from tools.tiny_sam3.scenes import COLOURS, SHAPES, SIDE

PATCH = 14
GRID = SIDE // PATCH  # patches per side
MASK_SIDE = 4 * GRID  # pixels per side of the mask logits
SLOTS = 24  # instances per prompt at most
WIDTH = 64  # of detector and tracker
VIT_WIDTH = 96

_SPECIAL = ("[PAD]", "[UNK]", "<|startoftext|>", "<|endoftext|>")


def make_tokenizer() -> Any:
    """Whole words, lower case; every other word becomes [UNK]."""
    nouns = [*SHAPES, *(shape + "s" for shape in SHAPES), "shape", "shapes", "object", "objects"]
    words = [*_SPECIAL, ONLY_BOXES, "a", "the", "all", *COLOURS, *nouns]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<|startoftext|> $A <|endoftext|>", special_tokens=[("<|startoftext|>", 2), ("<|endoftext|>", 3)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        bos_token="<|startoftext|>",
        eos_token="<|endoftext|>",
        model_max_length=32,
    )


def _vision_config() -> dict[str, Any]:
    return {
        "model_type": "sam3_vision_model",
        "fpn_hidden_size": WIDTH,
        "scale_factors": [4.0, 2.0, 1.0, 0.5],
        "backbone_feature_sizes": [[MASK_SIDE, MASK_SIDE], [MASK_SIDE // 2, MASK_SIDE // 2], [GRID, GRID]],
        "backbone_config": {
            "model_type": "sam3_vit_model",
            "hidden_size": VIT_WIDTH,
            "intermediate_size": 2 * VIT_WIDTH,
            "num_hidden_layers": 4,
            "num_attention_heads": 4,
            "image_size": SIDE,
            "patch_size": PATCH,
            "pretrain_image_size": SIDE,
            "window_size": GRID,
            "global_attn_indexes": [1, 3],
        },
    }


def make_configs(vocabulary: int) -> tuple[Any, dict[str, Any]]:
    """The detector's configuration and the tracker's."""
    text = {
        "model_type": "clip_text_model",
        "vocab_size": vocabulary,
        "hidden_size": WIDTH,
        "intermediate_size": 2 * WIDTH,
        "projection_dim": WIDTH,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "max_position_embeddings": 32,
        "hidden_act": "gelu",
        "pad_token_id": 0,
        "bos_token_id": 2,
        "eos_token_id": 3,
    }
    block = {"hidden_size": WIDTH, "num_attention_heads": 4, "intermediate_size": 4 * WIDTH, "dropout": 0.0}
    detector = Sam3Config(
        vision_config=_vision_config(),
        text_config=text,
        geometry_encoder_config={**block, "num_layers": 1, "roi_size": 4, "intermediate_size": 2 * WIDTH},
        detr_encoder_config={**block, "num_layers": 2},
        detr_decoder_config={**block, "num_layers": 3, "num_queries": SLOTS},
        mask_decoder_config={"hidden_size": WIDTH, "num_upsampling_stages": 2, "num_attention_heads": 4},
    )
    tracker = {
        "vision_config": _vision_config(),
        "prompt_encoder_config": {
            "hidden_size": WIDTH,
            "image_size": SIDE,
            "patch_size": PATCH,
            "mask_input_channels": 8,
        },
        "mask_decoder_config": {
            "hidden_size": WIDTH,
            "mlp_dim": 2 * WIDTH,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "iou_head_hidden_dim": WIDTH,
            "attention_downsample_rate": 1,
        },
    }
    return detector, tracker


def build(vocabulary: int) -> tuple[Any, Any]:
    """Detector and tracker with one shared ViT and start values that learn quickly.

    The library's own (normal, std 0.02) are meant for a width of 256 and more. What helped most against the slow start
    of DETR models: Xavier, reference boxes on a grid, a box bias that says "look inside your box", and equal query and
    key maps in the tracker, so that a click attends to where it is.
    """
    detector_config, tracker_config = make_configs(vocabulary)
    detector, tracker = Sam3Model(detector_config), Sam3TrackerModel(Sam3TrackerConfig(**tracker_config))
    for root in (detector, tracker):
        for module in root.modules():
            _start_wide(module)
    with torch.no_grad():
        _start_detector(detector)
        _start_tracker(tracker)
    tracker.vision_encoder.backbone = detector.vision_encoder.backbone
    return detector, tracker


def _start_wide(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Conv2d | nn.ConvTranspose2d):
        nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    elif isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, std=0.5)


def _start_detector(detector: Any) -> None:
    decoder = detector.detr_decoder
    nn.init.zeros_(decoder.box_head.layer3.weight)
    x, y = np.meshgrid((np.arange(6) + 0.5) / 6, (np.arange(4) + 0.5) / 4)
    size = np.full(SLOTS, 0.27)
    grid = torch.tensor(np.stack([x.ravel(), y.ravel(), size, size], 1)).float()
    decoder.reference_points.weight.copy_(torch.logit(grid))
    nn.init.normal_(decoder.query_embed.weight, std=0.02)
    detector.dot_product_scoring.query_proj.weight.mul_(0.1)
    for bias in (decoder.box_rpb_embed_x, decoder.box_rpb_embed_y):
        bias.layer1.weight[:2] = torch.tensor([[-1.0, 0.0], [0.0, 1.0]])
        bias.layer2.weight.mul_(0.1)[:, :2] = -torch.tensor([8.0, 4.0, 2.0, 0.0])[:, None]
    nn.init.normal_(detector.vision_encoder.backbone.embeddings.position_embeddings, std=0.3)


def _start_tracker(tracker: Any) -> None:
    shared = tracker.prompt_encoder.shared_embedding.positional_embedding
    tracker.shared_image_embedding.positional_embedding.copy_(shared)
    for name, module in tracker.mask_decoder.named_modules():
        if name.endswith(("token_to_image", "image_to_token")):
            module.q_proj.weight.mul_(1.5)
            module.k_proj.weight.copy_(module.q_proj.weight)


def save(detector: Any, tracker: Any, tokenizer: Any, folder: Path, facts: dict[str, Any]) -> None:
    """Write the checkpoint: weights, configuration, tokenizer, image settings and `facts` about the training."""
    folder.mkdir(parents=True, exist_ok=True)
    state = {"detector_model." + key: value for key, value in detector.state_dict().items()}
    for key, value in tracker.state_dict().items():
        if key.startswith("vision_encoder.neck."):
            state["tracker_neck." + key.removeprefix("vision_encoder.neck.")] = value
        elif not key.startswith("vision_encoder."):  # the shared backbone is in the detector's part already
            state["tracker_model." + key] = value
    whole = {key: value.detach().clone().contiguous() for key, value in state.items()}
    save_file(whole, folder / "model.safetensors", {"format": "pt"})
    _video_config(len(tokenizer)).save_pretrained(folder)
    image_processor = Sam3ImageProcessor(
        size={"height": SIDE, "width": SIDE}, mask_size={"height": MASK_SIDE, "width": MASK_SIDE}
    )
    Sam3Processor(image_processor, tokenizer).save_pretrained(folder)
    (folder / "training_info.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def _video_config(vocabulary: int) -> Any:
    """The configuration that facebook/sam3 has: detector and tracker in one."""
    detector, tracker = make_configs(vocabulary)
    # image_size at the tracker's top level too: Sam3TrackerVideoConfig takes 1008 where it is not said there.
    whole = {**tracker, "model_type": "sam3_tracker_video", "image_size": SIDE}
    config = Sam3VideoConfig(detector_config=detector.to_dict(), tracker_config=whole, low_res_mask_size=MASK_SIDE)
    config.architectures, config.dtype = ["Sam3VideoModel"], "float32"
    return config
