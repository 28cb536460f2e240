"""Engines by name: `load` one, or ask which are `available`.

An engine's libraries are imported only when it is loaded, so that the opencv engine, the CLI's help and the
controller never import torch.
"""

from importlib import import_module
from typing import cast

from samjobs.errors import InvalidInput, ModelUnavailable
from samjobs.segmentation.engines.base import Engine
from samjobs.segmentation.engines.catalogue import ENGINES
from samjobs.segmentation.engines.status import EngineStatus, available

__all__ = ["EngineStatus", "available", "load"]


def load(
    name: str,
    *,
    model: str | None = None,
    revision: str | None = None,
    sha256: str | None = None,
    device: str | None = None,
    batch: int | None = None,
) -> Engine:
    """Load the engine `name`, as `JobSpec.engine` names it.

    model: path or hub id of the weights, the engine's default when left out. revision: of a hub model. sha256: what the
    weights file must have. The others mean nothing to opencv: device (cpu or cuda, the GPU where there is one when left
    out), batch (images per encode).

    Raises:
        InvalidInput: an unknown engine or device, or a model for an engine that has none.
        ModelUnavailable: a library is not installed, or the weights or the device cannot be had.
        OutOfMemory: the model does not fit the device.
        DeviceFault: the device failed.
    """
    kind = ENGINES.get(name)
    if kind is None:
        raise InvalidInput(f"engine {name!r} is unknown: give one of {', '.join(ENGINES)}")
    for option, value in (("model", model), ("revision", revision), ("sha256", sha256)):
        if value is not None and kind.default_model is None:
            raise InvalidInput(f"{option} {value!r}: engine {name} has no weights. Leave {option} out")
    if missing := kind.missing():
        raise ModelUnavailable(f"engine {name} needs {', '.join(missing)}: {kind.remedy}")
    try:
        module = import_module(kind.module)
    except ImportError as error:
        raise ModelUnavailable(f"engine {name}: its libraries do not import ({error}): {kind.remedy}") from error
    if kind.default_model is None:
        return cast(Engine, module.load())
    model = model or kind.default_model
    loaded = module.load(model=model, revision=revision, sha256=sha256, device=device, batch=batch)
    return cast(Engine, loaded)
