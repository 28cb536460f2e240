"""A shard whose worker is gone goes back, charged once; one whose worker lives is left alone."""

from uuid import uuid4

import pytest

from controller import context
from controller.steps import dispatch, reclaim
from samjobs.store import shards
from tests.controller.world import World
from tests.store.builders import job

LEASE_S = 60


def test_a_silent_workers_shard_is_queued_again_with_a_backoff(world: World) -> None:
    job_id = job(world.store, 2)
    dispatch.run(world.ctx)
    shard = world.start(world.worker())
    world.age("shards", "heartbeat_at", LEASE_S + 1)

    assert reclaim.run(world.ctx) == {"requeued": 1, "dead": 0}

    (back,) = world.shards(job_id)
    assert (back.state, back.failures, back.attempt) == ("queued", 1, 1)
    assert 0.9 <= (back.available_at - world.events(job_id)[-1].at).total_seconds() <= 2
    assert back.error is not None
    assert f"from worker {shard.incarnation}" in back.error
    assert dispatch.run(world.ctx)["sent"] == 0, "not before its backoff"


def test_a_worker_that_beats_keeps_its_shard_for_many_leases(world: World) -> None:
    job_id, mine = job(world.store, 2), world.worker()
    dispatch.run(world.ctx)
    shard = world.start(mine)
    for _ in range(3):
        world.age("shards", "heartbeat_at", LEASE_S - 5)
        world.age("shards", "started_at", LEASE_S)
        assert reclaim.run(world.ctx) == {"requeued": 0, "dead": 0}
        with world.store.begin() as conn:
            shards.heartbeat(conn, shard.id, shard.attempt, mine)

    assert world.states(job_id) == ["running"]


def test_one_that_beats_at_the_last_moment_keeps_it(world: World) -> None:
    job_id, mine = job(world.store, 2), world.worker()
    dispatch.run(world.ctx)
    shard = world.start(mine)
    world.age("shards", "heartbeat_at", LEASE_S + 1)
    (found,) = list(reclaim._abandoned(world.ctx))
    with world.store.begin() as conn:
        shards.heartbeat(conn, shard.id, shard.attempt, mine)

    assert reclaim._take_back(world.ctx, found) is None
    assert world.states(job_id) == ["running"]


def test_a_shard_that_kills_its_workers_ends_dead_and_fails_its_job(world: World) -> None:
    job_id = job(world.store, 2)
    became = []
    for _ in range(3):
        world.age("shards", "available_at", 600)
        dispatch.run(world.ctx)
        world.start(world.worker())
        world.age("shards", "heartbeat_at", LEASE_S + 1)
        became.append(dict(reclaim.run(world.ctx)))

    assert became == [{"requeued": 1, "dead": 0}, {"requeued": 1, "dead": 0}, {"requeued": 0, "dead": 1}]
    assert world.states(job_id) == ["dead"]
    assert world.job(job_id).state == "failed"


def test_many_are_taken_back_over_some_passes_that_follow_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name in ((reclaim, "MOST_CHANGES"), (reclaim, "PAGE")):
        assert hasattr(context, name)
        monkeypatch.setattr(module, name, 2)
    job_id = job(world.store, 10)
    world.sql(
        "UPDATE shards SET state = 'running', attempt = 1, heartbeat_at = now() - interval '1 day', incarnation = %s",
        uuid4(),
    )

    passes = []
    while not passes or world.ctx.more:
        world.ctx.more = False
        passes.append(sum(reclaim.run(world.ctx).values()))

    assert passes == [2, 2, 1]
    assert world.states(job_id) == ["queued"] * 5
