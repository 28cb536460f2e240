"""Who lists a job's images and who gathers its results, when the process that did so is gone; on both databases."""

from dataclasses import replace
from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from samjobs.errors import InvalidInput, LeaseLost
from samjobs.names import Reason
from samjobs.spec import BoxPrompt, Mode, Prompts
from samjobs.states import ImageState, JobState
from samjobs.store import Store, images, jobs, now, shards
from samjobs.store.tables import jobs as job_rows
from tests.store.builders import job, new_images, outcomes, read, run, running, spec

ONE, OTHER = uuid4(), uuid4()


def submitted(store: Store, **changes: object) -> UUID:
    with store.begin() as conn:
        return jobs.submit(conn, spec(**changes)).job_id


def keep(store: Store, job_id: UUID, keeper: UUID) -> bool:
    with store.begin() as conn:
        return jobs.keep(conn, job_id, keeper, stale_s=60)


def add(store: Store, job_id: UUID, first: int, count: int, keeper: UUID) -> int:
    with store.begin() as conn:
        return jobs.add_images(conn, job_id, new_images(count, first), keeper=keeper)


def make_older(store: Store, seconds: float, column: str = "kept_at") -> None:
    with store.begin() as conn:
        conn.execute(job_rows.update().values({column: now(conn) - timedelta(seconds=seconds)}))


def to_list(store: Store) -> list[UUID]:
    with store.read() as conn:
        return [found.id for found in jobs.to_list(conn, stale_s=60, limit=9)]


def to_publish(store: Store) -> list[UUID]:
    with store.read() as conn:
        return [found.id for found in jobs.to_publish(conn, stale_s=60, limit=9)]


def test_jobs_without_images_wait_to_be_listed_oldest_first(store: Store) -> None:
    first, second, cancelled = (submitted(store) for _ in range(3))
    job(store, 2)
    with store.begin() as conn:
        jobs.submit(conn, spec(), submitter=uuid4())
        jobs.cancel(conn, cancelled, actor="ada")
    assert to_list(store) == [first, second]


def test_one_process_lists_a_job_until_it_is_not_heard_of(store: Store) -> None:
    job_id = submitted(store)
    assert keep(store, job_id, ONE)
    assert keep(store, job_id, ONE)
    assert not keep(store, job_id, OTHER)
    assert to_list(store) == []
    make_older(store, 100)
    assert to_list(store) == [job_id]
    assert keep(store, job_id, OTHER)
    assert not keep(store, job_id, ONE)


def test_who_adds_images_is_heard_of(store: Store) -> None:
    job_id = submitted(store)
    keep(store, job_id, ONE)
    make_older(store, 100)
    assert add(store, job_id, 0, 0, ONE) == 0
    assert not keep(store, job_id, OTHER)


def test_who_was_taken_over_from_writes_no_more(store: Store) -> None:
    job_id = submitted(store)
    keep(store, job_id, ONE)
    add(store, job_id, 0, 3, ONE)
    make_older(store, 100)
    keep(store, job_id, OTHER)
    before = read(store, job_id)
    with pytest.raises(LeaseLost, match=str(job_id)):
        add(store, job_id, 3, 3, ONE)
    with pytest.raises(LeaseLost), store.begin() as conn:
        jobs.mark_expanded(conn, job_id, ONE)
    assert read(store, job_id) == before
    with store.begin() as conn:
        jobs.mark_expanded(conn, job_id, OTHER)
    with pytest.raises(LeaseLost):
        add(store, job_id, 3, 3, ONE)


def test_a_second_lister_adds_only_what_is_missing(store: Store) -> None:
    job_id = submitted(store)
    keep(store, job_id, ONE)
    assert add(store, job_id, 0, 3, ONE) == 3
    make_older(store, 100)
    keep(store, job_id, OTHER)
    assert add(store, job_id, 0, 2, OTHER) == 0
    assert add(store, job_id, 2, 3, OTHER) == 2
    with store.begin() as conn:
        assert jobs.mark_expanded(conn, job_id, OTHER) is JobState.QUEUED
    with store.read() as conn:
        listed = images.iterate(conn, job_id)
        cut = shards.of_job(conn, job_id)
    assert [(image.index, image.key) for image in listed] == [(n, f"{n:04}.jpg") for n in range(5)]
    assert [(shard.first_index, shard.images_total) for shard in cut] == [(0, 2), (2, 2), (4, 1)]
    assert (read(store, job_id).keeper, read(store, job_id).kept_at) == (None, None)


