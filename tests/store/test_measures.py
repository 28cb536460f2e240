"""What the metrics tell of the table, on both databases."""

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
import sqlalchemy as sa

from samjobs.names import Reason
from samjobs.states import ImageState, JobState
from samjobs.store import Store, jobs, now, pools, workers
from samjobs.store.measures import NOBODY, Measured, measure
from samjobs.store.rows import Pool, WorkerState
from samjobs.store.tables import deliveries as delivery_rows
from samjobs.store.tables import jobs as job_rows
from samjobs.store.tables import shards as shard_rows
from samjobs.store.tables import workers as worker_rows
from tests.store.builders import claim, job, run, running, spec

LEASE_S = 60.0


def measured(store: Store, since: Measured | None = None) -> Measured:
    with store.read() as conn:
        return measure(conn, alive_within_s=LEASE_S, ended_since=None if since is None else since.ended_until)


def age(store: Store, table: sa.Table, seconds: float, *columns: str, **which: Any) -> None:
    """Let what these columns tell have been so many seconds earlier than now."""
    with store.begin() as conn:
        at = now(conn) - timedelta(seconds=seconds)
        query = table.update().values(dict.fromkeys(columns, at))
        conn.execute(query.where(*(table.c[column] == value for column, value in which.items())))


def worker(store: Store, state: WorkerState = WorkerState.READY, *, region: str = "eu", images: int = 0) -> UUID:
    incarnation = uuid4()
    with store.begin() as conn:
        workers.register(conn, incarnation, pool="gpu", region=region, node="node", pid=1)
        workers.set_state(conn, incarnation, state)
        if images:
            workers.count_images(conn, incarnation, images, now(conn))
    return incarnation


def test_an_empty_table_has_nothing_to_tell(store: Store) -> None:
    found = measured(store)
    assert dict(found.jobs) == {JobState.QUEUED: 0, JobState.RUNNING: 0, JobState.SUSPENDED: 0}
    assert (found.regions, found.workers, found.stalled_s, found.late) == ([], {}, {}, {})
    assert (found.deliveries, found.overdue_s) == (0, 0.0)
    assert dict(found.ended) == {JobState.SUCCEEDED: 0, JobState.FAILED: 0, JobState.CANCELLED: 0}


class TestWorkers:
    def test_they_are_counted_by_region_and_by_what_they_do(self, store: Store) -> None:
        for state in (WorkerState.LOADING, WorkerState.BUSY, WorkerState.BUSY, WorkerState.DRAINING):
            worker(store, state)
        worker(store, region="us")
        found = measured(store).workers
        assert found["eu"].states == {
            WorkerState.LOADING: 1,
            WorkerState.READY: 0,
            WorkerState.BUSY: 2,
            WorkerState.DRAINING: 1,
        }
        assert (found["eu"].taking, found["us"].taking, found["eu"].silent) == (2, 1, 0)

    def test_one_that_was_killed_is_silent_and_one_that_ended_is_not(self, store: Store) -> None:
        killed, ended = worker(store), worker(store, WorkerState.GONE)
        for one in (killed, ended):
            age(store, worker_rows, LEASE_S + 1, "heartbeat_at", incarnation=one)
        found = measured(store).workers["eu"]
        assert (found.silent, found.taking) == (1, 0)

    def test_those_that_end_without_an_image_soon_after_their_start_are_counted(self, store: Store) -> None:
        crashed = worker(store, WorkerState.GONE)
        worker(store, WorkerState.GONE, images=3)
        worker(store)
        assert measured(store).workers["eu"].ended_young == 1

        age(store, worker_rows, 16 * 60, "started_at", incarnation=crashed)
        assert measured(store).workers["eu"].ended_young == 0


