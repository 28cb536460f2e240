"""Standard output and error that are closed, full, or know no letters but ASCII; a working folder that is gone."""

import pytest

from tests.cli.command import Samjobs, draw, draw_many


def redirected(samjobs: Samjobs, how: str) -> None:
    """Let the shell do `how` with the command's streams."""
    samjobs.prefix = ("sh", "-c", f'exec "$@" {how}', "sh")


@pytest.mark.parametrize("how", ["2>&-", "2>/dev/full", "1>&-", "0<&- 1>&- 2>&-"])
def test_a_stream_that_is_closed_or_an_error_that_cannot_be_told_costs_nothing(samjobs: Samjobs, how: str) -> None:
    draw_many(samjobs.photos, 3)
    (samjobs.photos / "00.png").write_bytes(b"nothing")  # the first one, so that there is something to say
    redirected(samjobs, how)

    said = samjobs.run(*[part for part in samjobs.asked() if part != "--json"], code=1)

    assert "Traceback" not in said.err
    samjobs.prefix = ()
    assert [(job.state, job.images_done, job.images_failed) for job in samjobs.jobs()] == [("succeeded", 3, 1)]
    assert (samjobs.out / "results.jsonl").exists()


def test_a_full_standard_output_ends_the_run_with_the_reason_and_charges_nothing(samjobs: Samjobs) -> None:
    draw_many(samjobs.photos, 4)
    redirected(samjobs, ">/dev/full")

    said = samjobs.process(code=3)

    assert "standard output cannot be written: No space left on device" in said.last
    assert "Traceback" not in said.err
    assert all(shard.failures == 0 for shard in samjobs.shards())
    samjobs.prefix = ()
    assert samjobs.process().summary["skipped"] == 0


@pytest.mark.parametrize(
    "command", [("--help",), ("--version",), ("engines",), ("queue", "status"), ("show", "000.png")]
)
def test_a_full_standard_output_is_told_by_every_command(samjobs: Samjobs, command: tuple[str, ...]) -> None:
    draw_many(samjobs.photos, 1)
    samjobs.process()
    redirected(samjobs, ">/dev/full")

    said = samjobs.run(*command, code=3)

    assert said.err.splitlines() == [
        "samjobs: standard output cannot be written: No space left on device; send it elsewhere and run again"
    ]


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_terminal_without_the_letters_of_a_name_gets_them_escaped(
    samjobs: Samjobs, encoding: str, workers: str
) -> None:
    samjobs.environment["PYTHONIOENCODING"] = encoding
    samjobs.out = samjobs.root / "猫"
    draw(samjobs.photos / "犬.png")
    (samjobs.photos / "壊.png").write_bytes(b"nothing")

    said = samjobs.run(*[part for part in samjobs.asked("--workers", workers) if part != "--json"], code=1)

    assert "Traceback" not in said.err
    assert said.out.endswith("\\u732b\n")
    assert "\\u58ca.png" in said.err
    assert "\\u732b" in samjobs.run("queue", "status").out
    assert "\\u72ac.png" in samjobs.run("show", "犬.png").out


def test_a_working_folder_that_is_gone_is_told_with_the_remedy(samjobs: Samjobs) -> None:
    draw_many(samjobs.photos, 1)
    (samjobs.root / "gone").mkdir()
    samjobs.prefix = ("sh", "-c", 'cd gone && rmdir ../gone && exec "$@"', "sh")

    said = samjobs.run("process", "-i", "photos", "-o", "out", "--engine", "opencv", "-p", "red", code=2)
    assert said.err == ("samjobs: the working folder was removed: change to one that exists, or give absolute paths\n")

    (samjobs.root / "gone").mkdir()
    assert samjobs.process().counts == (1, 0, 0, 0)
