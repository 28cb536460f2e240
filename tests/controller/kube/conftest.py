"""A namespace on an API server with the CRDs, and a database, for each test."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from samjobs.store import connect
from tests.cluster import binaries
from tests.cluster.client import Client
from tests.cluster.control_plane import ControlPlane, control_plane_only
from tests.cluster.processes import Process
from tests.conftest import missing
from tests.controller.kube.bed import Bed

CRDS = Path(__file__).parents[3] / "crds"


class Frail:
    """An API server of one module's tests alone, which they may stop."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._folder = client.kubeconfig.parent

    def stop(self) -> None:
        Process(self._folder, "kube-apiserver").stop()

    def start(self) -> None:
        ControlPlane(self._folder, bound=True).start("kube-apiserver")


def install_crds(client: Client) -> None:
    client.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(CRDS))
    client.kubectl("wait", "crd", "--all", "--for=condition=Established", "--timeout=60s")


@pytest.fixture(scope="session")
def server(api_server: Client) -> Client:
    """An API server that knows both kinds."""
    install_crds(api_server)
    return api_server


@pytest.fixture
def bed(server: Client, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bed]:
    """A namespace and an empty database."""
    with made(server, postgres_url, monkeypatch) as one:
        yield one


@pytest.fixture(scope="module")
def frail() -> Iterator[Frail]:
    """An API server with both kinds, which tests may stop and start."""
    lacking = binaries.lacking()
    if lacking is not None:
        missing(lacking)
    with control_plane_only() as client:
        install_crds(client)
        yield Frail(client)


@pytest.fixture
def frail_bed(frail: Frail, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bed]:
    """A namespace there, and an empty database."""
    with made(frail.client, postgres_url, monkeypatch) as one:
        yield one


@contextmanager
def made(client: Client, url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bed]:
    monkeypatch.setenv("KUBECONFIG", str(client.kubeconfig))
    store = connect(url)
    with client.namespace(wait=False) as namespace:
        one = Bed(client.kubectl, namespace, store)
        yield one
        one.close()
    store.close()
