"""What every pod may do: nothing but its work. Of the chart in all its shapes, and of the workers that the controller
makes.

That an API server takes them in namespaces of the `restricted` level is tested in tests/charts/test_api_server.py; that
the images run on a read-only root without capabilities in tests/containers.
"""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from controller.kube.deployment import manifest
from controller.kube.installation import WorkerDefaults
from samjobs.errors import InvalidInput
from samjobs.pool import PoolSpec
from tests.charts.conftest import helm, helm4
from tests.charts.helm import Helm
from tests.charts.sets import SETS
from tests.controller.kube.test_deployment import INSTALLATION

__all__ = ["helm", "helm4"]

KNOWN_WORKLOADS = {"Deployment", "StatefulSet", "Pod"}
TOKENS = {"controller", "api"}  # components that speak to Kubernetes
VOLUMES = {"emptyDir", "configMap", "secret", "persistentVolumeClaim", "projected", "downwardAPI"}
POOLS: list[dict[str, Any]] = [
    {},
    {"engine": "opencv"},
    {"model": {"claim": {"name": "weights"}}, "cache": {"claim": "cache"}},
    {"volumes": [{"claim": "photos", "mountPath": "/photos"}], "podLabels": {"a": "b"}, "podAnnotations": {"c": "d"}},
]


def excesses(owner: str, pod: dict[str, Any], *, token: bool) -> Iterator[str]:
    """What a pod may do that it need not."""
    context = pod["securityContext"]
    if context.get("runAsNonRoot") is not True or not context.get("runAsUser"):
        yield f"{owner}: may be root: {context}"
    if context.get("seccompProfile") != {"type": "RuntimeDefault"}:
        yield f"{owner}: may call all of the kernel"
    for field in ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace"):
        if pod.get(field):
            yield f"{owner}: {field}"
    if pod.get("hostUsers"):
        yield f"{owner}: hostUsers"
    if not token and pod.get("automountServiceAccountToken") is not False:
        yield f"{owner}: has a token of its service account"
    for volume in pod.get("volumes", ()):
        if not VOLUMES & volume.keys():
            yield f"{owner}: volume {volume}"
    for container in (*pod.get("initContainers", ()), *pod["containers"], *pod.get("ephemeralContainers", ())):
        yield from _excesses_of(f"{owner}, {container['name']}", container)


def _excesses_of(owner: str, container: dict[str, Any]) -> Iterator[str]:
    context = container["securityContext"]
    allowed = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    for field, wanted in allowed.items():
        if context.get(field) != wanted:
            yield f"{owner}: {field} is {context.get(field)}"
    for field in context.keys() - allowed.keys():
        yield f"{owner}: {field} is {context[field]}"
    for port in container.get("ports", ()):
        if "hostPort" in port:
            yield f"{owner}: hostPort"
    if "memory" not in container.get("resources", {}).get("limits", {}):
        yield f"{owner}: memory without a limit"


@pytest.mark.parametrize("name", SETS)
def test_no_pod_of_the_chart_may_do_more_than_its_work(helm: Helm, name: str) -> None:
    rendered = helm.template(SETS[name])
    templated = {one["kind"] for one in rendered.objects if "template" in one.get("spec", {})} | {"Pod"}
    assert templated <= KNOWN_WORKLOADS, "another kind of workload: let `Rendered.pods` see it"
    found = []
    for owner, pod in rendered.pods():
        found += excesses(owner, pod, token=owner.rpartition("-")[2] in TOKENS)
    assert found == []


@pytest.mark.parametrize("name", SETS)
def test_no_address_with_a_password_is_outside_of_a_secret(helm: Helm, name: str) -> None:
    rendered = helm.template(SETS[name])
    words = [
        str(value)
        for secret in rendered.of("Secret")
        for key, value in secret.get("stringData", {}).items()
        if key in ("password", "database-url", "redis-url", "url", "secret")
    ]
    text = yaml.safe_dump_all([one for one in rendered.objects if one["kind"] != "Secret"])
    assert not [word for word in words if word in text]


@pytest.mark.parametrize("pool", POOLS)
def test_no_worker_may_do_more_than_its_work(pool: dict[str, Any]) -> None:
    worker = WorkerDefaults.model_validate(INSTALLATION)
    spec = {"resources": {"limits": {"memory": "8Gi"}}} | pool
    made = manifest("gpu", "photos", "uid", PoolSpec.model_validate(spec), 1, worker)
    pod = made["spec"]["template"]["spec"]
    assert list(excesses("worker", pod, token=False)) == []
    written = [one for one in pod["containers"][0]["volumeMounts"] if not one.get("readOnly")]
    assert {one["mountPath"] for one in written} <= {"/tmp", "/dev/shm", "/cache", "/photos"}


@pytest.mark.parametrize(
    "pool",
    [
        {"securityContext": {"runAsUser": 0}},
        {"serviceAccountName": "cluster-admin"},
        {"hostNetwork": True},
        {"volumes": [{"hostPath": "/", "mountPath": "/host"}]},
        {"volumes": [{"claim": "a", "mountPath": "/host", "hostPath": "/"}]},
        {"containers": [{"image": "evil"}]},
        {"command": ["sh"]},
        {"env": [{"name": "X", "secret": {"name": "s", "key": "k", "namespace": "other"}}]},
        {"env": [{"name": "SAMJOBS_TENANT_PLACES", "value": "{'*': [/]}"}]},
        {"env": [{"name": "SAMJOBS_ALLOWED_HOSTS", "value": "0.0.0.0/0"}]},
        {"env": [{"name": "SAMJOBS_DENIED_NETWORKS", "value": ""}]},
        {"env": [{"name": "SAMJOBS_DATABASE_URL", "value": "postgresql://mine"}]},
        {"image": "evil/image:1"},
        {"podLabels": {"app.kubernetes.io/name": "other"}},
    ],
    ids=str,
)
def test_a_pool_cannot_ask_for_more(pool: dict[str, Any]) -> None:
    worker = WorkerDefaults.model_validate(INSTALLATION)
    with pytest.raises((InvalidInput, ValueError)):
        manifest("gpu", "photos", "uid", PoolSpec.model_validate(pool), 1, worker)
