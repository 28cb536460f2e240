"""What `samjobs engines` shows: which engines could run here, with which weights, on which device.

Looks, but loads no weights and asks no network: whether a hub model may be downloaded is known only when it is.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from samjobs.errors import ModelUnavailable, SamjobsError
from samjobs.segmentation.engines.catalogue import ENGINES, EngineKind
from samjobs.segmentation.engines.weights import is_hub_id, weight_files


@dataclass(frozen=True)
class EngineStatus:
    """One row of `samjobs engines`."""

    name: str
    about: str
    licence: str
    installed: bool
    remedy: str  # what to do where something is missing, "" where nothing is
    versions: dict[str, str]  # of the distributions that it needs and that are installed
    model: str  # path or hub id, "" for an engine without weights
    weights: str  # where they are, or why they are not
    device: str  # where it would run, "" where it cannot


def available(models: Mapping[str, str | None] | None = None, device: str | None = None) -> list[EngineStatus]:
    """Every engine's status. `models`: engine → path or hub id that is set; `device` as for `load`."""
    return [_status(kind, (models or {}).get(kind.name), device) for kind in ENGINES.values()]


def _status(kind: EngineKind, model: str | None, device: str | None) -> EngineStatus:
    missing = kind.missing()
    model = model or kind.default_model or ""
    where, trouble = ("", "") if missing else _device(kind, device)
    return EngineStatus(
        name=kind.name,
        about=kind.about,
        licence=kind.licence,
        installed=not missing,
        remedy=f"{', '.join(missing)} not installed: {kind.remedy}" if missing else trouble,
        versions=_versions(kind),
        model=model,
        weights=_weights(kind, model) if model else "none needed",
        device=where,
    )


def _versions(kind: EngineKind) -> dict[str, str]:
    found = {}
    for package in dict.fromkeys(kind.needs.values()):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _device(kind: EngineKind, name: str | None) -> tuple[str, str]:
    """Where the engine would run, and what is in the way."""
    if "torch" not in kind.needs:
        return "cpu", ""
    # Imported here: the other engines must be listed without torch.
    from samjobs.segmentation.engines.torch_device import choose_device, describe

    try:
        device = choose_device("cuda" if kind.name == "sam3-meta" else name)
        return describe(device), ""
    except SamjobsError as error:
        return "", str(error)


def _weights(kind: EngineKind, model: str) -> str:
    if is_hub_id(model):
        return _in_cache(model, kind.weight_file)
    return _on_disk(Path(model).expanduser(), kind.weight_file)


def _on_disk(path: Path, name: str) -> str:
    try:
        files = weight_files(path, name)
    except ModelUnavailable as error:
        return str(error)
    size = f"{sum(file.stat().st_size for file in files):,} bytes"
    return f"{files[0]} ({size})" if len(files) == 1 else f"{files[0].parent} ({len(files)} files, {size})"


def _in_cache(model: str, name: str) -> str:
    """Whether the hub's local cache has the weights of `model`."""
    try:
        from huggingface_hub import try_to_load_from_cache
    except ImportError:
        return "not downloaded: huggingface_hub is not installed"
    for file in (name, f"{name}.index.json"):
        found = try_to_load_from_cache(model, file)
        if isinstance(found, str):
            return f"{_on_disk(Path(found).parent, name)}, from the hub"
    return "not downloaded: fetched from the hub at the first use, with the token in HF_TOKEN"
