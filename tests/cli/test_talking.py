"""What goes to which stream, on a terminal and elsewhere; wrong usage; and what works without a model."""

import os
import pty
import re
import sys
from pathlib import Path

import pytest

from samjobs import __version__
from samjobs.cli.context import settings_for
from samjobs.errors import InvalidInput
from tests.cli.command import RED_DISC, Samjobs, draw_many

WITHOUT_TORCH = """
import sys

class Without:
    def __init__(self, finder):
        self._finder = finder

    def __getattr__(self, name):
        return getattr(self._finder, name)

    def find_spec(self, name, path=None, target=None):
        hidden = name.partition(".")[0] in ("torch", "torchvision", "transformers", "sam3")
        return None if hidden else self._finder.find_spec(name, path, target)

sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
"""


def test_json_is_all_of_standard_output_and_ends_with_the_summary(samjobs: Samjobs) -> None:
    draw_many(samjobs.photos, 3)

    said = samjobs.process()

    assert [line["type"] for line in said.lines] == ["image"] * 3 + ["summary"]
    assert said.summary["images"] == 3
    assert said.summary["jobState"] == "succeeded"
    assert said.summary["output"] == str(samjobs.out)
    assert all(Path(line["record"]).exists() for line in said.lines[:-1])


def test_a_log_gets_plain_lines_and_standard_output_the_ending_alone(samjobs: Samjobs) -> None:
    draw_many(samjobs.photos, 3)

    said = samjobs.run(*[part for part in samjobs.asked() if part != "--json"])

    assert re.fullmatch(r"3 images in \d+ s: 3 processed \(3 new\), 0 unchanged, 0 failed\nresults in .*\n", said.out)
    assert "\x1b" not in said.out + said.err


def test_a_terminal_gets_a_bar_with_rate_and_time_left(samjobs: Samjobs) -> None:
    draw_many(samjobs.photos, 3)
    arguments = [str(part) for part in (*samjobs.asked(), "--db", samjobs.database) if part != "--json"]
    chunks: list[bytes] = []

    def keep(terminal: int) -> bytes:
        chunks.append(os.read(terminal, 65536))
        return chunks[-1]

    before = dict(os.environ)
    os.environ |= {"TERM": "xterm", "COLUMNS": "160"}
    try:
        status = pty.spawn([sys.executable, "-m", "samjobs.cli", *arguments], keep, lambda _: b"")
    finally:
        os.environ.clear()
        os.environ |= before

    seen = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", b"".join(chunks).decode())
    assert os.waitstatus_to_exitcode(status) == 0
    assert "images" in seen
    assert "3/3" in seen
    assert "left" in seen
    assert "/s" in seen
    assert "3 processed (3 new)" in seen


def test_version_help_and_engines_work_where_torch_is_not_installed(samjobs: Samjobs) -> None:
    (samjobs.root / "without").mkdir()
    (samjobs.root / "without" / "sitecustomize.py").write_text(WITHOUT_TORCH)
    samjobs.environment["PYTHONPATH"] = str(samjobs.root / "without")

    assert samjobs.run("--version").out == f"{__version__}\n"
    assert "process" in samjobs.run("--help").out
    listed = {line["name"]: line for line in samjobs.run("engines", "--json").lines}
    assert set(listed) == {"sam3", "sam3-meta", "opencv"}
    assert listed["opencv"]["installed"]
    assert not listed["sam3"]["installed"]
    assert "pip install" in listed["sam3"]["remedy"]


