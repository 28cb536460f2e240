"""Stopping a job that may not go on, and finding such jobs; on both databases."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from samjobs.errors import ErrorClass, InvalidInput
from samjobs.names import Reason
from samjobs.states import JobState, ShardState
from samjobs.store import Store, jobs, now, shards, workers
from samjobs.store.rows import LeaseAnswer, Subject
from samjobs.store.tables import jobs as job_rows
from samjobs.store.tables import workers as worker_rows
from tests.store.builders import DEAD, ME, REQUEUE, claim, job, new_images, outcomes, read, run, running, shard_of, spec


def make_older(store: Store, seconds: float, **columns: bool) -> None:
    """Let all jobs look as if their last sign of life were so long ago."""
    with store.begin() as conn:
        past = now(conn) - timedelta(seconds=seconds)
        conn.execute(job_rows.update().values(alive_at=past, **dict.fromkeys(columns, past)))


def silent(store: Store, timeout_s: float = 60) -> list[UUID]:
    with store.read() as conn:
        return [found.id for found in jobs.silent(conn, timeout_s=timeout_s, limit=9)]


def test_a_stopped_job_has_failed_and_nothing_of_it_goes_on(store: Store) -> None:
    job_id = job(store, 8)
    run(store, job_id)
    dying = running(store, job_id)
    with store.begin() as conn:
        shards.fail(conn, dying.id, dying.attempt, DEAD, error_class=ErrorClass.WORKER, error="crash")
    held = running(store, job_id)
    with store.begin() as conn:
        assert jobs.stop(conn, job_id, reason=Reason.DEADLINE_EXCEEDED, message="took more than 5 s", actor="expire")
        assert not jobs.stop(conn, job_id, reason=Reason.NO_PROGRESS, actor="expire")
        event = [event for event in jobs.events(conn, job_id) if event.subject is Subject.JOB][-1]
    stopped = read(store, job_id)
    assert (stopped.state, stopped.reason) == (JobState.FAILED, Reason.DEADLINE_EXCEEDED)
    assert (stopped.error, event.message) == ("took more than 5 s", "took more than 5 s")
    assert (event.reason, event.actor) == (Reason.DEADLINE_EXCEEDED, "expire")
    assert (stopped.shards_succeeded, stopped.shards_dead, stopped.shards_cancelled) == (1, 0, 3)
    assert claim(store) == []
    with store.begin() as conn:
        assert shards.heartbeat(conn, held.id, held.attempt, ME) is LeaseAnswer.CANCELLED
        assert not shards.record(conn, held.id, held.attempt, outcomes(held))


def test_a_stopped_job_says_by_itself_how_far_it_came(store: Store) -> None:
    job_id = job(store, 4)
    run(store, job_id)
    with store.begin() as conn:
        jobs.stop(conn, job_id, reason=Reason.NO_PROGRESS, actor="expire")
    assert read(store, job_id).error == "stopped with 2 of 4 images finished, 0 of them failed"


def test_a_stopped_job_is_submitted_anew_and_not_retried(store: Store) -> None:
    job_id = job(store, 2)
    with store.begin() as conn:
        jobs.stop(conn, job_id, reason=Reason.NO_PROGRESS, actor="expire")
    with pytest.raises(InvalidInput, match=r"failed \(NoProgress\): submit it anew"), store.begin() as conn:
        jobs.retry_failed(conn, job_id, actor="ada")


def test_a_list_that_is_completed_too_late_does_not_revive_a_stopped_job(store: Store) -> None:
    with store.begin() as conn:
        job_id = jobs.submit(conn, spec()).job_id
        jobs.add_images(conn, job_id, new_images(2))
        jobs.stop(conn, job_id, reason=Reason.INVALID_INPUT, message="line 3 is no JSON", actor="expand")
        assert jobs.mark_expanded(conn, job_id) is JobState.FAILED
    assert read(store, job_id).error == "line 3 is no JSON"


def test_active_jobs_past_their_deadline_are_overdue(store: Store) -> None:
    late, later = (job(store, 2, active_deadline_seconds=seconds) for seconds in (50, 10))
    job(store, 2, active_deadline_seconds=500)
    job(store, 2)
    ended = job(store, 2, active_deadline_seconds=1)
    run(store, ended)
    with store.begin() as conn:
        for job_id in (late, later, ended):
            past = read_deadline(store, job_id) - timedelta(seconds=100)
            conn.execute(job_rows.update().where(job_rows.c.id == job_id).values(deadline_at=past))
    with store.read() as conn:
        assert [found.id for found in jobs.overdue(conn, limit=9)] == [later, late]
        assert [found.id for found in jobs.overdue(conn, limit=1)] == [later]


def read_deadline(store: Store, job_id: UUID) -> Any:
    return read(store, job_id).deadline_at


def test_a_job_of_which_nothing_was_heard_for_long_is_silent(store: Store) -> None:
    waiting, ended = job(store, 4), job(store, 2)
    run(store, ended)
    with store.begin() as conn:
        jobs.submit(conn, spec())  # its listing may stand behind another one, or take long
    assert silent(store) == []
    make_older(store, 100)
    assert silent(store) == [waiting]
    assert silent(store, timeout_s=200) == []


def test_a_job_with_a_running_shard_is_judged_by_its_lease_alone(store: Store) -> None:
    job_id = job(store, 4)
    shard = running(store, job_id)
    make_older(store, 100)
    assert silent(store) == []
    with store.begin() as conn:
        shards.release(conn, shard.id, shard.attempt, reason=Reason.DRAINED)
    assert silent(store) == [job_id]
    claim(store, job_id=job_id)
    assert silent(store) == [job_id], "a dispatched shard does nothing yet"


def test_a_failure_is_no_sign_of_life(store: Store) -> None:
    job_id = job(store, 4)
    shard = running(store, job_id)
    make_older(store, 100)
    with store.begin() as conn:
        shards.fail(conn, shard.id, shard.attempt, REQUEUE, error_class=ErrorClass.TRANSIENT, error="503")
    assert silent(store) == [job_id]


def test_a_committed_image_is_a_sign_of_life(store: Store) -> None:
    job_id = job(store, 4)
    shard = running(store, job_id)
    make_older(store, 100)
    with store.begin() as conn:
        shards.record(conn, shard.id, shard.attempt, outcomes(shard)[:1])
        shards.release(conn, shard.id, shard.attempt, reason=Reason.DRAINED)
    assert silent(store) == []


def test_a_job_that_waits_behind_others_that_move_is_not_silent(store: Store) -> None:
    waiting, busy = job(store, 2, region="eu"), job(store, 2, region="eu")
    elsewhere = job(store, 2, region="us")
    with store.begin() as conn:
        workers.register(conn, ME, pool="p", region="eu", node="n", pid=1)
    run(store, busy)
    make_older(store, 100)
    assert silent(store) == [elsewhere]
    with store.begin() as conn:
        conn.execute(worker_rows.update().values(progressed_at=now(conn) - timedelta(seconds=100)))
    assert silent(store) == [waiting, elsewhere]


def test_a_suspended_job_is_not_silent_and_starts_afresh_when_it_goes_on(store: Store) -> None:
    job_id = job(store, 4)
    make_older(store, 100)
    with store.begin() as conn:
        jobs.set_suspend(conn, job_id, True, actor="ada")
    assert silent(store) == []
    with store.begin() as conn:
        jobs.set_suspend(conn, job_id, False, actor="ada")
    assert silent(store) == []
    make_older(store, 100)
    assert silent(store) == [job_id]


def test_a_job_is_not_expected_to_move_before_its_time(store: Store) -> None:
    with store.read() as conn:
        tomorrow = now(conn) + timedelta(days=1)
    job_id = job(store, 2, not_before=tomorrow, suspend=True)
    assert read(store, job_id).alive_at == tomorrow
    with store.begin() as conn:
        jobs.set_suspend(conn, job_id, False, actor="ada")
    assert read(store, job_id).alive_at == tomorrow


def test_a_retry_is_a_sign_of_life(store: Store) -> None:
    job_id = job(store, 2)
    shard = running(store, job_id)
    with store.begin() as conn:
        shards.fail(conn, shard.id, shard.attempt, DEAD, error_class=ErrorClass.WORKER, error="crash")
    make_older(store, 100)
    with store.begin() as conn:
        jobs.retry_failed(conn, job_id, actor="ada")
    assert shard_of(store, job_id).state is ShardState.QUEUED
    assert silent(store) == []
