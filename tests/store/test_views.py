"""What people see of the queue; on both databases."""

from dataclasses import replace
from datetime import timedelta
from uuid import UUID, uuid4

from samjobs.decisions import waiting
from samjobs.decisions.dispatch import Limits, Region, plan
from samjobs.errors import ErrorClass
from samjobs.names import Reason
from samjobs.states import JobState
from samjobs.store import Store, jobs, lanes, now, shards, views, workers
from samjobs.store.rows import RegionStatus, WorkerState
from samjobs.store.tables import workers as worker_rows
from tests.store.builders import DEAD, REQUEUE, claim, job, only, run, running

LIMITS = Limits(region_concurrency=10, dispatch_window=2)


def test_the_queue_s_status_tells_waiting_from_due_from_held(store: Store) -> None:
    with store.read() as conn:
        tomorrow = now(conn) + timedelta(days=1)
    job(store, 4, not_before=tomorrow)
    job(store, 6, suspend=True)
    at_work = job(store, 10, region="eu")
    run(store, at_work)
    dead = running(store, at_work)
    with store.begin() as conn:
        shards.fail(conn, dead.id, dead.attempt, DEAD, error_class=ErrorClass.WORKER, error="crash")
    running(store, at_work)
    claim(store, job_id=at_work)
    ended = job(store, 2)
    run(store, ended)
    with store.read() as conn:
        status = views.queue_status(conn)
        eu = views.queue_status(conn, region="eu")
    assert status.jobs == {JobState.QUEUED: 1, JobState.RUNNING: 1, JobState.SUSPENDED: 1}
    assert (status.shards_due, status.shards_waiting, status.shards_held) == (1, 2, 3)
    assert (status.shards_dispatched, status.shards_running, status.shards_dead) == (1, 1, 1)
    assert status.oldest_due_age_s is not None
    assert status.oldest_due_age_s >= 0
    assert eu.jobs == {JobState.QUEUED: 0, JobState.RUNNING: 1, JobState.SUSPENDED: 0}
    assert (eu.shards_due, eu.shards_waiting, eu.shards_held) == (1, 0, 0)


def test_an_empty_queue_has_no_oldest_shard(store: Store) -> None:
    with store.read() as conn:
        assert views.queue_status(conn).oldest_due_age_s is None


def test_a_shard_that_waits_for_its_retry_is_not_due(store: Store) -> None:
    shard = running(store, job(store, 2))
    with store.begin() as conn:
        later = replace(REQUEUE, delay_s=600.0)
        shards.fail(conn, shard.id, shard.attempt, later, error_class=ErrorClass.TRANSIENT, error="S3 says 503")
        status = views.queue_status(conn)
    assert (status.shards_due, status.shards_waiting, status.oldest_due_age_s) == (0, 1, None)
    with store.begin() as conn:
        jobs.cancel(conn, shard.job_id, actor="ada")
        assert views.queue_status(conn).shards_waiting == 0


def worker(store: Store, region: str, state: WorkerState, *, silent_for_s: float = 0.0) -> UUID:
    """A worker process that was last heard of some time ago."""
    incarnation = uuid4()
    with store.begin() as conn:
        workers.register(conn, incarnation, pool="gpu", region=region, node="node", pid=1)
        workers.set_state(conn, incarnation, state)
        heard_at = now(conn) - timedelta(seconds=silent_for_s)
        one = worker_rows.c.incarnation == incarnation
        conn.execute(worker_rows.update().where(one).values(heartbeat_at=heard_at))
    return incarnation


def test_the_queue_by_region(store: Store) -> None:
    with store.read() as conn:
        tomorrow = now(conn) + timedelta(days=1)
    job(store, 4, region="us", not_before=tomorrow)
    job(store, 2, region="us", suspend=True)
    at_work = job(store, 6, region="eu")
    running(store, at_work)
    claim(store, job_id=at_work)
    with store.read() as conn:
        eu, us = views.regions(conn)
    assert us == RegionStatus("us", 0, 2, 1, 0, 0, 0, None)
    assert (eu.region, eu.shards_due, eu.shards_dispatched, eu.shards_running) == ("eu", 1, 1, 1)
    assert eu.oldest_due_age_s is not None
    assert eu.oldest_due_age_s >= 0


