"""Shards go to the queues: few at a time, each once, and only while somebody can be told."""

import pytest

from controller.steps import dispatch
from samjobs.errors import QueueUnavailable
from samjobs.names import GLOBAL_RETRY_QUEUE, queue_of, retry_queue_of
from tests.controller.world import World, opened
from tests.redis_server import Server
from tests.store.builders import job


def test_a_short_window_is_filled_and_topped_up_as_shards_start(world: World) -> None:
    job_id = job(world.store, 10)
    mine = world.worker()

    assert dispatch.run(world.ctx)["sent"] == 2
    assert dispatch.run(world.ctx)["sent"] == 0, "two wait for one worker"
    assert list(world.waiting()) == world.messages(job_id)[:2]
    assert set(world.waiting().values()) == {queue_of("default")}

    world.start(mine)
    assert dispatch.run(world.ctx)["sent"] == 1
    assert world.states(job_id) == ["running", "dispatched", "dispatched", "queued", "queued"]


def test_the_row_says_which_queue_and_the_event_who_sent_it(world: World) -> None:
    job_id = job(world.store, 2)

    dispatch.run(world.ctx)

    (shard,) = world.shards(job_id)
    assert (shard.state, shard.attempt, shard.queue) == ("dispatched", 1, queue_of("default"))
    assert [(event.to_state, event.actor) for event in world.events(job_id)][-1] == ("dispatched", "controller")


def test_a_worker_takes_retries_before_new_work_and_the_far_failed_first(world: World) -> None:
    fresh, once, twice = job(world.store, 2), job(world.store, 2), job(world.store, 2)
    for failures, which in ((1, once), (2, twice)):
        world.sql("UPDATE shards SET failures = %s WHERE job_id = %s", failures, which)
    mine = [world.worker() for _ in range(3)]

    dispatch.run(world.ctx)

    assert [world.start(one).job_id for one in mine] == [twice, once, fresh]
    assert [world.shards(which)[0].queue for which in (fresh, once, twice)] == [
        queue_of("default"),
        retry_queue_of("default"),
        GLOBAL_RETRY_QUEUE,
    ]


def test_new_work_of_a_region_that_lost_its_workers_goes_to_the_others(world: World) -> None:
    world.worker("asia")
    world.age("workers", "heartbeat_at", 600)
    eu = world.worker("eu")
    job_id = job(world.store, 2, region="asia")
    world.age("shards", "available_at", 600)

    dispatch.run(world.ctx)

    assert world.start(eu, "eu").job_id == job_id


def test_a_tenants_minute_is_spent_and_says_so(postgres_url: str, redis_url: str) -> None:
    with opened(postgres_url, redis_url, tenant_rate_per_minute=3) as world:
        job(world.store, 10, tenant="zoo")
        job(world.store, 10, tenant="farm")
        for _ in range(20):
            world.worker()

        counts = dispatch.run(world.ctx)
        again = dispatch.run(world.ctx)

        assert counts["sent"] == 6
        assert counts["refused_RateLimited"] == 2
        assert again["sent"] in (0, 6), "all of another minute, if one began just now"


def test_while_redis_is_away_nothing_is_taken_from_the_queue(postgres_url: str, own_redis: Server) -> None:
    with opened(postgres_url, own_redis.url) as world:
        first = job(world.store, 2)
        own_redis.stop()

        with pytest.raises(QueueUnavailable):
            dispatch.run(world.ctx)
        assert world.states(first) == ["dispatched"], "the outage was not known yet: heal repairs this one"

        world.ctx.outages.failed("redis", QueueUnavailable("away"))
        second = job(world.store, 2)
        assert dispatch.run(world.ctx)["sent"] == 0
        assert world.states(second) == ["queued"]
