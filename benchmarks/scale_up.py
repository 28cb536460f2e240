"""From nothing to the first mask: how long does each stage of a pool's first worker take, on a real node?

The chart is installed as a user does it, with its own Postgres and Redis, on the tests' cluster of one node. A SamJob
is applied for a region whose pool has no worker; the times run from the commit of its row. What Kubernetes takes by
itself is measured in the same run: a Deployment of the same pods, scaled by hand.

The worker has the `opencv` engine: a GPU's model takes as long more as it loads (`load_s` of `samjobs workers`).
"""

import statistics
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import urllib3
from kubernetes import client, config, watch

from benchmarks.report import Section, main
from samjobs.names import POOL_LABEL
from tests.cluster import choice
from tests.e2e.chart import in_its_own_namespace
from tests.e2e.release import Release
from tests.e2e.site import Site
from tests.waiting import until

ROUNDS, QUICK_ROUNDS = 10, 1
PATIENCE_S = 120.0
REGION = "first"
BY_HAND = "by-hand"
# Gone at once when nothing is to be done, so that the next round begins at zero.
SCALING = {"minReplicas": 0, "maxReplicas": 1, "upCooldownSeconds": 0, "downCooldownSeconds": 0}
STAGES = ("decided", "scheduled", "started", "model ready", "first image")


class Seen:
    """When a Deployment and its first pod were seen to be so far, as a watcher of the API server sees them."""

    def __init__(self, release: Release, selector: str) -> None:
        self._api = config.new_client_from_config(str(release.cluster.kubeconfig))
        self._namespace, self._selector = release.namespace, selector
        self._at: dict[str, datetime] = {}
        self._watches = [watch.Watch(), watch.Watch()]
        self._ended = False

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Look, until the block ends."""
        looks: Sequence[tuple[Any, Callable[[Any], None]]] = (
            (client.AppsV1Api(self._api).list_namespaced_deployment, self._deployment),
            (client.CoreV1Api(self._api).list_namespaced_pod, self._pod),
        )
        threads = [
            threading.Thread(target=self._look, args=(made, *look), daemon=True)
            for made, look in zip(self._watches, looks, strict=True)
        ]
        for thread in threads:
            thread.start()
        yield
        self._ended = True
        for made in self._watches:
            made.stop()

    def since(self, start: datetime) -> dict[str, float]:
        """Seconds from `start` to each stage."""
        return {stage: (at - start).total_seconds() for stage, at in self._at.items()}

    def again(self) -> None:
        """Begin the next round."""
        self._at = {}

    @property
    def started(self) -> bool:
        """Whether the worker's container runs."""
        return "started" in self._at

    def _look(self, made: watch.Watch, listing: Any, note: Callable[[Any], None]) -> None:
        try:
            for event in made.stream(listing, self._namespace, label_selector=self._selector):
                if self._ended:  # the last one of a watch that is stopped is none
                    return
                note(event["object"])
        except urllib3.exceptions.HTTPError:
            if not self._ended:
                raise

    def _deployment(self, obj: Any) -> None:
        if obj.spec.replicas:
            self._note("decided")

    def _pod(self, obj: Any) -> None:
        if obj.metadata.deletion_timestamp is not None:
            return
        if obj.spec.node_name:
            self._note("scheduled")
        if any(one.state.running for one in obj.status.container_statuses or ()):
            self._note("started")

    def _note(self, stage: str) -> None:
        self._at.setdefault(stage, _now())


def measure(quick: bool) -> list[Section]:
    """The one table."""
    found = choice.chosen()
    if isinstance(found, str):
        raise SystemExit(f"benchmarks.scale_up: {found}")
    rounds = QUICK_ROUNDS if quick else ROUNDS
    with found as cluster, in_its_own_namespace(cluster) as chart:
        chart.install()
        site = Site(chart.release, REGION)
        pool = site.pool(scaling=SCALING)
        seen = Seen(chart.release, f"{POOL_LABEL}={pool}")
        with seen.watching():
            ours = [_by_samjobs(site, pool, seen, number) for number in range(rounds)]
        seen = Seen(chart.release, f"app={BY_HAND}")
        with seen.watching():
            chart.release.apply(_copy(site, pool))
            by_hand = [_by_hand(site, seen) for _ in range(rounds)]
    rows = [_row("samjobs", "p50", _each(ours, statistics.median)), _row("samjobs", "max", _each(ours, max))]
    rows.append(_row("kubectl scale", "p50", _each(by_hand, statistics.median)))
    note = (
        f"Seconds from the commit of the job's row, {rounds} jobs, each the first of its region. decided: the"
        " Deployment is seen\nto have its new number; scheduled: its pod has a node; started: its container runs;"
        " model ready: the engine is loaded\nand has been tried; first image: its outcome is committed. kubectl scale:"
        " from the call of the command, which\ntakes a moment itself: what Kubernetes alone needs."
    )
    figures = {f"stage_{stage.replace(' ', '_')}_p50_s": rows[0][stage] for stage in STAGES}
    return [Section("From a job's row to its first image, on a node", rows, note, figures)]


def _by_samjobs(site: Site, pool: str, seen: Seen, number: int) -> dict[str, float]:
    site.until(lambda: site.replicas(pool) == 0 and not site.pods(pool), "the pool is at zero")
    seen.again()
    job = site.job(f"round-{number}", {"list": [{"image": "http://photos:8000/0/one.png"}]})
    site.until_ended(job)
    row = site.row(job)
    assert row["state"] == "succeeded", f"{row}\n{site.release.told()}"
    [worker] = site.release.rows(
        "SELECT workers.started_at + load_s * interval '1 second' AS ready FROM workers"
        f" WHERE incarnation = (SELECT incarnation FROM shards WHERE job_id = '{row['id']}')"
    )
    [image] = site.release.rows(f"SELECT finished_at FROM images WHERE job_id = '{row['id']}'")
    start = _time(row["created_at"])
    later = {"model ready": _time(worker["ready"]), "first image": _time(image["finished_at"])}
    return seen.since(start) | {stage: (at - start).total_seconds() for stage, at in later.items()}


def _copy(site: Site, pool: str) -> dict[str, Any]:
    """A Deployment of the pool's pods that is nobody's."""
    spec = site.release.get("deployment", f"samworkers-{pool}")["spec"]
    labels = {"app": BY_HAND}
    template = spec["template"] | {"metadata": {"labels": labels}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": BY_HAND, "labels": labels},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
    }


def _by_hand(site: Site, seen: Seen) -> dict[str, float]:
    """It gets its replica from a person, as an autoscaler would give it."""
    release = site.release
    pods = ("get", "pods", f"--selector=app={BY_HAND}", "--output=name")
    site.until(lambda: release.kubectl(*pods) == "", "it is at zero")
    seen.again()
    began = _now()
    release.kubectl("scale", "deployment", BY_HAND, "--replicas=1")
    until(lambda: seen.started, "its container runs", PATIENCE_S, every_s=0.05)
    found = seen.since(began)
    release.kubectl("scale", "deployment", BY_HAND, "--replicas=0")
    return found


def _each(rounds: Sequence[Mapping[str, float]], of: Callable[[Sequence[float]], float]) -> dict[str, float]:
    return {stage: of([one[stage] for one in rounds]) for stage in STAGES if stage in rounds[0]}


def _row(who: str, what: str, stages: Mapping[str, float]) -> dict[str, Any]:
    return {"scaled by": f"{who}, {what}"} | {stage: stages.get(stage) for stage in STAGES}


def _now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251 - beside the database's clock, which is this machine's


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


if __name__ == "__main__":
    main(__doc__ or "", measure)
