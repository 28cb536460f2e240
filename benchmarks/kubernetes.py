"""What does samjobs cost on Kubernetes: until a waiting job has a worker on its way, and for each SamJob that is there?

The operator runs as it is deployed, `python -m controller`, beside a real API server (etcd, and no node), a Postgres
that keeps what it commits, and a Redis, all on this machine. How long a node then takes to start a pod is its own
affair: the times end where whoever watches the Deployment sees its new number of replicas.
"""

import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from benchmarks.kubernetes_operator import PATIENCE_S, Place, operator
from benchmarks.kubernetes_pools import Regions
from benchmarks.queue_servers import Servers, servers
from benchmarks.report import Section, main
from samjobs.store import connect
from samjobs.store.tables import jobs
from tests.cluster import binaries
from tests.cluster.client import Client as Api
from tests.cluster.control_plane import control_plane_only
from tests.controller.kube.conftest import install_crds
from tests.controller.kube.many import Many, many
from tests.waiting import until

POLL_S = 30.0  # of KEDA's scalers, by their documentation


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    rounds: int  # of `Regions.COUNT` jobs each
    crowds: Sequence[int]
    idle_s: float


FULL, QUICK = Sizes(6, (100, 1000, 5000), 30.0), Sizes(1, (25, 100), 2.0)


def measure(quick: bool) -> list[Section]:
    """Both tables."""
    if (lacking := binaries.lacking()) is not None:
        raise SystemExit(f"benchmarks.kubernetes: {lacking}")
    sizes = QUICK if quick else FULL
    with servers() as both, control_plane_only() as api:
        install_crds(api)
        return [_scaled(both, api, sizes.rounds), _crowds([_crowd(both, api, n, sizes.idle_s) for n in sizes.crowds])]


def _scaled(both: Servers, api: Api, rounds: int) -> Section:
    """From a job's submission to the replicas of its region's Deployment."""
    api.kubectl("create", "namespace", "scaled")
    with both.ours() as database:
        place = Place(api, "scaled", database, f"{both.redis}/1")
        with operator(place) as one, Regions(place) as regions:
            one.until_ready()
            waits_s = []
            for _ in range(rounds):
                regions.cancel_all()
                regions.until_idle()
                for region in regions.names:
                    time.sleep(random.uniform(0.3, 1.5))  # in no step with the operator's rounds
                    waits_s.append(regions.submitted_until_scaled(region))
    p50_s, most_s = statistics.median(waits_s), max(waits_s)
    rows = [
        {"scaled by": "samjobs (told by the database)", "p50 s": p50_s, "max s": most_s},
        {"scaled by": f"a look every {POLL_S:g} s (calculated)", "p50 s": POLL_S / 2, "max s": POLL_S},
    ]
    note = (
        f"samjobs: {len(waits_s)} jobs, each the first of its region, from the call that submits it until a watcher of"
        " the\nDeployment sees it go from 0 to 1. The other is no measurement: KEDA's default pollingInterval, met at a"
        " random\ntime, without what its query takes."
    )
    figures = {"scale_p50_s": p50_s, "scale_max_s": most_s, "poll_p50_s": POLL_S / 2}
    return Section("From a job's submission to the Deployment's new replicas", rows, note, figures)


def _crowd(both: Servers, api: Api, count: int, idle_s: float) -> dict[str, Any]:
    """So many SamJobs, made at once; then nothing; then another operator."""
    namespace = f"crowd-{count}"
    api.kubectl("create", "namespace", namespace)
    with both.ours() as database, many(api.kubeconfig, namespace) as crowd:
        place = Place(api, namespace, database, f"{both.redis}/2")
        with operator(place) as one:
            one.until_ready()
            before_s, began = one.cpu_s(), time.monotonic()
            crowd.make(f"job-{number:05}" for number in range(count))
            made = time.monotonic()
            _until_rows(database, count)
            in_table = time.monotonic()
            _until_told(crowd, count)
            used_s, told, written = one.cpu_s() - before_s, time.monotonic(), place.status_writes()
            idle_from_s = one.cpu_s()
            time.sleep(idle_s)
            idle = (one.cpu_s() - idle_from_s) / idle_s
            written_idle = place.status_writes() - written
            memory_mib = one.memory_mib()
        crowd.make(["while-away"])
        with operator(place) as one:
            ready_s = one.until_ready()
            _until_rows(database, count + 1)
            taken_s = time.monotonic() - one.began
            _until_told(crowd, count + 1)
        return {
            "SamJobs": count,
            "made s": made - began,
            "rows +s": in_table - made,
            "statuses +s": told - in_table,
            "CPU ms each": 1000 * used_s / count,
            "writes each": written / count,
            "idle CPU %": 100 * idle,
            "idle writes": written_idle,
            "MiB": memory_mib,
            "restart: ready s": ready_s,
            "new row s": taken_s,
            "writes": place.status_writes() - written - written_idle,
        }


def _until_rows(database: str, count: int) -> None:
    store = connect(database)
    query = sa.select(sa.func.count()).select_from(jobs)

    def there() -> bool:
        with store.read() as conn:
            return bool(conn.execute(query).scalar_one() >= count)

    until(there, f"{count} jobs are in the table", PATIENCE_S, every_s=0.1)
    store.close()


def _until_told(crowd: Many, count: int) -> None:
    every_s = max(0.2, count / 1000)  # a look reads them all
    until(lambda: crowd.phases()["Queued"] == count, f"{count} statuses are written", PATIENCE_S, every_s)


def _crowds(rows: list[dict[str, Any]]) -> Section:
    note = (
        "made s: by four connections at once. rows +s, statuses +s: from there until all are in the table, and told at"
        " the\nobjects. CPU of the operator, per SamJob, from the first to the last of it; what it costs must not grow"
        " with their\nnumber. writes: of statuses. new row s: until one that was made while no operator ran is in the"
        " table, after the\nstart; writes: for that one alone."
    )
    least, most = rows[0]["CPU ms each"], rows[-1]["CPU ms each"]
    figures = {"samjob_cpu_ms": {row["SamJobs"]: row["CPU ms each"] for row in rows}, "samjob_growth": most / least}
    return Section("An operator among many SamJobs", rows, note, figures)


if __name__ == "__main__":
    main(__doc__ or "", measure)
