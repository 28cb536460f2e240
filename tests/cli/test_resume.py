"""A second run does what is new, changed or failed, and nothing else."""

import json
import os

from samjobs.names import CLASSES_FILE
from tests.cli.command import Samjobs, draw, draw_many


def test_a_corrupt_file_fails_alone_and_its_reason_is_told_everywhere(samjobs: Samjobs) -> None:
    draw_many(samjobs.photos, 3)
    (samjobs.photos / "broken.jpg").write_text("not a photo")

    said = samjobs.process(code=1)

    assert said.counts == (3, 0, 1, 0)
    (told,) = [line for line in said.lines if line["type"] == "image" and line["state"] == "failed"]
    assert told["image"] == "broken.jpg"
    assert "not an image" in told["error"]
    assert [one["key"] for one in samjobs.results()] == ["000.png", "001.png", "002.png"]
    (failure,) = samjobs.results("failures.jsonl")
    assert failure["key"] == "broken.jpg"
    assert failure["error"] == told["error"]
    shown = samjobs.run("show", "broken.jpg")
    assert "failed" in shown.out
    assert told["error"] in shown.out
    (history,) = samjobs.run("show", "--json", samjobs.photos / "broken.jpg").lines
    assert history["error"] == told["error"]
    assert [event["to"] for event in history["events"]] == ["failed"]


def test_without_json_the_reason_is_on_the_screen(samjobs: Samjobs) -> None:
    draw(samjobs.photos / "good.png")
    (samjobs.photos / "broken.jpg").write_text("not a photo")

    said = samjobs.run(*[part for part in samjobs.asked() if part != "--json"], code=1)

    assert "broken.jpg: " in said.err
    assert "not an image" in said.err
    assert said.out.startswith("2 images in ")
    assert "1 processed (1 new), 0 unchanged, 1 failed" in said.out
    assert f"results in {samjobs.out}" in said.out


def test_the_same_command_again_processes_nothing(samjobs: Samjobs) -> None:
    draw_many(samjobs.photos, 5)
    samjobs.process()
    results = (samjobs.out / "results.jsonl").read_bytes()

    again = samjobs.process()

    assert again.counts == (0, 5, 0, 0)
    assert sum(samjobs.work().values()) == 5
    assert (samjobs.out / "results.jsonl").read_bytes() == results


def test_only_what_has_changed_is_done_again(samjobs: Samjobs) -> None:
    first, second, third = (draw(samjobs.photos / f"{number}.bmp", number) for number in range(3))
    samjobs.process()

    with first.open("r+b") as file:
        file.seek(5000)
        file.write(b"\xfe")
    assert _reasons(samjobs) == {"ContentChanged": 1}

    status = second.stat()
    second.write_bytes(second.read_bytes() + b"more")
    os.utime(second, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert _reasons(samjobs) == {"ContentChanged": 1}

    os.utime(third, ns=(1, 1))
    assert _reasons(samjobs) == {}

    draw(samjobs.photos / "new.bmp", 50)
    assert _reasons(samjobs) == {"New": 1}


def test_a_lost_output_is_made_again_and_a_new_format_for_all(samjobs: Samjobs) -> None:
    draw_many(samjobs.photos, 3)
    samjobs.process("--format", "label-png")
    label = samjobs.out / "label-png" / "001.png.png"
    before = label.read_bytes()

    label.unlink()
    assert _reasons(samjobs, "--format", "label-png") == {"OutputMissing": 1}
    assert label.read_bytes() == before

    more = ("--format", "label-png", "--format", "polygons", "--format", "yolo-seg")
    assert _reasons(samjobs, *more) == {"ConfigChanged": 3}
    assert label.read_bytes() == before
    assert {one["format"] for one in samjobs.record("001.png")["outputs"]} == {"label-png", "polygons", "yolo-seg"}
    assert (samjobs.out / CLASSES_FILE).read_text() == "red disc\n"


def test_a_changed_prompt_and_force_do_everything_again(samjobs: Samjobs) -> None:
    draw_many(samjobs.photos, 3)
    samjobs.process()

    other = samjobs.process(prompt=("--prompt", "blue disc"))
    assert other.summary["reasons"] == {"ConfigChanged": 3}
    assert all(not one["instances"] for one in samjobs.results())

    forced = samjobs.process("--force", prompt=("--prompt", "blue disc"))
    assert forced.summary["reasons"] == {"Forced": 3}
    assert sum(samjobs.work().values()) == 9


def test_a_repaired_image_is_done_and_one_that_broke_loses_its_results(samjobs: Samjobs) -> None:
    broken, good = samjobs.photos / "a.png", draw(samjobs.photos / "b.png", 1)
    broken.write_bytes(b"nothing")
    samjobs.process("--format", "label-png", code=1)

    draw(broken)
    repaired = samjobs.process("--format", "label-png")
    assert repaired.summary["reasons"] == {"FailedBefore": 1}
    assert samjobs.results("failures.jsonl") == []

    good.write_bytes(good.read_bytes()[:60])
    assert samjobs.process("--format", "label-png", code=1).counts == (0, 1, 1, 0)
    assert [one["key"] for one in samjobs.results()] == ["a.png"]
    assert samjobs.record("b.png")["status"] == "failed"
    assert not (samjobs.out / "label-png" / "b.png.png").exists()


def test_a_photo_that_was_removed_is_no_result_any_more(samjobs: Samjobs) -> None:
    first, *_ = draw_many(samjobs.photos, 3)
    samjobs.process()
    first.unlink()

    assert samjobs.process().counts == (0, 2, 0, 0)
    assert [one["key"] for one in samjobs.results()] == ["001.png", "002.png"]
    assert json.loads((samjobs.out / "annotations.coco.json").read_bytes())["images"][0]["file_name"] == "001.png"


def test_a_limit_counts_what_is_segmented_so_that_each_run_gets_further(samjobs: Samjobs) -> None:
    draw_many(samjobs.photos, 5)
    (samjobs.photos / "000.png").write_bytes(b"nothing")

    assert samjobs.process("--limit", "2", code=1).counts == (2, 0, 1, 2)
    assert samjobs.process("--limit", "1", code=1).counts == (1, 2, 1, 1)
    assert samjobs.process(code=1).counts == (1, 3, 1, 0)
    assert len(samjobs.results()) == 4


def test_what_holds_is_known_from_the_output_folder_alone(samjobs: Samjobs) -> None:
    draw_many(samjobs.photos, 2)
    samjobs.process()

    samjobs.run("queue", "clear")
    assert samjobs.process().counts == (0, 2, 0, 0)

    samjobs.database = samjobs.root / "another.db"
    assert samjobs.process().counts == (0, 2, 0, 0)
    assert len(samjobs.results()) == 2


def _reasons(samjobs: Samjobs, *more: str) -> dict[str, int]:
    """Why images were processed by one more run, which must find all of them good or unchanged."""
    said = samjobs.process(*more)
    processed, unchanged, _, _ = said.counts
    assert processed + unchanged == said.summary["images"]
    reasons: dict[str, int] = said.summary["reasons"]
    return reasons
