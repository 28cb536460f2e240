"""The alerts as they ship, and promtool."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.conftest import missing
from tools.chart import CHART, ROOT

RULES = sorted((CHART / "files/rules").glob("*.yaml"))
RUNBOOKS = ROOT / "docs/runbooks"
INSTALL = "apt-get install prometheus"


def alert_of(path: Path) -> dict[str, Any]:
    """The one alert of a file."""
    ((rule,),) = [group["rules"] for group in yaml.safe_load(path.read_text())["groups"]]
    found: dict[str, Any] = rule
    return found


ALERTS = {path.stem: alert_of(path) for path in RULES}


def minutes(duration: str) -> int:
    """A rule's `for`, which is in whole minutes."""
    assert duration.endswith("m"), duration
    return int(duration.removesuffix("m"))


def promtool(*arguments: str) -> str:
    """What promtool said, which found nothing wrong."""
    program = shutil.which("promtool")
    if program is None:
        missing(f"promtool is missing: {INSTALL}")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
