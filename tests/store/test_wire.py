"""Statements sent together on a real connection: what comes back, what a fault leaves, and that none waits for ever."""

import signal
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from types import FrameType
from typing import Any
from uuid import UUID

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy import exc as sa_errors
from sqlalchemy.dialects.postgresql import ARRAY

from samjobs.errors import DatabaseUnavailable
from samjobs.store import Connection, Store, connect
from samjobs.store.together import Statement, together

ADD = Statement(sa.text("INSERT INTO words VALUES (:word)"))
COUNT = Statement(sa.select(sa.func.count()).select_from(sa.text("words")))
PID = Statement(sa.select(sa.func.pg_backend_pid()))


def sleep(seconds: float) -> Statement:
    return Statement(sa.select(sa.func.pg_sleep(sa.literal(seconds, sa.Float))))


@pytest.fixture
def on_postgres(postgres_url: str) -> Iterator[Store]:
    store = connect(postgres_url)
    with store.begin() as conn:
        conn.exec_driver_sql("CREATE TABLE words (word text PRIMARY KEY)")
    yield store
    store.close()


def words(store: Store) -> list[str]:
    with store.read() as conn:
        return list(conn.execute(sa.text("SELECT word FROM words ORDER BY 1")).scalars())


def prepared(conn: Connection) -> int:
    count: int = conn.exec_driver_sql("SELECT count(*) FROM pg_prepared_statements").scalar_one()
    return count


VALUES: dict[str, tuple[Any, Any]] = {
    "small number": (sa.Integer(), 7),
    "number": (sa.Integer(), 70_000),
    "text": (sa.Text(), "50 % of 'it', \\ and \"that\" $1 %(x)s :y 🦊\n"),
    "nothing": (sa.Text(), None),
    "id": (sa.Uuid(), UUID(int=7)),
    "time": (sa.DateTime(timezone=True), datetime(2026, 2, 3, 4, 5, 6, 7, tzinfo=UTC)),
    "truth": (sa.Boolean(), True),
    "texts": (ARRAY(sa.Text()), ["a,b", '"', "{}", "NULL", ""]),
    "ids": (ARRAY(sa.Uuid()), [UUID(int=1), UUID(int=2)]),
    "times": (ARRAY(sa.DateTime(timezone=True)), [datetime(2026, 2, 3, tzinfo=UTC)]),
}


@pytest.mark.parametrize("pooled", [False, True])
@pytest.mark.parametrize("kind", VALUES)
def test_a_value_comes_back_as_it_went(postgres_url: str, kind: str, pooled: bool) -> None:
    of, value = VALUES[kind]
    asked = Statement(sa.select(sa.cast(sa.bindparam("value", type_=of), of)))
    store = connect(postgres_url, pooled=pooled)
    with store.begin() as conn:
        for _ in range(2):  # prepared, and taken up again
            assert together(conn, (asked, {"value": value})) == [[(value,)]]
        assert prepared(conn) == (0 if pooled else 1)
    store.close()


def test_each_statement_sees_what_the_ones_before_it_did(on_postgres: Store) -> None:
    with on_postgres.begin() as conn:
        found = together(conn, (COUNT, {}), (ADD, {"word": "a"}), (COUNT, {}), (ADD, {"word": "b"}), (COUNT, {}))
        assert found == [[(0,)], [], [(1,)], [], [(2,)]]
        assert words(on_postgres) == [], "nothing is committed before the block ends"
    assert words(on_postgres) == ["a", "b"]


@pytest.mark.parametrize("began", [False, True])
def test_the_last_trip_commits(on_postgres: Store, began: bool) -> None:
    with on_postgres.begin() as conn:
        if began:
            together(conn, (ADD, {"word": "a"}))
        together(conn, (ADD, {"word": "b"}), last=True)
        assert words(on_postgres) == ["a", "b"][not began :]


@pytest.mark.parametrize("last", [False, True])
def test_the_first_fault_is_told_and_undoes_all(on_postgres: Store, last: bool) -> None:
    for _ in range(2):
        with pytest.raises(sa_errors.IntegrityError, match="words_pkey"), on_postgres.begin() as conn:
            together(conn, (ADD, {"word": "a"}), (ADD, {"word": "a"}), (ADD, {"word": "b"}), last=last)
        assert words(on_postgres) == []
    with on_postgres.begin() as conn:
        assert together(conn, (ADD, {"word": "a"}), (COUNT, {})) == [[], [(1,)]]


