"""Every transition that states.py lists can be made, every other is refused, and each leaves one event."""

from dataclasses import replace
from itertools import product
from uuid import UUID

import pytest
import sqlalchemy as sa

from samjobs.errors import ErrorClass
from samjobs.names import Reason
from samjobs.states import SHARD_TRANSITIONS, ImageState, ShardState
from samjobs.store import Store, jobs, now, shards
from samjobs.store.rows import Event, LeaseAnswer, Subject
from samjobs.store.tables import shards as shard_rows
from samjobs.store.transitions import IllegalTransition, Move, Why, job_of, lock_job, move_shard, move_shards
from tests.store.builders import DEAD, ME, REQUEUE, claim, job, outcomes, read, run, running, shard_of

LEGAL = [(old, new) for old, new in product(ShardState, ShardState) if new in SHARD_TRANSITIONS[old]]
ILLEGAL = [pair for pair in product(ShardState, ShardState) if pair not in LEGAL]
ENDED = (ShardState.SUCCEEDED, ShardState.DEAD, ShardState.CANCELLED)


def brought_to(store: Store, state: ShardState) -> UUID:
    """A shard, the first of two in its job, in `state` by the store's own functions."""
    job_id = job(store)
    shard_id = shard_of(store, job_id).id
    match state:
        case ShardState.QUEUED:
            pass
        case ShardState.DISPATCHED:
            claim(store)
        case ShardState.RUNNING:
            running(store, job_id)
        case ShardState.SUCCEEDED:
            run(store, job_id, ImageState.FAILED)
        case ShardState.DEAD:
            shard = running(store, job_id)
            with store.begin() as conn:
                shards.fail(conn, shard.id, shard.attempt, DEAD, error_class=ErrorClass.WORKER, error="crash")
        case ShardState.CANCELLED:
            with store.begin() as conn:
                jobs.cancel(conn, job_id, actor="ada")
    return shard_id


def do(store: Store, shard_id: UUID, new: ShardState) -> None:
    """Move a shard to `new` by the store's own functions."""
    with store.begin() as conn:
        shard = shards.get(conn, shard_id)
        assert shard is not None
        name = (shard_id, shard.attempt)
        match new:
            case ShardState.DISPATCHED:
                assert shards.claim(conn, limit=1)[0].id == shard_id
            case ShardState.RUNNING:
                assert shards.start(conn, *name, ME)
            case ShardState.SUCCEEDED:
                assert shards.record(conn, *name, outcomes(shard))
                assert shards.finish(conn, *name)
            case ShardState.DEAD:
                assert shards.fail(conn, *name, DEAD, error_class=ErrorClass.WORKER, error="crash")
            case ShardState.CANCELLED:
                assert jobs.cancel(conn, shard.job_id, actor="ada")
            case ShardState.QUEUED if shard.state in ENDED:
                assert jobs.retry_failed(conn, shard.job_id, actor="ada").shards == 1
            case ShardState.QUEUED:
                assert shards.release(conn, *name, reason=Reason.DRAINED, actor="worker")


def events_of(store: Store, shard_id: UUID) -> list[Event]:
    with store.read() as conn:
        shard = shards.get(conn, shard_id)
        assert shard is not None
        told = jobs.events(conn, shard.job_id)
    return [event for event in told if event.subject is Subject.SHARD and event.shard_id == shard_id]


@pytest.mark.parametrize(("old", "new"), LEGAL, ids=[f"{old} becomes {new}" for old, new in LEGAL])
def test_a_legal_transition_is_made_and_told_once(store: Store, old: ShardState, new: ShardState) -> None:
    shard_id = brought_to(store, old)
    before = events_of(store, shard_id)
    do(store, shard_id, new)
    with store.read() as conn:
        shard = shards.get(conn, shard_id)
        moment = now(conn)
    assert shard is not None
    assert shard.state is new
    (event,) = events_of(store, shard_id)[len(before) :]
    assert (event.from_state, event.to_state) == (old, new)
    assert event.at <= moment
    if new in ENDED:
        assert shard.finished_at == event.at