def test_a_pass_sees_who_works_where_and_what_waits_for_them(store: Store) -> None:
    worker(store, "us", WorkerState.READY)
    worker(store, "us", WorkerState.BUSY)
    worker(store, "us", WorkerState.LOADING)
    worker(store, "us", WorkerState.DRAINING)
    worker(store, "us", WorkerState.READY, silent_for_s=61)
    worker(store, "us", WorkerState.GONE)
    worker(store, "eu", WorkerState.BUSY, silent_for_s=300)
    worker(store, "asia", WorkerState.LOADING, silent_for_s=10)
    at_work = job(store, 8, region="us", tenant="ada")
    running(store, at_work)
    claim(store, job_id=at_work)
    with store.begin() as conn:
        seen = views.dispatch_view(conn, LIMITS, alive_within_s=60)
    us, eu, asia = (seen.region(name) for name in ("us", "eu", "asia"))
    assert (us.ready, us.loading, us.draining, us.dispatched, us.running) == (2, 1, 1, 1, 1)
    assert us.silent_for_s is not None
    assert us.silent_for_s < 60
    assert eu.ready == 0
    assert eu.silent_for_s is not None
    assert 300 <= eu.silent_for_s < 360
    assert asia == Region("asia", loading=1)
    assert seen.at_work == {("us", "ada"): 2}
    (lane,) = seen.lanes
    assert (lane.region, lane.tenant, lane.due) == ("us", "ada", 2)


def test_a_region_without_room_still_shows_that_somebody_waits(store: Store) -> None:
    at_work = job(store, 8)
    claim(store, limit=2, job_id=at_work)
    with store.begin() as conn:
        seen = views.dispatch_view(conn, replace(LIMITS, region_concurrency=2), alive_within_s=60)
    assert [refusal.reason for refusal in plan(seen).refusals] == [Reason.REGION_CAP]


def test_what_a_plan_grants_is_there_to_be_claimed(store: Store) -> None:
    for tenant, count in (("ada", 40), ("zoe", 6)):
        job(store, count, tenant=tenant)
    for _ in range(5):
        worker(store, "default", WorkerState.READY)
    with store.begin() as conn:
        seen = views.dispatch_view(conn, LIMITS, alive_within_s=60)
        for grant in plan(seen).grants:
            claimed = shards.claim_lane(conn, grant.lane, limit=grant.count, at=seen.at, queues=only("q"))
            assert {shard.tenant for shard in claimed} == {grant.lane.tenant}
            assert len(claimed) == grant.count
    with store.begin() as conn:
        after = views.dispatch_view(conn, LIMITS, alive_within_s=60)
    assert after.at_work == {("default", "ada"): 7, ("default", "zoe"): 3}


def why(store: Store, job_id: UUID, limits: Limits = LIMITS) -> tuple[Reason, str]:
    with store.read() as conn:
        seen = views.waiting_view(conn, job_id, limits, alive_within_s=60)
    assert seen is not None
    return waiting.why(seen)


def test_a_job_s_place_in_the_queue_is_counted(store: Store) -> None:
    worker(store, "default", WorkerState.READY)
    job(store, 8)  # earlier
    mine = job(store, 4)
    job(store, 20)  # later
    job(store, 6, priority=3)
    job(store, 6, tenant="zoe")  # takes turns with it
    job(store, 6, region="eu", priority=3)
    told = "waits for a free worker: 1 worker of region default is alive, 1 ready; 7 shards are ahead of it"
    assert why(store, mine) == (Reason.WINDOW_FULL, told)


def test_a_job_tells_the_truth_at_each_stage(store: Store) -> None:
    mine = job(store, 4, parallelism=1)
    assert why(store, mine)[0] is Reason.NO_WORKER
    worker(store, "default", WorkerState.READY)
    assert why(store, mine)[0] is Reason.NEXT_IN_LINE
    with store.begin() as conn:
        (lane,) = lanes.look(conn, per_lane=10).lanes
        (sent,) = shards.claim_lane(conn, lane, limit=1, at=now(conn), queues=only("samjobs:region:default"))
    assert why(store, mine)[1].startswith("shard 0 was sent to queue samjobs:region:default 0 s ago and waits there")
    with store.begin() as conn:
        shards.start(conn, sent.id, sent.attempt, uuid4())
    assert why(store, mine)[1] == "is running: 1 of its 2 open shards are at work, 0 of 4 images are finished"
    with store.begin() as conn:
        later = replace(REQUEUE, delay_s=600.0)
        shards.fail(conn, sent.id, 1, later, error_class=ErrorClass.TRANSIENT, error="S3 says 503")
    reason, told = why(store, mine)
    assert reason is Reason.BACKOFF
    assert told.endswith("in 10 min, after failure 1 of 3 of shard 0: S3 says 503")
    with store.begin() as conn:
        jobs.set_suspend(conn, mine, True, actor="ada")
    assert why(store, mine)[0] is Reason.SUSPENDED_BY_USER
    with store.begin() as conn:
        jobs.cancel(conn, mine, actor="ada")
    assert why(store, mine)[1].startswith("it has ended: cancelled")


def test_nobody_waits_for_a_job_that_is_not_there(store: Store) -> None:
    with store.read() as conn:
        assert views.waiting_view(conn, uuid4(), LIMITS, alive_within_s=60) is None