def test_the_opencv_engine_never_imports_torch(samjobs: Samjobs) -> None:
    draw_many(samjobs.photos, 1)
    samjobs.environment["PYTHONPROFILEIMPORTTIME"] = "1"

    said = samjobs.process()

    modules = {line.rpartition("|")[2].strip() for line in said.err.splitlines() if line.startswith("import time:")}
    assert "cv2" in modules
    assert not {"torch", "transformers"} & modules


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (("--engine", "magic"), ("engine", "'sam3', 'sam3-meta' or 'opencv'", "'magic'")),
        (("--format", "gif"), ("--format", "label-png", "'gif'")),
        (("--mode", "guess"), ("--mode", "find_all", "'guess'")),
    ],
)
def test_wrong_usage_names_the_option_the_value_and_the_choices(
    samjobs: Samjobs, wrong: tuple[str, str], told: tuple[str, ...]
) -> None:
    draw_many(samjobs.photos, 1)

    said = samjobs.process(*wrong, code=2)

    assert all(part in said.last for part in told), said.last
    assert said.out == ""


@pytest.mark.parametrize("option", ["--input", "--output", "--manifest", "--boxes", "--points"])
def test_an_empty_place_is_refused_and_not_taken_for_the_working_folder(samjobs: Samjobs, option: str) -> None:
    draw_many(samjobs.root, 1)
    places = {"--input": samjobs.photos, "--output": samjobs.out} | {option: ""}

    said = samjobs.run("process", *[part for pair in places.items() for part in pair], *RED_DISC, code=2)

    assert f"{option} '' is empty" in said.last
    assert samjobs.jobs() == []


def test_an_empty_db_is_refused() -> None:
    with pytest.raises(InvalidInput, match="--db is empty"):
        settings_for("")


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_an_output_on_the_web_is_refused_with_what_can_be_written(samjobs: Samjobs, scheme: str) -> None:
    draw_many(samjobs.photos, 1)

    said = samjobs.process("--output", f"{scheme}://me@host/out?token=abc", code=2)

    assert f"{scheme}://***@host/out?token=***: http and https can only be read" in said.last
    assert all(place in said.last for place in ("a folder", "s3://", "gs://", "az://"))
    assert samjobs.jobs() == []


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_phrase_that_the_engine_cannot_take_queues_and_touches_nothing(samjobs: Samjobs, workers: str) -> None:
    draw_many(samjobs.photos, 2)
    samjobs.process("--format", "label-png")
    before = {path: path.read_bytes() for path in samjobs.out.rglob("*") if path.is_file()}

    said = samjobs.process("--format", "label-png", "--workers", workers, prompt=("--prompt", "car"), code=2)

    assert "'car'" in said.last
    assert len(samjobs.jobs()) == 1
    assert {path: path.read_bytes() for path in samjobs.out.rglob("*") if path.is_file()} == before


def test_no_prompt_at_all_is_refused_with_what_the_mode_needs(samjobs: Samjobs) -> None:
    draw_many(samjobs.photos, 1)

    said = samjobs.process(prompt=(), code=2)

    assert "mode find_all needs text" in said.last


@pytest.mark.parametrize("workers", ["1", "2"])
def test_sam3_without_weights_queues_nothing_and_says_how_to_get_them(samjobs: Samjobs, workers: str) -> None:
    draw_many(samjobs.photos, 1)
    samjobs.environment |= {"HF_HUB_OFFLINE": "1", "HF_HOME": str(samjobs.root / "empty")}

    said = samjobs.process("--engine", "sam3", "--workers", workers, code=3)

    assert "facebook/sam3" in said.last
    assert "Traceback" not in said.err
    assert samjobs.jobs() == []


def test_the_revision_that_is_set_is_not_one_of_another_model(samjobs: Samjobs) -> None:
    draw_many(samjobs.photos, 1)
    samjobs.environment |= {"HF_HUB_OFFLINE": "1", "HF_HOME": str(samjobs.root / "empty")}
    samjobs.environment["SAMJOBS_SAM3_REVISION"] = "c0ffee"

    assert "c0ffee" in samjobs.process("--engine", "sam3", code=3).last
    assert "c0ffee" not in samjobs.process("--engine", "sam3", "--model", "another/model", code=3).last


def test_an_image_that_no_job_knows_is_refused_by_show(samjobs: Samjobs) -> None:
    assert "no job knows 'nix.png'" in samjobs.run("show", "nix.png", code=2).last
