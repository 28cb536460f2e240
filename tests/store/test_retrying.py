"""A person's retry of failed images and dead shards; on both databases."""

from datetime import timedelta
from uuid import UUID

import pytest

from samjobs.errors import ErrorClass, InvalidInput
from samjobs.names import Reason
from samjobs.states import ImageState, JobState, ShardState
from samjobs.store import Store, images, jobs, now, shards
from samjobs.store.rows import Retried, Subject
from samjobs.store.tables import jobs as job_rows
from tests.store.builders import DEAD, claim, job, outcomes, read, run, running, shard_of, spec


def _die(store: Store, job_id: UUID) -> None:
    """The job's next shard fails one image and then dies."""
    shard = running(store, job_id)
    with store.begin() as conn:
        shards.record(conn, shard.id, shard.attempt, outcomes(shard, ImageState.FAILED, error="bad")[:1])
        shards.fail(conn, shard.id, shard.attempt, DEAD, error_class=ErrorClass.WORKER, error="crash")


def test_failed_images_and_dead_shards_run_again_and_nothing_else_does(store: Store) -> None:
    job_id = job(store, 6)
    run(store, job_id)
    run(store, job_id, ImageState.FAILED)
    _die(store, job_id)
    with store.begin() as conn:
        assert jobs.mark_published(conn, job_id)
        assert jobs.retry_failed(conn, job_id, actor="ada") == Retried(images=3, shards=2)
    active = read(store, job_id)
    assert (active.state, active.images_failed, active.shards_dead, active.shards_succeeded) == (
        JobState.RUNNING,
        0,
        0,
        1,
    )
    assert (active.finished_at, active.published_at, active.error) == (None, None, None)
    for index in (1, 2):
        assert shard_of(store, job_id, index).failures == 0
        assert run(store, job_id).index == index
    ended = read(store, job_id)
    assert (ended.state, ended.images_done, ended.images_failed) == (JobState.SUCCEEDED, 6, 0)


def test_a_retry_remembers_what_went_wrong_before(store: Store) -> None:
    job_id = job(store, 2)
    shard = running(store, job_id)
    with store.begin() as conn:
        shards.record(conn, shard.id, shard.attempt, outcomes(shard, ImageState.FAILED, error="no such file"))
        shards.finish(conn, shard.id, shard.attempt)
        jobs.retry_failed(conn, job_id, actor="ada")
        (told,) = images.history(conn, "0000.jpg")
    assert (told.image.state, told.image.error) == (ImageState.PENDING, None)
    assert [(event.to_state, event.reason, event.message) for event in told.events] == [
        ("failed", Reason.IMAGE_ERROR, "no such file"),
        ("pending", Reason.RETRIED_BY_USER, ""),
    ]
    with store.read() as conn:
        of_job = [event for event in jobs.events(conn, job_id) if event.subject is Subject.JOB]
    assert (of_job[-1].to_state, of_job[-1].reason, of_job[-1].actor) == ("running", Reason.RETRIED_BY_USER, "ada")


def test_a_job_at_work_keeps_the_shards_that_are_at_work(store: Store) -> None:
    job_id = job(store, 6)
    run(store, job_id, ImageState.FAILED)
    busy = running(store, job_id)
    with store.begin() as conn:
        shards.record(conn, busy.id, busy.attempt, outcomes(busy, ImageState.FAILED))
        assert jobs.retry_failed(conn, job_id, actor="ada") == Retried(images=2, shards=1)
        assert shards.finish(conn, busy.id, busy.attempt)
    assert read(store, job_id).images_failed == 2


def test_a_retry_with_nothing_to_retry_changes_nothing(store: Store) -> None:
    job_id = job(store, 2)
    run(store, job_id)
    before = read(store, job_id)
    with store.begin() as conn:
        assert jobs.retry_failed(conn, job_id, actor="ada") == Retried(0, 0)
    assert read(store, job_id) == before


def test_a_retry_keeps_to_the_job_s_parallelism(store: Store) -> None:
    job_id = job(store, 6, parallelism=1)
    for _ in range(3):
        run(store, job_id, ImageState.FAILED)
    with store.begin() as conn:
        assert jobs.retry_failed(conn, job_id, actor="ada").shards == 3
    assert len(claim(store, limit=9)) == 1


def test_a_job_is_not_retried_beside_an_active_equal_one(store: Store) -> None:
    asked = spec()
    with store.begin() as conn:
        first = jobs.submit(conn, asked).job_id
        jobs.add_images(conn, first, [])
    failed = job(store, 2)
    run(store, failed, ImageState.FAILED)
    with store.begin() as conn:
        key = read(store, first).dedupe_key
        conn.execute(job_rows.update().where(job_rows.c.id == failed).values(dedupe_key=key))
    before = read(store, failed)
    with pytest.raises(InvalidInput, match="equal job is active"), store.begin() as conn:
        jobs.retry_failed(conn, failed, actor="ada")
    assert read(store, failed) == before
    assert shard_of(store, failed).state is ShardState.SUCCEEDED


def test_a_cancelled_or_expired_job_is_not_retried(store: Store) -> None:
    cancelled, expired = job(store), job(store, 2, ttl_seconds_after_finished=60)
    run(store, expired, ImageState.FAILED)
    with store.begin() as conn:
        jobs.cancel(conn, cancelled, actor="ada")
        conn.execute(
            job_rows.update().where(job_rows.c.id == expired).values(expires_at=now(conn) - timedelta(seconds=1))
        )
    for job_id, word in ((cancelled, "cancelled"), (expired, "ttlSecondsAfterFinished")):
        with pytest.raises(InvalidInput, match=word), store.begin() as conn:
            jobs.retry_failed(conn, job_id, actor="ada")
