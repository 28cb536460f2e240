"""What is asked all the time must not cost more because much is finished: the plans of the real statements say so.

Each case runs a function of the store, takes the statements that it sent, and asks the database how it would run them
beside thousands of finished rows. Postgres also says how many pages it touched.
"""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy as sa

from samjobs.names import Reason
from samjobs.states import ImageState, JobState, ShardState
from samjobs.store import Connection, Store, connect, images, jobs, migrate, shards, views
from samjobs.store.rows import Shard
from samjobs.store.tables import events as event_rows
from samjobs.store.tables import images as image_rows
from samjobs.store.tables import jobs as job_rows
from samjobs.store.tables import name_hash
from samjobs.store.tables import shards as shard_rows
from tests.postgres import database
from tests.store.builders import ME, claim, job, outcomes, running

FINISHED = 5_000
MOST_PAGES = 60  # of 8 kB, over all statements of a function; the finished rows fill several hundred
Sent = list[tuple[str, Any]]

CASES: dict[str, Callable[[Connection, Shard], object]] = {
    "claim of any shard": lambda conn, shard: shards.claim(conn, limit=1),
    "claim in a region": lambda conn, shard: shards.claim(conn, limit=1, region="default"),
    "claim in a job": lambda conn, shard: shards.claim(conn, limit=1, job_id=shard.job_id),
    "heartbeat": lambda conn, shard: shards.heartbeat(conn, shard.id, shard.attempt, ME),
    "record": lambda conn, shard: shards.record(conn, shard.id, shard.attempt, outcomes(shard)),
    "release": lambda conn, shard: shards.release(conn, shard.id, shard.attempt, reason=Reason.DRAINED),
    "next due time": lambda conn, shard: shards.next_due_at(conn, shard.job_id),
    "abandoned shards": lambda conn, shard: shards.abandoned(conn, older_than_s=60),
    "shards at work": lambda conn, shard: shards.at_work(conn),
    "shards of a job at work": lambda conn, shard: shards.at_work(conn, shard.job_id),
    "pending images": lambda conn, shard: images.pending(conn, shard),
    "failed images": lambda conn, shard: images.failed(conn, shard.job_id),
    "history of a photo": lambda conn, shard: images.history(conn, "0001.jpg"),
    "prune": lambda conn, shard: jobs.prune_finished(conn),
    "queue status": lambda conn, shard: views.queue_status(conn),
    "active jobs": lambda conn, shard: jobs.list_jobs(conn, active_only=True),
    "find by id": lambda conn, shard: jobs.find(conn, shard.job_id.hex[:8]),
}


@pytest.mark.parametrize("case", CASES)
def test_no_cost_grows_with_finished_rows(busy: tuple[Store, Shard], case: str) -> None:
    store, shard = busy
    with _undone(store) as conn:
        statements = [one for one in _sent_by(conn, shard, case) if re.match("SELECT|UPDATE|DELETE", one[0])]
        assert statements
        if store.is_sqlite:
            for statement, parameters in statements:
                _walks_partial_indexes_only(conn, statement, parameters)
        else:
            assert sum(_pages(conn, statement, parameters) for statement, parameters in statements) < MOST_PAGES


@pytest.mark.parametrize(
    ("which", "index"),
    [
        ("claim of any shard", "ix_shards_claim"),
        ("claim in a region", "ix_shards_claim_region"),
        ("claim in a job", "ix_shards_claim_job"),
    ],
)
def test_a_claim_walks_its_own_index_in_order_and_sorts_nothing(
    busy: tuple[Store, Shard], which: str, index: str
) -> None:
    store, shard = busy
    with _undone(store) as conn:
        ((statement, parameters),) = [one for one in _sent_by(conn, shard, which) if "available_at <=" in one[0]]
        plan = str(_explain(conn, statement, parameters))
    assert re.search(rf"\b{index}\b", plan)
    assert "Sort" not in plan
    assert "TEMP B-TREE" not in plan


