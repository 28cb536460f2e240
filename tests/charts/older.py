"""Charts that were, to upgrade from: the last one of the history, and one that was made older than this one.

The history may be missing, and is short while nothing was released; the made one is always there, and shows what it
shows without fail: it lacks a field of each kind, and a value.
"""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from tools.chart import CHART, ROOT

PLACE = str(CHART.relative_to(ROOT))
# What came later: a field of either kind, below spec, and a value of the controller.
FIELDS = {"samjobs": "ttlSecondsAfterFinished", "samworkerpools": "terminationGracePeriodSeconds"}
VALUE = "startupProbe"
VERSION = "0000000000000000"


def before() -> str | None:
    """The last commit whose chart is another one than that of the checkout; None where there is none."""
    for commit in _git("log", "--format=%H", "--", PLACE).split():
        if _git("ls-tree", "--name-only", commit, f"{PLACE}/Chart.yaml") and _differs(commit):
            return commit
    return None


def _differs(commit: str) -> bool:
    done = subprocess.run(["git", "diff", "--quiet", commit, "--", PLACE], cwd=ROOT, check=False)
    return done.returncode == 1


def _git(*arguments: str) -> str:
    """What git says; nothing where this is no checkout."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else ""


def of_the_history(commit: str, folder: Path) -> Path:
    """The chart of a commit."""
    files = subprocess.run(["git", "archive", commit, PLACE], cwd=ROOT, capture_output=True, check=True)
    subprocess.run(["tar", "--extract", f"--directory={folder}"], input=files.stdout, check=True)
    return folder / PLACE


def made_older(folder: Path) -> Path:
    """This chart, less what came later."""
    chart = folder / CHART.name
    shutil.copytree(CHART, chart)
    for plural, field in FIELDS.items():
        template = chart / "templates" / "crds" / f"{plural}.yaml"
        template.write_text(_without(template.read_text(), field))
    _rewrite(chart / "values.yaml", yaml.safe_load, lambda values: values["controller"].pop(VALUE))
    _rewrite(
        chart / "values.schema.json",
        json.loads,
        lambda schema: schema["properties"]["controller"]["properties"].pop(VALUE),
    )
    return chart


def _without(template: str, field: str) -> str:
    """A CRD's template without a field of the spec: its line, and the deeper ones below it."""
    lines, kept, skipped = template.splitlines(), [], None
    for line in lines:
        depth = len(line) - len(line.lstrip())
        if skipped is not None and depth > skipped:
            continue
        skipped = depth if line.strip() == f"{field}:" else None
        if skipped is None:
            kept.append(f"    samjobs.dev/schema-version: '{VERSION}'" if "schema-version:" in line else line)
    assert len(kept) < len(lines), f"there is no {field}"
    return "\n".join(kept)


def _rewrite(path: Path, parse: Callable[[str], Any], change: Callable[[Any], object]) -> None:
    data = parse(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
