"""What the controller tells Prometheus, of the table and of what it does; and that many jobs make it no longer."""

import threading
from datetime import timedelta
from uuid import uuid4

import pytest
from prometheus_client import generate_latest

from controller.loop import ALL, QUICK, Loop
from controller.metrics import MOST_REGIONS, Metrics, PoolSize
from controller.steps import dispatch, measure
from samjobs.alerts import THRESHOLDS
from samjobs.names import Reason
from samjobs.settings import Settings
from samjobs.states import ShardState
from samjobs.store import now
from samjobs.store.rows import WorkerState
from samjobs.store.tables import jobs as job_rows
from samjobs.store.tables import shards as shard_rows
from tests.controller.world import World
from tests.store.builders import job, run, running

JOBS = 10_000
MOST_SERIES = 500


def series(world: World) -> set[str]:
    text = generate_latest(world.ctx.metrics.registry).decode()
    return {line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#")}


def look(world: World) -> None:
    Loop(world.ctx, None, threading.Event()).one_pass(ALL)


def test_ten_thousand_jobs_of_many_tenants_and_regions_add_no_series(world: World) -> None:
    for region in ("eu", "us"):
        world.worker(region)
    for number in range(MOST_REGIONS + 1):
        job(world.store, region=f"nobody-{number:02}", tenant="first", priority=-1)
    for steps in (ALL, QUICK, ALL):
        Loop(world.ctx, None, threading.Event()).one_pass(steps)
    before = series(world)

    with world.store.begin() as conn:
        a_job = dict(conn.execute(job_rows.select().limit(1)).one()._mapping)
        a_shard = dict(conn.execute(shard_rows.select().limit(1)).one()._mapping)
        a_shard |= {"state": ShardState.QUEUED, "dispatched_at": None}
        for start in range(0, JOBS, 1000):
            made = [
                a_job
                | {
                    "id": uuid4(),
                    "name": f"job-{number}",
                    "tenant": f"tenant-{number % 997}",
                    "region": f"region-{number % 89}",
                    "dedupe_key": None,
                    "deadline_at": now(conn) + timedelta(seconds=number),
                }
                for number in range(start, start + 1000)
            ]
            conn.execute(job_rows.insert(), made)
            theirs = [
                a_shard | {"id": uuid4(), "job_id": one["id"], "tenant": one["tenant"], "region": one["region"]}
                for one in made
            ]
            conn.execute(shard_rows.insert(), theirs)
    look(world)

    assert series(world) == before
    assert len(before) < MOST_SERIES, sorted(before)
    told = [world.metric("samjobs_shards", region=region, state="due") for region in ("(other)", "nobody-00")]
    assert told[0] is not None
    assert told[0] > JOBS / 2, "those beyond the first are told together"
    assert told[1] is not None


def test_regions_with_workers_are_always_told_by_name(world: World) -> None:
    for number in range(MOST_REGIONS + 5):
        world.worker(f"region-{number:02}")
    measure.run(world.ctx)
    assert world.metric("samjobs_workers", region=f"region-{MOST_REGIONS + 4:02}", state="ready") == 1
    assert world.metric("samjobs_workers", region="(other)", state="ready") is None


def test_what_waits_works_and_has_ended_is_told(world: World) -> None:
    measure.run(world.ctx)
    world.worker("eu", WorkerState.BUSY)
    running(world.store, job(world.store, 4, region="eu"))
    run(world.store, job(world.store, 2, region="eu"))
    assert world.ctx.ended_until is not None
    world.ctx.ended_until -= timedelta(seconds=30)
    world.age("jobs", "finished_at", 10)
    measure.run(world.ctx)

    assert world.metric("samjobs_shards", region="eu", state="running") == 1
    assert world.metric("samjobs_shards", region="eu", state="due") == 1
    assert world.metric("samjobs_workers", region="eu", state="busy") == 1
    assert world.metric("samjobs_jobs", state="running") == 1
    assert world.metric("samjobs_jobs_finished_total", result="succeeded") == 1
    assert world.metric("samjobs_dispatch_window_shards", region="eu") == 2
    assert world.metric("samjobs_jobs_beyond_deadline", region="eu") == 0


def test_how_long_a_shard_was_due_is_told_when_it_is_sent(world: World) -> None:
    world.worker()
    job(world.store, 2)
    world.age("shards", "available_at", 90)
    dispatch.run(world.ctx)
    assert world.metric("samjobs_queue_wait_seconds_count") == 1
    assert world.metric("samjobs_queue_wait_seconds_bucket", le="60.0") == 0
    assert world.metric("samjobs_queue_wait_seconds_bucket", le="120.0") == 1


def test_shards_that_are_moved_are_told_with_the_reason_of_their_events(world: World) -> None:
    incarnation = world.worker()
    job_id = job(world.store, 2)
    look(world)
    world.start(incarnation)
    world.age("shards", "heartbeat_at", 1000)
    look(world)

    def moved(old: str, new: str, reason: Reason) -> float | None:
        return world.metric("samjobs_shard_transitions_total", from_state=old, to_state=new, reason=reason.value)

    assert moved("queued", "dispatched", Reason.CLAIMED) == 1
    assert moved("running", "queued", Reason.WORKER_FAULT) == 1
    assert moved("running", "dead", Reason.FAILURES_EXHAUSTED) == 0
    told = {(event.from_state, event.to_state, event.reason) for event in world.events(job_id) if event.shard_id}
    assert {("queued", "dispatched", Reason.CLAIMED), ("running", "queued", Reason.WORKER_FAULT)} <= told


def test_a_pass_that_went_through_is_told(world: World) -> None:
    assert world.metric("samjobs_controller_last_pass_timestamp_seconds") == 0
    look(world)
    assert (world.metric("samjobs_controller_last_pass_timestamp_seconds") or 0) > 1_700_000_000


def test_pools_are_told_as_they_were_decided_on_and_forgotten_when_they_are_gone() -> None:
    metrics = Metrics()
    held = PoolSize("eu", "gpu", Reason.UNKNOWN_DEMAND, {"desired": 2, "maximum": 4})

    def told(name: str, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(name, labels)

    metrics.pools([held, PoolSize("us", "spot", Reason.STEADY, {"desired": 0, "maximum": 1})])
    assert told("samjobs_pool_replicas", region="eu", pool="gpu", kind="maximum") == 4
    assert told("samjobs_pool_scaling_held", region="eu", pool="gpu") == 1
    assert told("samjobs_pool_scaling_held", region="us", pool="spot") == 0
    metrics.pools([held])
    assert told("samjobs_pool_replicas", region="us", pool="spot", kind="desired") is None
    assert told("samjobs_pool_scale_decisions_total", reason="UnknownDemand") == 2


class TestSettings:
    def told(self, name: str, /, **settings: object) -> dict[str, float]:
        """By the value of its only label."""
        registry = Metrics(Settings(**settings)).registry  # type: ignore[arg-type]
        samples = [one for family in registry.collect() for one in family.samples if one.name == name]
        return {next(iter(one.labels.values()), ""): one.value for one in samples}

    def test_thresholds_are_their_defaults_but_for_what_is_set(self) -> None:
        told = self.told("samjobs_alert_threshold", alert_thresholds="SamJobsQueueDeep=7")
        assert told == {name: one.default for name, one in THRESHOLDS.items()} | {"SamJobsQueueDeep": 7}

    @pytest.mark.parametrize(("pooled", "told"), [(False, {"": 0.0}), (True, {})])
    def test_who_cannot_listen_does_not_tell_that_he_does_not(self, pooled: bool, told: dict[str, float]) -> None:
        assert self.told("samjobs_controller_listener_connected", database_pooled=pooled) == told
