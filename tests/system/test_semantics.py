"""What the queue promises: order, caps, fairness, regions, and a person's word, seen on the running system."""

from datetime import timedelta
from uuid import UUID

import psycopg

from samjobs.names import GLOBAL_RETRY_QUEUE, queue_of
from samjobs.spec import RetryPolicy
from samjobs.states import JobState, ShardState
from samjobs.store import now
from tests.system.system import System


def _started(system: System, *job_ids: UUID) -> list[UUID]:
    """The jobs of all shards in the order in which they started."""
    begun = [shard for job_id in job_ids for shard in system.shards(job_id) if shard.started_at is not None]
    return [shard.job_id for shard in sorted(begun, key=lambda shard: shard.started_at or shard.created_at)]


def test_what_is_urgent_goes_first_and_what_may_not_begin_waits(direct: System) -> None:
    with direct.store.read() as conn:
        soon = now(conn) + timedelta(seconds=15)
    later = direct.submit("later", 2, shard_size=1, not_before=soon)
    assert "notBefore" in direct.cli("why", str(later))
    usual = direct.submit("usual", 6, shard_size=1)
    urgent = direct.submit("urgent", 6, shard_size=1, priority=10)
    direct.start("controller", DISPATCH_WINDOW=1)
    direct.until(lambda: len(direct.redis_ids()) == 1, "the first shard is sent out")
    direct.start("worker")
    direct.until_ended(usual, urgent, later)
    assert _started(direct, usual, urgent, later) == [urgent] * 6 + [usual] * 6 + [later] * 2
    assert all(shard.started_at >= soon for shard in direct.shards(later))  # type: ignore[operator]


def test_tenants_share_fairly_however_much_one_of_them_asks(direct: System) -> None:
    many = direct.submit("many", 40, shard_size=1, tenant="large")
    few = direct.submit("few", 4, shard_size=1, tenant="small")
    direct.start("controller", DISPATCH_WINDOW=2)
    direct.start("worker")
    direct.until_ended(few, many)
    order = _started(direct, many, few)
    assert order.index(few) < 4
    assert len(order) - 1 - order[::-1].index(few) < 16, "the small tenant waited behind the large one"


def test_caps_hold_for_regions_and_tenants_and_say_so(direct: System) -> None:
    held = direct.hold()
    direct.start("controller", REGION_CONCURRENCY=3, TENANT_CONCURRENCY=2, DISPATCH_WINDOW=10)
    a = direct.submit("a", 8, shard_size=1, tenant="a")
    b = direct.submit("b", 8, shard_size=1, tenant="b")
    direct.start("worker", held=("mid-image", held))
    direct.until(lambda: held.pid is not None, "a worker has an image in hand")
    direct.until(lambda: _at_work(direct, a) + _at_work(direct, b) == 3, "the region's cap is reached")
    assert max(_at_work(direct, a), _at_work(direct, b)) == 2
    direct.settings |= {"REGION_CONCURRENCY": 3, "TENANT_CONCURRENCY": 2}
    c = direct.submit("c", 1, tenant="c")
    assert "region default has 3 of 3 shards at work" in direct.cli("why", str(c))
    held.let_go()
    direct.until_ended(a, b, c)


def _at_work(system: System, job_id: UUID) -> int:
    return sum(shard.state in (ShardState.DISPATCHED, ShardState.RUNNING) for shard in system.shards(job_id))


def test_a_tenant_s_rate_per_minute_is_kept_and_said(direct: System) -> None:
    direct.settings |= {"TENANT_RATE_PER_MINUTE": 5}
    direct.start_all()
    fast = direct.submit("fast", 20, shard_size=1, tenant="eager")
    other = direct.submit("other", 3, shard_size=1, tenant="calm")
    direct.until_ended(other)
    direct.until(lambda: direct.job(fast).shards_succeeded >= 5, "the tenant's minute is used up")
    direct.let_pass(2)
    assert direct.job(fast).shards_succeeded <= 10  # a minute may have turned
    assert "minute" in direct.cli("why", str(fast))


def test_work_of_a_region_without_workers_goes_to_another(direct: System) -> None:
    direct.settings |= {"FAILOVER_AFTER_SECONDS": 2}
    direct.start("controller")
    direct.start("worker", REGION="eu")
    us = direct.submit("us", 4, region="us")
    eu = direct.submit("eu", 4, region="eu")
    direct.until_ended(eu)
    assert direct.shards(eu)[0].queue in (None, queue_of("eu"))
    direct.until_ended(us)
    direct.check_done_once(us)
    assert direct.shards(us)[0].queue in (None, GLOBAL_RETRY_QUEUE)


def test_cancel_stops_queued_and_running_work_at_the_next_image(system: System) -> None:
    held = system.hold()
    system.start("controller")
    worker = system.start("worker", held=("mid-image", held))
    job_id = system.submit("cancelled", 20, shard_size=10)
    queued = system.submit("queued", 20, shard_size=10)
    system.until(lambda: held.pid is not None, "a worker has an image in hand")
    system.cli("cancel", str(queued))
    system.cli("cancel", str(job_id))
    held.let_go()
    after = system.submit("after", 2)
    system.until_ended(after)
    assert worker.alive
    for one in (job_id, queued):
        assert system.job(one).state is JobState.CANCELLED
        assert {shard.state for shard in system.shards(one)} == {ShardState.CANCELLED}
    assert system.worked().total() <= 4, "a cancelled job went on"
    assert system.redis_ids() == []


