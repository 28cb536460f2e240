"""The chart, installed once for all tests here, and a corner of it for each."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.cluster.cluster import Cluster
from tests.e2e.chart import in_its_own_namespace
from tests.e2e.release import Release
from tests.e2e.site import Site


@pytest.fixture(scope="session")
def release(cluster: Cluster) -> Iterator[Release]:
    """The chart with its own Postgres, Redis and volume, where only restricted pods are admitted."""
    with in_its_own_namespace(cluster, controller={"listSeconds": 3}) as chart:
        chart.install()
        chart.note_commits()
        yield chart.release
        chart.release.kubectl("delete", "samjobs,samworkerpools", "--all")
        chart.uninstall()


@pytest.fixture
def site(release: Release) -> Iterator[Site]:
    """A region for this test alone."""
    mine = Site(release, f"r{uuid4().hex[:6]}")
    yield mine
    mine.clear()
