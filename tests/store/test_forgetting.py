"""Deleting and pruning ended jobs; on both databases."""

from datetime import timedelta

import pytest
import sqlalchemy as sa

from samjobs.errors import InvalidInput
from samjobs.store import Store, deliveries, jobs, now
from samjobs.store.tables import events, images, shards
from samjobs.store.tables import jobs as job_rows
from tests.store.builders import job, read, run

TABLES = (job_rows, shards, images, events)


def _rows(store: Store) -> int:
    with store.read() as conn:
        return sum(conn.execute(sa.select(sa.func.count()).select_from(table)).scalar_one() for table in TABLES)


def test_an_ended_job_is_deleted_with_all_its_rows_and_no_other_s(store: Store) -> None:
    gone, stays = job(store, 2), job(store, 2)
    before = _rows(store)
    run(store, gone)
    with store.begin() as conn:
        jobs.delete(conn, gone)
        assert jobs.get(conn, gone) is None
        assert jobs.events(conn, gone) == []
    assert _rows(store) == before / 2
    assert read(store, stays).images_total == 2


def test_an_active_job_is_not_deleted(store: Store) -> None:
    job_id = job(store)
    with pytest.raises(InvalidInput, match="cancel it"), store.begin() as conn:
        jobs.delete(conn, job_id)


def test_jobs_past_their_ttl_are_pruned_in_small_batches(store: Store) -> None:
    old = job(store, 20, ttl_seconds_after_finished=0)
    fresh, kept, active = (
        job(store, 2, ttl_seconds_after_finished=3600),
        job(store, 2),
        job(store, 2, ttl_seconds_after_finished=0),
    )
    for job_id in [old] * 10 + [fresh, kept]:
        run(store, job_id)
    with store.begin() as conn:
        assert jobs.mark_published(conn, old)
        conn.execute(job_rows.update().where(job_rows.c.id == old).values(expires_at=now(conn) - timedelta(seconds=1)))
    batches: list[int] = []
    while not batches or batches[-1]:
        with store.begin() as conn:
            batches.append(jobs.prune_finished(conn, limit=7))
    assert len(batches) > 5
    assert max(batches) <= 8
    with store.read() as conn:
        assert jobs.get(conn, old) is None
        assert all(jobs.get(conn, job_id) for job_id in (fresh, kept, active))


def test_a_job_is_kept_until_its_files_are_merged_and_its_callback_is_told(store: Store) -> None:
    job_id = job(store, 2, ttl_seconds_after_finished=0, callback="https://example.org/done")
    run(store, job_id)
    with store.begin() as conn:
        assert jobs.prune_finished(conn) == 0
        assert jobs.mark_published(conn, job_id)
    with store.begin() as conn:
        assert jobs.prune_finished(conn) == 0
        (told,) = deliveries.take(conn, limit=9, lease_s=60)
        assert deliveries.delivered(conn, told.id, 200)
    with store.begin() as conn:
        assert jobs.prune_finished(conn) > 0
        assert jobs.get(conn, job_id) is None
        assert deliveries.of_job(conn, job_id) == []


def test_a_job_that_nobody_gathers_is_forgotten_all_the_same_a_day_later(store: Store) -> None:
    job_id = job(store, 2, ttl_seconds_after_finished=0)
    run(store, job_id)
    with store.begin() as conn:
        past = now(conn) - timedelta(days=1)
        conn.execute(job_rows.update().values(finished_at=past, expires_at=past))
    with store.begin() as conn:
        assert jobs.prune_finished(conn) > 0
        assert jobs.get(conn, job_id) is None


def test_a_job_is_deleted_with_what_its_callback_was_to_be_told(store: Store) -> None:
    job_id = job(store, 2, callback="https://example.org/done")
    run(store, job_id)
    with store.begin() as conn:
        jobs.delete(conn, job_id)
        assert deliveries.of_job(conn, job_id) == []


def test_an_ended_job_expires_its_ttl_after_its_end(store: Store) -> None:
    job_id = job(store, 2, ttl_seconds_after_finished=90)
    assert read(store, job_id).expires_at is None
    run(store, job_id)
    ended = read(store, job_id)
    assert ended.finished_at is not None
    assert ended.expires_at == ended.finished_at + timedelta(seconds=90)
