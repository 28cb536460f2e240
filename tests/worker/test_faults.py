"""What ends a worker, what does not, and who is charged."""

import json
import shutil
from contextlib import closing
from pathlib import Path

import psycopg

from samjobs.metrics import WORKER_SHARDS
from samjobs.spec import RetryPolicy
from samjobs.states import ShardState
from samjobs.store import now, shards
from samjobs.store.rows import WorkerState
from tests.execution.builders import events
from tests.redis_server import Server as RedisServer
from tests.waiting import until
from tests.worker.machine import Machine


def test_a_fault_of_the_device_charges_its_shard_once_and_ends_the_process(machine: Machine) -> None:
    worker = machine.ready(environment={"FAULT_AT": "4"})
    job_id = machine.job("fault", 3)
    machine.send(job_id)
    assert worker.ends() == 4, worker.said
    assert "device-side assert" in worker.last_line
    shard = machine.shard(job_id)
    assert (shard.state, shard.failures, shard.images_done) == (ShardState.QUEUED, 1, 1)
    assert machine.listed().state is WorkerState.GONE


def test_an_engine_that_only_the_job_wants_is_the_jobs_trouble(machine: Machine) -> None:
    """It is charged and dead in the end; the worker has its own engine back and goes on."""
    worker = machine.ready()
    job_id = machine.job("unfit", 1, model="some/model", retry_policy=RetryPolicy(max_attempts=1))
    machine.send(job_id)
    until(lambda: machine.shard(job_id).state is ShardState.DEAD, "the shard is dead")
    shard = machine.shard(job_id)
    assert shard.error is not None
    assert "engine opencv some/model cannot be loaded by this worker, which keeps opencv" in shard.error
    machine.done("after")
    assert worker.metric(f'{WORKER_SHARDS.name}{{end="dead"}}') == 1


def test_results_that_cannot_be_written_hold_their_shard_back_and_nobody_else(machine: Machine) -> None:
    worker = machine.ready(CRITICAL_PAUSE_SECONDS=1000)
    job_id = machine.job("full", 2)
    (machine.root / "full" / "out").write_text("a file where the output folder should be")
    machine.send(job_id)
    until(lambda: "CriticalError" in events(machine.store, job_id), "the shard is given back")
    machine.done("others")
    shard = machine.shard(job_id)
    assert (shard.state, shard.failures) == (ShardState.QUEUED, 0)
    with machine.store.read() as conn:
        assert 900 < (shard.available_at - now(conn)).total_seconds() <= 1000
    assert "left alone for 1000 s" in worker.said
    assert worker.metric(f'{WORKER_SHARDS.name}{{end="critical"}}') == 1


def test_a_worker_that_hangs_says_so_and_loses_its_lease(machine: Machine) -> None:
    gate = machine.hold_at(1)
    worker = machine.ready(environment=gate.environment, STALL_TIMEOUT_SECONDS=0.5, STALE_JOB_TIMEOUT_SECONDS=2)
    job_id = machine.job("hung", 2)
    machine.send(job_id)
    until(lambda: worker.probe("livez")[0] == 503, "it is to be restarted")
    assert "no image finished" in worker.probe("livez")[1]
    assert worker.probe("readyz")[0] == 200, "readiness says nothing of that"
    beat, heard = machine.shard(job_id).heartbeat_at, machine.listed().heartbeat_at
    until(lambda: machine.listed().heartbeat_at > heard, "the process itself is alive")
    assert machine.shard(job_id).heartbeat_at == beat
    until(lambda: _age_s(machine, job_id) > 2, "the lease has run out")
    gate.open()
    until(lambda: worker.probe("livez")[0] == 200, "it goes on after all")
    shard = machine.shard(job_id)
    assert (shard.state, shard.failures) == (ShardState.RUNNING, 0), "left to be taken back, and charged"
    machine.done("after")


