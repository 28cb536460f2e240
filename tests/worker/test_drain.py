"""What a worker does when it is asked to end: at rest, at work, again, and while it is draining."""

import signal

import pytest

from samjobs.states import ShardState
from samjobs.store import jobs
from samjobs.store.rows import WorkerState
from tests.execution.builders import events
from tests.waiting import until
from tests.worker.machine import Machine


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_at_rest_it_leaves_in_order(machine: Machine, number: signal.Signals) -> None:
    worker = machine.ready()
    machine.until_state(WorkerState.READY)
    worker.signal(number)
    assert worker.ends() == 0, worker.said
    assert machine.listed().state is WorkerState.GONE
    assert worker.last_line.endswith("drained")


def test_at_work_it_finishes_the_image_in_hand_and_gives_the_shard_back_uncharged(machine: Machine) -> None:
    gate = machine.hold_at(2)
    worker = machine.ready(environment=gate.environment)
    job_id = machine.job("drained", 4)
    machine.send(job_id)
    until(lambda: len(machine.pictures()) == 2, "the second image is in hand")
    machine.until_state(WorkerState.BUSY)
    assert worker.probe("readyz") == (200, "ok\n")

    worker.signal()

    worker.until_said("draining")
    assert worker.probe("readyz") == (503, "draining\n")
    assert worker.probe("livez") == (200, "ok\n")
    machine.until_state(WorkerState.DRAINING)
    heard = machine.shard(job_id).heartbeat_at
    until(lambda: machine.shard(job_id).heartbeat_at != heard, "the lease is renewed while it drains")
    gate.open()
    assert worker.ends() == 0, worker.said
    shard = machine.shard(job_id)
    assert (shard.state, shard.failures, shard.images_done) == (ShardState.QUEUED, 0, 2)
    assert events(machine.store, job_id)[-1] == "Drained"
    machine.ready()
    machine.send(job_id)
    assert machine.until_ended(job_id).images_done == 4


def test_while_it_drains_a_cancel_still_reaches_it(machine: Machine) -> None:
    gate = machine.hold_at(2)
    worker = machine.ready(environment=gate.environment)
    job_id = machine.job("cancelled", 4)
    machine.send(job_id)
    until(lambda: len(machine.pictures()) == 2, "the second image is in hand")
    worker.signal()
    worker.until_said("draining")
    with machine.store.begin() as conn:
        jobs.cancel(conn, job_id, actor="a person")
    # Nothing tells from outside that the heartbeat has learnt it: the worker's own heartbeat after it does.
    heard = machine.listed().heartbeat_at
    until(lambda: (machine.listed().heartbeat_at - heard).total_seconds() > 1, "some heartbeats")
    gate.open()
    assert worker.ends() == 0, worker.said
    assert "cancelled in" in worker.said
    assert machine.shard(job_id).state is ShardState.CANCELLED


def test_asked_again_it_leaves_at_once(machine: Machine) -> None:
    gate = machine.hold_at(1)
    worker = machine.ready(environment=gate.environment)
    job_id = machine.job("hurried", 2)
    machine.send(job_id)
    until(lambda: len(machine.pictures()) == 1, "an image is in hand")
    worker.signal(signal.SIGINT)
    worker.until_said("draining")
    worker.signal(signal.SIGTERM)
    assert worker.ends() == 128 + signal.SIGTERM
    assert "leaving at once" in worker.last_line
    shard = machine.shard(job_id)
    assert (shard.state, shard.failures) == (ShardState.RUNNING, 0), "the pass repairs it"


def test_before_there_is_any_work_it_leaves_at_once(machine: Machine) -> None:
    gate = machine.hold_at(0)
    worker = machine.start(environment=gate.environment)
    worker.until_said("probes on port")
    machine.until_state(WorkerState.LOADING)
    assert worker.probe("readyz") == (503, "loading engine opencv\n")
    assert worker.probe("livez") == (200, "ok\n")
    worker.signal()
    assert worker.ends() == 0, worker.said
    assert "before any work" in worker.said
    assert machine.listed().state is WorkerState.GONE
