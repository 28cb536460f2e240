"""Killed, interrupted or asked to stop: at most the image in hand is lost, and the same command finishes the rest."""

import os
import signal
from pathlib import Path

import pytest

from samjobs.states import ShardState
from tests.cli.command import Samjobs, draw_many, kill, read_until
from tests.waiting import until


def test_kill_9_in_the_middle_of_200_images_costs_at_most_the_image_in_hand(samjobs: Samjobs) -> None:
    draw_many(samjobs.photos, 200)
    first = samjobs.start(*samjobs.asked())
    until(lambda: samjobs.out.exists() and len(samjobs.records()) >= 60, "60 images have records")
    kill(first)
    done = len(samjobs.records())
    assert done < 200, "the run was killed too late to tell anything"

    said = samjobs.process()

    assert said.summary["failed"] == said.summary["skipped"] == 0
    assert said.summary["unchanged"] == done
    assert len(samjobs.records()) == 200
    keys = [one["key"] for one in samjobs.results()]
    assert len(keys) == len(set(keys)) == 200
    work = samjobs.work()
    assert len(work) == 200
    assert sum(work.values()) <= 201


@pytest.mark.parametrize(("asked", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_first_signal_finishes_the_image_in_hand(samjobs: Samjobs, asked: signal.Signals, code: int) -> None:
    draw_many(samjobs.photos, 6)
    gate = samjobs.hold_after(3)
    process = samjobs.start(*samjobs.asked())
    until(lambda: sum(samjobs.work().values()) == 3, "the third image is in hand")

    process.send_signal(asked)
    read_until(process, "stopping after the image in hand")
    samjobs.let_go(gate)
    stopped = samjobs.finish(process, code)

    assert stopped.counts == (3, 0, 0, 3)
    assert samjobs.records() == ["000.png", "001.png", "002.png"]
    (shard,) = samjobs.shards()
    assert (shard.state, shard.failures) == (ShardState.QUEUED, 0)
    assert samjobs.process().counts == (3, 3, 0, 0)
    assert sum(samjobs.work().values()) == 6


def test_the_second_signal_ends_it_at_once(samjobs: Samjobs) -> None:
    draw_many(samjobs.photos, 4)
    samjobs.hold_after(2)
    process = samjobs.start(*samjobs.asked())
    until(lambda: sum(samjobs.work().values()) == 2, "the second image is in hand")

    process.send_signal(signal.SIGINT)
    read_until(process, "stopping after the image in hand")
    process.send_signal(signal.SIGINT)
    # Killed by the signal itself: what shells show as 130.
    samjobs.finish(process, -signal.SIGINT)

    assert samjobs.left_over() == []
    del samjobs.environment["WITNESS_HOLD_AFTER"]
    assert samjobs.process().counts == (3, 1, 0, 0)


def test_a_reader_that_goes_away_stops_the_run_as_ctrl_c_does(samjobs: Samjobs) -> None:
    draw_many(samjobs.photos, 40)
    gate = samjobs.hold_after(2)
    process = samjobs.start(*samjobs.asked("--shard-size", "1"))
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    samjobs.let_go(gate)

    process.stdout = None
    stopped = samjobs.finish(process, 128 + signal.SIGPIPE)

    assert "Traceback" not in stopped.err
    assert len(samjobs.records()) < 40
    assert all(shard.failures == 0 for shard in samjobs.shards())
    assert samjobs.process().summary["skipped"] == 0
    assert sum(samjobs.work().values()) == 40


def test_ctrl_c_reaches_the_workers_once_and_costs_nothing(samjobs: Samjobs) -> None:
    draw_many(samjobs.photos, 90)
    process = samjobs.start(*samjobs.asked("--workers", "2", "--shard-size", "5"))
    until(lambda: samjobs.out.exists() and len(samjobs.records()) >= 10, "10 images have records")

    process.send_signal(signal.SIGINT)
    stopped = samjobs.finish(process, 130)

    assert stopped.err.count("stopping after the image in hand") == 1
    assert stopped.counts[0] == len(samjobs.records()) == sum(samjobs.work().values()) < 90
    assert all(shard.failures == 0 for shard in samjobs.shards())
    assert samjobs.process().summary["skipped"] == 0
    assert sum(samjobs.work().values()) == 90


def test_workers_stop_when_the_process_that_started_them_is_killed(samjobs: Samjobs) -> None:
    draw_many(samjobs.photos, 200)
    process = samjobs.start(*samjobs.asked("--workers", "2", "--shard-size", "5"))
    until(lambda: samjobs.out.exists() and len(samjobs.records()) >= 10, "10 images have records")
    kill(process)

    until(lambda: not any(_runs(pid) for pid in samjobs.workers()), "the workers have ended")

    assert len(samjobs.records()) < 200
    assert all(shard.failures == 0 for shard in samjobs.shards())
    assert samjobs.process().summary["skipped"] == 0
    assert max(samjobs.work().values()) == 1


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
