"""Workers die, freeze, are stopped or break: no image is lost or committed twice, within the lease and a poll."""

import signal
from pathlib import Path

import pytest

from samjobs.inputs import NewImage
from samjobs.names import message_id
from samjobs.queue import RedisQueue
from samjobs.states import JobState, ShardState
from tests.system.system import POLL_S, STALE_S, System, draw

RECOVERY_S = STALE_S + POLL_S + 5  # the grace of a message that is missed
PHASES = ["popped", "started", "mid-image", "written", "committed"]


@pytest.mark.parametrize("phase", PHASES)
def test_a_worker_killed_in_any_phase_loses_nothing_and_doubles_nothing(system: System, phase: str) -> None:
    held = system.hold()
    system.start("controller")
    victim = system.start("worker", held=(phase, held))
    job_id = system.submit("killed", 8, shard_size=4)
    system.until(lambda: held.pid is not None, f"a worker is {phase}")
    victim.kill()
    system.start("worker")  # on the same host, at once: another incarnation
    system.until_ended(job_id, patience_s=RECOVERY_S + 20)
    system.check_done_once(job_id)
    lost = max(shard.failures for shard in system.shards(job_id))
    assert lost == (0 if phase in ("popped", "committed") else 1), "a failure is charged where a worker began, and once"


def test_recovery_takes_the_lease_and_a_poll(system: System) -> None:
    held = system.hold()
    system.start("controller")
    victim = system.start("worker", held=("mid-image", held))
    job_id = system.submit("timed", 2)
    system.until(lambda: held.pid is not None, "a worker has an image in hand")
    heard = system.shards(job_id)[0].heartbeat_at
    victim.kill()
    system.until(lambda: system.shards(job_id)[0].state is ShardState.QUEUED, "the shard is taken back")
    (event,) = [
        event for event in system.events(job_id) if event.from_state == "running" and event.to_state == "queued"
    ]
    assert heard is not None
    waited = (event.at - heard).total_seconds()
    assert STALE_S <= waited <= STALE_S + 4 * POLL_S + 2, f"taken back {waited:.1f} s after its last heartbeat"


def test_a_frozen_worker_writes_and_publishes_nothing_after_it_lost_its_lease(system: System) -> None:
    held = system.hold()
    system.start("controller")
    zombie = system.start("worker", held=("mid-image", held))
    job_id = system.submit("frozen", 4, shard_size=4)
    system.until(lambda: held.pid is not None, "a worker has an image in hand")
    zombie.pause()
    system.start("worker")
    system.until_ended(job_id, patience_s=RECOVERY_S + 20)
    system.check_done_once(job_id)
    results = {path: path.stat().st_mtime_ns for path in _files(system.root / "out" / "frozen")}
    zombie.go_on()
    held.let_go()
    next_job = system.submit("after", 4)
    system.until_ended(next_job)
    zombie.stop()
    changed = [path for path in _files(system.root / "out" / "frozen") if results.get(path) != path.stat().st_mtime_ns]
    assert changed in ([], [path for path in changed if "records" not in path.parts]), "the zombie published"
    system.check_done_once(job_id)


def test_sigterm_gives_the_shard_back_uncharged_and_another_worker_goes_on_with_the_next_image(system: System) -> None:
    held = system.hold()
    system.start("controller")
    drained = system.start("worker", held=("mid-image", held))
    job_id = system.submit("drained", 6, shard_size=6)
    system.until(lambda: held.pid is not None, "a worker has an image in hand")
    drained.popen.send_signal(signal.SIGTERM)
    held.let_go()
    drained.ends(0)
    (shard,) = system.shards(job_id)
    assert shard.state in (ShardState.QUEUED, ShardState.DISPATCHED)
    assert shard.failures == 0
    system.start("worker")
    system.until_ended(job_id)
    system.check_done_once(job_id)
    assert set(system.worked().values()) == {1}, "an image was done again"
    assert system.reasons(job_id)["Drained"] == 1


