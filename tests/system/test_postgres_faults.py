"""Postgres restarts, or drops every connection: all processes stay, nothing is lost, nothing is doubled."""

import psycopg

from tests import postgres
from tests.system.system import System


def _begun(system: System) -> list:
    system.start_all(workers=2)
    job_ids = [system.submit(f"job-{number}", 40, shard_size=4) for number in range(3)]
    system.until(lambda: sum(system.job(one).images_done for one in job_ids) > 5, "work has begun")
    return job_ids


def _end(system: System, job_ids: list) -> None:
    system.until_ended(*job_ids, patience_s=90)
    for job_id in job_ids:
        system.check_done_once(job_id)
    assert all(process.alive for process in system.processes), f"a process ended\n{system.told()}"


def test_a_restart_of_postgres(system: System, postgres_process: postgres.Server) -> None:
    job_ids = _begun(system)
    postgres_process.stop()
    postgres_process.start()
    _end(system, job_ids)


def test_postgres_away_for_ten_seconds(system: System, postgres_process: postgres.Server) -> None:
    job_ids = _begun(system)
    postgres_process.stop()
    system.let_pass(10)
    postgres_process.start()
    _end(system, job_ids)
    for process in system.processes:
        lines = [line for line in process.said.splitlines() if "database" in line.lower()]
        assert len(lines) <= 10, f"{process.kind} told of the outage in {len(lines)} lines:\n{process.said}"


def test_every_connection_is_terminated_again_and_again(system: System) -> None:
    job_ids = _begun(system)
    for _ in range(3):
        with psycopg.connect(system.direct_url, autocommit=True) as admin:
            admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        system.let_pass(0.7)
    _end(system, job_ids)
