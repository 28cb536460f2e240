"""What scaling decides from: demand by region and the speed of its workers; on both databases."""

from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest

from samjobs.decisions.scaling import Current, Demand, Memory, Scale, Speed
from samjobs.errors import ErrorClass
from samjobs.names import Reason
from samjobs.store import Store, pools, shards, workers
from samjobs.store.rows import Pool, WorkerState
from samjobs.store.scaling import demand, speed
from tests.store.builders import REQUEUE, claim, job, outcomes, running

LATER = datetime(2100, 1, 1, tzinfo=UTC)


def asked(store: Store, region: str = "default", **how: int) -> Demand:
    with store.read() as conn:
        return demand(conn, region, **how)


def test_no_work_is_no_demand(store: Store) -> None:
    assert asked(store) == Demand(0, 0, 0, 0)


def test_what_waits_is_sent_and_runs_counts_with_its_open_images(store: Store) -> None:
    job_id = job(store, 9, shard_size=2)  # 5 shards, the last of one image
    shard = running(store, job_id)
    claim(store, job_id=job_id)
    assert asked(store) == Demand(due=3, dispatched=1, running=1, images_open=9)
    with store.begin() as conn:
        assert shards.record(conn, shard.id, shard.attempt, outcomes(shard)[:1])
    assert asked(store).images_open == 8
    with store.begin() as conn:
        assert shards.finish(conn, shard.id, shard.attempt, outcomes(shard))
    assert asked(store) == Demand(due=3, dispatched=1, running=0, images_open=7)


def test_each_region_has_its_own_over_all_tenants_and_priorities(store: Store) -> None:
    for region in ("eu", "us"):
        for tenant in ("ada", "bob"):
            for priority in (0, 5):
                job(store, 4, tenant=tenant, region=region, priority=priority)
    job(store, 2, tenant="ada", region="us")
    assert asked(store, "eu") == Demand(8, 0, 0, 16)
    assert asked(store, "us") == Demand(9, 0, 0, 18)
    assert asked(store, "asia") == Demand(0, 0, 0, 0)


def test_what_cannot_run_now_asks_for_no_worker(store: Store) -> None:
    job(store, 4, suspend=True)
    job(store, 4, not_before=LATER)
    in_backoff = running(store, job(store, 2))
    with store.begin() as conn:
        later = replace(REQUEUE, delay_s=3600.0)
        assert shards.fail(
            conn, in_backoff.id, in_backoff.attempt, later, error_class=ErrorClass.TRANSIENT, error="storage away"
        )
    assert asked(store) == Demand(0, 0, 0, 0)
    job(store, 8, parallelism=1)
    assert asked(store) == Demand(1, 0, 0, 2)


def test_more_than_is_counted_is_reckoned_from_the_jobs(store: Store) -> None:
    for tenant in ("ada", "bob", "cyd"):
        job(store, 20, tenant=tenant)
    job(store, 20, suspend=True)
    job(store, 20, region="eu")
    running(store, job(store, 4, tenant="bob", priority=3))
    exact = Demand(due=31, dispatched=0, running=1, images_open=64)
    assert asked(store) == asked(store, most=31) == exact
    assert asked(store, most=5) == Demand(due=31, dispatched=0, running=1, images_open=64, capped=True)


def test_what_may_be_at_work_at_once_is_handed_on(store: Store) -> None:
    assert asked(store, at_once=10).at_once == 10


def _worker(store: Store, region: str, image_s: float | None = None, load_s: float | None = None) -> UUID:
    me = uuid4()
    with store.begin() as conn:
        workers.register(conn, me, pool="gpu", region=region, node="n", pid=1, pod=f"gpu-{me.hex[:4]}")
        if load_s is not None:
            workers.set_model(conn, me, device="cuda", model="m", revision="r", load_s=load_s)
        if image_s is not None:
            workers.set_state(conn, me, WorkerState.READY, image_s=image_s)
    return me


def measured(store: Store, region: str = "eu") -> Speed:
    with store.read() as conn:
        return speed(conn, region)


def test_speed_is_the_mean_of_what_workers_measured(store: Store) -> None:
    assert measured(store) == Speed()
    _worker(store, "eu")
    _worker(store, "eu", load_s=40.0)
    assert measured(store) == Speed(None, 40.0)
    _worker(store, "eu", 0.2, 60.0)
    _worker(store, "eu", 0.4)
    _worker(store, "us", 9.0, 9.0)
    assert measured(store).image_s == pytest.approx(0.3)
    assert measured(store).load_s == pytest.approx(50.0)


def test_where_nobody_works_a_pool_remembers_how_fast_it_was(store: Store) -> None:
    scale = Scale(0, Reason.STEADY, "no work", 0, False, Memory())
    kept = Pool.of(
        "lab", "gpu", region="eu", engine="sam3", current=Current(0, 0, 0), speed=Speed(0.25, 41.5), scale=scale
    )
    with store.begin() as conn:
        pools.save(conn, kept)
    assert measured(store) == Speed(0.25, 41.5)
    assert measured(store, "us") == Speed()
    _worker(store, "eu", load_s=10.0)
    assert measured(store) == Speed(0.25, 10.0)
