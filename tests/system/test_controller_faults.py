"""Controllers die or are doubled: the table and the queue agree again by themselves."""

from tests.system.system import System


def test_a_controller_killed_between_commit_and_enqueue_loses_nothing(system: System) -> None:
    held = system.hold()
    victim = system.start("controller", held=("dispatched", held))
    system.start("worker")
    job_id = system.submit("between", 6, shard_size=3)
    system.until(lambda: held.pid is not None, "a shard is dispatched in the table alone")
    victim.kill()
    assert system.shards(job_id)[0].state == "dispatched"
    assert system.redis_ids() == []
    system.start("controller")
    system.until_ended(job_id)
    system.check_done_once(job_id)
    assert all(shard.failures == 0 for shard in system.shards(job_id))
    assert system.reasons(job_id)["MessageLost"] >= 1


def test_two_controllers_and_their_deaths_disturb_nobody(system: System) -> None:
    controllers = [system.start("controller") for _ in range(2)]
    for _ in range(2):
        system.start("worker")
    job_ids = [system.submit(f"pair-{number}", 40, shard_size=4) for number in range(3)]
    system.until(lambda: any(system.job(job_id).images_done for job_id in job_ids), "work has begun")
    controllers[0].kill()
    controllers.append(system.start("controller"))
    system.until_ended(*job_ids)
    for job_id in job_ids:
        system.check_done_once(job_id)
    assert set(system.worked().values()) == {1}
    for controller in controllers[1:]:
        controller.stop()


def test_work_goes_on_while_no_controller_runs_and_what_came_meanwhile_is_seen(system: System) -> None:
    system.start("worker")
    first = system.submit("before", 4)
    controller = system.start("controller")
    system.until_ended(first)
    controller.stop()
    second = system.submit("meanwhile", 4)
    system.start("controller")
    system.until_ended(second)
    system.check_done_once(second)
