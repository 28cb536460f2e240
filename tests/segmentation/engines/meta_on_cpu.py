"""Meta's package on a CPU, small: what a machine without a GPU needs to run samjobs' engine on it.

The package names "cuda" in its constructors and pins memory; those calls are led to the CPU here. Its ViT and its text
encoder are built with few narrow layers by the package's own classes, so that the checkpoint takes 200 MB and not
3.4 GB; everything behind them (neck, DETR, mask head, tracker) has its real size and code. The weights are random.
"""

from pathlib import Path
from typing import Any

import pytest
import torch

from samjobs.segmentation.engines import sam3_meta


def lead_cuda_to_cpu(patch: pytest.MonkeyPatch) -> None:
    """The engine's device becomes the CPU; so does "cuda" in the package's own calls."""
    patch.setattr(sam3_meta, "cuda_device", lambda _name: torch.device("cpu"))
    for name in ("zeros", "arange"):
        patch.setattr(torch, name, _on_cpu(getattr(torch, name)))
    patch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor)
    # With this torch believes in CUDA's autocast, so that leaking it can be seen on a CPU.
    patch.setattr(torch.cuda.amp.common, "amp_definitely_not_available", lambda: False)
    patch.setattr(torch.cuda, "is_bf16_supported", lambda: True)


def _on_cpu(make: Any) -> Any:
    def made(*args: Any, **named: Any) -> Any:
        if str(named.get("device")).startswith("cuda"):
            named["device"] = "cpu"
        return make(*args, **named)

    return made


def make_small(patch: pytest.MonkeyPatch) -> None:
    """Narrow encoders in place of the package's two large ones."""
    from sam3 import model_builder
    from sam3.model.text_encoder_ve import VETextEncoder
    from sam3.model.tokenizer_ve import SimpleTokenizer
    from sam3.model.vitdet import ViT

    def vit(compile_mode: str | None = None) -> Any:
        return ViT(
            img_size=1008,
            pretrain_img_size=336,
            patch_size=14,
            embed_dim=64,
            depth=2,
            num_heads=2,
            mlp_ratio=2,
            norm_layer="LayerNorm",
            tile_abs_pos=True,
            global_att_blocks=(1,),
            rel_pos_blocks=(),
            use_rope=True,
            use_interp_rope=True,
            window_size=24,
            retain_cls_token=False,
            ln_pre=True,
            bias_patch_embed=False,
            compile_mode=compile_mode,
        )

    def text_encoder(vocabulary: str) -> Any:
        return VETextEncoder(tokenizer=SimpleTokenizer(bpe_path=vocabulary), d_model=256, width=64, heads=2, layers=2)

    def one_layer(create: Any) -> Any:
        def created() -> Any:
            transformer = create()
            transformer.layers, transformer.num_layers = transformer.layers[:1], 1
            return transformer

        return created

    for name in ("_create_transformer_encoder", "_create_transformer_decoder"):
        patch.setattr(model_builder, name, one_layer(getattr(model_builder, name)))
    patch.setattr(model_builder, "_create_vit_backbone", vit)
    patch.setattr(model_builder, "_create_text_encoder", text_encoder)


def write_checkpoint(path: Path) -> dict[str, torch.Tensor]:
    """A random `sam3.pt` in the layout of Meta's: the video model's names."""
    from sam3.model_builder import build_sam3_image_model

    torch.manual_seed(0)
    model = build_sam3_image_model(
        bpe_path=str(sam3_meta._vocabulary()), device="cpu", load_from_HF=False, enable_inst_interactivity=True
    )
    model.inst_interactive_predictor.model.bf16_context.__exit__(None, None, None)
    # The text encoder leaves these as they come from the allocator.
    text = model.backbone.language_backbone.encoder
    for parameter in (text.positional_embedding, text.text_projection):
        torch.nn.init.normal_(parameter, std=0.02)
    own = "inst_interactive_predictor.model."
    state = {
        "tracker." + key.removeprefix(own) if key.startswith(own) else "detector." + key: value
        for key, value in model.state_dict().items()
    }
    torch.save(state, path)
    return state
