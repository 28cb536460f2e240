"""What waits in which lane, and which of its shards a claim takes; on both databases.

A controller that remembers its last look must never take a shard that it may not, and miss one for a short time only.
"""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
import sqlalchemy as sa

from samjobs.decisions.dispatch import Lane
from samjobs.names import Reason
from samjobs.states import ShardState
from samjobs.store import Store, connect, jobs, lanes, now, shards
from samjobs.store.lanes import MARGIN, Heads, Look
from samjobs.store.rows import Shard
from tests.store.builders import job, new_images, only, outcomes, read, running, shard_of, spec
from tests.store.plans import touched


@pytest.fixture
def on_postgres(postgres_url: str) -> Iterator[Store]:
    """SQLite has nothing to remember: it is looked at in full."""
    store = connect(postgres_url)
    yield store
    store.close()


def look(store: Store, per_lane: int = 100) -> list[Lane]:
    """A look in full."""
    with store.read() as conn:
        return [*lanes.look(conn, per_lane=per_lane).lanes]


def counted(found: list[Lane]) -> dict[tuple[str, str, int], int]:
    return {(lane.region, lane.tenant, lane.priority): lane.due for lane in found}


def claim(store: Store, lane: Lane, limit: int = 1, queue: str = "samjobs:region:us") -> list[Shard]:
    with store.begin() as conn:
        return shards.claim_lane(conn, lane, limit=limit, at=now(conn), queues=only(queue), actor="controller")


class Controller:
    """Looks again and again, and remembers. In full only when told: by itself it would be now and then."""

    def __init__(self, store: Store) -> None:
        self._store, self._heads = store, Heads()
        self.look()
        self._heads.full_again_at = float("inf")

    def look(self) -> list[Lane]:
        return [*self._look().lanes]

    def at_work(self) -> set[UUID]:
        return {one.id for one in self._look().at_work}

    def look_in_full(self) -> list[Lane]:
        self._heads.full_again_at = 0.0
        return self.look()

    def _look(self) -> Look:
        with self._store.begin() as conn:
            return lanes.look(conn, per_lane=100, heads=self._heads, turn=True)


def test_each_lane_is_found_with_its_first_shard_and_what_is_due_in_it(store: Store) -> None:
    first = job(store, 6, tenant="ada", region="us")
    job(store, 2, tenant="ada", region="us")
    job(store, 2, tenant="zoe", region="us")
    job(store, 4, tenant="ada", region="us", priority=-3)
    job(store, 2, tenant="ada", region="eu", priority=7)
    found = look(store)
    assert counted(found) == {
        ("eu", "ada", 7): 1,
        ("us", "ada", -3): 2,
        ("us", "ada", 0): 4,
        ("us", "zoe", 0): 1,
    }
    assert found[2].job_created_at == read(store, first).created_at
    assert found[2].index == 0


def test_no_more_of_a_lane_are_counted_than_asked_for(store: Store) -> None:
    job(store, 20)
    job(store, 2, tenant="zoe")
    assert [lane.due for lane in look(store, per_lane=3)] == [3, 1]


def test_what_is_not_due_is_not_there(store: Store) -> None:
    with store.read() as conn:
        tomorrow = now(conn) + timedelta(days=1)
    job(store, 6, tenant="later", not_before=tomorrow)
    job(store, 6, tenant="held", suspend=True)
    job(store, 6, tenant="narrow", parallelism=2)
    over = job(store, 2, tenant="over")
    with store.begin() as conn:
        jobs.cancel(conn, over, actor="ada")
    job(store, 4, tenant="mixed", not_before=tomorrow)
    job(store, 2, tenant="mixed")
    assert counted(look(store)) == {("default", "mixed", 0): 1, ("default", "narrow", 0): 2}


def test_a_claim_takes_the_first_of_its_lane_and_writes_their_queue(store: Store) -> None:
    older, younger = job(store, 4, region="us"), job(store, 4, region="us")
    job(store, 4, region="us", tenant="zoe")
    job(store, 4, region="us", priority=5)
    lane = look(store)[0]
    claimed = claim(store, lane, 3)
    assert [(shard.job_id, shard.index) for shard in claimed] == [(older, 0), (older, 1), (younger, 0)]
    assert {shard.attempt for shard in claimed} == {1}
    assert claimed[0] == shard_of(store, older)
    assert claimed[0].queue == "samjobs:region:us"
    assert claimed[0].state is ShardState.DISPATCHED
    assert [shard.index for shard in claim(store, lane, 9)] == [1]
    assert claim(store, lane) == []


def test_a_claim_tells_who_made_it(store: Store) -> None:
    job_id = job(store, 2)
    (shard,) = claim(store, look(store)[0])
    with store.read() as conn:
        told = jobs.events(conn, job_id)[-1]
    assert (told.shard_id, told.reason, told.actor) == (shard.id, Reason.CLAIMED, "controller")


def test_a_claim_takes_nothing_whose_time_has_not_come(store: Store) -> None:
    with store.read() as conn:
        soon = now(conn) + timedelta(hours=1)
    job(store, 2)
    job(store, 2, not_before=soon)
    (lane,) = look(store)
    assert len(claim(store, lane, 9)) == 1


