"""The chart on a real cluster, in a namespace that takes restricted pods alone: installed with its own Postgres and
Redis by each helm, checked, changed, removed, and installed again over what stays."""

import base64
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from tests.charts.helm import RELEASE, Helm
from tests.cluster.cluster import Cluster
from tools.chart import CHART

TIMEOUT = ("--wait", "--timeout=5m")
# Stays when the release goes: what the user's data is in, and what opens it, also to the workers, which stay too.
KEPT = {
    "secret/samjobs-postgres",
    "secret/samjobs-redis",
    "persistentvolumeclaim/samjobs-data",
    "persistentvolumeclaim/data-samjobs-postgres-0",
}

Run = Callable[..., str]


def values(cluster: Cluster, namespace: str) -> dict[str, Any]:
    """A trial with the images of the cluster's tests, which leaves the namespaces of other tests alone."""
    controller, worker = (name.rpartition(":")[2] for name in (cluster.images.controller, cluster.images.worker))
    return {
        "image": {"tag": controller},
        "worker": {"image": {"tag": worker}},
        "embedded": {"enabled": True, "postgres": {"size": "100Mi"}, "data": {"size": "100Mi"}},
        "settings": {"SAMJOBS_PROFILE": "dev"},
        "watchNamespaces": [namespace],
    }


def password(cluster: Cluster, namespace: str) -> str:
    secret = cluster.get("secret", "samjobs-postgres", "-n", namespace)
    return base64.b64decode(secret["data"]["password"]).decode()


def left(cluster: Cluster, namespace: str) -> set[str]:
    """What there is of the release in its namespace."""
    kinds = "deployments,statefulsets,services,configmaps,secrets,serviceaccounts,roles,rolebindings,pvc"
    found = cluster.get(kinds, "-n", namespace, "-l", f"app.kubernetes.io/instance={RELEASE}")
    return {f"{one['kind'].lower()}/{one['metadata']['name']}" for one in found["items"]}


@pytest.mark.timeout(1200, func_only=True)
def test_a_trial_is_installed_checked_changed_removed_and_installed_again(cluster: Cluster, each_helm: Helm) -> None:
    with cluster.namespace() as namespace:

        def helm(*arguments: str, given: str = "") -> str:
            return each_helm.run(*arguments, "--namespace", namespace, given=given, kubeconfig=cluster.kubeconfig)

        def install() -> str:
            # The CRDs may be those of a release that was in another namespace.
            arguments = ("install", RELEASE, str(CHART), "--take-ownership", "--values", "-", *TIMEOUT)
            return helm(*arguments, given=yaml.safe_dump(values(cluster, namespace)))

        told = install()
        assert "WARNING: embedded.enabled" in told
        assert f"kubectl -n {namespace} get samjobs --watch" in told
        helm("test", RELEASE, "--timeout=3m")
        first = password(cluster, namespace)

        change = ("--reuse-values", "--set", "settings.SAMJOBS_TENANT_CONCURRENCY=3")
        helm("upgrade", RELEASE, str(CHART), *change, *TIMEOUT)
        process = cluster.get("deployment", "samjobs-controller", "-n", namespace)["spec"]["template"]["spec"]
        assert {"name": "SAMJOBS_TENANT_CONCURRENCY", "value": "3"} in process["containers"][0]["env"]
        assert password(cluster, namespace) == first

        for _ in range(2):
            helm("uninstall", RELEASE, *TIMEOUT)
            assert left(cluster, namespace) == KEPT
            assert cluster.get("crd", "samjobs.samjobs.dev", "samworkerpools.samjobs.dev")["items"]
            install()
            assert password(cluster, namespace) == first
            helm("test", RELEASE, "--timeout=3m")
        helm("uninstall", RELEASE, *TIMEOUT)