def test_one_name_for_two_images_is_refused_to_a_keeper_too(store: Store) -> None:
    own = Prompts(boxes=(BoxPrompt(xyxy=(1, 2, 30, 40)),))
    job_id = submitted(store, mode=Mode.INSIDE_BOX, prompts=Prompts(), images={"manifest": "all.jsonl"})
    keep(store, job_id, ONE)
    (first,) = [replace(image, prompts=own) for image in new_images(1)]
    with store.begin() as conn:
        assert jobs.add_images(conn, job_id, [first], keeper=ONE) == 1
        assert jobs.add_images(conn, job_id, [first], keeper=ONE) == 0
    for other in (replace(first, uri="elsewhere/0000.jpg"), replace(first, prompts=None)):
        with pytest.raises(InvalidInput, match="listed twice"), store.begin() as conn:
            jobs.add_images(conn, job_id, [other], keeper=ONE)
    assert read(store, job_id).images_total == 1


def test_a_keeper_of_a_job_that_was_cancelled_meanwhile_is_told_so(store: Store) -> None:
    job_id = submitted(store)
    keep(store, job_id, ONE)
    with store.begin() as conn:
        jobs.cancel(conn, job_id, actor="ada")
    with pytest.raises(InvalidInput, match="cancelled"):
        add(store, job_id, 0, 2, ONE)


def test_ended_jobs_wait_to_be_published(store: Store) -> None:
    done, failed, cancelled, cancelled_early, active, old = (job(store, 4) for _ in range(6))
    for job_id in (done, failed, old):
        run(store, job_id)
        run(store, job_id, ImageState.FAILED)
    shard = running(store, cancelled)
    with store.begin() as conn:
        shards.record(conn, shard.id, shard.attempt, outcomes(shard)[:1])
        jobs.cancel(conn, cancelled, actor="ada")
        jobs.cancel(conn, cancelled_early, actor="ada")
        long_ago = now(conn) - timedelta(days=1)
        conn.execute(job_rows.update().where(job_rows.c.id == old).values(finished_at=long_ago))
    run(store, active)
    assert to_publish(store) == [done, failed, cancelled]


def test_a_local_process_s_job_is_its_own_to_publish(store: Store) -> None:
    with store.begin() as conn:
        job_id = jobs.submit(conn, spec(), submitter=uuid4()).job_id
        jobs.add_images(conn, job_id, new_images(2))
        jobs.mark_expanded(conn, job_id)
    run(store, job_id)
    assert to_publish(store) == []


def test_one_process_publishes_a_job(store: Store) -> None:
    job_id = job(store, 2)
    assert not keep(store, job_id, ONE), "there is nothing to list and nothing to publish yet"
    run(store, job_id)
    assert keep(store, job_id, ONE)
    assert to_publish(store) == []
    make_older(store, 100)
    assert to_publish(store) == [job_id]
    assert keep(store, job_id, OTHER)
    with store.begin() as conn:
        assert not jobs.mark_published(conn, job_id, ONE)
        assert jobs.mark_published(conn, job_id, OTHER)
    assert to_publish(store) == []
    assert not keep(store, job_id, OTHER)


def test_files_gathered_before_a_retry_do_not_count_for_what_came_of_it(store: Store) -> None:
    job_id = job(store, 2)
    run(store, job_id, ImageState.FAILED)
    keep(store, job_id, ONE)
    with store.begin() as conn:
        jobs.retry_failed(conn, job_id, actor="ada")
    run(store, job_id)
    with store.begin() as conn:
        assert not jobs.mark_published(conn, job_id, ONE)
    assert to_publish(store) == [job_id]


def test_a_retry_while_images_are_listed_leaves_the_lister_alone(store: Store) -> None:
    job_id = submitted(store)
    keep(store, job_id, ONE)
    add(store, job_id, 0, 2, ONE)
    run(store, job_id, ImageState.FAILED)
    with store.begin() as conn:
        assert jobs.retry_failed(conn, job_id, actor="ada").images == 2
    assert add(store, job_id, 2, 2, ONE) == 2


def test_a_stopped_job_is_published_too(store: Store) -> None:
    job_id = job(store, 2)
    with store.begin() as conn:
        jobs.stop(conn, job_id, reason=Reason.NO_PROGRESS, actor="expire")
    assert to_publish(store) == [job_id]
