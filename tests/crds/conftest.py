"""An API server that knows the CRDs."""

from collections.abc import Iterator

import pytest
from kubernetes import config

from tests.cluster.client import Client
from tests.crds.judges import Server
from tools.crds import ROOT


@pytest.fixture(scope="session")
def with_crds(api_server: Client) -> Client:
    """The API server, with both CRDs as they lie in crds/ established."""
    api_server.kubectl("apply", "--server-side", "--force-conflicts", f"--filename={ROOT / 'crds'}")
    api_server.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", *NAMES)
    return api_server


NAMES = ("samjobs.samjobs.dev", "samworkerpools.samjobs.dev")


@pytest.fixture
def server(with_crds: Client, namespace: str) -> Server:
    """A way to it in Python, into a namespace of the module's own."""
    return Server(config.new_client_from_config(config_file=str(with_crds.kubeconfig)), namespace)


@pytest.fixture(scope="module")
def namespace(with_crds: Client) -> Iterator[str]:
    """A namespace of the module's own."""
    with with_crds.namespace(wait=False) as name:
        yield name
