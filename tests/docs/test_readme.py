"""What the documents say is there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from samjobs.spec import Format, Mode

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
DOCUMENTS = ["README.md", "CHANGELOG.md", "docs/decisions.md", "docs/limits.md", "docs/queue.md", "docs/containers.md"]
DOCUMENTS += ["docs/kubernetes.md", "docs/test-cluster.md", "docs/api.md", "SECURITY.md"]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_file_that_is_named_exists(document: str) -> None:
    text = (ROOT / document).read_text()
    named = set(re.findall(r"`((?:samjobs|benchmarks|tools|tests|docs|examples)/[\w./-]+)`", text))
    named |= {link for link in re.findall(r"\]\(([\w./-]+)\)", text) if not link.startswith("http")}
    missing = sorted(
        name for name in named if not (ROOT / name).exists() and not (ROOT / document).parent.joinpath(name).exists()
    )
    assert not missing, f"{document} names files that are not there"


def test_every_option_of_the_readme_exists() -> None:
    helps = "".join(
        subprocess.run(
            [sys.executable, "-m", "samjobs.cli", *command, "--help"],
            capture_output=True,
            text=True,
            check=True,
            env={"COLUMNS": "300", "PATH": "", "HOME": "/tmp", "TERM": "dumb"},
        ).stdout
        for command in (["process"], ["submit"], ["queue", "retry"], ["queue", "status"], ["show"])
    )
    ours = re.sub(r"^    (?:helm|kubectl) .*$", "", README, flags=re.MULTILINE)
    unknown = sorted(set(re.findall(r"(?<![\w-])(--[a-z][a-z-]+)", ours)) - set(re.findall(r"--[a-z][a-z-]+", helps)))
    assert not unknown, "README.md names options that the command does not have"


def test_every_mode_and_format_is_explained() -> None:
    for word in [*Mode, *Format]:
        assert f"`{word.value}`" in README, f"explain {word.value} in README.md"


def test_every_setting_of_the_readme_exists() -> None:
    settings = (ROOT / "docs/reference/settings.md").read_text()
    named = set(re.findall(r"SAMJOBS_[A-Z0-9_]+", README)) - {"SAMJOBS_"}
    assert named <= set(re.findall(r"SAMJOBS_[A-Z0-9_]+", settings))
