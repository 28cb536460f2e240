"""What is asked all the time must not cost more because much is finished: the plans of the real statements say so.

Each case runs a function of the store, takes the statements that it sent, and asks the database how it would run them
beside thousands of finished rows. Postgres also says how many pages it touched.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy as sa

from samjobs.decisions.dispatch import Limits
from samjobs.decisions.scaling import Demand
from samjobs.names import Reason
from samjobs.states import JOB_ACTIVE, ImageState, JobState, ShardState
from samjobs.store import (
    Connection,
    Store,
    connect,
    deliveries,
    images,
    jobs,
    lanes,
    measures,
    migrate,
    now,
    pages,
    repeats,
    requests,
    shards,
    tenancy,
    views,
)
from samjobs.store import scaling as scaling_queries
from samjobs.store.rows import Shard
from samjobs.store.tables import deliveries as delivery_rows
from samjobs.store.tables import events as event_rows
from samjobs.store.tables import images as image_rows
from samjobs.store.tables import jobs as job_rows
from samjobs.store.tables import name_hash
from samjobs.store.tables import requests as request_rows
from samjobs.store.tables import shards as shard_rows
from tests.postgres import database
from tests.store.builders import ME, claim, job, new_images, only, outcomes, running, spec
from tests.store.plans import plan_of, touched

FINISHED = 5_000
LONG_AGO = datetime(2024, 1, 1, tzinfo=UTC)
LATER = datetime(2200, 1, 1, tzinfo=UTC)
LIMITS = Limits(region_concurrency=10, dispatch_window=2)
MOST_PAGES = 60  # of 8 kB, over all statements of a function; the finished rows fill several hundred
Sent = list[tuple[str, Any]]

CASES: dict[str, Callable[[Connection, Shard], object]] = {
    "claim of any shard": lambda conn, shard: shards.claim(conn, limit=1),
    "claim in a job": lambda conn, shard: shards.claim(conn, limit=1, job_id=shard.job_id),
    "heartbeat": lambda conn, shard: shards.heartbeat(conn, shard.id, shard.attempt, ME),
    "record": lambda conn, shard: shards.record(conn, shard.id, shard.attempt, outcomes(shard)),
    "finish": lambda conn, shard: shards.finish(conn, shard.id, shard.attempt, outcomes(shard)),
    "release": lambda conn, shard: shards.release(conn, shard.id, shard.attempt, reason=Reason.DRAINED),
    "next due time": lambda conn, shard: shards.next_due_at(conn, shard.job_id),
    "abandoned shards": lambda conn, shard: shards.abandoned(conn, older_than_s=60),
    "shards at work": lambda conn, shard: shards.at_work(conn),
    "shards of a job at work": lambda conn, shard: shards.at_work(conn, shard.job_id),
    "pending images": lambda conn, shard: images.pending(conn, shard),
    "failed images": lambda conn, shard: images.failed(conn, shard.job_id),
    "history of a photo": lambda conn, shard: images.history(conn, "0001.jpg"),
    "prune": lambda conn, shard: jobs.prune_finished(conn),
    "jobs past their deadline": lambda conn, shard: jobs.overdue(conn),
    "silent jobs": lambda conn, shard: jobs.silent(conn, timeout_s=0),
    "jobs to list": lambda conn, shard: jobs.to_list(conn, stale_s=60),
    "jobs to publish": lambda conn, shard: jobs.to_publish(conn, stale_s=60),
    "keep": lambda conn, shard: jobs.keep(conn, shard.job_id, ME, stale_s=60),
    "dead shards": lambda conn, shard: shards.dead(conn),
    "dead shards of a tenant": lambda conn, shard: shards.dead(conn, tenant="lab"),
    "purge": lambda conn, shard: jobs.purge_dead(conn, shard.job_id, actor="ada"),
    "open requests": lambda conn, shard: requests.pending(conn, limit=10),
    "old requests": lambda conn, shard: requests.prune(conn, older_than_s=60),
    "due deliveries": lambda conn, shard: deliveries.take(conn, limit=10, lease_s=60),
    "next due delivery": lambda conn, shard: deliveries.next_due_at(conn),
    "a look at the lanes": lambda conn, shard: lanes.look(conn, per_lane=10),
    "claim in a lane": lambda conn, shard: _claim_in_a_lane(conn),
    "dispatched shards": lambda conn, shard: shards.dispatched(conn),
    "shards that stand": lambda conn, shard: shards.standing(conn, [(shard.id, shard.attempt)]),
    "shards that wait in queues": lambda conn, shard: shards.waiting_in(conn, "default", ["samjobs:retry"]),
    "what a pass decides from": lambda conn, shard: views.dispatch_view(conn, LIMITS, alive_within_s=60),
    "why a job waits": lambda conn, shard: views.waiting_view(conn, shard.job_id, LIMITS, alive_within_s=60),
    "the queue by region": lambda conn, shard: views.regions(conn),
    "demand of a region": lambda conn, shard: scaling_queries.demand(conn, "asia"),
    "demand of a region with more than is counted": lambda conn, shard: scaling_queries.demand(conn, "default", most=9),
    "speed of a region": lambda conn, shard: scaling_queries.speed(conn, "default"),
    "queue status": lambda conn, shard: views.queue_status(conn),
    "what the metrics tell": lambda conn, shard: measures.measure(conn, alive_within_s=60, ended_since=now(conn)),
    "active jobs": lambda conn, shard: jobs.list_jobs(conn, active_only=True),
    "a page of jobs": lambda conn, shard: pages.jobs_page(conn, limit=5),
    "a later page of jobs": lambda conn, shard: pages.jobs_page(conn, after=(LATER, shard.job_id), limit=5),
    "a page of a tenant's jobs": lambda conn, shard: pages.jobs_page(conn, tenants={"default"}, limit=5),
    "a page of jobs by state": lambda conn, shard: pages.jobs_page(conn, states={JobState.FAILED}),
    "a page of ended jobs": lambda conn, shard: pages.jobs_page(conn, states={JobState.SUCCEEDED}, limit=5),
    "a page of a tenant's active jobs": lambda conn, shard: pages.jobs_page(
        conn, tenants={"default"}, states=JOB_ACTIVE
    ),
    "a page of a tenant's failed jobs": lambda conn, shard: pages.jobs_page(
        conn, tenants={"default"}, states={JobState.FAILED}
    ),
    "a page of images": lambda conn, shard: pages.images_page(conn, shard.job_id),
    "a page of pending images": lambda conn, shard: pages.images_page(conn, shard.job_id, state=ImageState.PENDING),
    "an image": lambda conn, shard: pages.image(conn, shard.job_id, 0),
    "a page of dead shards": lambda conn, shard: pages.dead_page(conn),
    "a page of a tenant's dead shards": lambda conn, shard: pages.dead_page(conn, tenants={"lab"}),
    "what changed of jobs": lambda conn, shard: pages.changes(conn, [shard.job_id]),
    "a tenant's queue": lambda conn, shard: tenancy.regions(conn, {"default"}),
    "a tenant's active jobs": lambda conn, shard: tenancy.active_jobs(conn, {"default"}),
    "a repeated submission": lambda conn, shard: repeats.find(conn, "default", "k"),
    "find by id": lambda conn, shard: jobs.find(conn, shard.job_id.hex[:8]),
}


def _claim_in_a_lane(conn: Connection) -> None:
    (lane,) = lanes.look(conn, per_lane=10).lanes
    shards.claim_lane(conn, lane, limit=1, at=now(conn), queues=only("samjobs:region:default"))


@pytest.mark.parametrize("case", CASES)
def test_no_cost_grows_with_finished_rows(busy: tuple[Store, Shard], case: str) -> None:
    store, shard = busy
    with _undone(store) as conn:
        statements = [one for one in _sent_by(conn, shard, case) if re.match("SELECT|UPDATE|DELETE|WITH", one[0])]
        assert statements
        if store.is_sqlite:
            for statement, parameters in statements:
                _walks_partial_indexes_only(conn, statement, parameters)
        else:
            assert sum(touched(conn, statement, parameters) for statement, parameters in statements) < MOST_PAGES


@pytest.mark.parametrize(
    ("which", "index"),
    [
        ("claim of any shard", "ix_shards_claim"),
        ("claim in a lane", "ix_shards_lane"),
        ("claim in a job", "ix_shards_claim_job"),
    ],
)
def test_a_claim_walks_its_own_index_in_order_and_sorts_nothing(
    busy: tuple[Store, Shard], which: str, index: str
) -> None:
    store, shard = busy
    with _undone(store) as conn:
        sent = _sent_by(conn, shard, which)
        claims = [one for one in sent if re.match("(SELECT|WITH taken).*available_at <=", one[0], re.S)]
        ((statement, parameters),) = claims
        plan = str(plan_of(conn, statement, parameters))
    assert re.search(rf"\b{index}\b", plan)
    assert "Sort" not in plan
    assert "TEMP B-TREE" not in plan


def test_what_a_large_job_has_already_is_looked_up_name_by_name(postgres_url: str) -> None:
    """Also before the server has counted the table's rows for the first time."""
    store = connect(postgres_url)
    with store.begin() as conn:
        job_id = jobs.submit(conn, spec()).job_id
        jobs.keep(conn, job_id, ME, stale_s=60)
        jobs.add_images(conn, job_id, new_images(1), keeper=ME)
        row = dict(conn.execute(image_rows.select()).one()._mapping)
        conn.execute(image_rows.insert(), [row | _finished_image(10_000 + n) for n in range(8 * FINISHED)])
    new = new_images(1000, first=1)
    with _undone(store) as conn:
        sent = _statements(conn, lambda: jobs.add_images(conn, job_id, new, keeper=ME))
        ((statement, parameters),) = [one for one in sent if re.match(r"SELECT \S+\.key,", one[0])]
        assert touched(conn, statement, parameters) < 5 * len(new)
        plan = str(plan_of(conn, statement, parameters))
    assert "uq_images_key" in plan
    assert "pk_images" not in plan
    store.close()