class TestStalled:
    def test_without_work_nothing_stalls(self, store: Store) -> None:
        job(store, region="eu", suspend=True)
        job_id = job(store, 2, region="us")
        run(store, job_id)
        assert measured(store).stalled_s == {}

    def test_it_is_counted_since_there_is_work(self, store: Store) -> None:
        job(store, region="eu")
        age(store, shard_rows, 100, "available_at")
        assert 100 <= measured(store).stalled_s["eu"] < 110

    def test_what_was_sent_or_runs_is_work_too(self, store: Store) -> None:
        job_id = job(store, 2, region="eu")
        claim(store, job_id=job_id)
        age(store, shard_rows, 100, "available_at")
        running(store, job(store, 2, region="us"))
        age(store, shard_rows, 50, "started_at", region="us")
        found = measured(store).stalled_s
        assert 100 <= found["eu"] < 110
        assert 50 <= found["us"] < 60

    def test_an_image_that_is_finished_begins_it_anew(self, store: Store) -> None:
        job(store, region="eu")
        age(store, shard_rows, 100, "available_at")
        worker(store, images=1)
        age(store, worker_rows, 30, "progressed_at")
        assert 30 <= measured(store).stalled_s["eu"] < 40

    def test_what_another_regions_workers_do_counts_where_they_took_over(self, store: Store) -> None:
        job_id = job(store, 4, region="eu")
        running(store, job_id, worker(store, WorkerState.BUSY, region="us", images=1))
        age(store, shard_rows, 100, "available_at", "started_at")
        age(store, worker_rows, 20, "progressed_at")
        assert 20 <= measured(store).stalled_s["eu"] < 30

    def test_what_is_not_due_yet_is_no_work(self, store: Store) -> None:
        job(store, region="eu")
        age(store, shard_rows, -100, "available_at")
        assert measured(store).stalled_s == {}


class TestDeadlines:
    @pytest.mark.parametrize(("left_s", "late"), [(30, 1), (90, 0)])
    def test_a_job_is_late_when_all_workers_of_its_region_are_too_slow(
        self, store: Store, left_s: float, late: int
    ) -> None:
        for _ in range(2):
            incarnation = worker(store)
            with store.begin() as conn:
                workers.set_state(conn, incarnation, WorkerState.READY, image_s=10.0)
        job(store, 10, region="eu", active_deadline_seconds=3600)
        age(store, job_rows, -left_s, "deadline_at")
        assert measured(store).late["eu"] == late, "ten images of ten seconds by two workers take 50 s"


class TestEnds:
    def test_each_job_that_ends_is_counted_once(self, store: Store) -> None:
        found = measured(store)
        before = replace(found, ended_until=found.ended_until - timedelta(seconds=30))
        run(store, job(store, 2))
        run(store, job(store, 2), ImageState.FAILED)
        with store.begin() as conn:
            jobs.cancel(conn, jobs.submit(conn, spec()).job_id, actor="ada")
        age(store, job_rows, 2, "finished_at")
        early = measured(store, before)
        assert not any(early.ended.values()), "a transaction that began then may still be open"

        age(store, job_rows, 6, "finished_at")
        late = measured(store, before)
        assert dict(late.ended) == {JobState.SUCCEEDED: 1, JobState.FAILED: 1, JobState.CANCELLED: 1}
        assert not any(measured(store, late).ended.values())

    def test_the_first_look_counts_nothing_that_has_ended_before(self, store: Store) -> None:
        run(store, job(store, 2))
        age(store, job_rows, 6, "finished_at")
        assert not any(measured(store).ended.values())


def test_webhooks_are_counted_until_they_are_sent(store: Store) -> None:
    run(store, job(store, 2, callback="https://example.com/done"))
    assert (measured(store).deliveries, measured(store).overdue_s) == (1, 0.0)

    age(store, delivery_rows, 100, "due_at")
    assert 100 <= measured(store).overdue_s < 110


def test_a_region_with_a_pool_is_known_without_any_worker(store: Store) -> None:
    row = Pool("ns", "spot", "eu", "opencv", 0, 0, 0, Reason.STEADY, "", None, None, None, None, None)
    with store.begin() as conn:
        pools.save(conn, row)
    found = measured(store)
    assert found.pools == {"eu"}
    assert found.workers.get("eu", NOBODY).taking == 0
