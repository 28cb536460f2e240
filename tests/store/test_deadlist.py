"""The dead list: seen, purged, and retried apart from failed images; on both databases."""

from uuid import UUID

import pytest

from samjobs.errors import ErrorClass
from samjobs.names import Reason
from samjobs.states import ImageState, JobState, ShardState
from samjobs.store import Store, jobs, shards
from samjobs.store.retrying import What
from samjobs.store.rows import Retried
from samjobs.store.transitions import verdict_of
from tests.store.builders import DEAD, job, outcomes, read, run, running, shard_of


def die(store: Store, job_id: UUID, failed_images: int = 0) -> UUID:
    """The job's next shard fails so many images and then dies."""
    shard = running(store, job_id)
    with store.begin() as conn:
        shards.record(conn, shard.id, shard.attempt, outcomes(shard, ImageState.FAILED)[:failed_images])
        shards.fail(conn, shard.id, shard.attempt, DEAD, error_class=ErrorClass.WORKER, error="crash")
    return shard.id


def dead(store: Store, **which: object) -> list[UUID]:
    with store.read() as conn:
        return [shard.id for shard in shards.dead(conn, **which)]  # type: ignore[arg-type]


def test_dead_shards_are_listed_with_their_error_page_by_page(store: Store) -> None:
    lab, shop = job(store, 6, tenant="lab"), job(store, 4, tenant="shop")
    ids = sorted([die(store, lab), die(store, lab), die(store, shop)])
    assert dead(store) == ids
    assert dead(store, limit=2) == ids[:2]
    assert dead(store, after=ids[1]) == ids[2:]
    assert dead(store, tenant="shop") == [shard_of(store, shop).id]
    with store.read() as conn:
        assert {shard.error for shard in shards.dead(conn)} == {"crash"}


def test_purging_gives_dead_shards_up_and_the_job_says_so(store: Store) -> None:
    job_id = job(store, 6)
    run(store, job_id)
    shard_id = die(store, job_id)
    die(store, job_id)
    with store.begin() as conn:
        assert jobs.purge_dead(conn, job_id, actor="ada") == 2
        assert jobs.purge_dead(conn, job_id, actor="ada") == 0
        event = [event for event in jobs.events(conn, job_id) if event.shard_id == shard_id][-1]
    assert (event.to_state, event.reason, event.actor) == ("cancelled", Reason.PURGED_BY_USER, "ada")
    purged = read(store, job_id)
    assert (purged.state, purged.reason) == (JobState.FAILED, Reason.PURGED_BY_USER)
    assert purged.error == "2 dead shards were purged; 2 of 6 images finished, 0 of them failed"
    assert purged.state is verdict_of(purged).state
    assert (purged.shards_dead, purged.shards_cancelled, purged.shards_succeeded) == (0, 2, 1)
    assert dead(store) == []
    with store.begin() as conn:
        assert jobs.retry_failed(conn, job_id, actor="ada") == Retried(0, 0)


def test_a_job_that_goes_on_after_a_purge_ends_failed(store: Store) -> None:
    job_id = job(store, 4)
    die(store, job_id)
    with store.begin() as conn:
        assert jobs.purge_dead(conn, job_id, actor="ada") == 1
    assert read(store, job_id).state is JobState.RUNNING
    run(store, job_id)
    assert (read(store, job_id).state, read(store, job_id).reason) == (JobState.FAILED, Reason.PURGED_BY_USER)


@pytest.mark.parametrize(
    ("what", "retried", "states"),
    [
        ("all", Retried(images=3, shards=2), ["queued", "queued", "succeeded"]),
        ("dead", Retried(images=1, shards=1), ["succeeded", "queued", "succeeded"]),
        ("images", Retried(images=2, shards=1), ["queued", "dead", "succeeded"]),
    ],
)
def test_dead_shards_and_failed_images_may_be_retried_apart(
    store: Store, what: What, retried: Retried, states: list[str]
) -> None:
    job_id = job(store, 6)
    run(store, job_id, ImageState.FAILED)
    die(store, job_id, failed_images=1)
    run(store, job_id)
    with store.begin() as conn:
        assert jobs.retry_failed(conn, job_id, what=what, actor="ada") == retried
    assert [shard_of(store, job_id, index).state.value for index in range(3)] == states
    assert read(store, job_id).state is JobState.RUNNING
    for state in states:
        if state == ShardState.QUEUED:
            run(store, job_id)
    ended = read(store, job_id)
    assert ended.images_failed == 3 - retried.images
    assert ended.state is (JobState.FAILED if "dead" in states else JobState.SUCCEEDED)
    assert ended.state is verdict_of(ended).state
