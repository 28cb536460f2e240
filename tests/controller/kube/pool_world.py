"""Pools on a real API server and a real Postgres. There is no node: the test makes the pods, and plays the workers."""

from pathlib import Path
from threading import Event
from typing import Any
from uuid import UUID, uuid4

import psycopg
import yaml

from controller.kube.api import Kube
from controller.kube.deployment import deployment_name, pool_labels
from controller.kube.events import Events
from controller.kube.installation import Installation
from controller.kube.pools import Pools
from controller.metrics import Metrics
from samjobs.names import API_VERSION, DELETION_COST, POOL_KIND
from samjobs.settings import Settings
from samjobs.store import connect, pools, workers
from samjobs.store.rows import Pool, WorkerState
from tests.cluster.client import Client

CRDS = Path(__file__).parents[3] / "crds"
IMAGE = "samjobs-worker:1"


def install_crds(api: Client) -> None:
    """Let the API server know the kinds; again is as well."""
    for path in sorted(CRDS.glob("*.yaml")):
        for crd in yaml.safe_load_all(path.read_text()):
            api.apply(crd)
            api.kubectl("wait", "--for=condition=Established", f"crd/{crd['metadata']['name']}", "--timeout=60s")


class PoolWorld:
    """One namespace, one database, and the rounds of one controller."""

    def __init__(self, api: Client, namespace: str, database: str) -> None:
        self.api, self.namespace = api, namespace
        self.installation = Installation.model_validate(
            {"namespace": namespace, "watchNamespaces": [namespace], "worker": {"image": IMAGE}}
        )
        self.settings = Settings(database_url=database)
        self.store = connect(database)
        self.stop = Event()
        self.kube = Kube(self.installation, self.stop)
        self.metrics = Metrics()
        self.pools = self.fresh()

    def fresh(self) -> Pools:
        """A controller that has just started."""
        return Pools(self.kube, self.store, self.installation, self.settings, Events(self.kube), self.metrics)

    def restart(self) -> None:
        """Another controller takes over, and remembers nothing."""
        self.pools = self.fresh()

    def close(self) -> None:
        self.kube.close()
        self.store.close()

    def round(self) -> None:
        self.pools.round(self.stop)

    def metric(self, name: str, **labels: str) -> float | None:
        """What is told of the pool `spot`."""
        return self.metrics.registry.get_sample_value(name, {"region": "default", "pool": "spot", **labels})

    # Objects.

    def pool(self, name: str = "spot", /, **spec: Any) -> None:
        """Make or change a pool; fields as in YAML."""
        manifest = {"apiVersion": API_VERSION, "kind": POOL_KIND, "metadata": {"name": name}, "spec": spec}
        self.api.apply(manifest, namespace=self.namespace)

    def kubectl(self, *arguments: str) -> str:
        return self.api.kubectl(*arguments, f"--namespace={self.namespace}")

    def get(self, *what: str) -> Any:
        return self.api.get(*what, f"--namespace={self.namespace}")

    def deployment(self, pool: str = "spot") -> dict[str, Any] | None:
        found = self.kube.list_deployments()
        return next((one for one in found if one["metadata"]["name"] == deployment_name(pool)), None)

    def replicas(self, pool: str = "spot") -> int:
        found = self.deployment(pool)
        assert found is not None, f"pool {pool} has no Deployment"
        count: int = found["spec"]["replicas"]
        return count

    def status(self, pool: str = "spot") -> dict[str, Any]:
        found: dict[str, Any] = self.get("samworkerpool", pool).get("status", {})
        return found

    def condition(self, kind: str, pool: str = "spot") -> dict[str, Any]:
        [found] = [one for one in self.status(pool)["conditions"] if one["type"] == kind]
        return dict(found)

    def events(self, reason: str) -> list[str]:
        """The messages of the Events with this reason."""
        return [one["message"] for one in self.get("events")["items"] if one["reason"] == reason]

    def requests(self, verb: str, resource: str) -> list[dict[str, Any]]:
        """The controller's own requests of this namespace, oldest first."""
        found = self.api.requests(verb=verb, resource=resource, namespace=self.namespace)
        return [one for one in found if one["userAgent"].startswith("samjobs/")]

    # What the Deployment's controller, the kubelets and the workers would do.

    def pods(self, *names: str, pool: str = "spot", ready: bool = True, **status: Any) -> None:
        """Make pods, and let a kubelet have told of them; and let the Deployment have counted them."""
        for name in names:
            meta = {"name": name, "labels": pool_labels(pool)}
            spec = {"containers": [{"name": "worker", "image": IMAGE, **RESTRICTED}], **RESTRICTED_POD}
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
            self.api.apply(pod, namespace=self.namespace)
            self.tell(name, ready=ready, **status)
        self.count(pool)

    def tell(self, pod: str, *, ready: bool = False, **status: Any) -> None:
        """Let the kubelet, or the scheduler, tell of a pod."""
        conditions = [{"type": "Ready", "status": str(ready)}]
        self.patch_status("pod", pod, {"conditions": conditions, **status})

    def count(self, pool: str = "spot") -> None:
        """Let the Deployment's controller count the pods."""
        there = len(self.kube.pods(self.namespace, pool))
        counts = {"replicas": there, "updatedReplicas": there}
        self.patch_status("deployment", deployment_name(pool), counts)

    def patch_status(self, kind: str, name: str, status: dict[str, Any]) -> None:
        body = yaml.safe_dump({"status": status})
        self.kubectl("patch", kind, name, "--subresource=status", "--type=merge", f"--patch={body}")

    def worker(self, pod: str, state: WorkerState, pool: str = "spot") -> UUID:
        """Let the worker in a pod tell what it does."""
        incarnation = uuid4()
        with self.store.begin() as conn:
            workers.register(conn, incarnation, pool=pool, region="default", node="node", pid=1, pod=pod)
            workers.set_state(conn, incarnation, state)
        return incarnation

    def idle(self, incarnation: UUID) -> None:
        """Its shard is done."""
        with self.store.begin() as conn:
            workers.set_state(conn, incarnation, WorkerState.READY)

    def settle(self) -> None:
        """Let what was committed outlive a crash of the tests' Postgres, which writes late."""
        with psycopg.connect(self.settings.database_url, autocommit=True) as conn:
            conn.execute("CHECKPOINT")

    def rows(self) -> list[Pool]:
        """What the table remembers of pools."""
        with self.store.read() as conn:
            return pools.listing(conn)

    def costs(self) -> dict[str, str | None]:
        """The deletion cost of each pod."""
        listed = self.get("pods")["items"]
        return {one["metadata"]["name"]: one["metadata"].get("annotations", {}).get(DELETION_COST) for one in listed}


RESTRICTED = {
    "securityContext": {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
}
RESTRICTED_POD = {"automountServiceAccountToken": False}
