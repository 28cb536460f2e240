"""A lease is renewed, learns what became of it, and is taken for lost before anybody else may own the shard."""

import logging
from collections.abc import Callable
from datetime import datetime
from uuid import UUID

import pytest

from samjobs.errors import DatabaseUnavailable
from samjobs.execution.lease import Lease
from samjobs.store import Store, jobs, shards
from samjobs.store.rows import LeaseAnswer, Shard
from tests.store.builders import ME, REQUEUE, job, running, shard_of
from tests.waiting import until

STALE_S = 0.3
LONG = 3600.0


@pytest.fixture
def shard(store: Store) -> Shard:
    return running(store, job(store))


def test_it_is_renewed_while_it_is_held(store: Store, shard: Shard) -> None:
    with _lease(store, shard) as lease:
        first = _beat(store, shard.job_id)
        until(lambda: _beat(store, shard.job_id) > first, "a heartbeat")
        second = _beat(store, shard.job_id)
        until(lambda: _beat(store, shard.job_id) > second, "another heartbeat")
        assert lease.held()
        assert lease.answer is LeaseAnswer.HELD


def test_it_is_not_renewed_any_more_after_its_end(store: Store, shard: Shard) -> None:
    with _lease(store, shard) as lease:
        pass
    assert not lease._thread.is_alive()


@pytest.mark.parametrize(
    ("happens", "answer", "held"),
    [
        (lambda conn, shard: jobs.cancel(conn, shard.job_id, actor="me"), LeaseAnswer.CANCELLED, False),
        (lambda conn, shard: jobs.set_suspend(conn, shard.job_id, True, actor="me"), LeaseAnswer.SUSPENDED, True),
        (lambda conn, shard: shards.reclaim(conn, shard, REQUEUE), LeaseAnswer.LOST, False),
    ],
)
def test_it_learns_what_became_of_the_shard(
    store: Store, shard: Shard, happens: Callable[..., object], answer: LeaseAnswer, held: bool
) -> None:
    with _lease(store, shard) as lease:
        with store.begin() as conn:
            now = shards.get(conn, shard.id)
            assert happens(conn, now)
        until(lambda: lease.answer is answer, f"it is {answer}")
        assert lease.held() is held


def test_it_is_lost_by_its_own_clock_while_the_database_does_not_answer(store: Store, shard: Shard) -> None:
    with _lease(store, shard) as lease:
        with store.begin() as conn:
            # Holds the row on Postgres and the whole file on SQLite: no renewal comes through.
            shards.heartbeat(conn, shard.id, shard.attempt, ME)
            until(lambda: not lease.held(), "the lease is lost")
            assert lease.answer is LeaseAnswer.LOST
        # Nobody took the shard meanwhile, so the next answer gives it back.
        until(lease.held, "the lease is held again")


def test_a_suspended_one_is_lost_by_that_clock_too(store: Store, shard: Shard) -> None:
    with _lease(store, shard) as lease:
        with store.begin() as conn:
            jobs.set_suspend(conn, shard.job_id, True, actor="me")
        until(lambda: lease.answer is LeaseAnswer.SUSPENDED, "it is suspended")
        with store.begin() as conn:
            shards.heartbeat(conn, shard.id, shard.attempt, ME)
            until(lambda: not lease.held(), "the lease is lost")


def test_what_a_refused_write_told_stands(store: Store, shard: Shard) -> None:
    with _lease(store, shard) as lease:
        lease.lose()
        assert not lease.held()
        until(lambda: not lease._thread.is_alive(), "it is not renewed any more")
        assert lease.answer is LeaseAnswer.LOST


def test_it_runs_out_when_nothing_is_finished_for_the_stall_time(
    store: Store, shard: Shard, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR), _lease(store, shard, stall_s=STALE_S) as lease:
        lease.progressed()
        until(lambda: not lease.held(), "the lease is lost")
        assert lease.answer is LeaseAnswer.LOST
    assert "no image finished" in caplog.text


def test_a_stall_is_told_to_whoever_can_restart_this_process(store: Store, shard: Shard) -> None:
    told: list[str] = []
    with Lease(store, shard, ME, stale_s=STALE_S, stall_s=STALE_S, beat_s=STALE_S / 3, tell_stall=told.append) as lease:
        lease.progressed()
        until(lambda: told != [], "the stall is told")
    assert str(shard.id) in told[0]


def test_an_outage_is_told_once(store: Store, shard: Shard, caplog: pytest.LogCaptureFixture) -> None:
    asked: list[None] = []

    class Away(Lease):
        def _renew(self) -> LeaseAnswer:
            asked.append(None)
            raise DatabaseUnavailable("the database is away")

    with Away(store, shard, ME, stale_s=STALE_S, stall_s=LONG, beat_s=0.01):
        until(lambda: len(asked) > 2, "it was tried again")
    assert caplog.text.count("the database is away") == 1


def test_until_work_has_begun_it_is_renewed_for_any_time(
    store: Store, shard: Shard, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR), _lease(store, shard, stall_s=1e-9) as lease:
        first = _beat(store, shard.job_id)
        until(lambda: _beat(store, shard.job_id) > first or not lease.held(), "a heartbeat")
        assert lease.held()
    assert "no image finished" not in caplog.text


def _lease(store: Store, shard: Shard, stall_s: float = LONG) -> Lease:
    return Lease(store, shard, ME, stale_s=STALE_S, stall_s=stall_s, beat_s=STALE_S / 3)


def _beat(store: Store, job_id: UUID) -> datetime:
    beat = shard_of(store, job_id).heartbeat_at
    assert beat is not None
    return beat
