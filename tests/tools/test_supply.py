"""`make audit` and `make sbom`: what they say of the packages, and when they fail."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from tools import audit, sbom

SOUND = {"name": "pillow", "version": "12.3.0", "vulns": []}
UNKNOWN = {"name": "samjobs", "skip_reason": "not found"}
FAULTY = {"name": "yarl", "version": "1.0", "vulns": [{"id": "PYSEC-1", "fix_versions": ["1.1", "2.0"]}]}


def auditor(folder: Path, said: str, complaint: str = "") -> str:
    """A program that answers as pip-audit does."""
    (folder / "said").write_text(said)
    program = folder / "pip-audit"
    program.write_text(f"#!/bin/sh\ncat {folder}/said\necho '{complaint}' >&2\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return str(program)


@pytest.mark.parametrize(
    ("dependencies", "code", "told"),
    [
        ([SOUND, UNKNOWN], 0, "osv knows 1 packages, and 0 advisories against them\naudit: it does not know samjobs"),
        ([SOUND, FAULTY], 1, "audit: yarl 1.0: PYSEC-1, fixed in 1.1 or 2.0"),
        ([UNKNOWN], 0, "audit: NOT DONE: no service of advisories could be asked"),
    ],
)
def test_only_an_advisory_fails_and_what_nobody_knows_is_not_called_sound(
    dependencies: list[Any], code: int, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert audit.main(auditor(tmp_path, json.dumps({"dependencies": dependencies}))) == code
    assert told in capsys.readouterr().out


def test_a_service_that_cannot_be_reached_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit.main(auditor(tmp_path, "", "ConnectionError: no route")) == 0
    said = capsys.readouterr().out
    assert "audit: osv could not be asked: ConnectionError: no route" in said
    assert "NOT DONE" in said


def test_the_extras_of_an_image_are_those_of_its_dockerfile() -> None:
    assert "controller" in sbom.extras("controller")
    assert {"worker", "sam3"} <= set(sbom.extras("worker"))


def test_a_bill_names_the_image_and_every_package_with_its_hashes(tmp_path: Path) -> None:
    packed = {"components": [{"name": "yarl", "description": "line 1"}], "metadata": {"component": {"name": "samjobs"}}}
    made = sbom.bill("worker", "yarl==1.25.1", Path(auditor(tmp_path, json.dumps(packed))))
    assert made["metadata"]["component"]["name"] == "samjobs-worker"
    assert made["metadata"]["component"]["version"]
    assert made["components"] == [{"name": "yarl"}]


def test_the_tools_themselves_are_installed_by_hashes() -> None:
    lock = (sbom.ROOT / "tools" / "supply.lock").read_text().replace("\\\n", " ")
    lines = [line for line in lock.splitlines() if line.strip()]
    assert {"cyclonedx-bom", "pip-audit"} <= {line.partition("==")[0] for line in lines}
    assert not [line[:60] for line in lines if "--hash=sha256:" not in line]
