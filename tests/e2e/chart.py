"""The chart in a namespace of its own, as an administrator handles it: installed, removed, installed again.

Tests share the one of `conftest.py`, but for those that do to a release what others could not bear.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import yaml

from tests.cluster.cluster import Cluster
from tests.e2e import photos
from tests.e2e.release import NAME, Release
from tests.system.system import COMMITS
from tools.chart import CHART

# Short, so that a test waits for a heartbeat or a poll in seconds.
TIMES = {
    "SAMJOBS_PROFILE": "dev",
    "SAMJOBS_POLLER_INTERVAL_SECONDS": 1,
    "SAMJOBS_STALE_JOB_TIMEOUT_SECONDS": 10,
    "SAMJOBS_HEARTBEAT_SECONDS": 1,
    "SAMJOBS_PROGRESS_SECONDS": 0.2,
    # Each test has a region of its own, and keeps what is in it; what waits for a worker that never comes waits on.
    "SAMJOBS_FAILOVER_AFTER_SECONDS": 3600,
    "SAMJOBS_FAILED_JOB_TIMEOUT_SECONDS": 0,
    "SAMJOBS_ALLOWED_HOSTS": photos.SERVER,
}


@dataclass(frozen=True)
class Chart:
    """What helm does to the release. `more`: values beside those that every test needs."""

    release: Release
    more: dict[str, Any] = field(default_factory=dict)

    def install(self) -> None:
        """Install it with its own Postgres, Redis and volume, and wait until all of it is ready."""
        # The CRDs may be those of a release that is in another namespace.
        self._helm("install", NAME, str(CHART), "--take-ownership", "--values=-", given=yaml.safe_dump(self._values()))

    def note_commits(self) -> None:
        """Have the database write down each commit of an image, so that `Site.commits` can tell."""
        self.release.sql(COMMITS)

    def uninstall(self) -> None:
        """Remove it, and wait until what helm removes is gone."""
        self._helm("uninstall", NAME)

    def _helm(self, *arguments: str, given: str = "") -> None:
        where = (f"--namespace={self.release.namespace}", "--wait", "--timeout=5m")
        done = self.release.cluster.run(self.release.cluster.helm4, *arguments, *where, input=given)
        assert done.returncode == 0, f"helm {arguments[0]}:\n{done.stderr}{done.stdout}\n{self.release.told()}"

    def _values(self) -> dict[str, Any]:
        images = self.release.cluster.images
        controller, worker = (name.rpartition(":")[2] for name in (images.controller, images.worker))
        return {
            "image": {"tag": controller},
            "worker": {"image": {"tag": worker}},
            "embedded": {"enabled": True, "postgres": {"size": "1Gi"}, "data": {"size": "1Gi"}},
            "watchNamespaces": [self.release.namespace],
            "rbac": {"aggregateClusterRoles": False},
            "settings": TIMES,
            **self.more,
        }


@contextmanager
def in_its_own_namespace(cluster: Cluster, **more: Any) -> Iterator[Chart]:
    """A namespace with the slow server of photos, and nothing installed yet; gone in the end with all that is in it."""
    with cluster.namespace() as namespace:
        release = Release(cluster, namespace)
        release.apply(*photos.server(cluster.images.controller))
        release.kubectl("wait", f"pod/{photos.SERVER}", "--for=condition=Ready", "--timeout=120s")
        yield Chart(release, more)
