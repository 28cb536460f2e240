"""The sam3 engine: SAM 3 by the transformers library, on a GPU or the CPU.

Loads a checkpoint in the layout of facebook/sam3 from a folder or the hub and refuses one that does not fill every
weight: transformers would fill the gaps with random numbers and only log it. No code from a checkpoint is ever run,
and only safetensors files are read.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

import torch
from transformers import Sam3Model, Sam3Processor, Sam3TrackerModel
from transformers.utils import logging as transformers_logging

from samjobs.errors import ModelUnavailable
from samjobs.segmentation.engines.sam3_network import Sam3Network
from samjobs.segmentation.engines.torch_device import (
    at_least_one,
    choose_device,
    choose_dtype,
    describe,
    device_errors,
)
from samjobs.segmentation.engines.torch_engine import TorchEngine, info_of
from samjobs.segmentation.engines.weights import Weights, sam3_checkpoint

LIBRARIES = ("torch", "torchvision", "transformers")

# Images per encode(), where the caller does not say, and (image, query) pairs per forward pass.
_DEFAULTS = {"cuda": (4, 8), "cpu": (1, 4)}


def load(
    *,
    model: str,
    revision: str | None = None,
    sha256: str | None = None,
    device: str | None = None,
    batch: int | None = None,
) -> TorchEngine:
    """Load SAM 3 onto `device`, in bfloat16 on a GPU and float32 on the CPU.

    model: folder or hub id. The others as in `engines.load`.

    Raises:
        InvalidInput: an unknown device, or a batch below 1.
        ModelUnavailable: the weights or CUDA cannot be had; the message says why and what to do.
        OutOfMemory: the model does not fit the device.
        DeviceFault: the device failed.
    """
    where = choose_device(device)
    dtype = choose_dtype(where)
    default_batch, pairs = _DEFAULTS[where.type]
    batch = at_least_one("batch", batch, default_batch)
    weights = sam3_checkpoint(model, revision)
    weights.check(sha256)
    fingerprint = weights.fingerprint()
    network = load_network(weights, where, dtype)
    info = info_of(
        network,
        name="sam3",
        model=weights.model,
        revision=weights.revision,
        fingerprint=fingerprint,
        device=describe(where),
        dtype=str(dtype).removeprefix("torch."),
        batch=batch,
        versions={name: version(name) for name in LIBRARIES},
    )
    return TorchEngine(network, info, where, pairs)


def load_network(weights: Weights, device: torch.device, dtype: torch.dtype) -> Sam3Network:
    """Both models from `weights`, with one backbone, in `dtype` on `device`.

    Raises:
        ModelUnavailable: the checkpoint does not fit the models.
        OutOfMemory, DeviceFault: the device cannot take them.
    """
    with _quiet_transformers():
        detector = _load_whole(Sam3Model, weights, dtype)
        tracker = _load_whole(Sam3TrackerModel, weights, dtype)
        processor = _load_processor(weights)
    # Before anything moves to the device: the second copy of the backbone never gets there.
    tracker.vision_encoder.backbone = detector.vision_encoder.backbone
    with device_errors(f"moving the model to {device}"):
        for part in (detector, tracker):
            part.requires_grad_(False).eval().to(device)
    return Sam3Network(detector, tracker, processor)


def _load_whole(kind: Any, weights: Weights, dtype: torch.dtype) -> Any:
    """One model of class `kind`, every weight of it from the checkpoint."""
    try:
        model, report = kind.from_pretrained(
            weights.folder, dtype=dtype, output_loading_info=True, local_files_only=True, use_safetensors=True
        )
    except Exception as error:
        # transformers raises half a dozen types here (OSError, RuntimeError, ValueError, KeyError …), all of them
        # about these files.
        raise ModelUnavailable(
            f"{weights.folder}: {kind.__name__} does not load ({type(error).__name__}: {error}). "
            "Are config.json and the weights of the same checkpoint? Copy or download it again"
        ) from error
    missing = sorted(report["missing_keys"]) + sorted(str(key) for key in report["mismatched_keys"])
    if missing:
        raise ModelUnavailable(
            f"{weights.folder}: the checkpoint lacks {len(missing)} weights of {kind.__name__}, or has them in another "
            f"shape: {', '.join(missing[:3])}{' …' if len(missing) > 3 else ''}. Copy or download it again"
        )
    return model


def _load_processor(weights: Weights) -> Any:
    try:
        return Sam3Processor.from_pretrained(weights.folder, local_files_only=True)
    except Exception as error:
        raise ModelUnavailable(
            f"{weights.folder}: tokenizer or image settings do not load ({type(error).__name__}: {error}). "
            "processor_config.json, tokenizer.json and tokenizer_config.json belong beside config.json"
        ) from error


@contextmanager
def _quiet_transformers() -> Iterator[None]:
    """Loading half of a checkpoint is what we mean: no progress bars, no notes about it; settings put back after."""
    level = transformers_logging.get_verbosity()
    bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity(logging.ERROR)
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(level)
        if bars:
            transformers_logging.enable_progress_bar()