def test_the_demand_of_a_region_costs_no_more_in_a_long_queue(busy: tuple[Store, Shard]) -> None:
    """Of tenants beside each other, of another region, and of shards whose time comes later."""
    store, _ = busy
    if store.is_sqlite:
        return  # it does not say how much it reads
    later = {"available_at": datetime(2100, 1, 1, tzinfo=UTC)}
    kinds: list[dict[str, Any]] = [{"tenant": "ada"}, {"region": "asia"}, {"tenant": "bob", **later}]
    with _undone(store) as conn:
        for number, kind in enumerate(kinds, start=1):
            queued = shard_rows.c.state == ShardState.QUEUED
            _copy(conn, shard_rows, queued, FINISHED, partial(_queued_shard, number * 10 * FINISHED, kind))
        found: list[Demand] = []
        sent = _statements(conn, lambda: found.append(scaling_queries.demand(conn, "default", most=500)))
        pages = sum(touched(conn, *one) for one in sent)
    assert found[0].capped
    assert pages < 300, f"{pages} pages for 500 shards of a thousand times as many"


def _queued_shard(first: int, kind: dict[str, Any], n: int) -> dict[str, Any]:
    return {"id": uuid4(), "index": first + n, **kind}


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
        at = now(conn)
        sent = {"job_id": over, "payload": {"type": "job.finished"}, "attempts": 1, "created_at": at}
        conn.execute(delivery_rows.insert(), [sent | {"id": uuid4(), "delivered_at": at} for _ in range(FINISHED)])
        conn.execute(request_rows.insert(), [{"spec": {}, "answered_at": at} for _ in range(FINISHED)])
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
    # Some were never published, and will not be any more.
    return {"id": uuid4(), "dedupe_key": None, "state": JobState.SUCCEEDED, "finished_at": LONG_AGO}


