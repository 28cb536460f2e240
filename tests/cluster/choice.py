"""Which cluster the tests use: the one of KUBECONFIG, one that kind makes by Docker, or the tests' own.

SAMJOBS_TEST_CLUSTER=own, =kind or =kubeconfig overrules the order.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from tests.cluster import kind, own
from tests.cluster.cluster import Cluster

_WISH = os.environ.get("SAMJOBS_TEST_CLUSTER", "")  # read at import: tests run without any SAMJOBS_ variable
_KUBECONFIG = os.environ.get("KUBECONFIG", "")
_WISHES = ("", "own", "kind", "kubeconfig")


def chosen() -> AbstractContextManager[Cluster] | str:
    """The cluster to use, or why there is none."""
    if _WISH not in _WISHES:
        return f"SAMJOBS_TEST_CLUSTER={_WISH}: it is one of {', '.join(filter(None, _WISHES))}, or left out"
    if _WISH == "kubeconfig" or (_WISH == "" and _KUBECONFIG):
        return _given()
    if _WISH == "kind" or (_WISH == "" and kind.lacking() is None and not own.Machine().is_there):
        return kind.lacking() or kind.cluster()
    return own.lacking() or own.borrowed()


def _given() -> AbstractContextManager[Cluster] | str:
    if not _KUBECONFIG:
        return "SAMJOBS_TEST_CLUSTER=kubeconfig needs KUBECONFIG"
    if Path(_KUBECONFIG) == own.Machine().plane.kubeconfig:
        return own.borrowed()
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        return "KUBECONFIG names a cluster, and kubectl is missing"
    client = Cluster(Path(_KUBECONFIG), Path(kubectl))
    done = client.run(kubectl, "version")
    if done.returncode != 0:
        return f"KUBECONFIG={_KUBECONFIG} leads nowhere: {done.stderr.strip()}"
    return _as_it_is(client)


@contextmanager
def _as_it_is(client: Cluster) -> Iterator[Cluster]:
    yield client
