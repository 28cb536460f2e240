"""Jobs run out of time by their own deadline, or when nothing moves at all."""

from controller.steps import dispatch, expire
from samjobs.names import Reason
from samjobs.store import jobs
from tests.controller.world import World, opened
from tests.store.builders import job

SILENT_S = 120  # of the profile dev


def test_a_job_past_its_deadline_fails_with_all_its_shards(world: World) -> None:
    late = job(world.store, 4, active_deadline_seconds=30)
    in_time = job(world.store, 4, active_deadline_seconds=3000)
    dispatch.run(world.ctx)
    world.age("jobs", "deadline_at", 60)

    assert expire.run(world.ctx) == {"overdue": 1, "silent": 0}

    ended = world.job(late)
    assert (ended.state, ended.reason) == ("failed", Reason.DEADLINE_EXCEEDED)
    assert ended.error == "not finished within its activeDeadlineSeconds of 30: 0 of 4 images finished"
    assert set(world.states(late)) == {"cancelled"}
    assert world.job(in_time).state == "queued"
    assert expire.run(world.ctx) == {"overdue": 0, "silent": 0}


def test_a_job_of_which_nothing_is_heard_fails(world: World) -> None:
    job_id = job(world.store, 2)
    assert expire.run(world.ctx)["silent"] == 0
    world.age("jobs", "alive_at", SILENT_S + 1)

    assert expire.run(world.ctx) == {"overdue": 0, "silent": 1}

    ended = world.job(job_id)
    assert (ended.state, ended.reason) == ("failed", Reason.NO_PROGRESS)
    assert ended.error == "no sign of life for 120 s, of the job or of its region"


def test_a_job_deep_in_a_queue_that_moves_is_left_alone(world: World) -> None:
    first, deep = job(world.store, 2), job(world.store, 2)
    dispatch.run(world.ctx)
    world.age("jobs", "alive_at", SILENT_S + 1)
    world.finish(world.start(world.worker()))

    assert expire.run(world.ctx)["silent"] == 0
    assert [world.job(one).state for one in (first, deep)] == ["succeeded", "queued"]


def test_a_suspended_job_waits_for_ever(world: World) -> None:
    job_id = job(world.store, 2)
    with world.store.begin() as conn:
        jobs.set_suspend(conn, job_id, True, actor="me")
    world.age("jobs", "alive_at", SILENT_S + 1)

    assert expire.run(world.ctx)["silent"] == 0


def test_zero_never_fails_a_job_for_silence(postgres_url: str, redis_url: str) -> None:
    with opened(postgres_url, redis_url, failed_job_timeout_seconds=0) as world:
        job(world.store, 2)
        world.age("jobs", "alive_at", 1e7)

        assert expire.run(world.ctx)["silent"] == 0
