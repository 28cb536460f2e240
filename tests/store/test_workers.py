"""The list of worker processes; on both databases."""

from uuid import uuid4

from samjobs.store import Store, workers
from samjobs.store.rows import WorkerState


def test_a_worker_tells_of_itself_from_start_to_end(store: Store) -> None:
    me, shard = uuid4(), uuid4()
    with store.begin() as conn:
        workers.register(conn, me, pool="local", region="eu", node="laptop", pid=42)
        loading = workers.get(conn, me)
        assert workers.set_model(conn, me, device="cuda:0", model="facebook/sam3", revision="abc")
        assert workers.set_state(conn, me, WorkerState.BUSY, shard_id=shard)
        assert workers.heartbeat(conn, me)
        busy = workers.get(conn, me)
        assert loading is not None
        assert busy is not None
        assert (loading.state, loading.shard_id, loading.model) == (WorkerState.LOADING, None, "")
        assert (busy.state, busy.shard_id, busy.device) == (WorkerState.BUSY, shard, "cuda:0")
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
