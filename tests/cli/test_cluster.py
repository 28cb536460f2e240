"""Who works and what waits; the schema of the job table; and a database that cannot be used."""

from pathlib import Path
from uuid import uuid4

import psycopg

from samjobs.decisions.scaling import Current, Memory, Scale, Speed
from samjobs.names import Reason
from samjobs.store import pools
from samjobs.store.migrations import HEAD
from samjobs.store.rows import Pool
from tests.cli.job_table import JobTable, cells
from tests.store.builders import ME, job, running

WITHOUT_PSYCOPG = """
import sys
sys.modules["psycopg"] = None
"""


def test_workers_lists_those_that_are_alive(postgres_table: JobTable) -> None:
    assert postgres_table.run("workers").out == "no worker is alive\n"
    postgres_table.register_worker(pool="a100", region="us")

    header, row = cells(postgres_table.run("workers").out)

    assert header == ["POOL", "REGION", "NODE", "PID", "STATE", "DEVICE", "MODEL", "IMAGES", "HEARD", "AGE"]
    assert row[:8] == ["a100", "us", "gpu-7", "4711", "ready", "cuda", "facebook/sam3", "0"]
    (told,) = postgres_table.run("workers", "--json").lines
    assert (told["incarnation"], told["state"]) == (str(ME), "ready")


def test_pools_count_workers_beside_what_waits_in_their_region(postgres_table: JobTable) -> None:
    postgres_table.register_worker(pool="a100", region="us")
    postgres_table.register_worker(pool="l4", region="us", incarnation=uuid4())
    running(postgres_table.store, job(postgres_table.store, 4, region="us"))
    job(postgres_table.store, 4, region="eu", suspend=True)

    header, *rows = cells(postgres_table.run("pools").out)

    told = [{title: row[header.index(title)] for title in _TOLD} for row in rows]
    assert [tuple(row.values()) for row in told] == [
        ("-", "eu", "0", "0", "0", "2", "0"),
        ("a100", "us", "1", "1", "1", "0", "1"),
        ("l4", "us", "1", "1", "1", "0", "1"),
    ]


def test_pools_tell_how_many_the_controller_wants_and_one_pool_says_why(postgres_table: JobTable) -> None:
    postgres_table.register_worker(pool="gpu", region="us")
    with postgres_table.store.begin() as conn:
        pools.save(
            conn, _decided("gpu", "us", Scale(2, Reason.SCALED_UP, "1 → 2: 37 shards want 2", 2, False, Memory()))
        )
        pools.save(conn, _decided("spare", "eu", Scale(0, Reason.STEADY, "no work", 0, False, Memory())))

    header, *rows = cells(postgres_table.run("pools").out)
    titles = ("POOL", "REGION", "WANTED", "WORKERS", "REASON")
    assert [tuple(row[header.index(title)] for title in titles) for row in rows] == [
        ("spare", "eu", "0", "0", "Steady"),
        ("gpu", "us", "2", "1", "ScaledUp"),
    ]

    why = "lab/gpu: 2 wanted, 1 ready, 0 busy: ScaledUp: 1 → 2: 37 shards want 2\n"
    assert postgres_table.run("pools", "gpu").out == postgres_table.run("pools", "lab/gpu").out == why
    (told,) = postgres_table.run("pools", "gpu", "--json").lines
    assert (told["desired"], told["reason"], told["secondsPerImage"]) == (2, "ScaledUp", 0.25)
    unknown = postgres_table.run("pools", "gp", code=2)
    assert unknown.last.endswith("no controller has decided on a SamWorkerPool gp here, but on: lab/gpu, lab/spare")


def _decided(name: str, region: str, scale: Scale) -> Pool:
    speed = Speed(0.25, 41.5)
    return Pool.of("lab", name, region=region, engine="sam3", current=Current(1, 1, 0), speed=speed, scale=scale)


_TOLD = ("POOL", "REGION", "WORKERS", "READY", "DUE", "HELD", "RUNNING")


def test_migrate_says_from_which_revision_to_which(postgres_table: JobTable, tmp_path: Path) -> None:
    assert f"is at revision {HEAD} already" in postgres_table.run("migrate").out
    said = postgres_table.run("migrate", "--db", tmp_path / "below" / "new.db")
    assert said.out == f"{tmp_path / 'below' / 'new.db'} is migrated from revision none to {HEAD}\n"


def test_migrate_can_wait_for_who_does_it_and_changes_nothing_itself(
    postgres_server: str, postgres_table: JobTable
) -> None:
    postgres_table.url = without_tables(postgres_server)
    waiting = postgres_table.start("migrate", "--wait")
    assert waiting.stderr is not None
    told = waiting.stderr.readline()
    assert told.startswith("samjobs: waiting: ")
    assert "has schema revision none" in told
    assert "from revision none" in postgres_table.run("migrate").out, "the one that waits has changed nothing"
    out, err = waiting.communicate(timeout=60)
    assert (waiting.returncode, out, err) == (0, "", "")


def test_a_database_that_is_not_migrated_names_the_command_that_does_it(
    postgres_server: str, postgres_table: JobTable
) -> None:
    postgres_table.url = without_tables(postgres_server)
    refused = postgres_table.run("get", code=3)
    assert f"has schema revision none, this samjobs needs {HEAD}: migrate it by `samjobs migrate`" in refused.last
    assert f"from revision none to {HEAD}" in postgres_table.run("migrate").out
    assert "no jobs" in postgres_table.run("get").out


def without_tables(postgres_server: str) -> str:
    """The address of a new database, in which there is nothing."""
    name = f"bare_{uuid4().hex}"
    with psycopg.connect(f"{postgres_server}/postgres", autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}".encode())
    return f"{postgres_server}/{name}"


def test_a_database_that_is_away_is_told_in_one_line_without_its_password(postgres_table: JobTable) -> None:
    postgres_table.url = "postgresql://me:hush@127.0.0.1:1/samjobs"
    said = postgres_table.run("get", code=3)
    assert said.last.startswith("samjobs: database postgresql+psycopg://***@127.0.0.1:1/samjobs is unavailable: ")
    assert "hush" not in said.out + said.err
    assert "Traceback" not in said.err


def test_postgres_without_its_library_is_told_with_what_to_install(postgres_table: JobTable) -> None:
    (postgres_table.root / "sitecustomize.py").write_text(WITHOUT_PSYCOPG)
    postgres_table.environment["PYTHONPATH"] = str(postgres_table.root)
    assert postgres_table.run("get", code=2).last.endswith("psycopg is not installed: pip install 'samjobs[server]'")


def test_queue_and_process_stay_on_one_machine(postgres_table: JobTable) -> None:
    said = postgres_table.run("queue", "status", code=2)
    assert "this command works on a SQLite file, and SAMJOBS_DATABASE_URL names a server" in said.last
