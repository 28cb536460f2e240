"""A thousand SamJobs in all states, and an operator that is killed among them; on a real API server without a node.

Nothing here is judged by the clock. What it took is printed (`pytest -s`).
"""

import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import sqlalchemy as sa

from samjobs.names import Reason
from samjobs.store import Store, jobs, shards
from samjobs.store.engine import as_row
from samjobs.store.rows import Job, Shard
from samjobs.store.tables import events as event_rows
from samjobs.store.tables import jobs as job_rows
from tests.cluster.client import Client
from tests.controller.kube.bed import Bed, installation, written
from tests.controller.kube.many import Many, many, phase_of
from tests.controller.kube.pool_world import PoolWorld
from tests.controller.process import Controller
from tests.store.builders import ME, outcomes
from tests.waiting import until

COUNT = 1000
PATIENCE_S = 600  # a minute's work, on a machine that does other things too
# Of twenty objects: what becomes of each, and the phase in which it is to be told.
FATES = {"queued": 11, "suspended": 2, "running": 1, "finished": 3, "failed": 1, "refused": 1, "leaving": 1}
PHASES = {
    "queued": "Queued",
    "suspended": "Suspended",
    "running": "Running",
    "finished": "Succeeded",
    "failed": "Failed",
    "refused": "Invalid",
    "leaving": "Cancelled",
}
SPECS: dict[str, dict[str, Any]] = {
    "suspended": {"suspend": True},
    "refused": {"output": {"uri": "/dev/null"}},  # as the API server takes it, and the controller does not
}
HELD = ("example.org/held",)


