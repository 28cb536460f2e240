"""The operator goes while jobs live: what users made stays, nobody waits for it, and the next one takes all over."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from samjobs.names import API_VERSION, JOB_KIND, JOB_PLURAL, POOL_LABEL, POOL_PLURAL
from tests.cluster.cluster import Cluster
from tests.e2e import photos
from tests.e2e.chart import Chart, in_its_own_namespace
from tests.e2e.release import Release
from tests.e2e.site import PER_SHARD, Site
from tests.waiting import until

CROWD = {"Running": 2, "Queued": 18, "Suspended": 10, "Succeeded": 10, "Invalid": 10}  # by phase
TRIP, LONG = 50, 100  # photos of the two that run


@pytest.fixture
def chart(cluster: Cluster) -> Iterator[Chart]:
    """The chart in a namespace of this test."""
    with in_its_own_namespace(cluster) as made:
        made.install()
        made.note_commits()
        yield made
        # So that no worker waits, for its grace period, for a database that ends as it does.
        made.release.kubectl("delete", "samjobs", "--all", check=False)


@pytest.fixture
def site(chart: Chart) -> Site:
    """A region with a pool of two workers at most, and 50 SamJobs in all states."""
    made = Site(chart.release, f"r{uuid4().hex[:6]}")
    made.pool(scaling=PER_SHARD | {"maxReplicas": 2})
    chart.release.apply(*(samjob(made, f"succeeded-{n}", 1, 0) for n in range(CROWD["Succeeded"])))
    chart.release.kubectl("wait", "samjobs", "--all", "--for=condition=Complete", "--timeout=120s")
    refused = {"output": {"uri": "/dev/null"}}
    chart.release.apply(
        samjob(made, "running-0", TRIP, 0.5),
        samjob(made, "running-1", LONG, 2),
        *(samjob(made, f"queued-{n}", 3, 0, region=f"{made.name}-nowhere") for n in range(CROWD["Queued"])),
        *(samjob(made, f"suspended-{n}", 3, 0, suspend=True) for n in range(CROWD["Suspended"])),
        *(samjob(made, f"invalid-{n}", 3, 0, **refused) for n in range(CROWD["Invalid"])),
    )
    made.until_at_work("running-0", "running-1")
    made.until(lambda: phases(chart.release) == Counter(CROWD), f"of all states there are {CROWD}")
    return made


def samjob(site: Site, name: str, count: int, each_s: float, **spec: Any) -> dict[str, Any]:
    """A SamJob over so many photos, each of which takes `each_s` seconds."""
    usual = {
        "region": site.name,
        "engine": "opencv",
        "images": photos.slow(name, count, each_s),
        "prompts": {"text": [{"text": "red"}]},
        "output": {"uri": f"{site.folder}/{name}"},
        "shardSize": 1000,
    }
    return {"apiVersion": API_VERSION, "kind": JOB_KIND, "metadata": {"name": name}, "spec": usual | spec}


def phases(release: Release) -> Counter[str]:
    return Counter(one.get("status", {}).get("phase") for one in release.get("samjobs")["items"])


def users_own(release: Release) -> dict[tuple[str, str], tuple[str, str]]:
    """What helm is to leave: uid and, where it tells of a restart, start of all of it, by kind and name."""
    kinds = f"{JOB_PLURAL},{POOL_PLURAL},persistentvolumeclaims"
    found = release.get(kinds)["items"] + release.get("deployments,pods", f"--selector={POOL_LABEL}")["items"]
    return {(one["kind"], one["metadata"]["name"]): (one["metadata"]["uid"], started(one)) for one in found}


def started(obj: dict[str, Any]) -> str:
    return json.dumps([one.get("state") for one in obj.get("status", {}).get("containerStatuses", ())])


def terminating(release: Release) -> list[str]:
    """What waits for somebody before it can go."""
    found = release.get(f"{JOB_PLURAL},{POOL_PLURAL},all,persistentvolumeclaims,secrets,configmaps")["items"]
    return [f"{one['kind']}/{one['metadata']['name']}" for one in found if "deletionTimestamp" in one["metadata"]]


@pytest.mark.timeout(600, func_only=True)
def test_jobs_outlive_the_release_and_the_next_one_goes_on(chart: Chart, site: Site) -> None:
    release = chart.release
    mine = users_own(release)
    rows = {row["uid"]: row["id"] for row in release.rows("SELECT uid, id FROM jobs")}
    ended = {row["id"]: row["finished_at"] for row in release.rows("SELECT * FROM jobs WHERE state = 'succeeded'")}
    assert len(ended) == CROWD["Succeeded"]

    # The first may come to its end meanwhile: while the database is away, workers go on with the shard in hand.
    for job, unwanted in (("running-0", "queued-0"), ("running-1", "suspended-0")):
        done = len(site.commits(job))
        chart.uninstall()
        release.until(lambda: terminating(release) == [], "nothing is left half deleted")
        assert users_own(release) == mine
        # Nobody has to agree.
        release.kubectl("delete", "samjob", unwanted, "--timeout=20s")
        del mine[JOB_KIND, unwanted]
        chart.install()
        until_taken_over(site, job, done, unwanted)

    site.until_ended("running-0")
    row = site.row("running-0")
    # Skipped: its result was written while the database was away, and still holds.
    assert (row["state"], row["images_done"] + row["images_skipped"]) == ("succeeded", TRIP)
    assert site.commits("running-0") == Counter(range(TRIP))
    assert set(site.commits("running-1").values()) == {1}
    left = users_own(release)
    assert left.items() <= mine.items(), "something was started or made anew"
    idle = [kind for kind, _ in mine.keys() - left.keys()]
    assert idle in ([], ["Pod"]), "only the worker that has nothing to do any more may go"
    crowd = {"Running": 1, "Succeeded": CROWD["Succeeded"] + 1, "Queued": CROWD["Queued"] - 1}
    crowd |= {"Suspended": CROWD["Suspended"] - 1, "Invalid": CROWD["Invalid"]}
    site.until(lambda: phases(release) == Counter(crowd), f"of all states there are {crowd}")
    assert {row["uid"]: row["id"] for row in release.rows("SELECT uid, id FROM jobs")} == rows, "no job came twice"
    again = release.rows("SELECT * FROM jobs WHERE state = 'succeeded' AND name <> 'running-0'")
    assert {row["id"]: row["finished_at"] for row in again} == ended


def until_taken_over(site: Site, job: str, done: int, unwanted: str) -> None:
    """Wait until a job has got beyond `done` images, and another one that was deleted meanwhile is cancelled."""
    site.until(lambda: len(site.commits(job)) > done, f"{job} goes on")
    site.until(lambda: site.row(unwanted)["state"] == "cancelled", f"{unwanted} is cancelled")


@pytest.mark.timeout(600, func_only=True)
def test_a_namespace_goes_with_operator_workers_and_jobs(chart: Chart, site: Site) -> None:
    namespace, cluster = chart.release.namespace, chart.release.cluster
    cluster.kubectl("delete", "namespace", namespace, "--wait=false")

    def gone() -> bool:
        return cluster.kubectl("get", "namespace", namespace, "--ignore-not-found") == ""

    def told() -> str:
        return cluster.kubectl("get", "namespace", namespace, "--output=jsonpath={.status.conditions}", check=False)

    try:
        until(gone, "the namespace is gone", every_s=0.5)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{told()}\n{chart.release.told()}") from None