def beaten_twice_more(system: System, job_id: UUID) -> None:
    """Whoever runs a shard of the job has learnt of what was asked before this call: the second beat follows the first
    one's answer."""
    for _ in range(2):
        seen = {shard.id: shard.heartbeat_at for shard in system.shards(job_id) if shard.state is ShardState.RUNNING}
        system.until(
            lambda seen=seen: any(
                seen.get(shard.id, shard.heartbeat_at) != shard.heartbeat_at for shard in system.shards(job_id)
            ),
            "a heartbeat",
        )


def test_suspend_stops_at_the_next_image_and_resume_goes_on_there(system: System) -> None:
    held = system.hold()
    system.start("controller")
    system.start("worker", held=("mid-image", held))
    job_id = system.submit("suspended", 12, shard_size=6)
    system.until(lambda: held.pid is not None, "a worker has an image in hand")
    system.cli("suspend", str(job_id))
    beaten_twice_more(system, job_id)
    held.let_go()
    system.until(lambda: all(shard.state is ShardState.QUEUED for shard in system.shards(job_id)), "it is given back")
    assert system.job(job_id).state is JobState.SUSPENDED
    done = system.job(job_id).images_done
    assert done < 12
    system.let_pass(3 * 0.5)
    assert system.job(job_id).images_done == done, "a suspended job went on"
    system.cli("resume", str(job_id))
    system.until_ended(job_id)
    system.check_done_once(job_id)
    assert set(system.worked().values()) == {1}


def test_an_output_that_cannot_be_written_spins_nothing_and_lets_others_through(direct: System) -> None:
    direct.start_all()
    stuck = direct.submit("stuck", 4)
    flowing = direct.submit("flowing", 4)
    direct.until_ended(flowing)
    direct.until_ended(stuck)
    place = direct.root / "file"
    place.write_bytes(b"")
    blocked = direct.submit("blocked", 4, output={"uri": str(place / "out")})
    direct.until(lambda: any(shard.error for shard in direct.shards(blocked)), "the error is told")
    another = direct.submit("another", 4)
    direct.until_ended(another)
    assert sum(shard.attempt for shard in direct.shards(blocked)) <= 3
    assert str(place) in direct.cli("describe", str(blocked))


def test_a_transient_failure_is_tried_again_by_the_retry_queues_and_then_is_dead(direct: System) -> None:
    direct.start_all()
    missing = direct.submit("gone", 2, retry_policy=RetryPolicy(max_attempts=2), engine="sam3", model="/nowhere")
    direct.until_ended(missing, patience_s=90)
    (shard,) = direct.shards(missing)
    assert shard.state is ShardState.DEAD
    assert shard.failures == 2
    assert "/nowhere" in (shard.error or "")
    assert all(process.alive for process in direct.processes), "a job's wrong model ended a worker"
    listed = direct.cli("dead", "list")
    assert str(missing)[:8] in listed
    direct.cli("dead", "purge", str(missing))
    assert direct.shards(missing)[0].state is ShardState.CANCELLED


def test_deadlines_and_silence_fail_a_job_with_their_reason(direct: System) -> None:
    late = direct.submit("late", 2, active_deadline_seconds=1)
    direct.start("controller", FAILED_JOB_TIMEOUT_SECONDS=3)
    direct.until_ended(late)
    assert direct.job(late).reason.value == "DeadlineExceeded"
    silent = direct.submit("silent", 2)
    direct.until_ended(silent)
    assert direct.job(silent).reason.value == "NoProgress"
    direct.until(lambda: direct.redis_ids() == [], "their messages are removed")


def test_a_finished_job_is_forgotten_after_its_time_and_its_results_stay(direct: System) -> None:
    direct.start_all()
    job_id = direct.submit("brief", 2, ttl_seconds_after_finished=1)
    direct.until(lambda: direct.count("jobs", f"id = '{job_id}'") == 0, "the job is forgotten")
    assert direct.count("shards", "true") == direct.count("images", "true") == direct.count("events", "true") == 0
    assert len(list((direct.root / "out" / "brief" / "records").iterdir())) == 2


def test_a_request_by_plain_sql_becomes_a_job_and_a_wrong_one_says_why(system: System) -> None:
    system.start_all()
    system.photos("sql", 3)
    good = system.spec("sql").model_dump_json(by_alias=True, exclude_defaults=True)
    with psycopg.connect(system.direct_url) as conn:
        insert = "INSERT INTO requests (name, spec) VALUES (%s, %s) RETURNING id"
        (right,) = conn.execute(insert, ["sql", good]).fetchone()  # type: ignore[misc]
        (wrong,) = conn.execute(insert, ["sql", '{"mode": "everything"}']).fetchone()  # type: ignore[misc]
    system.until(lambda: system.count("jobs", f"id = '{right}'") == 1, "the request is admitted")
    system.until_ended(right)
    system.check_done_once(right)
    system.until(lambda: system.count("requests", f"id = '{wrong}' AND error LIKE '%mode%'") == 1, "it is refused")