@pytest.mark.parametrize(("old", "new"), ILLEGAL, ids=[f"{old} never becomes {new}" for old, new in ILLEGAL])
def test_an_illegal_transition_is_refused_before_anything_is_written(
    store: Store, old: ShardState, new: ShardState
) -> None:
    shard_id = brought_to(store, old)
    before = events_of(store, shard_id)
    with store.begin() as conn:
        shard = shards.get(conn, shard_id)
        owner = job_of(conn, shard_id)
        assert shard is not None
        assert owner is not None
        move = Move(old, new, Why(Reason.DRAINED, "test", now(conn)))
        with pytest.raises(IllegalTransition, match=f"{old.value} may not become {new.value}"):
            move_shard(conn, owner, shard_id, shard.attempt, move)
        with pytest.raises(IllegalTransition):
            move_shards(conn, owner, move)
        assert shards.get(conn, shard_id) == shard
    assert events_of(store, shard_id) == before


def test_many_shards_move_in_one_go_with_an_event_each(store: Store) -> None:
    job_id = job(store, 20)
    with store.begin() as conn:
        owner = lock_job(conn, job_id)
        why = Why(Reason.SUPERSEDED, "ada", now(conn), "newer job")
        assert move_shards(conn, owner, Move(ShardState.QUEUED, ShardState.CANCELLED, why)) == 10
    with store.read() as conn:
        told = [event for event in jobs.events(conn, job_id) if event.subject is Subject.SHARD]
    assert len({event.shard_id for event in told}) == 10
    assert {(event.reason, event.actor, event.message) for event in told} == {(Reason.SUPERSEDED, "ada", "newer job")}


@pytest.mark.parametrize("action", ["start", "record", "finish", "release", "fail", "heartbeat"])
def test_a_worker_of_an_older_attempt_writes_nothing(store: Store, action: str) -> None:
    job_id = job(store, 2)
    zombie = running(store, job_id)
    with store.begin() as conn:
        assert shards.fail(conn, zombie.id, zombie.attempt, REQUEUE, error_class=ErrorClass.TRANSIENT, error="lost")
    heir = running(store, job_id, incarnation=UUID(int=7))
    before = read(store, job_id)
    with store.begin() as conn:
        name = (zombie.id, zombie.attempt)
        answers = {
            "start": lambda: shards.start(conn, *name, ME) is not None,
            "record": lambda: shards.record(conn, *name, outcomes(zombie)),
            "finish": lambda: shards.finish(conn, *name),
            "release": lambda: shards.release(conn, *name, reason=Reason.DRAINED),
            "fail": lambda: shards.fail(conn, *name, DEAD, error_class=ErrorClass.WORKER, error="x"),
            "heartbeat": lambda: shards.heartbeat(conn, *name, ME) is not LeaseAnswer.LOST,
        }
        assert answers[action]() is False
    assert read(store, job_id) == before
    assert shard_of(store, job_id) == heir


def test_events_and_rows_are_undone_together(store: Store) -> None:
    job_id = job(store, 2)

    def claim_and_crash() -> None:
        with store.begin() as conn:
            shards.claim(conn, limit=1)
            raise RuntimeError("the plug is pulled")

    with pytest.raises(RuntimeError, match="pulled"):
        claim_and_crash()
    shard = shard_of(store, job_id)
    assert (shard.state, shard.attempt) == (ShardState.QUEUED, 0)
    assert events_of(store, shard.id) == []


def test_the_database_itself_refuses_a_word_that_is_no_state(store: Store) -> None:
    job(store)
    word: sa.ColumnElement[str] = sa.literal_column("'asleep'")
    with pytest.raises(sa.exc.IntegrityError, match="ck_shards_state"), store.begin() as conn:
        conn.execute(shard_rows.update().values(state=word))


def test_an_image_outcome_that_is_no_end_is_refused(store: Store) -> None:
    shard = running(store, job(store, 2))
    pending = [replace(outcome, state=ImageState.PENDING) for outcome in outcomes(shard)]
    with pytest.raises(IllegalTransition, match="pending"), store.begin() as conn:
        shards.record(conn, shard.id, shard.attempt, pending)


def test_a_job_that_fails_names_the_first_thing_that_failed(store: Store) -> None:
    photos = job(store, 2)
    shard = running(store, photos)
    with store.begin() as conn:
        rows = outcomes(shard, ImageState.FAILED, error="torn.jpg is cut off")
        assert shards.finish(conn, shard.id, shard.attempt, rows)
    assert read(store, photos).error == f"all {len(rows)} images failed; the first: torn.jpg is cut off"

    crash = job(store, 2)
    shard = running(store, crash)
    with store.begin() as conn:
        shards.fail(conn, shard.id, shard.attempt, DEAD, error_class=ErrorClass.WORKER, error="x" * 1000)
    assert (read(store, crash).error or "").endswith("; the first: " + "x" * 300)
