"""`samjobs engines`: what could segment here, with which weights, on which device."""

import dataclasses
import json

from samjobs.cli.context import AsJson
from samjobs.cli.streams import print_out
from samjobs.segmentation.engines import EngineStatus, available
from samjobs.segmentation.engines.catalogue import ENGINES
from samjobs.settings import load


def engines(as_json: AsJson = False) -> None:
    """List the engines. Loads no weights and asks no network."""
    settings = load()
    models = {name: settings.model_for(name) for name in ENGINES}
    for status in available(models, settings.device):
        print_out(json.dumps(dataclasses.asdict(status)) if as_json else _as_text(status))


def _as_text(status: EngineStatus) -> str:
    ready = "installed" if status.installed else "not installed"
    lines = [f"{status.name}  ({ready})", f"  what     {status.about}"]
    if status.device:
        lines.append(f"  device   {status.device}")
    if status.model:
        lines.append(f"  model    {status.model}")
    lines.append(f"  weights  {status.weights}")
    lines.append(f"  licence  {status.licence}")
    if status.versions:
        lines.append("  with     " + ", ".join(f"{name} {version}" for name, version in status.versions.items()))
    if status.remedy:
        lines.append(f"  to use   {status.remedy}")
    return "\n".join(lines)
