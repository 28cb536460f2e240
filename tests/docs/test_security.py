"""SECURITY.md names what is there."""

import re
from pathlib import Path

from samjobs.settings import Settings
from samjobs.storage.fence import places_of

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
PATHS = sorted(
    set(re.findall(r"`((?:samjobs|controller|worker|api|tests|tools|charts|docs)/[\w./-]+|requirements\.lock)`", TEXT))
)


def test_every_file_that_it_names_is_there() -> None:
    assert len(PATHS) > 30
    assert [path for path in PATHS if not (ROOT / path).exists()] == []


def test_every_test_of_an_attack_is_named_beside_a_defence() -> None:
    tests = {f"tests/security/{path.name}" for path in (ROOT / "tests/security").glob("test_*.py")}
    assert tests <= set(PATHS)


def test_every_setting_and_make_target_that_it_names_exists() -> None:
    known = {f"SAMJOBS_{name.upper()}" for name in Settings.model_fields}
    assert set(re.findall(r"SAMJOBS_\w+", TEXT)) <= known
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(re.findall(r"`make ([\w-]+)`", TEXT)) <= targets


def test_the_map_of_places_that_it_shows_is_one() -> None:
    (shown,) = re.findall(r"SAMJOBS_TENANT_PLACES: \|\n((?:        .*\n)+)", TEXT)
    assert places_of(Settings(tenant_places=shown.replace("        ", ""))) == {
        "zoo": ("s3://photos/zoo", "s3://results/zoo"),
        "farm": ("s3://photos/farm", "/data/farm"),
        "*": ("https://images.example.com",),
    }
