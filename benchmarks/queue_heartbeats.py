"""Are heartbeats cheap for Postgres? The share of them that touch no index (heap-only tuples), as the server counts."""

import os
import platform
import time
from typing import Any
from uuid import uuid4

import sqlalchemy as sa

from samjobs.inputs import NewImage
from samjobs.spec import JobSpec
from samjobs.store import connect, jobs, shards, workers
from samjobs.store.rows import LeaseAnswer, WorkerState

RUNNING = 20
_PATIENCE_S = 30.0
_COUNTS = sa.text(
    "SELECT relname, n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname IN ('shards', 'workers')"
)


def hot(database: str, beats: int) -> list[dict[str, Any]]:
    """A row per table: how many updates `beats` heartbeats over 20 running shards were, and how many of them HOT."""
    store = connect(database)
    items = [NewImage(f"{n}.jpg", f"{n}.jpg") for n in range(RUNNING)]
    spec = {"images": {"prefix": "x"}, "prompts": {"text": ["x"]}, "output": {"uri": "x"}, "shardSize": 1}
    with store.begin() as conn:
        job_id = jobs.submit(conn, JobSpec.model_validate(spec)).job_id
        jobs.add_images(conn, job_id, items)
        jobs.mark_expanded(conn, job_id)
    with store.begin() as conn:
        claimed = shards.claim(conn, limit=RUNNING)
    started = []
    for shard in claimed:
        incarnation = uuid4()
        with store.begin() as conn:
            workers.register(conn, incarnation, pool="x", region="x", node=platform.node(), pid=os.getpid())
            workers.set_state(conn, incarnation, WorkerState.BUSY, shard_id=shard.id)
            assert shards.start(conn, shard.id, shard.attempt, incarnation)
        started.append((shard, incarnation))
    store.close()  # a connection that ends tells the server its counts at once

    before = _counts(database)
    for number in range(beats):
        shard, incarnation = started[number % RUNNING]
        with store.begin() as conn:
            assert shards.heartbeat(conn, shard.id, shard.attempt, incarnation) is LeaseAnswer.HELD
            assert workers.heartbeat(conn, incarnation)
    store.close()
    until = time.monotonic() + _PATIENCE_S
    while True:
        after = _counts(database)
        rows = [_row(table, before.get(table, (0, 0)), after.get(table, (0, 0))) for table in ("shards", "workers")]
        if all(row["updates"] >= beats for row in rows):
            return rows
        assert time.monotonic() < until, f"the server does not count its updates: {rows}"
        time.sleep(0.1)


def _counts(database: str) -> dict[str, tuple[int, int]]:
    store = connect(database)
    with store.read() as conn:
        counts = {row.relname: (row.n_tup_upd, row.n_tup_hot_upd) for row in conn.execute(_COUNTS)}
    store.close()
    return counts


def _row(table: str, before: tuple[int, int], after: tuple[int, int]) -> dict[str, Any]:
    updates, hot_updates = after[0] - before[0], after[1] - before[1]
    return {"table": table, "updates": updates, "HOT": hot_updates, "share %": 100 * hot_updates / max(updates, 1)}
