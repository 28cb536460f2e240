"""Connecting, and what goes wrong with connections: each fault has its class, its remedy, and no password."""

import socket
import sqlite3
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from uuid import UUID

import psycopg
import pytest

from samjobs.errors import DatabaseUnavailable, InvalidInput, OutputUnwritable, SamjobsError, SchemaMismatch
from samjobs.store import Connection, Store, connect, jobs, migrate, now, shards
from tests.store.builders import claim, job, new_images, run, spec

MARKER = "marker-password"


def _use(store: Store) -> None:
    with store.read() as conn:
        jobs.list_jobs(conn)


def _silent_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_every_common_spelling_of_a_postgres_address_works(postgres_url: str, scheme: str) -> None:
    store = connect(postgres_url.replace("postgresql", scheme, 1))
    _use(store)
    assert not store.is_sqlite
    store.close()


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://me:{MARKER}@host:port/name",
        f"mysql://me:{MARKER}@host/name",
        MARKER,
        "sqlite://",
        "sqlite:///:memory:",
    ],
)
def test_an_address_that_cannot_be_used_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(InvalidInput, match=r"sqlite:///") as refused:
        connect(url)
    assert MARKER not in "".join(traceback.format_exception(refused.value))


FAULTS: dict[str, Callable[[str], str]] = {
    "nobody listens": lambda server: f"postgresql://me:{MARKER}@127.0.0.1:{_silent_port()}/name",
    "no such host": lambda server: f"postgresql://me:{MARKER}@samjobs.invalid/name",
    "no such role": lambda server: server.replace("samjobs@", f"nobody:{MARKER}@") + "/template",
    "no such database": lambda server: server.replace("samjobs@", f"samjobs:{MARKER}@") + "/absent",
    "a file as certificate": lambda server: (
        server.replace("samjobs@", f"samjobs:{MARKER}@") + "/template?sslmode=verify-full&sslrootcert=/dev/null"
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_postgres_that_does_not_answer_is_unavailable_and_its_password_stays_secret(
    postgres_server: str, fault: str
) -> None:
    store = connect(FAULTS[fault](postgres_server))
    with pytest.raises(DatabaseUnavailable) as unavailable:
        _use(store)
    told = "".join(traceback.format_exception(unavailable.value))
    assert MARKER not in told + store.name + repr(store)
    assert store.name in str(unavailable.value)
    store.close()


def test_a_connection_that_breaks_is_unavailable_and_the_next_one_works(
    postgres_server: str, postgres_url: str
) -> None:
    store = connect(postgres_url)

    def lose_the_connection() -> None:
        with store.begin() as conn:
            pid = conn.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
            with psycopg.connect(f"{postgres_server}/postgres", autocommit=True) as admin:
                admin.execute("SELECT pg_terminate_backend(%s)", [pid])
            now(conn)

    with pytest.raises(DatabaseUnavailable):
        lose_the_connection()
    _use(store)
    store.close()


def _pid(conn: Connection) -> int:
    pid: int = conn.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
    return pid


def test_a_thread_that_keeps_its_connection_asks_the_pool_for_none(postgres_url: str) -> None:
    store = connect(postgres_url, connections=1, ask_after_s=60)
    with store.kept():
        with store.begin() as conn:
            first = _pid(conn)
        with store.read() as conn:
            assert _pid(conn) == first
        assert store.engine.pool.checkedout() == 1
        with ThreadPoolExecutor(1) as other, pytest.raises(DatabaseUnavailable, match="no free connection"):
            other.submit(_use, _hasty(store)).result()
    assert store.engine.pool.checkedout() == 0
    _use(store)
    assert store.engine.pool.checkedout() == 0, "kept beyond the block"
    store.close()


def _hasty(store: Store) -> Store:
    store.engine.pool._timeout = 0.1
    return store


def test_a_transaction_in_another_one_has_a_connection_of_its_own(postgres_url: str) -> None:
    store = connect(postgres_url, ask_after_s=60)
    with store.kept():
        with store.begin() as outer, store.begin() as inner:
            assert _pid(outer) != _pid(inner)
        assert store.engine.pool.checkedout() == 1, "one is kept, and no more"
    store.close()


def test_a_fault_in_a_kept_connection_is_not_the_next_transactions(postgres_url: str) -> None:
    store = connect(postgres_url, ask_after_s=60)

    def fail(job_id: UUID) -> None:
        with store.begin() as conn:
            jobs.set_suspend(conn, job_id, True, actor="ada")
            raise LookupError

    with store.kept():
        job_id = job(store)
        with pytest.raises(LookupError):
            fail(job_id)
        with store.begin() as conn:
            found = jobs.get(conn, job_id)
            assert found is not None
            assert not found.suspend
    store.close()


def test_a_kept_connection_that_was_idle_is_asked_before_it_is_used(postgres_server: str, postgres_url: str) -> None:
    store = connect(postgres_url, ask_after_s=0.2)
    with store.kept():
        with store.begin() as conn:
            pid = _pid(conn)
        with psycopg.connect(f"{postgres_server}/postgres", autocommit=True) as admin:
            admin.execute("SELECT pg_terminate_backend(%s)", [pid])
        time.sleep(0.3)  # being idle for longer than `ask_after_s` is what is tested
        _use(store)
    store.close()


def test_a_connection_whose_first_transaction_failed_is_asked_too(postgres_server: str, postgres_url: str) -> None:
    store = connect(postgres_url)

    def fail() -> None:
        with store.begin() as conn:
            with psycopg.connect(f"{postgres_server}/postgres", autocommit=True) as admin:
                admin.execute("SELECT pg_terminate_backend(%s)", [_pid(conn)])
            raise LookupError

    with suppress(LookupError, DatabaseUnavailable):
        fail()
    _use(store)
    store.close()


def test_with_a_pooler_nothing_is_prepared_in_the_session(postgres_url: str) -> None:
    counts = {}
    for pooled in (False, True):
        store = connect(postgres_url, pooled=pooled)
        job(store, 20)
        for _ in range(10):
            claim(store)
        with store.read() as conn:
            counts[pooled] = conn.exec_driver_sql("SELECT count(*) FROM pg_prepared_statements").scalar_one()
        store.close()
    assert counts[True] == 0
    assert counts[False] > 0


def test_a_full_disk_is_critical_and_nothing_is_lost(sqlite_url: str) -> None:
    store = connect(sqlite_url)
    migrate(store)
    job_id = job(store, 2)

    def fill() -> None:
        with store.begin() as conn:
            # What SQLite says when the disk is full, by its own limit on the file's size.
            pages = conn.exec_driver_sql("PRAGMA page_count").scalar_one()
            conn.exec_driver_sql(f"PRAGMA max_page_count = {pages + 1}")
            other = jobs.submit(conn, spec()).job_id
            jobs.add_images(conn, other, new_images(5000))

    with pytest.raises(OutputUnwritable, match="free some space"):
        fill()
    store.close()
    store = connect(sqlite_url)
    run(store, job_id)
    store.close()


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    store = connect(f"sqlite:///{tmp_path}/absent/jobs.db")
    with pytest.raises(OutputUnwritable, match=r"absent/jobs\.db"):
        migrate(store)


def test_a_file_that_is_no_database_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text('{"image": "a.jpg"}\n' * 1000)
    with pytest.raises(InvalidInput, match=r"results\.jsonl is damaged or not a SQLite file"):
        migrate(connect(f"sqlite:///{path}"))
    assert path.read_text() == '{"image": "a.jpg"}\n' * 1000


def test_a_store_without_tables_says_to_migrate(postgres_server: str, tmp_path: Path) -> None:
    for url in (f"sqlite:///{tmp_path}/new.db", f"{postgres_server}/postgres"):
        store = connect(url)
        with pytest.raises(SchemaMismatch, match="migrate"):
            _use(store)
        store.close()


def test_a_lock_held_for_too_long_is_unavailable(sqlite_url: str) -> None:
    store = connect(sqlite_url)
    migrate(store)

    def wait_no_longer() -> None:
        with store.read() as conn:
            conn.exec_driver_sql("PRAGMA busy_timeout = 0")
        with store.begin() as conn:
            shards.claim(conn, limit=1)

    holder = sqlite3.connect(store.name, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(DatabaseUnavailable, match="locked by another process"):
        wait_no_longer()
    holder.close()
    store.close()


def test_a_read_only_database_is_critical(sqlite_url: str) -> None:
    store = connect(sqlite_url)
    migrate(store)
    with pytest.raises(OutputUnwritable, match="allow writing"), store.begin() as conn:
        jobs_of_a_read_only_connection(conn)
    store.close()


def jobs_of_a_read_only_connection(conn: Connection) -> None:
    conn.exec_driver_sql("PRAGMA query_only = ON")
    jobs.submit(conn, spec())


def test_a_fault_of_the_code_is_not_dressed_up(store: Store) -> None:
    def misuse() -> None:
        with store.begin() as conn:
            conn.exec_driver_sql("SELECT 1 FRM x")

    with pytest.raises(Exception, match="FRM") as raised:
        misuse()
    assert not isinstance(raised.value, SamjobsError)
