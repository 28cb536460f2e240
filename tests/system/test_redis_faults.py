"""Redis forgets, restarts, goes away for a minute, or drops keys: seconds are lost, and nothing else."""

import pytest

from samjobs.states import JobState
from tests.system.system import System

JOBS, IMAGES = 3, 30


def _begun(system: System) -> list:
    system.start_all(workers=2)
    job_ids = [system.submit(f"job-{number}", IMAGES, shard_size=3) for number in range(JOBS)]
    system.until(lambda: sum(system.job(one).images_done for one in job_ids) > 5, "work has begun")
    return job_ids


def _end(system: System, job_ids: list) -> None:
    system.until_ended(*job_ids, patience_s=90)
    for job_id in job_ids:
        system.check_done_once(job_id)
    assert all(process.alive for process in system.processes), "a process ended although Redis came back"


def test_flushall(system: System) -> None:
    job_ids = _begun(system)
    system.redis.forget()
    _end(system, job_ids)


@pytest.mark.parametrize("empty", [False, True], ids=["with its data", "empty"])
def test_a_restart(system: System, empty: bool) -> None:
    job_ids = _begun(system)
    system.redis.kill()
    system.redis.start(empty=empty)
    _end(system, job_ids)


def test_a_minute_away(direct: System) -> None:
    """Told once per outage by each process, and over when it is over."""
    job_ids = _begun(direct)
    direct.redis.kill()
    waited = direct.submit("meanwhile", 4)  # Redis is not needed to submit
    direct.let_pass(60)
    assert direct.job(waited).state is JobState.QUEUED
    direct.redis.start(empty=True)
    _end(direct, [*job_ids, waited])
    for process in direct.processes:
        lines = [line for line in process.said.splitlines() if "redis" in line.lower() and "Traceback" not in line]
        assert 1 <= len(lines) <= 6, f"{process.kind} told of the outage in {len(lines)} lines:\n{process.said}"


def test_an_unsafe_eviction_policy_is_warned_of_and_loses_nothing(direct: System) -> None:
    direct.redis.stop()
    direct.redis.start(options=("--maxmemory", "3mb", "--maxmemory-policy", "allkeys-random"))
    job_ids = _begun(direct)
    _end(direct, job_ids)
    controller = direct.processes[0]
    assert "allkeys-random" in controller.said
    assert controller.said.count("allkeys-random") == 1
