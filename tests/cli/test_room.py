"""A disk that is full or read-only: the run stops cleanly, says what it needs, and goes on once there is room."""

import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.command import Samjobs, draw_many

SMALL = 200 * 1024
NEEDED = re.compile(
    r"about ([\d.]+) kB are needed for the (\d+) images left and the gathered results; (\S+ \S+) are free"
)


@dataclass
class SmallDisk:
    """A file system of a few kilobytes, in a mount namespace of its own."""

    folder: Path
    holder: "subprocess.Popen[str]"

    @property
    def enter(self) -> tuple[str, ...]:
        return ("nsenter", "--user", "--mount", "--preserve-credentials", f"--target={self.holder.pid}", "--wd=.")

    def remount(self, options: str) -> None:
        subprocess.run([*self.enter, "mount", "-o", f"remount,{options}", str(self.folder)], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    folder = tmp_path / "small"
    folder.mkdir()
    script = f'mount -t tmpfs -o size={SMALL} small "$1" && echo ready && exec cat'
    holder = subprocess.Popen(
        ["unshare", "--map-root-user", "--mount", "sh", "-c", script, "sh", folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    if holder.stdout.readline() != "ready\n":
        _, why = holder.communicate()
        if os.environ.get("CI") == "true":
            pytest.fail(f"no small file system can be mounted: {why}")
        pytest.skip(f"no small file system can be mounted: {why}")
    yield SmallDisk(folder, holder)
    holder.communicate()


def test_a_full_disk_stops_the_run_and_the_same_command_finishes_it(samjobs: Samjobs, disk: SmallDisk) -> None:
    draw_many(samjobs.photos, 80)
    _put_output_on(disk, samjobs)

    full = samjobs.process(code=3)

    done = len(samjobs.records())
    assert 0 < done < 80
    assert full.counts == (done, 0, 0, 80 - done)
    found = NEEDED.search(full.last)
    assert found is not None, full.last
    assert int(found[2]) == 80 - done
    assert samjobs.left_over() == []
    assert all(samjobs.record(key)["status"] == "done" for key in samjobs.records())

    # What it says is needed is enough, but for the odd block of a small file.
    disk.remount(f"size={SMALL + round(float(found[1]) * 1000) + 16 * 1024}")
    assert samjobs.process().counts == (80 - done, done, 0, 0)
    assert len(samjobs.results()) == 80
    assert sum(samjobs.work().values()) <= 81


def test_several_workers_on_a_full_disk_tell_it_once_as_the_last_line(samjobs: Samjobs, disk: SmallDisk) -> None:
    draw_many(samjobs.photos, 80)
    _put_output_on(disk, samjobs)

    full = samjobs.process("--workers", "2", "--shard-size", "8", code=3)

    assert "No space left on device" in full.last
    assert "Traceback" not in full.err
    assert full.summary["failed"] == 0
    assert samjobs.left_over() == []


def test_a_read_only_output_fails_no_image(samjobs: Samjobs, disk: SmallDisk) -> None:
    draw_many(samjobs.photos, 3)
    _put_output_on(disk, samjobs)
    disk.remount("ro")

    said = samjobs.process(code=3)

    assert said.counts == (0, 0, 0, 3)
    assert "Read-only file system" in said.last
    assert str(samjobs.out) in said.last


@pytest.mark.parametrize("below", ["", "red/discs"])
def test_an_output_that_is_a_file_or_below_one_queues_nothing(samjobs: Samjobs, below: str) -> None:
    draw_many(samjobs.photos, 3)
    notes = samjobs.out
    notes.write_text("my notes")
    samjobs.out = notes / below

    said = samjobs.process(code=2)

    assert f"{notes} is a file" in said.last
    assert samjobs.jobs() == []
    assert notes.read_text() == "my notes"


def test_a_queue_that_cannot_be_written_is_named_with_the_remedy(samjobs: Samjobs) -> None:
    draw_many(samjobs.photos, 1)
    (samjobs.root / "file").write_text("")
    samjobs.database = samjobs.root / "file" / "queue.db"

    said = samjobs.process(code=3)

    assert str(samjobs.database.parent) in said.last
    assert "--db" in said.last
    assert said.out == ""


def _put_output_on(disk: SmallDisk, samjobs: Samjobs) -> None:
    samjobs.prefix, samjobs.out = disk.enter, disk.folder / "out"
    samjobs.view = Path(f"/proc/{disk.holder.pid}/root")
