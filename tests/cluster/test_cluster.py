"""The test cluster is a cluster: what other tests build on is seen to work here, on whichever cluster they use."""

from typing import Any

import pytest

from tests.cluster.client import Client
from tests.cluster.cluster import Cluster
from tests.cluster.node import GPUS
from tests.waiting import until

_RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}
_PERSON = {"runAsNonRoot": True, "runAsUser": 10001, "seccompProfile": {"type": "RuntimeDefault"}}
# Asks each host until it answers: a Service refuses as long as no pod is ready behind it.
_ASK = """
import sys, time, urllib.request
for host in sys.argv[1:]:
    for patience in range(300, -1, -1):
        try:
            print(host, urllib.request.urlopen(f"http://{host}", timeout=5).status)
            break
        except OSError:
            if not patience:
                raise
            time.sleep(0.2)
"""


def pod(name: str, image: str, *command: str, **more: Any) -> dict[str, Any]:
    """A pod that the restricted level admits; `more` goes into its only container."""
    container = {"name": "main", "image": image, "command": list(command), "securityContext": _RESTRICTED, **more}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "restartPolicy": "Never",
            "securityContext": _PERSON,
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
        },
    }


def wait_for(client: Client, namespace: str, name: str, phase: str = "Running") -> None:
    def there() -> bool:
        found = client.get("pod", name, f"--namespace={namespace}")
        assert phase == "Failed" or found["status"]["phase"] != "Failed", client.kubectl("logs", name, "-n", namespace)
        return bool(found["status"]["phase"] == phase)

    until(there, f"{name} is {phase}")


def test_a_pod_reaches_a_service_by_its_names(cluster: Cluster) -> None:
    serving = pod("web", cluster.images.controller, "python", "-m", "http.server", "8000", "--directory", "/app")
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8000}]},
    }
    with cluster.namespace() as namespace:
        names = ["web", f"web.{namespace}", f"web.{namespace}.svc.cluster.local"]
        asking = pod("asking", cluster.images.controller, "python", "-c", _ASK, *names)
        cluster.apply(serving, service, asking, namespace=namespace)
        wait_for(cluster, namespace, "asking", "Succeeded")
        said = cluster.kubectl("logs", "asking", f"--namespace={namespace}")
        assert [line.split() for line in said.splitlines()] == [[name, "200"] for name in names]


def test_a_command_runs_in_a_pod(cluster: Cluster) -> None:
    with cluster.namespace() as namespace:
        sleeping = pod("sleeping", cluster.images.controller, "python", "-c", "import time; time.sleep(600)")
        cluster.apply(sleeping, namespace=namespace)
        wait_for(cluster, namespace, "sleeping")
        said = cluster.kubectl("exec", "sleeping", f"--namespace={namespace}", "--", "id", "-u")
        assert said == "10001\n"


def test_there_are_four_gpus_and_a_fifth_pod_waits_for_one(cluster: Cluster) -> None:
    limits = {"limits": {"nvidia.com/gpu": "1"}}
    sleep = ("python", "-c", "import time; time.sleep(600)")
    names = [f"gpu-{number}" for number in range(GPUS + 1)]
    with cluster.namespace() as namespace:
        for name in names[:-1]:
            cluster.apply(pod(name, cluster.images.controller, *sleep, resources=limits), namespace=namespace)
        for name in names[:-1]:
            wait_for(cluster, namespace, name)
        cluster.apply(pod(names[-1], cluster.images.controller, *sleep, resources=limits), namespace=namespace)

        def why() -> str:
            conditions = cluster.get("pod", names[-1], f"--namespace={namespace}")["status"].get("conditions", [])
            return "".join(one.get("message", "") for one in conditions if one["type"] == "PodScheduled")

        until(lambda: "Insufficient nvidia.com/gpu" in why(), "the scheduler says why the fifth pod waits")


@pytest.mark.parametrize("group", [{}, {"fsGroup": 10001}], ids=["no group", "fsGroup"])
def test_a_claim_is_bound_and_a_user_without_rights_writes_to_it(cluster: Cluster, group: dict[str, int]) -> None:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    script = "import pathlib; path = pathlib.Path('/data/one'); path.write_text('kept'); print(path.read_text())"
    mounts = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    writing = pod("writing", cluster.images.controller, "python", "-c", script, **mounts)
    writing["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    writing["spec"]["securityContext"] = {**_PERSON, **group}
    with cluster.namespace() as namespace:
        cluster.apply(claim, writing, namespace=namespace)
        wait_for(cluster, namespace, "writing", "Succeeded")
        assert cluster.kubectl("logs", "writing", f"--namespace={namespace}") == "kept\n"


def test_the_api_server_comes_back_where_it_was(cluster: Cluster) -> None:
    if cluster.machine is None:
        pytest.skip("the API server of somebody else's cluster stays as it is")
    before = cluster.kubectl("get", "namespace", "default", "--output=jsonpath={.metadata.uid}")
    cluster.stop("kube-apiserver")
    assert "refused" in cluster.kubectl("get", "namespace", "default", check=False)
    cluster.start("kube-apiserver")
    assert cluster.kubectl("get", "namespace", "default", "--output=jsonpath={.metadata.uid}") == before


@pytest.mark.parametrize("store", ["postgres", "redis"])
def test_the_stores_run_as_a_chart_runs_the_official_images(cluster: Cluster, store: str) -> None:
    image = getattr(cluster.images, store)
    if store == "postgres":
        environment = {"POSTGRES_USER": "samjobs", "POSTGRES_DB": "jobs", "POSTGRES_PASSWORD": "of this test"}
        environment["PGDATA"] = "/data/pgdata"
        ask = ["psql", "--username=samjobs", "--dbname=jobs", "--tuples-only", "--no-align", "--command=SELECT 6 * 7"]
        ready, answer = ["pg_isready", "--username=samjobs", "--dbname=jobs", "--host=127.0.0.1"], "42\n"
        command = {"args": ["postgres", "-c", "shared_buffers=16MB"]}
    else:
        environment = {}
        ask, ready, answer = (
            ["redis-cli", "config", "get", "maxmemory-policy"],
            ["redis-cli", "ping"],
            "maxmemory-policy\nnoeviction\n",
        )
        command = {"command": ["redis-server", "--maxmemory-policy", "noeviction", "--dir", "/data"]}
    places = {"data": "/data", "run": "/var/run/postgresql", "tmp": "/tmp"}
    running = pod(
        store,
        image,
        env=[{"name": name, "value": value} for name, value in environment.items()],
        readinessProbe={"exec": {"command": ready}, "periodSeconds": 1},
        volumeMounts=[{"name": name, "mountPath": place} for name, place in places.items()],
        **command,
    )
    if store == "postgres":
        del running["spec"]["containers"][0]["command"]
    running["spec"]["volumes"] = [{"name": name, "emptyDir": {}} for name in places]
    running["spec"]["securityContext"] = {**_PERSON, "runAsUser": 999, "runAsGroup": 999, "fsGroup": 999}
    with cluster.namespace() as namespace:
        cluster.apply(running, namespace=namespace)
        cluster.kubectl("wait", f"--namespace={namespace}", "--for=condition=Ready", f"pod/{store}", "--timeout=120s")
        assert cluster.kubectl("exec", store, f"--namespace={namespace}", "--", *ask) == answer
