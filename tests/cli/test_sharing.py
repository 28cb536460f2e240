"""Several processes on one job share its images: each is done once, and nobody meets a locked database."""

import os
import signal
from collections import Counter

from tests.cli.command import Samjobs, draw_many, read_until
from tests.waiting import until

IMAGES = 120


def test_two_commands_at_once_share_the_work(samjobs: Samjobs) -> None:
    draw_many(samjobs.photos, IMAGES)
    gate = samjobs.hold_after(2)
    first = samjobs.start(*samjobs.asked("--shard-size", "4"))
    until(lambda: sum(samjobs.work().values()) == 2, "the first process works")
    second = samjobs.start(*samjobs.asked("--shard-size", "4"))
    read_until(second, "joining it")
    until(lambda: sum(samjobs.work().values()) == 4, "the second process works, too")
    samjobs.let_go(gate)

    both = [samjobs.finish(process) for process in (first, second)]

    assert sum(said.summary["processed"] for said in both) == IMAGES
    assert all(said.summary["processed"] + said.summary["elsewhere"] == IMAGES for said in both)
    assert all(said.summary["skipped"] == said.summary["failed"] == 0 for said in both)
    assert not any("lock" in said.err for said in both)
    assert samjobs.work().total() == len(samjobs.work()) == IMAGES
    assert len(samjobs.results()) == IMAGES
    assert len(samjobs.jobs()) == 1


def test_commands_started_at_the_same_moment_make_one_job(samjobs: Samjobs) -> None:
    draw_many(samjobs.photos, 30)

    all_said = [samjobs.finish(each) for each in [samjobs.start(*samjobs.asked("--shard-size", "2")) for _ in "abc"]]

    assert not any("lock" in said.err for said in all_said)
    assert max(samjobs.work().values()) == 1
    # One that started when the others had finished made a job of its own, and found all of it unchanged.
    assert all(said.summary["skipped"] == said.summary["failed"] == 0 for said in all_said)
    assert len(samjobs.results()) == 30


def test_workers_share_the_work(samjobs: Samjobs) -> None:
    draw_many(samjobs.photos, IMAGES)
    gate = samjobs.hold_after(2)
    process = samjobs.start(*samjobs.asked("--workers", "3", "--shard-size", "4"))
    until(lambda: _pictures(samjobs) == [2, 2, 2], "three workers have two pictures each")
    samjobs.let_go(gate)

    said = samjobs.finish(process)

    assert said.counts == (IMAGES, 0, 0, 0)
    assert len([line for line in said.lines if line["type"] == "image"]) == IMAGES
    assert samjobs.work().total() == len(samjobs.work()) == IMAGES
    assert len(samjobs.results()) == IMAGES
    assert "lock" not in said.err


def test_a_worker_that_is_killed_is_replaced_and_the_run_completes(samjobs: Samjobs) -> None:
    draw_many(samjobs.photos, IMAGES)
    gate = samjobs.hold_after(2)
    process = samjobs.start(*samjobs.asked("--workers", "3", "--shard-size", "10"))
    until(lambda: _pictures(samjobs) == [2, 2, 2], "three workers have two pictures each")
    victim = min(samjobs.workers())
    os.kill(victim, signal.SIGKILL)
    samjobs.let_go(gate)

    said = samjobs.finish(process)

    assert f"worker process {victim} died by signal 9; starting another" in said.err
    assert said.summary["skipped"] == said.summary["failed"] == 0
    assert len(samjobs.results()) == len(samjobs.work()) == IMAGES
    assert samjobs.work().total() <= IMAGES + 1
    (job,) = samjobs.jobs()
    assert (job.state, job.images_failed) == ("succeeded", 0)


def test_a_limit_is_kept_by_workers_together(samjobs: Samjobs) -> None:
    draw_many(samjobs.photos, 12)

    assert samjobs.process("--workers", "3", "--limit", "2", "--shard-size", "2").counts == (2, 0, 0, 10)


def test_with_a_limit_a_worker_that_is_killed_is_not_replaced(samjobs: Samjobs) -> None:
    draw_many(samjobs.photos, 20)
    gate = samjobs.hold_after(2)
    process = samjobs.start(*samjobs.asked("--workers", "2", "--limit", "8", "--shard-size", "10"))
    until(lambda: _pictures(samjobs) == [2, 2], "two workers have two pictures each")
    victim = min(samjobs.workers())
    os.kill(victim, signal.SIGKILL)
    samjobs.let_go(gate)

    said = samjobs.finish(process)

    assert f"worker process {victim} died by signal 9; the others do their share of the limit" in said.err
    assert len(samjobs.workers()) == 2
    assert samjobs.work().total() <= 8
    assert said.summary["failed"] == 0


def test_with_a_limit_the_end_of_all_workers_is_an_error(samjobs: Samjobs) -> None:
    draw_many(samjobs.photos, 4)
    samjobs.hold_after(1)
    process = samjobs.start(*samjobs.asked("--workers", "2", "--limit", "4", "--shard-size", "2"))
    until(lambda: _pictures(samjobs) == [1, 1], "two workers have a picture each")
    for victim in samjobs.workers():
        os.kill(victim, signal.SIGKILL)

    assert "died by signal 9, and no other is left" in samjobs.finish(process, 3).last


def _pictures(samjobs: Samjobs) -> list[int]:
    """How many pictures each process was given."""
    if not samjobs.witness.exists():
        return []
    return list(Counter(line.split()[0] for line in samjobs.witness.read_text().splitlines()).values())
