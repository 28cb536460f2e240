"""Heartbeats are written all the time: on Postgres they must not touch an index, nor swell the table."""

from uuid import uuid4

import psycopg

from samjobs.store import connect, shards, workers
from samjobs.store.rows import WorkerState
from tests.store.builders import claim, job, outcomes
from tests.waiting import until

WORKERS = 20
BEATS = 50


def test_heartbeats_and_progress_are_hot_updates(postgres_url: str) -> None:
    store = connect(postgres_url)
    me = [uuid4() for _ in range(WORKERS)]
    job(store, WORKERS * 4, shard_size=4)
    running = claim(store, limit=WORKERS)
    with store.begin() as conn:
        for incarnation, shard in zip(me, running, strict=True):
            workers.register(conn, incarnation, pool="p", region="eu", node="n", pid=1)
            assert shards.start(conn, shard.id, shard.attempt, incarnation)
    before = _updates(postgres_url)
    for beat in range(BEATS):
        with store.begin() as conn:
            for incarnation, shard in zip(me, running, strict=True):
                shards.heartbeat(conn, shard.id, shard.attempt, incarnation)
                workers.heartbeat(conn, incarnation)
                if beat % 20 == 0:
                    workers.set_state(conn, incarnation, WorkerState.BUSY, shard_id=shard.id, image_s=0.01 * beat)
                    assert shards.record(conn, shard.id, shard.attempt, outcomes(shard)[: beat // 20])
    store.close()  # the server adds up what a connection did when it ends
    least = {"shards": WORKERS * BEATS, "workers": WORKERS * BEATS}
    until(
        lambda: all(_updates(postgres_url)[table][0] - before[table][0] >= least[table] for table in least),
        "the server has counted the updates",
    )
    after = _updates(postgres_url)
    for table in least:
        updates, hot = (after[table][place] - before[table][place] for place in range(2))
        assert hot >= 0.95 * updates, f"{table}: {hot} of {updates} updates were HOT: is a column of them indexed?"


def _updates(url: str) -> dict[str, tuple[int, int]]:
    with psycopg.connect(url) as conn:
        rows = conn.execute("SELECT relname, n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables").fetchall()
    return {name: (updates, hot) for name, updates, hot in rows}