def test_a_second_sigterm_ends_at_once_and_the_pass_repairs(system: System) -> None:
    held = system.hold()
    system.start("controller")
    hurried = system.start("worker", held=("mid-image", held))
    job_id = system.submit("hurried", 2)
    system.until(lambda: held.pid is not None, "a worker has an image in hand")
    hurried.popen.send_signal(signal.SIGTERM)
    system.until(lambda: "drain" in hurried.said.lower(), "the worker says that it drains")
    hurried.popen.send_signal(signal.SIGTERM)
    hurried.ends(128 + signal.SIGTERM)
    system.start("worker")
    system.until_ended(job_id, patience_s=RECOVERY_S + 20)
    system.check_done_once(job_id)


def test_a_healthy_shard_three_leases_long_is_never_handed_out_again(system: System) -> None:
    held = system.hold()
    system.start("controller")
    slow = system.start("worker", held=("mid-image", held))
    job_id = system.submit("long", 2)
    system.until(lambda: held.pid is not None, "an image takes long")
    system.start("worker")  # idle, and ready to take it
    began = system.shards(job_id)[0].started_at
    assert began is not None
    system.until(
        lambda: (system.shards(job_id)[0].heartbeat_at - began).total_seconds() > 3 * STALE_S,  # type: ignore[operator]
        "three leases went by",
    )
    assert system.shards(job_id)[0].attempt == 1
    held.let_go()
    system.until_ended(job_id)
    system.check_done_once(job_id)
    assert system.shards(job_id)[0].attempt == 1
    assert slow.alive


def test_a_picture_that_kills_its_worker_ends_dead_while_others_flow(system: System) -> None:
    system.start("controller")
    system.settings["HEARTBEAT_SECONDS"] = 0.3
    draw(system.root / "photos" / "poison" / "bad.png", size=(50, 48))
    poison = system.submit_items("poison", [NewImage("bad.png", str(system.root / "photos" / "poison" / "bad.png"))])
    others = [system.submit(f"other-{number}", 4) for number in range(3)]
    workers = [system.start("worker")]

    def ended() -> bool:
        if not workers[-1].alive:  # as the kubelet does
            workers.append(system.start("worker"))
        return all(system.job(one).state in (JobState.FAILED, JobState.SUCCEEDED) for one in (poison, *others))

    system.until(ended, "the poison is dead and the others are done", patience_s=120)
    for other in others:
        system.check_done_once(other)
    (shard,) = system.shards(poison)
    assert shard.state is ShardState.DEAD
    assert shard.failures == 3
    assert len(workers) == 4
    assert "no heartbeat" in system.cli("describe", str(poison))
    assert str(poison)[:8] in system.cli("dead", "list")


def test_the_same_message_twice_is_one_piece_of_work(system: System) -> None:
    system.start("controller")
    job_id = system.submit("twice", 6, shard_size=3)
    system.until(lambda: len(system.redis_ids()) == 2, "both shards are sent out")
    queue = RedisQueue.connect(system.redis.url)
    for shard in system.shards(job_id):
        assert shard.queue is not None
        queue.push([(shard.queue, message_id(shard.id, shard.attempt))] * 3)
    queue.close()
    for _ in range(2):
        system.start("worker")
    system.until_ended(job_id)
    system.check_done_once(job_id)
    assert set(system.worked().values()) == {1}


def test_five_thousand_orphans_of_an_unknown_worker_are_all_taken_back(direct: System) -> None:
    """Found by the shards themselves, whether their worker is listed or not."""
    job_id = direct.plant_orphans(5_000)
    direct.start("controller")
    direct.until(
        lambda: direct.count("shards", "state = 'running'") == 0, "no orphan is running any more", patience_s=60
    )
    assert direct.count("shards", f"job_id = '{job_id}' AND failures = 1") == 5_000


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())
