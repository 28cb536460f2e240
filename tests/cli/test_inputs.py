"""Manifests, boxes, clicks; names of every kind; folders, links and what is not an image."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import Samjobs, draw, draw_many


def test_a_manifest_gives_each_image_prompts_of_its_own(samjobs: Samjobs) -> None:
    draw(samjobs.photos / "a.png", 0)
    draw(samjobs.photos / "b.png", 0, "blue")
    lines: list[dict[str, Any]] = [
        {"image": "a.png"},
        {"image": "b.png", "prompts": {"text": [{"text": "blue disc", "label": "ball"}]}},
    ]
    manifest = _write_lines(samjobs.photos / "list.jsonl", lines)

    said = _run(samjobs, "--manifest", manifest, "--prompt", "red disc")

    assert said == (2, 0, 0, 0)
    assert _labels(samjobs) == {"a.png": ["red disc"], "b.png": ["ball"]}


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_boxes_come_from_a_file(samjobs: Samjobs, kind: str) -> None:
    draw_many(samjobs.photos, 2)
    path = samjobs.root / f"boxes.{kind}"
    if kind == "csv":
        path.write_text("image,x0,y0,x1,y1,label\n000.png,2,6,34,38,ball\n")
    else:
        path.write_text(json.dumps({"000.png": [{"xyxy": [2, 6, 34, 38], "label": "ball"}]}))

    assert _run(samjobs, "--input", samjobs.photos, "--boxes", path) == (1, 0, 0, 0)
    assert samjobs.record("000.png")["mode"] == "inside_box"
    assert _labels(samjobs) == {"000.png": ["ball"]}


def test_clicks_come_from_a_file(samjobs: Samjobs) -> None:
    draw_many(samjobs.photos, 2)
    path = samjobs.root / "points.csv"
    path.write_text("image,x,y\n000.png,18,22\n001.png,19,22\n")

    assert _run(samjobs, "--input", samjobs.photos, "--points", path) == (2, 0, 0, 0)
    (instance,) = samjobs.record("000.png")["instances"]
    assert instance["bbox"] == [6, 10, 25, 25]


@pytest.mark.parametrize(
    ("option", "content", "told"),
    [
        ("--manifest", '{"image": "000.png"}\n{"image": 7}\n', "line 2: image:"),
        ("--manifest", '{"image": "000.png"}\n{"image": "000.png"}\n', "line 2: image 000.png was named before"),
        ("--boxes", "image,x0,y0,x1,y1\n000.png,1,2,3,x\n", "line 2: y1 is 'x', not a number"),
        ("--points", "image,x,y\nnone.png,1,2\n", "none.png is not among the images"),
    ],
)
def test_a_wrong_line_is_named_and_nothing_stays_queued(samjobs: Samjobs, option: str, content: str, told: str) -> None:
    draw_many(samjobs.photos, 1)
    path = samjobs.photos / "file.txt"
    path.write_text(content)
    where = () if option == "--manifest" else ("--input", samjobs.photos)

    said = samjobs.run(*_asked(samjobs, *where, option, path), *(() if where else ("--prompt", "red disc")), code=2)

    assert told in said.last
    if "line" in told:
        assert str(path) in said.last
    assert said.out == ""
    assert [(job.state, job.reason) for job in samjobs.jobs()] in ([], [("failed", "InvalidInput")])
    assert not samjobs.out.exists()


def test_names_of_every_kind_are_processed_shown_and_mirrored(samjobs: Samjobs) -> None:
    names = ["two words.png", "schöne Grüße 写真.png", "new\nline.png", "-rf.png", "n" * 246 + ".png", "sub/deep/a.png"]
    for number, name in enumerate(names):
        draw(samjobs.photos / name, number)
    raw = os.fsencode(samjobs.photos) + b"/caf\xe9.png"
    draw(samjobs.photos / "plain.png", 60).rename(os.fsdecode(raw))

    assert samjobs.process("--format", "overlay").counts == (7, 0, 0, 0)
    assert samjobs.process("--format", "overlay").counts == (0, 7, 0, 0)

    keys = [one["key"] for one in samjobs.results()]
    assert {"two words.png", "schöne Grüße 写真.png", "new%0Aline.png", "caf%E9.png", "sub/deep/a.png"} <= set(keys)
    assert (samjobs.out / "overlay" / "sub" / "deep" / "a.png.jpg").exists()
    for shown in (samjobs.photos / "new\nline.png", "new\nline.png", os.fsdecode(raw), "sub/deep/a.png"):
        history = samjobs.run("show", "--json", shown).lines
        assert [entry["state"] for entry in history] == ["skipped", "done"]


def test_what_is_passed_over_is_counted_by_reason(samjobs: Samjobs) -> None:
    real = draw(samjobs.root / "elsewhere" / "real.png", 3)
    draw(samjobs.photos / "a.png", 0)
    draw(samjobs.photos / ".hidden.png", 1)
    (samjobs.photos / "notes.txt").write_text("x")
    (samjobs.photos / "Thumbs.db").write_text("x")
    (samjobs.photos / "link.png").symlink_to(real)
    (samjobs.photos / "folder").symlink_to(real.parent)
    (samjobs.photos / "broken.png").symlink_to(samjobs.root / "nowhere.png")
    samjobs.out = samjobs.photos / "out"

    first = samjobs.process("--format", "overlay", code=1)
    assert first.counts == (2, 0, 1, 0)
    assert "passed over: 1 hidden, 1 junk, 1 not an image, 1 symlinked folder" in first.err
    assert [one["key"] for one in samjobs.results("failures.jsonl")] == ["broken.png"]

    again = samjobs.process("--format", "overlay", code=1)
    assert again.counts == (0, 2, 1, 0)
    assert "1 output" in again.err


def test_a_folder_without_images_is_refused_with_what_was_passed_over(samjobs: Samjobs) -> None:
    samjobs.photos.mkdir()
    (samjobs.photos / "notes.txt").write_text("x")

    said = samjobs.process(code=2)

    assert f"no images in {samjobs.photos}" in said.last
    assert "1 not an image" in said.last
    assert [(job.state, job.reason) for job in samjobs.jobs()] == [("failed", "InvalidInput")]


def test_a_missing_folder_is_refused_by_name(samjobs: Samjobs) -> None:
    said = samjobs.process(code=2)

    assert f"{samjobs.photos} does not exist" in said.last


def test_the_input_folder_as_output_is_refused(samjobs: Samjobs) -> None:
    draw_many(samjobs.photos, 1)
    samjobs.out = samjobs.photos

    assert "both input and output" in samjobs.process(code=2).last


def _asked(samjobs: Samjobs, *more: str | Path) -> tuple[str | Path, ...]:
    return ("process", "--output", samjobs.out, "--engine", "opencv", "--json", *more)


def _run(samjobs: Samjobs, *more: str | Path) -> tuple[int, int, int, int]:
    return samjobs.run(*_asked(samjobs, *more)).counts


def _labels(samjobs: Samjobs) -> dict[str, list[str]]:
    return {one["key"]: [instance["label"] for instance in one["instances"]] for one in samjobs.results()}


def _write_lines(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.mark.parametrize("name", [b"100% wool", b"50%25", b"caf\xe9"])
def test_a_folder_of_any_name_is_found_and_written_to(samjobs: Samjobs, name: bytes) -> None:
    samjobs.photos, samjobs.out = samjobs.root / os.fsdecode(name), samjobs.root / f"out {os.fsdecode(name)}"
    draw_many(samjobs.photos, 1)
    assert samjobs.process().counts == (1, 0, 0, 0)
    assert samjobs.process().counts == (0, 1, 0, 0)
    assert samjobs.records() == ["000.png"]
