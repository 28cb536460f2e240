"""`samjobs workers`, `pools` and `migrate`: who works, how much waits for them, and the schema of the job table."""

import json
import time
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from samjobs.cli.context import AsJson, JobTable, open_client, opened, settings_for
from samjobs.cli.shown import pool_line, pool_object, worker_object
from samjobs.cli.streams import print_out, say
from samjobs.cli.tables import Table, age, span
from samjobs.client import Client
from samjobs.errors import DatabaseUnavailable, InvalidInput, SchemaMismatch, describe
from samjobs.settings import Settings
from samjobs.store import check_schema
from samjobs.store import migrate as bring_up_to_date
from samjobs.store.migrations import HEAD, revision
from samjobs.store.rows import Pool, RegionStatus, Worker, WorkerState

PoolName = Annotated[
    str | None, typer.Argument(metavar="[POOL]", help="A SamWorkerPool: say in one line why it has as many workers.")
]


LOOK_EVERY_S = 1.0


def workers(db: JobTable = None, as_json: AsJson = False) -> None:
    """List the worker processes that are alive."""
    with open_client(settings_for(db), "workers") as client:
        found, at = client.workers(), client.now()
    if as_json:
        for worker in found:
            print_out(json.dumps(worker_object(worker)))
    elif not found:
        print_out("no worker is alive")
    else:
        table = Table("POOL", "REGION", "NODE", "PID", "STATE", "DEVICE", "MODEL", "IMAGES", "HEARD", "AGE")
        rows = [(*_about(worker), age(worker.heartbeat_at, at), age(worker.started_at, at)) for worker in found]
        print_out("\n".join(table.lines(rows)))


def _about(worker: Worker) -> tuple[object, ...]:
    loaded = worker.device or "-", worker.model or "-"
    return worker.pool, worker.region, worker.node, worker.pid, worker.state.value, *loaded, worker.images_total


def pools(name: PoolName = None, db: JobTable = None, as_json: AsJson = False) -> None:
    """Count workers by pool and region, with the shards that wait and run in the region.

    Wanted: as many workers as the controller has decided on, of a SamWorkerPool, with its reason. Due: shards that may
    go to a worker now. Later: after a backoff, or not before their time. Held: suspended, or beyond their job's
    parallelism. Sent: on their way to a worker.
    """
    with open_client(settings_for(db), "pools") as client:
        if name is not None:
            for pool in _called(client, name):
                print_out(json.dumps(pool_object(pool)) if as_json else pool_line(pool))
            return
        rows = _pools(client.workers(), client.regions(), client.pools())
    if as_json:
        for row in rows:
            print_out(json.dumps(row))
    elif not rows:
        print_out("no worker is alive, and no shard waits")
    else:
        print_out("\n".join(Table(*(title.upper() for title in rows[0])).lines(map(_cells, rows))))


def _cells(row: dict[str, Any]) -> list[object]:
    shown = row if row["oldest"] is None else row | {"oldest": span(row["oldest"])}
    return ["-" if value is None else value for value in shown.values()]


def _called(client: Client, name: str) -> list[Pool]:
    """The pools of that name, of all namespaces; or of one, by `namespace/name`."""
    known = client.pools()
    found = [pool for pool in known if name in (pool.name, f"{pool.namespace}/{pool.name}")]
    if not found:
        others = ", ".join(f"{pool.namespace}/{pool.name}" for pool in known) or "none at all"
        raise InvalidInput(f"no controller has decided on a SamWorkerPool {name} here, but on: {others}")
    return found


def _pools(found: Sequence[Worker], regions: Sequence[RegionStatus], decided: Sequence[Pool]) -> list[dict[str, Any]]:
    """A row per pool and region; one without a pool for a region in which nobody works."""
    by_pool: dict[tuple[str, str], Counter[WorkerState]] = {(pool.region, pool.name): Counter() for pool in decided}
    rows = {(pool.region, pool.name): pool for pool in decided}
    for worker in found:
        by_pool.setdefault((worker.region, worker.pool), Counter())[worker.state] += 1
    for region in {one.region for one in regions} - {region for region, _ in by_pool}:
        by_pool[region, ""] = Counter()
    waits = {one.region: one for one in regions}
    return [
        {
            "pool": pool or None,
            "region": region,
            "wanted": row.desired if (row := rows.get((region, pool))) else None,
            "workers": states.total(),
            "busy": states[WorkerState.BUSY],
            "ready": states[WorkerState.READY],
            "loading": states[WorkerState.LOADING],
            "draining": states[WorkerState.DRAINING],
            **_of_region(waits.get(region)),
            "reason": row.reason.value if row else None,
        }
        for (region, pool), states in sorted(by_pool.items())
    ]


def _of_region(status: RegionStatus | None) -> dict[str, Any]:
    """Shards; and the age in seconds of the oldest one that is due."""
    if status is None:
        return {"due": 0, "later": 0, "held": 0, "sent": 0, "running": 0, "dead": 0, "oldest": None}
    return {
        "due": status.shards_due,
        "later": status.shards_waiting,
        "held": status.shards_held,
        "sent": status.shards_dispatched,
        "running": status.shards_running,
        "dead": status.shards_dead,
        "oldest": status.oldest_due_age_s,
    }


def migrate(
    db: JobTable = None,
    wait: Annotated[bool, typer.Option("--wait", help="Change nothing: wait until somebody else has done it.")] = False,
) -> None:
    """Bring the job table to the schema that this samjobs needs."""
    settings = settings_for(db)
    if wait:
        _await_schema(settings)
        return
    with opened(settings) as store:
        with store.read() as conn:
            found = revision(conn)
        bring_up_to_date(store)
        if found == HEAD:
            print_out(f"{store.name} is at revision {HEAD} already")
        else:
            print_out(f"{store.name} is migrated from revision {found or 'none'} to {HEAD}")


def _await_schema(settings: Settings) -> None:
    """Return when the job table fits, however long that takes; say what is waited for when that changes."""
    told = ""
    while True:
        try:
            with opened(settings) as store:
                check_schema(store)
            return
        except (DatabaseUnavailable, SchemaMismatch) as error:
            if told != (told := describe(error)):
                say(f"waiting: {told}")
        time.sleep(LOOK_EVERY_S)
