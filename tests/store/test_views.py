"""What people see of the queue; on both databases."""

from dataclasses import replace
from datetime import timedelta

from samjobs.errors import ErrorClass
from samjobs.states import JobState
from samjobs.store import Store, jobs, now, shards, views
from tests.store.builders import DEAD, REQUEUE, claim, job, run, running


def test_the_queue_s_status_tells_waiting_from_due_from_held(store: Store) -> None:
    with store.read() as conn:
        tomorrow = now(conn) + timedelta(days=1)
    job(store, 4, not_before=tomorrow)
    job(store, 6, suspend=True)
    at_work = job(store, 10, region="eu")
    run(store, at_work)
    dead = running(store, at_work)
    with store.begin() as conn:
        shards.fail(conn, dead.id, dead.attempt, DEAD, error_class=ErrorClass.WORKER, error="crash")
    running(store, at_work)
    claim(store, job_id=at_work)
    ended = job(store, 2)
    run(store, ended)
    with store.read() as conn:
        status = views.queue_status(conn)
        eu = views.queue_status(conn, region="eu")
    assert status.jobs == {JobState.QUEUED: 1, JobState.RUNNING: 1, JobState.SUSPENDED: 1}
    assert (status.shards_due, status.shards_waiting, status.shards_held) == (1, 2, 3)
    assert (status.shards_dispatched, status.shards_running, status.shards_dead) == (1, 1, 1)
    assert status.oldest_due_age_s is not None
    assert status.oldest_due_age_s >= 0
    assert eu.jobs == {JobState.QUEUED: 0, JobState.RUNNING: 1, JobState.SUSPENDED: 0}
    assert (eu.shards_due, eu.shards_waiting, eu.shards_held) == (1, 0, 0)


def test_an_empty_queue_has_no_oldest_shard(store: Store) -> None:
    with store.read() as conn:
        assert views.queue_status(conn).oldest_due_age_s is None


def test_a_shard_that_waits_for_its_retry_is_not_due(store: Store) -> None:
    shard = running(store, job(store, 2))
    with store.begin() as conn:
        later = replace(REQUEUE, delay_s=600.0)
        shards.fail(conn, shard.id, shard.attempt, later, error_class=ErrorClass.TRANSIENT, error="S3 says 503")
        status = views.queue_status(conn)
    assert (status.shards_due, status.shards_waiting, status.oldest_due_age_s) == (0, 1, None)
    with store.begin() as conn:
        jobs.cancel(conn, shard.job_id, actor="ada")
        assert views.queue_status(conn).shards_waiting == 0
