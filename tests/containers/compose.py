"""compose.yaml as a value, with the passwords of the trial filled in."""

import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "compose.yaml"
TRIAL = ROOT / "examples" / "compose" / "trial.env"
_VARIABLE = re.compile(r"(?<!\$)\$\{(?P<name>\w+)(?::(?P<kind>[?-])(?P<text>[^}]*))?\}")


def trial() -> dict[str, str]:
    """The variables of the trial."""
    lines = (line.strip() for line in TRIAL.read_text().splitlines())
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def load() -> dict[str, Any]:
    """The file as it stands."""
    found: dict[str, Any] = yaml.safe_load(FILE.read_text())
    return found


def filled(value: Any) -> Any:
    """`value` with its variables replaced.

    Raises:
        KeyError: a required one is not in the trial's file.
    """
    if isinstance(value, dict):
        return {name: filled(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [filled(entry) for entry in value]
    return _VARIABLE.sub(_replacement, value).replace("$$", "$") if isinstance(value, str) else value


def _replacement(found: "re.Match[str]") -> str:
    default = found["text"] if found["kind"] == "-" else None
    return trial().get(found["name"], default) if default is not None else trial()[found["name"]]
