"""Forgetting, in batches."""

import pytest

from controller.steps import prune
from samjobs.store import jobs, requests, workers
from tests.controller.world import World
from tests.store.builders import job, run


def test_a_job_past_its_ttl_goes_bit_by_bit(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prune, "BATCH", 3)
    monkeypatch.setattr(prune, "BATCHES", 2)
    job_id = job(world.store, 4, ttl_seconds_after_finished=60)
    for _ in range(2):
        run(world.store, job_id)
    with world.store.begin() as conn:
        jobs.mark_published(conn, job_id)
    kept = job(world.store, 2)
    assert prune.run(world.ctx)["rows"] == 0

    world.age("jobs", "expires_at", 61)
    rows = []
    while not rows or world.ctx.more:
        world.ctx.more = False
        rows.append(prune.run(world.ctx)["rows"])

    assert rows[0] == 6, "two batches of three, then others have their turn"
    with world.store.read() as conn:
        assert jobs.get(conn, job_id) is None
        assert jobs.get(conn, kept) is not None


def test_workers_and_answers_are_told_of_for_a_while(world: World) -> None:
    gone, here = world.worker(), world.worker()
    world.sql("UPDATE workers SET heartbeat_at = now() - interval '2 hours' WHERE incarnation = %s", gone)
    world.sql("INSERT INTO requests (spec, answered_at) VALUES ('{}', now() - interval '8 days'), ('{}', now())")

    counts = prune.run(world.ctx)

    assert (counts["workers"], counts["requests"]) == (1, 1)
    with world.store.read() as conn:
        assert [worker.incarnation for worker in workers.listing(conn)] == [here]
        assert requests.prune(conn, older_than_s=-10, limit=10) == 1, "the young one is still there"