def test_two_claims_at_once_take_different_shards(on_postgres: Store) -> None:
    job(on_postgres, 4)
    (lane,) = look(on_postgres)
    with on_postgres.begin() as one, on_postgres.begin() as two:
        taken = [shards.claim_lane(conn, lane, limit=1, at=now(conn), queues=only("q"))[0] for conn in (one, two)]
    assert taken[0].id != taken[1].id


def test_two_controllers_take_turns(on_postgres: Store) -> None:
    with on_postgres.begin() as one, on_postgres.begin() as two:
        lanes.look(one, per_lane=1, turn=True)
        two.execute(sa.text("SET LOCAL lock_timeout = '50ms'"))
        with pytest.raises(sa.exc.DBAPIError, match="lock timeout"):
            lanes.look(two, per_lane=1, turn=True)
        two.rollback()


def test_at_work_is_what_was_taken_and_not_given_back(store: Store) -> None:
    job_id = job(store, 6)
    sent = claim(store, look(store)[0])[0]
    at_work = running(store, job_id)
    with store.read() as conn:
        found = lanes.look(conn, per_lane=1).at_work
    assert {(one.id, one.state) for one in found} == {
        (sent.id, ShardState.DISPATCHED),
        (at_work.id, ShardState.RUNNING),
    }


def test_dispatched_shards_come_in_pages_and_by_age(store: Store) -> None:
    job(store, 10)
    ids = sorted(shard.id for shard in claim(store, look(store)[0], 5))
    with store.read() as conn:
        assert shards.dispatched(conn, older_than_s=60) == []
        page = shards.dispatched(conn, limit=3)
        rest = shards.dispatched(conn, after=page[-1].id, limit=3)
    assert [shard.id for shard in page + rest] == ids


def test_only_its_last_attempt_stands_and_only_while_it_is_at_work(store: Store) -> None:
    job_id = job(store, 8)
    sent = claim(store, look(store)[0])[0]
    begun, over, back = running(store, job_id), running(store, job_id), running(store, job_id)
    with store.begin() as conn:
        shards.record(conn, over.id, over.attempt, outcomes(over))
        shards.finish(conn, over.id, over.attempt)
        shards.release(conn, back.id, back.attempt, reason=Reason.DRAINED)
    asked = {(shard.id, attempt) for shard in (sent, begun, over, back) for attempt in (1, 2)} | {(uuid4(), 1)}
    with store.read() as conn:
        assert shards.standing(conn, asked) == {(sent.id, 1), (begun.id, 1)}
        assert shards.standing(conn, []) == set()


def test_what_waits_in_the_queues_of_a_region_is_found(store: Store) -> None:
    job(store, 6, region="us")
    job(store, 2, region="eu")
    eu, us = look(store)
    claim(store, eu, queue="samjobs:region:eu")
    (mine,) = claim(store, us, queue="samjobs:region:us")
    (retried,) = claim(store, us, queue="samjobs:retry:us")
    claim(store, us, queue="samjobs:retry")
    with store.read() as conn:
        found = shards.waiting_in(conn, "us", ["samjobs:region:us", "samjobs:retry:us"])
    assert {shard.id for shard in found} == {mine.id, retried.id}


# What a controller remembers.


def test_who_remembers_goes_on_where_it_was(on_postgres: Store) -> None:
    job(on_postgres, 20)
    controller = Controller(on_postgres)
    for left in range(10, 0, -1):
        (lane,) = controller.look()
        assert lane.due == left
        claim(on_postgres, lane)
    assert controller.look() == []


def test_a_new_job_s_lane_is_found_at_once(on_postgres: Store) -> None:
    controller = Controller(on_postgres)
    job(on_postgres, 4, tenant="new")
    assert counted(controller.look()) == {("default", "new", 0): 2}


def test_so_is_that_of_a_job_whose_listing_takes_long(on_postgres: Store) -> None:
    with on_postgres.begin() as conn:
        job_id = jobs.submit(conn, spec(), tenant="slow").job_id
        conn.execute(sa.text("UPDATE jobs SET created_at = created_at - interval '1 hour'"))
    controller = Controller(on_postgres)
    assert controller.look() == []
    with on_postgres.begin() as conn:
        jobs.add_images(conn, job_id, new_images(4))
    assert counted(controller.look()) == {("default", "slow", 0): 2}


def test_a_retry_and_a_shard_whose_time_comes_are_found_in_a_known_lane(on_postgres: Store) -> None:
    job_id = job(on_postgres, 2)
    shard = running(on_postgres, job_id)
    job(on_postgres, 2, priority=1)
    controller = Controller(on_postgres)
    with on_postgres.begin() as conn:
        shards.release(conn, shard.id, shard.attempt, reason=Reason.DRAINED)
    assert counted(controller.look()) == {("default", "default", 0): 1, ("default", "default", 1): 1}


