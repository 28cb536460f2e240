"""The fixtures `cluster` and `api_server`, for every test: a plug-in that tests/conftest.py names.

`api_server` is an API server with etcd and nothing else, ready in four seconds and without root: for schemas, RBAC,
admission, server-side apply, watches. `cluster` has a node too, and pods run.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import binaries, choice
from tests.cluster.client import Client
from tests.cluster.cluster import Cluster
from tests.cluster.control_plane import control_plane_only
from tests.conftest import missing


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs Kubernetes, and let its files come last: its programs and images may still be built beside the
    others.

    Building them, the first time, does not count against a test's time.
    """
    latest: Counter[Path] = Counter()
    for item in items:
        needs = _needs(item)
        latest[item.path] = max(needs, latest[item.path])
        if needs > 1:
            item.add_marker(pytest.mark.needs_cluster)
        if needs and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(300, func_only=True))
    items.sort(key=lambda item: latest[item.path])


def _needs(item: pytest.Item) -> int:
    """0: no Kubernetes; 1: images, which are built after the programs; 2: an API server; 3: a node."""
    asked = set(getattr(item, "fixturenames", ()))
    return 3 if "cluster" in asked else 2 if "api_server" in asked else 1 if "container_images" in asked else 0


@pytest.fixture(scope="session")
def api_server() -> Iterator[Client]:
    """An API server of the tests' own, without controllers, scheduler and node."""
    lacking = binaries.lacking()
    if lacking is not None:
        missing(lacking)
    with control_plane_only() as client:
        yield client


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A whole cluster: the one of KUBECONFIG, one by kind, or the tests' own (docs/test-cluster.md)."""
    found = choice.chosen()
    if isinstance(found, str):
        missing(found)
    with found as client:
        yield client
