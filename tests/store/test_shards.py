"""Claiming: which shard, in what order, and how many at once; on both databases."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier
from uuid import UUID

from samjobs.errors import ErrorClass
from samjobs.names import Reason
from samjobs.states import ShardState
from samjobs.store import Store, jobs, now, shards
from tests.store.builders import DEAD, claim, job, new_images, read, run, running, shard_of, spec


def test_a_claim_takes_the_next_shard_with_its_next_attempt(store: Store) -> None:
    job_id = job(store, 5)
    (first,) = claim(store)
    assert (first.job_id, first.index, first.attempt, first.state) == (job_id, 0, 1, ShardState.DISPATCHED)
    assert (first.first_index, first.images_total) == (0, 2)
    assert first == shard_of(store, job_id)
    rest = claim(store, limit=9)
    assert [(shard.index, shard.first_index, shard.images_total) for shard in rest] == [(1, 2, 2), (2, 4, 1)]
    assert claim(store) == []


def test_claims_go_by_priority_then_by_waiting_time_then_by_age_of_the_job_then_by_index(store: Store) -> None:
    low, first, second, high = (job(store, 4, priority=priority) for priority in (-1, 0, 0, 5))
    with store.begin() as conn:
        (late,) = shards.claim(conn, limit=1, job_id=first)
        shards.release(conn, late.id, late.attempt, reason=Reason.DRAINED)
    order = [(shard.job_id, shard.index) for shard in claim(store, limit=99)]
    assert order == [(high, 0), (high, 1), (first, 1), (second, 0), (second, 1), (first, 0), (low, 0), (low, 1)]


def test_a_claim_may_ask_for_one_job(store: Store) -> None:
    here, there = job(store, 2), job(store, 2, priority=9)
    assert [shard.job_id for shard in claim(store, limit=9, job_id=here)] == [here]
    assert claim(store, limit=9, job_id=here) == []
    assert [shard.job_id for shard in claim(store, limit=9)] == [there]


def test_a_job_waits_for_its_not_before(store: Store) -> None:
    with store.read() as conn:
        tomorrow = now(conn) + timedelta(days=1)
        yesterday = now(conn) - timedelta(days=1)
    early, due = job(store, 2, not_before=tomorrow), job(store, 2, not_before=yesterday)
    assert [shard.job_id for shard in claim(store, limit=9)] == [due]
    with store.read() as conn:
        assert shards.next_due_at(conn) == shards.next_due_at(conn, early) == tomorrow
        assert shards.next_due_at(conn, due) is None


def test_no_more_shards_of_a_job_run_than_its_parallelism(store: Store) -> None:
    job_id = job(store, 10, parallelism=2)
    other = job(store, 2)
    claimed = claim(store, limit=9)
    assert [(shard.job_id, shard.index) for shard in claimed] == [(job_id, 0), (job_id, 1), (other, 0)]
    assert claim(store, limit=9) == []
    with store.begin() as conn:
        # A shard that goes back keeps its place, one that dies gives it away.
        shards.release(conn, claimed[0].id, claimed[0].attempt, reason=Reason.DRAINED)
    (again,) = claim(store, limit=9)
    assert (again.id, again.attempt) == (claimed[0].id, 2)
    with store.begin() as conn:
        shards.start(conn, again.id, again.attempt, UUID(int=1))
        shards.fail(conn, again.id, again.attempt, DEAD, error_class=ErrorClass.WORKER, error="crash")
    assert [shard.index for shard in claim(store, limit=9)] == [2]


def test_parallelism_holds_to_the_end_of_a_job_that_is_filled_while_it_runs(store: Store) -> None:
    with store.begin() as conn:
        job_id = jobs.submit(conn, spec(parallelism=1)).job_id
        jobs.add_images(conn, job_id, new_images(2))
        jobs.add_images(conn, job_id, new_images(4, first=2))
        jobs.mark_expanded(conn, job_id)
    for index in range(3):
        assert run(store, job_id).index == index
    assert read(store, job_id).shards_succeeded == 3


def test_a_resumed_job_keeps_to_its_parallelism(store: Store) -> None:
    job_id = job(store, 8, parallelism=2)
    running(store, job_id)
    for suspend in (True, False):
        with store.begin() as conn:
            jobs.set_suspend(conn, job_id, suspend, actor="ada")
    assert len(claim(store, limit=9)) == 1


def test_claims_at_once_never_take_the_same_shard(store: Store) -> None:
    job(store, 160)
    together = Barrier(8)

    def take(_: int) -> list[UUID]:
        together.wait()
        taken: list[UUID] = []
        while claimed := claim(store, limit=3):
            taken += [shard.id for shard in claimed]
        return taken

    with ThreadPoolExecutor(8) as threads:
        taken = [shard_id for ids in threads.map(take, range(8)) for shard_id in ids]
    assert len(taken) == len(set(taken)) == 80


def test_workers_that_finish_shards_of_one_job_at_once_lose_no_count_and_never_deadlock(store: Store) -> None:
    job_id = job(store, 64, parallelism=8)
    together = Barrier(8)

    def work(_: int) -> int:
        together.wait()
        done = 0
        for _ in range(4):
            run(store, job_id)
            done += 1
        return done

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(work, range(8))) == 32
    ended = read(store, job_id)
    assert (ended.images_done, ended.shards_succeeded, ended.finished_at is not None) == (64, 32, True)