def test_a_lease_that_ran_out_by_the_workers_own_clock_is_given_back_while_nobody_took_it(machine: Machine) -> None:
    gate = machine.hold_at(2)
    machine.ready(environment=gate.environment, STALE_JOB_TIMEOUT_SECONDS=1)
    job_id = machine.job("unheard", 3)
    machine.send(job_id)
    until(lambda: len(machine.pictures()) == 2, "the second image is in hand")
    held = machine.shard(job_id)
    with machine.store.begin() as conn:
        assert held.incarnation is not None
        shards.heartbeat(conn, held.id, held.attempt, held.incarnation)  # locks the row: no heartbeat comes through
        until(lambda: _age_s(machine, job_id) > 1.5, "the lease has run out")
        gate.open()
    until(lambda: machine.shard(job_id).state is not ShardState.RUNNING, "nobody has to wait for it")
    shard = machine.shard(job_id)
    assert (shard.state, shard.failures) == (ShardState.QUEUED, 0)
    assert "LeaseLost" in events(machine.store, job_id)


def test_connections_that_the_database_drops_cost_nothing(machine: Machine) -> None:
    gate = machine.hold_at(2)
    worker = machine.ready(environment=gate.environment)
    job_id = machine.job("dropped", 4)
    machine.send(job_id)
    until(lambda: len(machine.pictures()) == 2, "an image is in hand")
    with psycopg.connect(machine.database_url, autocommit=True) as admin:
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = ''"
            " AND datname = current_database() AND pid <> pg_backend_pid()"
        )
    gate.open()
    ended = machine.until_ended(job_id)
    assert (ended.images_done, machine.shard(job_id).failures) == (4, 0)
    assert worker.alive


def test_while_redis_is_away_it_says_so_once_and_then_goes_on(
    tmp_path: Path, postgres_url: str, own_redis: RedisServer
) -> None:
    machine = Machine(tmp_path, postgres_url, own_redis.url)
    with closing(machine):
        worker = machine.ready()
        machine.done("before")
        own_redis.stop()
        worker.until_said("away, trying on")
        assert worker.probe("livez")[0] == worker.probe("readyz")[0] == 200
        own_redis.start(empty=True)
        machine.done("after")
        worker.until_said("back after")
        assert worker.said.count("away, trying on") == 1


def test_the_results_of_an_ended_job_are_gathered(machine: Machine) -> None:
    worker = machine.ready()
    job_id = machine.job("gathered", 3)
    machine.send(job_id)
    until(lambda: machine.read(job_id).published_at is not None, "the results are gathered")
    out = machine.root / "gathered" / "out"
    assert len((out / "results.jsonl").read_bytes().splitlines()) == 3
    assert json.loads((out / "summary.json").read_bytes())["processed"] == 3
    assert worker.metric('samjobs_worker_gathered_jobs_total{result="done"}') == 1
    assert worker.metric('samjobs_worker_images_total{outcome="done"}') == 3
    assert worker.metric("samjobs_worker_instances_total") == 3


def test_results_that_cannot_be_gathered_are_tried_again(machine: Machine) -> None:
    """By whoever looks after the keeper's time; nobody fails for it."""
    gate = machine.hold_at(2)
    worker = machine.ready(environment=gate.environment, STALE_JOB_TIMEOUT_SECONDS=1, HEARTBEAT_SECONDS=0.1)
    job_id = machine.job("late", 2)
    out = machine.root / "late" / "out"
    machine.send(job_id)
    until(lambda: len(machine.pictures()) == 2, "the last image is in hand")
    (out / "results.jsonl").mkdir()
    gate.open()
    worker.until_said("could not be gathered")
    assert machine.read(job_id).published_at is None
    shutil.rmtree(out / "results.jsonl")
    machine.done("meanwhile")
    until(lambda: machine.read(job_id).published_at is not None, "the results are gathered after all")


def _age_s(machine: Machine, job_id: object) -> float:
    with machine.store.read() as conn:
        heard = machine.shard(job_id).heartbeat_at  # type: ignore[arg-type]
        assert heard is not None
        return (now(conn) - heard).total_seconds()