def test_a_lane_that_waits_for_tomorrow_still_shows_what_comes_today(on_postgres: Store) -> None:
    with on_postgres.read() as conn:
        tomorrow = now(conn) + timedelta(days=1)
    job(on_postgres, 2, not_before=tomorrow)
    controller = Controller(on_postgres)
    assert controller.look() == []
    job(on_postgres, 2)
    assert counted(controller.look()) == {("default", "default", 0): 1}


def test_what_is_committed_late_is_found_if_it_is_not_later_than_the_margin(on_postgres: Store) -> None:
    job(on_postgres, 4)
    controller = Controller(on_postgres)
    with on_postgres.begin() as late:
        job_id = jobs.submit(late, spec()).job_id
        jobs.add_images(late, job_id, new_images(2))
        job(on_postgres, 4)
        assert [lane.due for lane in controller.look()] == [4]
    assert [lane.due for lane in controller.look()] == [5]


def test_what_came_due_behind_its_back_waits_for_a_look_in_full(on_postgres: Store) -> None:
    job_id = job(on_postgres, 2, suspend=True)
    _age(on_postgres, 2 * MARGIN)
    job(on_postgres, 2)
    controller = Controller(on_postgres)
    with on_postgres.begin() as conn:
        jobs.set_suspend(conn, job_id, False, actor="ada")
    assert [lane.due for lane in controller.look()] == [1]
    assert [lane.due for lane in controller.look_in_full()] == [2]


def test_who_remembers_knows_all_that_is_at_work(on_postgres: Store) -> None:
    job_id = job(on_postgres, 10)
    (lane,) = look(on_postgres)
    old = claim(on_postgres, lane, 2)
    _age(on_postgres, 2 * MARGIN)
    controller = Controller(on_postgres)
    assert controller.at_work() == {shard.id for shard in old}
    new, begun = claim(on_postgres, look(on_postgres)[0])[0], running(on_postgres, job_id)
    assert controller.at_work() == {*(shard.id for shard in old), new.id, begun.id}
    with on_postgres.begin() as conn:
        shards.start(conn, old[0].id, 1, uuid4())
        shards.release(conn, old[1].id, 1, reason=Reason.MESSAGE_LOST)
        shards.release(conn, new.id, 1, reason=Reason.MESSAGE_LOST)
    assert controller.at_work() == {old[0].id, begun.id}


def _age(store: Store, by: timedelta) -> None:
    """As if all that is there had happened earlier."""
    with store.begin() as conn:
        aged = "UPDATE shards SET available_at = available_at - :by, dispatched_at = dispatched_at - :by"
        conn.execute(sa.text(aged), {"by": by})


# What a transaction that somebody holds open costs.


def test_a_transaction_held_open_makes_no_look_dearer(on_postgres: Store) -> None:
    # Hundreds of shards are taken from two lanes while nothing that is dead can be removed; one lane is drained.
    for tenant, count in (("ada", 1500), ("zoe", 500)):
        job(on_postgres, count, tenant=tenant, shard_size=1)
    with on_postgres.begin() as conn:
        conn.execute(sa.text("UPDATE shards SET available_at = available_at - interval '1 minute'"))
    with on_postgres.engine.connect().execution_options(isolation_level="REPEATABLE READ") as idle:
        idle.execute(sa.text("SELECT count(*) FROM jobs"))
        with on_postgres.begin() as conn:
            taken = "UPDATE shards SET state = :state, dispatched_at = available_at WHERE {}"
            first = sa.text(taken.format("tenant = 'zoe' OR index < 1000"))
            conn.execute(first, {"state": "dispatched"})
        with on_postgres.begin() as conn:
            conn.execute(sa.text(taken.format("state = 'dispatched'")), {"state": "succeeded"})
        controller = Controller(on_postgres)
        found, bounded = _costs(on_postgres, controller.look)
        same, full = _costs(on_postgres, controller.look_in_full)
    assert counted(found) == counted(same) == {("default", "ada", 0): 100}
    assert bounded < 60, f"{bounded} pages were touched: a look that remembers walks over what is dead ({full} in full)"
    assert full > 5 * bounded, "nothing dead lies in the way of a look in full: this test shows nothing"


def _costs(store: Store, looked: Callable[[], list[Lane]]) -> tuple[list[Lane], int]:
    """What a look finds, and how many pages its queries touch."""
    sent: list[tuple[str, Any]] = []

    def note(_conn: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, _many: bool) -> None:
        sent.append((statement, parameters))

    sa.event.listen(store.engine, "before_cursor_execute", note)
    found = looked()
    sa.event.remove(store.engine, "before_cursor_execute", note)
    with store.begin() as conn:
        return found, sum(touched(conn, statement, parameters) for statement, parameters in sent)


def test_the_last_claim_of_a_transaction_commits_it(on_postgres: Store) -> None:
    job_id = job(on_postgres, 2)
    (lane,) = look(on_postgres)
    with on_postgres.begin() as conn:
        (taken,) = shards.claim_lane(conn, lane, limit=1, at=now(conn), queues=only("q"), last=True)
        assert shard_of(on_postgres, job_id).state is ShardState.DISPATCHED, "others see it before the block ends"
    assert shard_of(on_postgres, job_id).attempt == taken.attempt == 1
