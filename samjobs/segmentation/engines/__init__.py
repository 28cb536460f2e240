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
    device: str | None = None,
    dtype: str | None = None,
    batch: int | None = None,
    pairs: int | None = None,
) -> Engine:
    """Load the engine `name`, as `JobSpec.engine` names it.

    model: path or hub id of the weights, the engine's default when left out. revision: of a hub model. The others
    tune engines that run on torch and mean nothing to opencv: device (cpu or cuda, the GPU where there is one when
    left out), dtype (float32 or bfloat16), batch (images per encode), pairs (image and query pairs answered at once).

    Raises:
        InvalidInput: an unknown engine, device or dtype, or a model for an engine that has none.
        ModelUnavailable: a library is not installed, or the weights or the device cannot be had.
        OutOfMemory: the model does not fit the device.
        DeviceFault: the device failed.
    """
    kind = ENGINES.get(name)
    if kind is None:
        raise InvalidInput(f"engine {name!r} is unknown: give one of {', '.join(ENGINES)}")
    given = {"model": model, "revision": revision, "device": device, "dtype": dtype, "batch": batch, "pairs": pairs}
    options = {option: value for option, value in given.items() if value is not None}
    for option in ("model", "revision"):
        if option in options and option not in kind.options:
            raise InvalidInput(f"{option} {options[option]!r}: engine {name} has no weights. Leave {option} out")
    if missing := kind.missing():
        raise ModelUnavailable(f"engine {name} needs {', '.join(missing)}: {kind.remedy}")
    try:
        module = import_module(kind.module)
    except ImportError as error:
        raise ModelUnavailable(f"engine {name}: its libraries do not import ({error}): {kind.remedy}") from error
    return cast(Engine, module.load(**{key: value for key, value in options.items() if key in kind.options}))