def _finished_shard(n: int) -> dict[str, Any]:
    return {"id": uuid4(), "index": 100 + n, "state": ShardState.SUCCEEDED}


def _finished_image(n: int) -> dict[str, Any]:
    name = f"old/{n}.jpg"
    names = {"key": name, "key_hash": name_hash(name), "uri": name, "uri_hash": name_hash(name)}
    return {"index": 100 + n, "state": ImageState.DONE, **names}


def _sent_by(conn: Connection, shard: Shard, case: str) -> Sent:
    return _statements(conn, lambda: CASES[case](conn, shard))


def _statements(conn: Connection, act: Callable[[], object]) -> Sent:
    sent: Sent = []

    def note(_conn: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, executemany: bool) -> None:
        sent.append((statement, parameters[0] if executemany else parameters))

    sa.event.listen(conn, "before_cursor_execute", note)
    act()
    sa.event.remove(conn, "before_cursor_execute", note)
    return sent


# Not rows of a table, or one row per process or pool.
_SMALL = ("SCAN CONSTANT", "SCAN anon", "SCAN heads", "SCAN workers", "SCAN pools")


def _walks_partial_indexes_only(conn: Connection, statement: str, parameters: Any) -> None:
    """A SCAN in SQLite's plan is a walk over a whole index or table: only what holds nothing finished may be."""
    for step in plan_of(conn, statement, parameters):
        if step.startswith("SCAN") and not step.startswith(_SMALL):
            index = re.search(r"INDEX (\w+)", step)
            assert index is not None, f"{step}: {statement}"
            sql = conn.execute(
                sa.text("SELECT sql FROM sqlite_master WHERE name = :name"), {"name": index[1]}
            ).scalar_one()
            assert " WHERE " in sql, f"{step}: {statement}"