def names(fate: str) -> list[str]:
    return [f"{fate}-{number:04}" for number in range(FATES[fate] * COUNT // sum(FATES.values()))]


@pytest.fixture
def crowd(server: Client, bed: Bed) -> Iterator[Many]:
    """The SamJobs of the bed's namespace."""
    with many(server.kubeconfig, bed.namespace) as made:
        yield made


class Operator:
    """A controller whose start, memory and requests are looked at."""

    def __init__(self, folder: Path, bed: Bed, **settings: Any) -> None:
        self.began = time.monotonic()
        for name in ("config", "logs"):
            (folder / name).mkdir(exist_ok=True)
        config = written(folder / "config", installation(bed.namespace, list_seconds=60))
        times = {"POLLER_INTERVAL_SECONDS": 5, "STALE_JOB_TIMEOUT_SECONDS": 600, "FAILED_JOB_TIMEOUT_SECONDS": 3600}
        self.process = Controller(folder / "logs", KUBERNETES_CONFIG=config, **times, **settings)

    def told(self, what: str) -> None:
        memory = psutil.Process(self.process.process.pid).memory_info().rss / 2**20
        print(f"{what}: {time.monotonic() - self.began:.1f} s after the start, {memory:.0f} MiB")

    def kill(self) -> None:
        self.process.process.kill()
        self.process.ends(-signal.SIGKILL)


@pytest.mark.timeout(900)
def test_an_operator_killed_among_a_thousand_jobs_goes_on(
    server: Client, bed: Bed, crowd: Many, postgres_url: str, redis_url: str, tmp_path: Path
) -> None:
    world = PoolWorld(server, bed.namespace, postgres_url)
    world.pool("spot", engine="opencv", scaling={"minReplicas": 2, "maxReplicas": 2})
    first = Operator(tmp_path, bed, DATABASE_URL=postgres_url, REDIS_URL=redis_url)
    for fate in FATES:
        crowd.make(names(fate), finalizers=HELD if fate == "leaving" else (), **SPECS.get(fate, {}))
    first.told(f"{COUNT} SamJobs made")
    to_come = COUNT - len(names("refused"))
    until(lambda: _count(bed.store) == to_come, "all have rows", PATIENCE_S, every_s=0.5)
    first.told("all have rows")
    until(lambda: world.deployment() is not None, "the pool has a Deployment")
    world.pods("spot-1", "spot-2")
    # Killed with some statuses written and others not.
    until(lambda: crowd.phases()["Queued"] > 0, "some are told to be queued", every_s=0.5)
    first.told("killed")
    first.kill()

    _live(bed.store, crowd)
    crowd.delete(gone := names("queued")[:20])
    crowd.patch(edited := names("queued")[20:40], spec={"priority": 5})
    crowd.make(new := [f"new-{number}" for number in range(20)])
    before = crowd.all()
    workers = _workers(world)
    patched = _patches(server, bed)

    second = Operator(tmp_path, bed, DATABASE_URL=postgres_url, REDIS_URL=redis_url)
    second.process.until_ready()
    second.told("ready")
    expected = Counter({PHASES[fate]: len(names(fate)) for fate in FATES}) + Counter(Queued=len(new) - len(gone))
    until(lambda: crowd.phases() == expected, f"all are told as they are: {expected}", PATIENCE_S, every_s=1.0)
    second.told("all are told as they are")
    found = crowd.all()
    rows = _rows(bed.store)
    assert Counter(row.name for row in rows) == Counter([name for name in found if "refused" not in name] + gone)
    assert _submissions(bed.store) == len(rows), "each was submitted once"
    assert {row.cancel_reason for row in rows if row.name in gone} == {Reason.OBJECT_DELETED}
    assert {row.priority for row in rows if row.name in edited} == {5}
    wrong = [name for name in found if name not in new and phase_of(found[name]) != PHASES[name.partition("-")[0]]]
    assert wrong == []
    assert _workers(world) == workers, "no Deployment and no pod was changed, made, or deleted"
    assert not [one for what in ("pods", "deployments") for one in world.requests("delete", what)]

    # Another round of all parts, and a status is written only where it says something else than before.
    rounds = _rounds(second.process)
    until(lambda: _rounds(second.process) > rounds + 5, "more rounds are done")
    changed = [name for name, obj in crowd.all().items() if obj.get("status") != before[name].get("status")]
    print(f"{_patches(server, bed) - patched} writes of statuses for {len(changed)} that changed")
    assert _patches(server, bed) - patched == len(changed)
    second.process.stop()
    crowd.patch(names("leaving"), metadata={"finalizers": None})
    world.close()


def test_one_fault_among_many_new_jobs_keeps_none_of_them_waiting(bed: Bed, crowd: Many) -> None:
    crowd.make([f"good-{number}" for number in range(30)])
    twice = [{"image": "/photos/1.png"}, {"image": "/photos/./1.png"}]
    crowd.make(["bad"], images={"list": twice})
    crowd.make(["listed-later"], images={"prefix": "s3://photos"})
    bed.look()
    assert crowd.phases() == Counter(Queued=31, Invalid=1)
    assert "was named before" in bed.status("bad")["message"]
    assert _submissions(bed.store) == 31


def _live(store: Store, crowd: Many) -> None:
    """What workers and people do while no operator looks."""
    by_name = {row.name: row for row in _rows(store)}
    for name in [*names("running"), *names("finished")]:
        shard = _started(store, by_name[name])
        if name.startswith("finished"):
            with store.begin() as conn:
                shards.finish(conn, shard.id, shard.attempt, outcomes(shard))
    for name in names("failed"):
        with store.begin() as conn:
            jobs.stop(conn, by_name[name].id, reason=Reason.DEADLINE_EXCEEDED, actor="test")
    crowd.delete(names("leaving"))


def _started(store: Store, job: Job) -> Shard:
    """The job's shard at work; the killed operator may have dispatched it."""
    with store.begin() as conn:
        found = shards.claim(conn, limit=1, job_id=job.id) or shards.of_job(conn, job.id)
    with store.begin() as conn:
        started = shards.start(conn, found[0].id, found[0].attempt, ME)
    assert started is not None
    return started[1]


def _rows(store: Store) -> list[Job]:
    with store.read() as conn:
        return [as_row(Job, row) for row in conn.execute(sa.select(job_rows))]


def _count(store: Store) -> int:
    with store.read() as conn:
        return int(conn.execute(sa.select(sa.func.count()).select_from(job_rows)).scalar_one())


def _submissions(store: Store) -> int:
    """How often a job was submitted, as the events tell."""
    submitted = event_rows.c.from_state.is_(None) & event_rows.c.shard_id.is_(None)
    with store.read() as conn:
        return int(conn.execute(sa.select(sa.func.count()).where(submitted)).scalar_one())


def _workers(world: PoolWorld) -> dict[str, Any]:
    """The pool's Deployment and its pods, by what a change of them changes."""
    deployment = world.deployment()
    assert deployment is not None
    pods = {one["metadata"]["name"]: (one["metadata"]["uid"], one["spec"]) for one in world.get("pods")["items"]}
    return {"deployment": (deployment["metadata"]["uid"], deployment["metadata"]["generation"]), "pods": pods}


def _patches(server: Client, bed: Bed) -> int:
    """The writes of statuses so far."""
    found = server.requests(verb="patch", resource="samjobs", subresource="status", namespace=bed.namespace)
    return len([one for one in found if one["userAgent"].startswith("samjobs/")])


def _rounds(operator: Controller) -> float:
    line = 'samjobs_controller_pass_seconds_count{step="project"} '
    return sum(float(one.removeprefix(line)) for one in operator.ask("/metrics")[1].splitlines() if line in one)
