"""Submitting, reading, cancelling, suspending and ending jobs, on both databases."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Barrier
from uuid import uuid4

import pytest

from samjobs.errors import ErrorClass, InvalidInput
from samjobs.names import Reason
from samjobs.spec import FailurePolicy
from samjobs.states import ImageState, JobState, ShardState
from samjobs.store import Store, jobs, now, shards
from samjobs.store.rows import LeaseAnswer, Subject, Submitted
from tests.store.builders import DEAD, ME, claim, job, new_images, outcomes, read, run, running, shard_of, spec


def test_a_submitted_job_is_queued_and_says_who_asked(store: Store) -> None:
    asked, me = spec(priority=3, region="eu"), uuid4()
    with store.begin() as conn:
        submitted = jobs.submit(conn, asked, tenant="lab", name="cells", submitter=me, actor="ada")
    found = read(store, submitted.job_id)
    assert submitted.created
    assert (found.state, found.tenant, found.name, found.submitter) == (JobState.QUEUED, "lab", "cells", me)
    assert (found.priority, found.region, found.config_hash) == (3, "eu", asked.config_hash())
    assert found.spec == asked
    with store.read() as conn:
        (event,) = jobs.events(conn, found.id)
    assert (event.subject, event.from_state, event.to_state) == (Subject.JOB, None, "queued")
    assert (event.reason, event.actor, event.at) == (Reason.SUBMITTED, "ada", found.created_at)


def test_an_equal_job_is_joined_while_it_is_active_and_started_anew_when_it_has_ended(store: Store) -> None:
    asked = spec()
    with store.begin() as conn:
        first = jobs.submit(conn, asked)
        again = jobs.submit(conn, asked)
        elsewhere = jobs.submit(conn, asked, tenant="other")
        jobs.cancel(conn, first.job_id, actor="ada")
        later = jobs.submit(conn, asked)
    assert (again.job_id, again.created) == (first.job_id, False)
    assert elsewhere.created
    assert later.created
    assert later.job_id != first.job_id


def test_without_dedupe_equal_jobs_stand_side_by_side(store: Store) -> None:
    asked = spec(dedupe=False)
    with store.begin() as conn:
        assert jobs.submit(conn, asked).job_id != jobs.submit(conn, asked).job_id


def test_of_equal_jobs_submitted_at_once_exactly_one_is_created(store: Store) -> None:
    asked, together = spec(), Barrier(8)

    def submit(_: int) -> tuple[object, bool]:
        together.wait()
        with store.begin() as conn:
            submitted = jobs.submit(conn, asked)
        return submitted.job_id, submitted.created

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(submit, range(8)))
    assert len({job_id for job_id, _ in answers}) == 1
    assert sum(created for _, created in answers) == 1


def test_a_job_is_submitted_once_under_an_id_and_once_for_a_samjob(store: Store) -> None:
    given, uid = uuid4(), uuid4()
    with store.begin() as conn:
        first = jobs.submit(conn, spec(), job_id=given, uid=uid)
        # Another spec, and without dedupe: it is who asks that counts.
        assert jobs.submit(conn, spec(dedupe=False), job_id=given) == Submitted(given, created=False)
        assert jobs.submit(conn, spec(dedupe=False), uid=uid) == Submitted(given, created=False)
        jobs.cancel(conn, given, actor="ada")
        assert jobs.submit(conn, spec(), uid=uid) == Submitted(given, created=False)
        assert jobs.submit(conn, spec(dedupe=False)).created
    assert first == Submitted(given, created=True)
    assert read(store, given).uid == uid


def test_a_job_is_found_by_the_start_of_its_id_and_by_its_name(store: Store) -> None:
    older, newer = job(store, name="cells"), job(store, name="cells")
    with store.read() as conn:
        for text in (str(older), str(older)[:13], older.hex[:10].upper()):
            found = jobs.find(conn, text)
            assert found is not None
            assert found.id == older
        named = jobs.find(conn, "cells")
        assert named is not None
        assert named.id == newer
        assert jobs.find(conn, "nothing") is None
        assert jobs.get(conn, uuid4()) is None


def test_jobs_are_listed_newest_first_in_pages(store: Store) -> None:
    ids = [job(store, tenant="lab" if n % 2 else "shop", region="us" if n else "eu") for n in range(4)]
    with store.begin() as conn:
        jobs.cancel(conn, ids[3], actor="ada")
    with store.read() as conn:
        page = jobs.list_jobs(conn, limit=2)
        rest = jobs.list_jobs(conn, before=page[-1].created_at)
        assert {found.id for found in page} | {found.id for found in rest} == set(ids)
        assert [found.created_at for found in page] == sorted((f.created_at for f in page), reverse=True)
        assert {found.id for found in jobs.list_jobs(conn, tenant="lab")} == {ids[1], ids[3]}
        assert [found.id for found in jobs.list_jobs(conn, state=JobState.CANCELLED)] == [ids[3]]
        assert {found.id for found in jobs.list_jobs(conn, state=JobState.QUEUED)} == set(ids[:3])
        assert [found.id for found in jobs.list_jobs(conn, region="eu")] == [ids[0]]
        assert {found.id for found in jobs.list_jobs(conn, active_only=True)} == set(ids[:3])


def test_a_job_ends_when_its_last_shard_does_and_its_counters_add_up(store: Store) -> None:
    job_id = job(store, 5)
    run(store, job_id)
    assert read(store, job_id).state is JobState.RUNNING
    run(store, job_id, ImageState.SKIPPED)
    run(store, job_id, ImageState.FAILED)
    ended = read(store, job_id)
    assert (ended.state, ended.reason) == (JobState.SUCCEEDED, Reason.COMPLETED)
    assert (ended.images_total, ended.images_done, ended.images_skipped, ended.images_failed) == (5, 2, 2, 1)
    assert (ended.shards_total, ended.shards_succeeded) == (3, 3)
    assert ended.started_at is not None
    assert ended.finished_at is not None
    with store.read() as conn:
        told = [event.to_state for event in jobs.events(conn, job_id) if event.subject is Subject.JOB]
    assert told == ["queued", "running", "succeeded"]


@pytest.mark.parametrize(
    ("policy", "failed_shards", "state", "reason"),
    [
        (FailurePolicy(), 1, JobState.SUCCEEDED, Reason.COMPLETED),
        (FailurePolicy(), 2, JobState.FAILED, Reason.ALL_IMAGES_FAILED),
        (FailurePolicy(max_failed_images=1), 1, JobState.FAILED, Reason.MAX_FAILED_IMAGES),
    ],
    ids=["some may fail", "not all may fail", "no more than asked may fail"],
)
def test_failed_images_fail_a_job_as_its_policy_says(
    store: Store, policy: FailurePolicy, failed_shards: int, state: JobState, reason: Reason
) -> None:
    job_id = job(store, failure_policy=policy)
    for place in range(2):
        run(store, job_id, ImageState.FAILED if place < failed_shards else ImageState.DONE)
    ended = read(store, job_id)
    assert (ended.state, ended.reason) == (state, reason)
    assert (ended.error is not None) == (state is JobState.FAILED)


def test_a_dead_shard_fails_its_job(store: Store) -> None:
    job_id = job(store, 2)
    shard = running(store, job_id)
    with store.begin() as conn:
        shards.fail(conn, shard.id, shard.attempt, DEAD, error_class=ErrorClass.WORKER, error="no weights")
    assert read(store, job_id).reason is Reason.SHARDS_DEAD


def test_a_job_whose_list_is_not_complete_cannot_end(store: Store) -> None:
    with store.begin() as conn:
        job_id = jobs.submit(conn, spec()).job_id
        jobs.add_images(conn, job_id, new_images(2))
    run(store, job_id)
    assert read(store, job_id).state is JobState.RUNNING
    with store.begin() as conn:
        assert jobs.mark_expanded(conn, job_id) is JobState.SUCCEEDED


def test_a_job_without_images_succeeds_once_its_list_is_complete(store: Store) -> None:
    assert read(store, job(store, 0)).state is JobState.SUCCEEDED


def test_cancelling_ends_everything_at_once_and_the_running_worker_is_told(store: Store) -> None:
    job_id = job(store, 8)
    done, held = run(store, job_id), running(store, job_id)
    (waiting,) = claim(store, job_id=job_id)
    with store.begin() as conn:
        assert jobs.cancel(conn, job_id, actor="ada")
        assert not jobs.cancel(conn, job_id, actor="ada")
    cancelled = read(store, job_id)
    assert (cancelled.state, cancelled.reason) == (JobState.CANCELLED, Reason.CANCELLED_BY_USER)
    assert (cancelled.shards_succeeded, cancelled.shards_cancelled) == (1, 3)
    with store.begin() as conn:
        assert shards.heartbeat(conn, held.id, held.attempt, ME) is LeaseAnswer.CANCELLED
        assert not shards.record(conn, held.id, held.attempt, outcomes(held))
        assert not shards.finish(conn, held.id, held.attempt)
        assert shards.start(conn, waiting.id, waiting.attempt, ME) is None
    assert shard_of(store, job_id).id == done.id
    assert shard_of(store, job_id).state is ShardState.SUCCEEDED
    assert read(store, job_id).images_done == 2
    assert claim(store) == []


def test_cancelling_empties_the_job_s_dead_list(store: Store) -> None:
    job_id = job(store, 4)
    shard = running(store, job_id)
    with store.begin() as conn:
        shards.fail(conn, shard.id, shard.attempt, DEAD, error_class=ErrorClass.WORKER, error="broken")
        jobs.cancel(conn, job_id, actor="ada", reason=Reason.SUPERSEDED)
    found = read(store, job_id)
    assert (found.reason, found.shards_dead, found.shards_cancelled) == (Reason.SUPERSEDED, 0, 2)


def test_a_suspended_job_is_not_claimed_and_goes_on_where_it_was(store: Store) -> None:
    job_id = job(store, 6)
    held = running(store, job_id)
    (waiting,) = claim(store, job_id=job_id)
    with store.begin() as conn:
        assert jobs.set_suspend(conn, job_id, True, actor="ada")
        assert not jobs.set_suspend(conn, job_id, True, actor="ada")
    assert read(store, job_id).state is JobState.SUSPENDED
    assert claim(store) == []
    with store.begin() as conn:
        assert shards.start(conn, waiting.id, waiting.attempt, ME) is None
        assert shards.heartbeat(conn, held.id, held.attempt, ME) is LeaseAnswer.SUSPENDED
        assert shards.release(conn, held.id, held.attempt, reason=Reason.SUSPENDED_BY_USER)
    assert claim(store) == []
    with store.begin() as conn:
        assert jobs.set_suspend(conn, job_id, False, actor="ada")
    assert read(store, job_id).state is JobState.RUNNING
    assert len(claim(store, limit=9)) == 3
    with store.read() as conn:
        reasons = [event.reason for event in jobs.events(conn, job_id) if event.subject is Subject.JOB]
    assert reasons[-2:] == [Reason.SUSPENDED_BY_USER, Reason.RESUMED_BY_USER]


def test_a_job_may_be_submitted_suspended(store: Store) -> None:
    job_id = job(store, suspend=True)
    assert read(store, job_id).state is JobState.SUSPENDED
    assert claim(store) == []
    with store.begin() as conn:
        jobs.set_suspend(conn, job_id, False, actor="ada")
    assert read(store, job_id).state is JobState.QUEUED
    assert len(claim(store)) == 1


def test_results_are_published_once_and_only_of_an_ended_job(store: Store) -> None:
    job_id = job(store, 2)
    with store.begin() as conn:
        assert not jobs.mark_published(conn, job_id)
    run(store, job_id)
    with store.begin() as conn:
        assert jobs.mark_published(conn, job_id)
        assert not jobs.mark_published(conn, job_id)
    assert read(store, job_id).published_at is not None


def test_times_are_the_database_s_and_aware(store: Store) -> None:
    with store.read() as conn:
        before = now(conn)
    found = read(store, job(store))
    with store.read() as conn:
        after = now(conn)
    assert before <= found.created_at <= after
    assert found.created_at.utcoffset() == timedelta(0)


def test_a_time_of_another_zone_comes_back_as_the_same_instant_in_utc(store: Store) -> None:
    given = datetime.fromisoformat("2031-10-26T02:30:00.123+02:00")
    found = read(store, job(store, not_before=given))
    assert found.not_before == given
    assert found.not_before.tzinfo is UTC


def test_a_naive_time_is_refused_with_the_remedy(store: Store) -> None:
    naive = datetime(2031, 1, 1)  # noqa: DTZ001 - the fault under test
    with pytest.raises(InvalidInput, match="no zone"), store.read() as conn:
        jobs.list_jobs(conn, before=naive)


def test_an_unknown_job_is_named(store: Store) -> None:
    missing = uuid4()
    with pytest.raises(InvalidInput, match=str(missing)), store.begin() as conn:
        jobs.cancel(conn, missing, actor="ada")
