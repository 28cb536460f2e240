"""The table and Redis tell the same story, whatever happened to either."""

import logging

import pytest
import redis

from controller.steps import dispatch, heal
from controller.steps.heal import HEAL_GRACE_S
from samjobs.names import Reason, message_id, queue_of
from tests.controller.world import World, opened
from tests.redis_server import Server
from tests.store.builders import job


def sent(world: World, count: int = 2) -> list[str]:
    """A job of `count` shards, all of them sent; its messages."""
    for _ in range(count):
        world.worker()
    job_id = job(world.store, 2 * count)
    assert dispatch.run(world.ctx)["sent"] == count
    return world.messages(job_id)


def grace_passes(world: World) -> None:
    world.age("shards", "dispatched_at", HEAL_GRACE_S + 1)


def test_what_waits_in_its_queue_is_left_alone(world: World) -> None:
    messages = sent(world)
    grace_passes(world)

    assert heal.run(world.ctx) == {"removed": 0, "requeued": 0}
    assert list(world.waiting()) == messages


def test_a_redis_that_lost_everything_costs_one_pass_and_no_failure(postgres_url: str, own_redis: Server) -> None:
    with opened(postgres_url, own_redis.url) as world:
        job_id = world.shards(job(world.store, 4))[0].job_id
        dispatch.run(world.ctx)
        own_redis.forget()

        assert heal.run(world.ctx)["requeued"] == 0, "its message may be on its way"
        grace_passes(world)
        assert heal.run(world.ctx)["requeued"] == 2
        assert dispatch.run(world.ctx)["sent"] == 2

        assert [(shard.attempt, shard.failures) for shard in world.shards(job_id)] == [(2, 0), (2, 0)]
        assert list(world.waiting()) == world.messages(job_id)
        lost = [event for event in world.events(job_id) if event.reason is Reason.MESSAGE_LOST]
        assert {event.message for event in lost} == {
            "its message is in no queue of Redis any more (was in samjobs:region:default)"
        }


def test_one_whose_message_is_lost_keeps_its_place_in_the_line(world: World) -> None:
    first, second = job(world.store, 2), job(world.store, 4)
    dispatch.run(world.ctx)
    world.queue.remove(queue_of("default"), world.messages(first))
    grace_passes(world)

    heal.run(world.ctx)
    dispatch.run(world.ctx)

    assert world.states(first) == ["dispatched"]
    assert world.states(second) == ["dispatched", "queued"]


def test_one_that_started_meanwhile_goes_on(world: World) -> None:
    mine = world.worker()
    job_id = job(world.store, 2)
    dispatch.run(world.ctx)
    grace_passes(world)
    seen = list(heal._sent(world.ctx))
    world.start(mine)

    assert heal._requeue_lost(world.ctx, seen, world.waiting()) == 0
    assert world.states(job_id) == ["running"]


def test_messages_that_nobody_waits_for_are_removed_and_no_others(world: World) -> None:
    mine = world.worker()
    messages = sent(world, 1)
    cancelled = job(world.store, 2)
    dispatch.run(world.ctx)
    world.sql("UPDATE shards SET state = 'cancelled' WHERE job_id = %s", cancelled)
    running = world.start(mine)
    twice = message_id(running.id, running.attempt)
    rubbish = ["os.system", b"\xff\xfe", message_id(mine, 3), f"{messages[0].rpartition('-')[0]}-7"]
    with redis.Redis.from_url(world.settings.redis_url) as client:
        client.sadd("rq:queues", "rq:queue:samjobs:region:elsewhere")
        client.rpush("rq:queue:samjobs:region:elsewhere", *rubbish)
        client.rpush("rq:queue:samjobs:region:default", twice)

    counts = heal.run(world.ctx)

    assert counts["removed"] == 5, "four made up, one cancelled"
    assert list(world.waiting()) == [twice], "it changes nothing, and the worker that takes it finds that"


def test_a_redis_that_drops_keys_is_warned_of_once(
    postgres_url: str, own_redis: Server, caplog: pytest.LogCaptureFixture
) -> None:
    own_redis.stop()
    own_redis.start(options=("--maxmemory", "20mb", "--maxmemory-policy", "allkeys-lru"))
    with opened(postgres_url, own_redis.url) as world, caplog.at_level(logging.WARNING):
        heal.run(world.ctx)
        heal.run(world.ctx)

        (warning,) = caplog.messages
        assert "maxmemory-policy allkeys-lru" in warning
        assert "set maxmemory-policy noeviction" in warning
        assert world.metric("samjobs_redis_eviction_unsafe") == 1

        own_redis.stop()
        own_redis.start()
        heal.run(world.ctx)
        assert world.metric("samjobs_redis_eviction_unsafe") == 0
