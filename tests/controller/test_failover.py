"""Messages do not wait for workers that will not come."""

from controller.steps import dispatch, failover, heal
from samjobs.names import GLOBAL_RETRY_QUEUE, Reason
from tests.controller.world import World
from tests.store.builders import job

AFTER_S = 60  # of the profile dev


def sent_to_asia(world: World) -> str:
    world.worker("asia")
    job_id = job(world.store, 2, region="asia")
    assert dispatch.run(world.ctx)["sent"] == 1
    return str(job_id)


def test_what_was_sent_to_a_region_that_lost_its_workers_goes_to_the_others(world: World) -> None:
    job_id = sent_to_asia(world)
    world.age("workers", "heartbeat_at", AFTER_S + 600)
    world.age("shards", "available_at", AFTER_S + 1)
    eu = world.worker("eu")

    assert failover.run(world.ctx) == {"taken_back": 1}
    assert world.waiting() == {}
    assert dispatch.run(world.ctx)["sent"] == 1
    assert list(world.waiting().values()) == [GLOBAL_RETRY_QUEUE]

    taken = world.start(eu, "eu")
    assert (str(taken.job_id), taken.attempt, taken.failures) == (job_id, 2, 0)
    (told,) = [event for event in world.events(taken.job_id) if event.reason is Reason.FAILOVER]
    assert "region asia has had no worker for" in told.message
    assert failover.run(world.ctx) == {"taken_back": 0}


def test_nothing_moves_while_nobody_else_could_take_it(world: World) -> None:
    sent_to_asia(world)
    world.age("workers", "heartbeat_at", AFTER_S + 600)
    world.age("shards", "available_at", AFTER_S + 1)

    assert failover.run(world.ctx) == {"taken_back": 0}


def test_a_region_with_a_worker_keeps_its_work_however_long_it_takes(world: World) -> None:
    sent_to_asia(world)
    world.worker("eu")
    world.age("shards", "available_at", 10 * AFTER_S)

    assert failover.run(world.ctx) == {"taken_back": 0}


def test_a_message_that_a_crash_left_behind_is_removed_by_heal(world: World) -> None:
    sent_to_asia(world)
    before = world.waiting()
    world.age("workers", "heartbeat_at", AFTER_S + 600)
    world.age("shards", "available_at", AFTER_S + 1)
    world.worker("eu")
    failover.run(world.ctx)
    ((message, queue),) = before.items()
    world.queue.push([(queue, message)])  # as if the controller had ended before it removed it
    dispatch.run(world.ctx)

    assert heal.run(world.ctx)["removed"] == 1
    assert list(world.waiting()) == [f"{message.rpartition('-')[0]}-2"]
