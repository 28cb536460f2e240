"""The list of worker processes; on both databases."""

from datetime import timedelta
from uuid import uuid4

from samjobs.store import Store, now, shards, workers
from samjobs.store.rows import WorkerState
from samjobs.store.tables import workers as worker_rows
from tests.store.builders import ME, job, outcomes, running


def test_a_worker_tells_of_itself_from_start_to_end(store: Store) -> None:
    me, shard = uuid4(), uuid4()
    with store.begin() as conn:
        workers.register(conn, me, pool="local", region="eu", node="laptop", pid=42, pod="gpu-x2x")
        loading = workers.get(conn, me)
        assert workers.set_model(conn, me, device="cuda:0", model="facebook/sam3", revision="abc", load_s=41.5)
        assert workers.set_state(conn, me, WorkerState.READY, image_s=0.25)
        assert workers.set_state(conn, me, WorkerState.BUSY, shard_id=shard)
        assert workers.heartbeat(conn, me)
        busy = workers.get(conn, me)
        assert loading is not None
        assert busy is not None
        assert (loading.state, loading.shard_id, loading.model) == (WorkerState.LOADING, None, "")
        assert (busy.state, busy.shard_id, busy.device) == (WorkerState.BUSY, shard, "cuda:0")
        assert (loading.pod, loading.image_s, loading.load_s) == ("gpu-x2x", None, None)
        assert (busy.pod, busy.image_s, busy.load_s) == ("gpu-x2x", 0.25, 41.5)
        assert busy.heartbeat_at >= loading.heartbeat_at
        workers.remove(conn, me)
        assert workers.get(conn, me) is None
        assert not workers.heartbeat(conn, me)
        assert not workers.set_state(conn, me, WorkerState.READY)


def test_workers_are_listed_by_region(store: Store) -> None:
    ids = {region: uuid4() for region in ("eu", "us")}
    with store.begin() as conn:
        for region, incarnation in ids.items():
            workers.register(conn, incarnation, pool="p", region=region, node="n", pid=1)
        assert [worker.incarnation for worker in workers.listing(conn, region="us")] == [ids["us"]]
        assert {worker.incarnation for worker in workers.listing(conn)} == set(ids.values())


def test_a_worker_s_images_are_counted_once_each_as_they_are_committed(store: Store) -> None:
    with store.begin() as conn:
        workers.register(conn, ME, pool="p", region="eu", node="n", pid=1)
    shard = running(store, job(store, 4, shard_size=4))
    with store.begin() as conn:
        assert shards.record(conn, shard.id, shard.attempt, [])
        before = workers.get(conn, ME)
    for _ in range(2):
        with store.begin() as conn:
            assert shards.record(conn, shard.id, shard.attempt, outcomes(shard)[:3])
    with store.begin() as conn:
        assert shards.finish(conn, shard.id, shard.attempt, outcomes(shard))
        after = workers.get(conn, ME)
        finished = shards.get(conn, shard.id)
    assert before is not None
    assert after is not None
    assert finished is not None
    assert (before.images_total, before.progressed_at) == (0, None)
    assert (after.images_total, after.progressed_at) == (4, finished.finished_at)


def test_a_worker_that_ended_in_order_stays_listed_as_gone(store: Store) -> None:
    with store.begin() as conn:
        workers.register(conn, ME, pool="p", region="eu", node="n", pid=1)
        workers.set_state(conn, ME, WorkerState.BUSY, shard_id=uuid4())
        assert workers.gone(conn, ME)
        assert not workers.gone(conn, uuid4())
        gone = workers.get(conn, ME)
    assert gone is not None
    assert (gone.state, gone.shard_id) == (WorkerState.GONE, None)


def test_alive_is_who_was_heard_of_lately_and_has_not_ended(store: Store) -> None:
    here, elsewhere, silent, gone = (uuid4() for _ in range(4))
    with store.begin() as conn:
        for incarnation in (here, elsewhere, silent, gone):
            region = "us" if incarnation == elsewhere else "eu"
            workers.register(conn, incarnation, pool="p", region=region, node="n", pid=1)
        workers.gone(conn, gone)
        past = now(conn) - timedelta(seconds=100)
        conn.execute(worker_rows.update().where(worker_rows.c.incarnation == silent).values(heartbeat_at=past))
    with store.read() as conn:
        assert {worker.incarnation for worker in workers.alive(conn, within_s=60)} == {here, elsewhere}
        assert {worker.incarnation for worker in workers.alive(conn, within_s=200)} == {here, elsewhere, silent}
        assert [worker.incarnation for worker in workers.alive(conn, within_s=60, region="eu")] == [here]


def test_workers_of_which_nothing_was_heard_for_long_are_taken_off_the_list(store: Store) -> None:
    old, young = [uuid4() for _ in range(3)], uuid4()
    with store.begin() as conn:
        for incarnation in (*old, young):
            workers.register(conn, incarnation, pool="p", region="eu", node="n", pid=1)
        workers.gone(conn, old[0])
        past = now(conn) - timedelta(seconds=100)
        conn.execute(worker_rows.update().where(worker_rows.c.incarnation.in_(old)).values(heartbeat_at=past))
    with store.begin() as conn:
        assert [workers.prune(conn, older_than_s=60, limit=2) for _ in range(3)] == [2, 1, 0]
        assert [worker.incarnation for worker in workers.listing(conn)] == [young]
