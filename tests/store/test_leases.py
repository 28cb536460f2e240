"""Heartbeats, and taking back what nobody runs any more; on both databases."""

from datetime import timedelta
from uuid import UUID, uuid4

from samjobs.errors import ErrorClass
from samjobs.names import Reason
from samjobs.states import ShardState
from samjobs.store import Store, jobs, now, shards
from samjobs.store.rows import LeaseAnswer
from samjobs.store.tables import shards as shard_rows
from tests.store.builders import DEAD, ME, REQUEUE, claim, job, running, shard_of


def _make_older(store: Store, seconds: float) -> None:
    """Let all shards look as if nothing had been heard of them for so long."""
    with store.begin() as conn:
        past = now(conn) - timedelta(seconds=seconds)
        conn.execute(shard_rows.update().values(heartbeat_at=past, dispatched_at=past))


def test_a_heartbeat_renews_the_lease_of_its_own_incarnation_only(store: Store) -> None:
    shard = running(store, job(store, 2))
    _make_older(store, 100)
    with store.begin() as conn:
        assert shards.heartbeat(conn, shard.id, shard.attempt, uuid4()) is LeaseAnswer.LOST
        assert len(shards.abandoned(conn, older_than_s=60)) == 1
        assert shards.heartbeat(conn, shard.id, shard.attempt, ME) is LeaseAnswer.HELD
        assert shards.abandoned(conn, older_than_s=60) == []


def test_a_recorded_image_is_a_sign_of_life(store: Store) -> None:
    shard = running(store, job(store, 2))
    _make_older(store, 100)
    with store.begin() as conn:
        shards.record(conn, shard.id, shard.attempt, [])
        assert shards.abandoned(conn, older_than_s=60) == []


def test_a_silent_running_shard_is_charged_and_queued_again(store: Store) -> None:
    shard = running(store, job(store, 2))
    _make_older(store, 100)
    with store.begin() as conn:
        (found,) = shards.abandoned(conn, older_than_s=60)
        assert found.id == shard.id
        assert shards.reclaim(conn, found, REQUEUE, actor="reclaim")
        assert not shards.reclaim(conn, found, REQUEUE)
        assert shards.abandoned(conn, older_than_s=60) == []
    back = shard_of(store, shard.job_id)
    assert (back.state, back.failures, back.error_class) == (ShardState.QUEUED, 1, ErrorClass.WORKER)
    assert back.error is not None
    assert str(ME) in back.error


def test_a_silent_shard_whose_failures_are_used_up_is_dead(store: Store) -> None:
    shard = running(store, job(store, 2))
    _make_older(store, 100)
    with store.begin() as conn:
        (found,) = shards.abandoned(conn, older_than_s=60)
        assert shards.reclaim(conn, found, DEAD)
    assert shard_of(store, shard.job_id).state is ShardState.DEAD


def test_a_worker_heard_of_again_after_the_listing_keeps_its_shard(store: Store) -> None:
    shard = running(store, job(store, 2))
    _make_older(store, 100)
    with store.begin() as conn:
        (found,) = shards.abandoned(conn, older_than_s=60)
    with store.begin() as conn:
        assert shards.heartbeat(conn, shard.id, shard.attempt, ME) is LeaseAnswer.HELD
    with store.begin() as conn:
        assert not shards.reclaim(conn, found, REQUEUE)
    assert shard_of(store, shard.job_id).state is ShardState.RUNNING


def test_a_dispatched_shard_that_nobody_started_has_no_lease_to_lose_and_goes_back_uncharged(store: Store) -> None:
    job_id = job(store, 2)
    claim(store)
    _make_older(store, 100)
    with store.begin() as conn:
        assert shards.abandoned(conn, older_than_s=60) == []
        (found,) = shards.at_work(conn)
        assert shards.reclaim(conn, found, DEAD)
        event = jobs.events(conn, job_id)[-1]
    back = shard_of(store, job_id)
    assert (back.state, back.failures, event.reason) == (ShardState.QUEUED, 0, Reason.WORKER_GONE)


def test_who_is_at_work_need_not_have_been_so_for_any_time(store: Store) -> None:
    mine, other = running(store, job(store, 4)), running(store, job(store, 2), incarnation=uuid4())
    with store.begin() as conn:
        claimed = shards.claim(conn, limit=1)
        assert shards.abandoned(conn, older_than_s=60) == []
        assert {shard.id for shard in shards.at_work(conn)} == {mine.id, other.id, claimed[0].id}
        assert [shard.id for shard in shards.at_work(conn, other.job_id)] == [other.id]
        shards.release(conn, other.id, other.attempt, reason=Reason.DRAINED)
        assert shards.at_work(conn, other.job_id) == []


def test_pages_go_on_behind_rows_that_stay(store: Store) -> None:
    job(store, 14)
    for shard in claim(store, limit=7):
        with store.begin() as conn:
            shards.start(conn, shard.id, shard.attempt, ME)
    _make_older(store, 100)
    seen: list[UUID] = []
    with store.read() as conn:
        while page := shards.abandoned(conn, older_than_s=60, after=seen[-1] if seen else None, limit=2):
            seen += [shard.id for shard in page]
    assert len(seen) == len(set(seen)) == 7
