"""The chart, installed once for all tests here, and a corner of it for each."""

from collections.abc import Iterator
from uuid import uuid4

import pytest
import yaml

from tests.cluster.cluster import Cluster
from tests.e2e import photos
from tests.e2e.release import NAME, Release
from tests.e2e.site import Site
from tests.system.system import COMMITS
from tools.chart import CHART

# Short, so that a test waits for a heartbeat or a poll in seconds.
TIMES = {
    "SAMJOBS_PROFILE": "dev",
    "SAMJOBS_POLLER_INTERVAL_SECONDS": 1,
    "SAMJOBS_STALE_JOB_TIMEOUT_SECONDS": 10,
    "SAMJOBS_HEARTBEAT_SECONDS": 1,
    "SAMJOBS_PROGRESS_SECONDS": 0.2,
    # Each test has a region of its own, and keeps what is in it.
    "SAMJOBS_FAILOVER_AFTER_SECONDS": 3600,
    "SAMJOBS_FAILED_JOB_TIMEOUT_SECONDS": 0,
    "SAMJOBS_ALLOWED_HOSTS": photos.SERVER,
}


@pytest.fixture(scope="session")
def release(cluster: Cluster) -> Iterator[Release]:
    """The chart with its own Postgres, Redis and volume, where only restricted pods are admitted."""
    controller, worker = (name.rpartition(":")[2] for name in (cluster.images.controller, cluster.images.worker))
    with cluster.namespace() as namespace:
        values = {
            "image": {"tag": controller},
            "worker": {"image": {"tag": worker}},
            "embedded": {"enabled": True, "postgres": {"size": "1Gi"}, "data": {"size": "1Gi"}},
            "watchNamespaces": [namespace],
            "rbac": {"aggregateClusterRoles": False},
            "settings": TIMES,
            "controller": {"listSeconds": 3},
        }

        def helm(*arguments: str, given: str = "") -> None:
            where = (f"--namespace={namespace}", "--wait", "--timeout=5m")
            done = cluster.run(cluster.helm4, *arguments, *where, input=given)
            assert done.returncode == 0, f"helm {arguments[0]} failed:\n{done.stderr}{done.stdout}"

        installed = Release(cluster, namespace)
        installed.apply(*photos.server(cluster.images.controller))
        # The CRDs may be those of a release that was in another namespace.
        helm("install", NAME, str(CHART), "--take-ownership", "--values=-", given=yaml.safe_dump(values))
        installed.sql(COMMITS)
        installed.kubectl("wait", f"pod/{photos.SERVER}", "--for=condition=Ready", "--timeout=60s")
        yield installed
        installed.kubectl("delete", "samjobs,samworkerpools", "--all")
        helm("uninstall", NAME)


@pytest.fixture
def site(release: Release) -> Iterator[Site]:
    """A region for this test alone."""
    mine = Site(release, f"r{uuid4().hex[:6]}")
    yield mine
    mine.clear()