def test_a_statement_that_the_server_does_not_take_is_told_each_time(on_postgres: Store) -> None:
    wrong = Statement(sa.text("SELECT 1 FROM nowhere"))
    for _ in range(2):
        with pytest.raises(sa_errors.ProgrammingError, match="nowhere"), on_postgres.engine.begin() as conn:
            together(conn, (PID, {}), (wrong, {}))


def test_a_rollback_makes_the_server_forget_and_costs_nothing_that_stays(on_postgres: Store) -> None:
    def fail(conn: Connection) -> None:
        for _ in range(10):  # often enough that the driver prepares it: its rollback then has the server forget all
            conn.exec_driver_sql("SELECT %(one)s::int", {"one": 1})
        together(conn, (COUNT, {}))
        raise LookupError

    for _ in range(20):
        with pytest.raises(LookupError), on_postgres.begin() as conn:
            fail(conn)
        with on_postgres.begin() as conn:
            assert together(conn, (COUNT, {}), (PID, {}))[0] == [(0,)]
            assert prepared(conn) <= 4


def test_a_rollback_to_a_savepoint_makes_it_forget_too(on_postgres: Store) -> None:
    with on_postgres.begin() as conn:
        together(conn, (ADD, {"word": "kept"}))
        for _ in range(10):
            conn.exec_driver_sql("SELECT %(one)s::int", {"one": 1})
        with pytest.raises(sa_errors.IntegrityError), conn.begin_nested():
            together(conn, (ADD, {"word": "kept"}))
        together(conn, (ADD, {"word": "more"}))
    assert words(on_postgres) == ["kept", "more"]


@pytest.mark.parametrize("last", [False, True])
def test_a_column_of_another_type_costs_one_fault_and_no_more(
    on_postgres: Store, postgres_url: str, last: bool
) -> None:
    read = Statement(sa.text("SELECT word FROM words"))
    with on_postgres.begin() as conn:
        together(conn, (read, {}))
    migrating = connect(postgres_url)
    with migrating.begin() as conn:
        conn.exec_driver_sql("ALTER TABLE words ALTER word TYPE varchar")
    migrating.close()
    with pytest.raises(sa_errors.DBAPIError, match="cached plan"), on_postgres.begin() as conn:
        together(conn, (read, {}), last=last)
    with on_postgres.begin() as conn:
        assert together(conn, (read, {}), last=last) == [[]]


def test_a_value_that_is_forgotten_is_told(on_postgres: Store) -> None:
    with pytest.raises(KeyError, match="word"), on_postgres.begin() as conn:
        together(conn, (ADD, {"words": "a"}))
    assert words(on_postgres) == []


def test_more_than_any_buffer_holds_goes_both_ways_at_once(on_postgres: Store) -> None:
    ids = [UUID(int=number) for number in range(100_000)]
    given = sa.func.unnest(sa.bindparam("ids", type_=ARRAY(sa.Uuid()))).column_valued("id")
    echo = Statement(sa.select(given))
    with on_postgres.begin() as conn:
        found = together(conn, *[(echo, {"ids": ids})] * 3)
    assert all([row[0] for row in rows] == ids for rows in found)


class Interrupted(Exception):
    """By a signal."""


def test_an_interrupted_wait_ends_at_once_and_the_next_is_not_given_its_answer(on_postgres: Store) -> None:
    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with pytest.raises(Interrupted), on_postgres.begin() as conn:
            together(conn, (ADD, {"word": "a"}), (sleep(600), {}))
    finally:
        signal.signal(signal.SIGALRM, before)
    with on_postgres.begin() as conn:
        assert together(conn, (COUNT, {})) == [[(0,)]]


@pytest.mark.parametrize("waits", [True, False])
def test_a_connection_that_ends_is_an_outage_and_the_next_one_works(
    on_postgres: Store, postgres_server: str, waits: bool
) -> None:
    def end(pid: int) -> None:
        with psycopg.connect(f"{postgres_server}/postgres", autocommit=True) as admin:
            admin.execute("SELECT pg_terminate_backend(%s)", [pid])

    def ask() -> None:
        with on_postgres.begin() as conn:
            (((pid,),),) = together(conn, (PID, {}))
            if waits:
                threading.Timer(0.3, end, [pid]).start()
                together(conn, (sleep(600), {}))
            end(pid)
            together(conn, (PID, {}))

    with pytest.raises(DatabaseUnavailable):
        ask()
    with on_postgres.begin() as conn:
        assert together(conn, (COUNT, {})) == [[(0,)]]
