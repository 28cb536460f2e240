"""The sam3-meta engine: SAM 3 by Meta's package `sam3` and its checkpoint `sam3.pt`, on an NVIDIA GPU.

For those who need Meta's own implementation; the results have the same form as the sam3 engine's. The package names
"cuda" in its code, so there is no CPU to fall back to. What it does to the whole process is undone: it sets TF32 when
it is imported, and its tracker enters an autocast that it never leaves.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from samjobs.errors import ModelUnavailable
from samjobs.segmentation.engines.torch_device import at_least_one, choose_device, describe, device_errors
from samjobs.segmentation.engines.torch_engine import TorchEngine, info_of
from samjobs.segmentation.engines.weights import Weights, meta_checkpoint

LIBRARIES = ("sam3", "torch", "torchvision")

_BATCH, _PAIRS = 4, 8  # images per encode() and (image, query) pairs per forward pass
_VOCABULARY = "bpe_simple_vocab_16e6.txt.gz"


def load(
    *,
    model: str,
    revision: str | None = None,
    sha256: str | None = None,
    device: str | None = None,
    batch: int | None = None,
) -> TorchEngine:
    """Load Meta's SAM 3 onto the GPU.

    model: path of sam3.pt, its folder, or hub id. The others as in `engines.load`.

    Raises:
        InvalidInput: an unknown device, or a batch below 1.
        ModelUnavailable: no CUDA, or the weights or the package's parts cannot be had.
        OutOfMemory: the model does not fit the device.
        DeviceFault: the device failed.
    """
    where = cuda_device(device)
    batch = at_least_one("batch", batch, _BATCH)
    weights = meta_checkpoint(model, revision)
    weights.check(sha256)
    fingerprint = weights.fingerprint()
    with _contained():
        # Importing it imports the package, whose import has side effects.
        from samjobs.segmentation.engines.sam3_meta_network import Sam3MetaNetwork

        network = Sam3MetaNetwork(_build(weights, where), where)
    info = info_of(
        network,
        name="sam3-meta",
        model=weights.model,
        revision=weights.revision,
        fingerprint=fingerprint,
        device=describe(where),
        dtype="bfloat16 autocast",
        batch=batch,
        versions={name: version(name) for name in LIBRARIES},
    )
    return TorchEngine(network, info, where, _PAIRS)


def cuda_device(name: str | None) -> torch.device:
    """The GPU.

    Raises:
        ModelUnavailable: there is none, or the CPU was asked for.
    """
    if name == "cpu":
        raise ModelUnavailable("engine sam3-meta runs on CUDA only: use engine sam3 on a CPU")
    return choose_device(name or "cuda")


def _build(weights: Weights, device: torch.device) -> Any:
    """The image model with its tracker, every weight from the checkpoint, on `device`.

    Raises:
        ModelUnavailable: the checkpoint does not fit the package's model.
    """
    from sam3.model_builder import build_sam3_image_model

    with device_errors("building Meta's model"):
        model = build_sam3_image_model(
            bpe_path=str(_vocabulary()), device="cpu", load_from_HF=False, enable_inst_interactivity=True
        )
    # Sam3TrackerPredictor.__init__ entered it for the life of the process.
    model.inst_interactive_predictor.model.bf16_context.__exit__(None, None, None)
    _fill(model, weights)
    with device_errors(f"moving the model to {device}"):
        model.requires_grad_(False).eval().to(device)
    return model


def _fill(model: Any, weights: Weights) -> None:
    """Load `sam3.pt` into the model: its detector and, as the interactive predictor, its tracker."""
    (path,) = weights.files
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
        state = content["model"] if isinstance(content.get("model"), dict) else content
        report = model.load_state_dict(dict(_renamed(state)), strict=False)
    except Exception as error:
        # torch.load raises whatever pickle, zipfile and its own reader raise; all of it is about this file.
        raise ModelUnavailable(
            f"{path} does not load ({type(error).__name__}: {_first_line(error)}): is it Meta's sam3.pt, whole? "
            "Copy or download it again"
        ) from error
    if report.missing_keys:
        raise ModelUnavailable(
            f"{path} lacks {len(report.missing_keys)} weights of Meta's SAM 3, first {report.missing_keys[0]}: "
            "is it sam3.pt (not sam3.1)? Copy or download it again"
        )


def _renamed(state: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The checkpoint is of the video model; the image model has the same parts under these names."""
    for key, value in state.items():
        if key.startswith("detector."):
            yield key.removeprefix("detector."), value
        elif key.startswith("tracker."):
            yield "inst_interactive_predictor.model." + key.removeprefix("tracker."), value


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), "no details")


def _vocabulary() -> Path:
    """The BPE vocabulary of CLIP, which Meta's wheel lacks and the open-clip-torch wheel has.

    Raises:
        ModelUnavailable: neither has it.
    """
    spec = find_spec("open_clip")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder) / _VOCABULARY
        if path.is_file():
            return path
    raise ModelUnavailable(f'{_VOCABULARY} is not installed: pip install "samjobs[meta]" (it is in open-clip-torch)')


@contextmanager
def _contained() -> Iterator[None]:
    """Put back what importing and building the package changes for the whole process."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32, torch.is_autocast_enabled("cuda")
    try:
        with warnings.catch_warnings():
            # pkg_resources and timm tell the package, not its users, that they will change.
            warnings.simplefilter("ignore")
            yield
    finally:
        matmul.allow_tf32, cudnn.allow_tf32 = before[:2]
        torch.set_autocast_enabled("cuda", before[2])