class _Undo(Exception):
    """Ends a transaction without keeping what it wrote."""


@contextmanager
def _undone(store: Store) -> Iterator[Connection]:
    with suppress(_Undo), store.begin() as conn:
        yield conn
        raise _Undo


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def busy(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, Shard]]:
    """A store with much that is finished, and one job at work: the shard is running, more are queued."""
    with ExitStack() as stack:
        if request.param == "sqlite":
            url = f"sqlite:///{tmp_path_factory.mktemp('busy') / 'jobs.db'}"
        else:
            url = stack.enter_context(database(request.getfixturevalue("postgres_server")))
        store = connect(url)
        stack.callback(store.close)
        migrate(store)
        yield store, _fill(store)


def _fill(store: Store) -> Shard:
    over, at_work = job(store, 2), job(store, 400)
    shard = running(store, at_work)
    claim(store, limit=2, job_id=at_work)
    with store.begin() as conn:
        _copy(conn, job_rows, job_rows.c.id == over, FINISHED // 5, _finished_job)
        _copy(conn, shard_rows, shard_rows.c.job_id == over, FINISHED, _finished_shard)
        _copy(conn, image_rows, image_rows.c.job_id == over, FINISHED, _finished_image)
        _copy(conn, event_rows, event_rows.c.job_id == over, FINISHED, lambda n: {"id": 10_000 + n})
    if not store.is_sqlite:
        with store.begin() as conn:
            conn.exec_driver_sql("ANALYZE")
    return shard


def _copy(
    conn: Connection,
    table: sa.Table,
    which: sa.ColumnElement[bool],
    count: int,
    changed: Callable[[int], dict[str, Any]],
) -> None:
    row = dict(conn.execute(table.select().where(which).limit(1)).one()._mapping)
    conn.execute(table.insert(), [row | changed(n) for n in range(count)])


def _finished_job(n: int) -> dict[str, Any]:
    return {"id": uuid4(), "dedupe_key": None, "state": JobState.SUCCEEDED}


def _finished_shard(n: int) -> dict[str, Any]:
    return {"id": uuid4(), "index": 100 + n, "state": ShardState.SUCCEEDED}


def _finished_image(n: int) -> dict[str, Any]:
    name = f"old/{n}.jpg"
    names = {"key": name, "key_hash": name_hash(name), "uri": name, "uri_hash": name_hash(name)}
    return {"index": 100 + n, "state": ImageState.DONE, **names}


def _sent_by(conn: Connection, shard: Shard, case: str) -> Sent:
    sent: Sent = []

    def note(_conn: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, executemany: bool) -> None:
        sent.append((statement, parameters[0] if executemany else parameters))

    sa.event.listen(conn, "before_cursor_execute", note)
    CASES[case](conn, shard)
    sa.event.remove(conn, "before_cursor_execute", note)
    return sent


def _explain(conn: Connection, statement: str, parameters: Any) -> Any:
    if conn.dialect.name == "sqlite":
        return [row[3] for row in conn.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)]
    asked = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}"
    found = conn.exec_driver_sql(asked, parameters).scalar_one()
    return found if isinstance(found, list) else json.loads(found)


def _walks_partial_indexes_only(conn: Connection, statement: str, parameters: Any) -> None:
    """A SCAN in SQLite's plan is a walk over a whole index or table: only what holds nothing finished may be."""
    for step in _explain(conn, statement, parameters):
        if step.startswith("SCAN") and not step.startswith(("SCAN CONSTANT", "SCAN anon")):
            index = re.search(r"INDEX (\w+)", step)
            assert index is not None, f"{step}: {statement}"
            sql = conn.execute(
                sa.text("SELECT sql FROM sqlite_master WHERE name = :name"), {"name": index[1]}
            ).scalar_one()
            assert " WHERE " in sql, f"{step}: {statement}"


def _pages(conn: Connection, statement: str, parameters: Any) -> int:
    plan = _explain(conn, statement, parameters)[0]["Plan"]
    pages: int = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
    return pages
