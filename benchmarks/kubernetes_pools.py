"""Pools without workers, for `kubernetes.py`, each in a region of its own; and who watches their Deployments."""

import threading
import time
from types import TracebackType
from typing import Any, Self

import urllib3
from kubernetes import client, config, watch

from benchmarks.kubernetes_operator import PATIENCE_S, Place
from samjobs.client import Client
from samjobs.names import API_VERSION, GROUP, POOL_KIND, POOL_PLURAL, VERSION
from tests.waiting import until

_SCALING = {"minReplicas": 0, "maxReplicas": 1, "upCooldownSeconds": 0, "downCooldownSeconds": 0}


class Regions:
    """So many regions with a pool each, at zero."""

    COUNT = 6

    def __init__(self, place: Place) -> None:
        self.names = [f"region-{number}" for number in range(self.COUNT)]
        self._namespace = place.namespace
        self._api = config.new_client_from_config(str(place.api.kubeconfig))
        self._jobs = Client(place.database)
        self._replicas: dict[str, int] = {}  # by Deployment, as the watch tells
        self._told = threading.Condition()
        self._watch, self._ended = watch.Watch(), threading.Event()
        self._thread = threading.Thread(target=self._look, name="deployments", daemon=True)

    def __enter__(self) -> Self:
        pools = client.CustomObjectsApi(self._api)
        for region in self.names:
            spec = {"region": region, "engine": "opencv", "scaling": _SCALING}
            pool = {"apiVersion": API_VERSION, "kind": POOL_KIND, "metadata": {"name": region}, "spec": spec}
            pools.create_namespaced_custom_object(GROUP, VERSION, self._namespace, POOL_PLURAL, pool)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ended.set()
        self._watch.stop()
        self._jobs.close()

    def until_idle(self) -> None:
        """All Deployments are there, at zero."""
        until(lambda: self._counts() == [0] * self.COUNT, "no region has a worker", PATIENCE_S)

    def submitted_until_scaled(self, region: str) -> float:
        """Seconds from the submission of a job until the watcher sees that its region is to have a worker."""
        spec: dict[str, Any] = {
            "images": {"list": [{"image": "/photos/1.png"}]},
            "prompts": {"text": ["red"]},
            "output": {"uri": f"/results/{region}"},
            "engine": "opencv",
            "region": region,
            "dedupe": False,
        }
        began = time.monotonic()
        self._jobs.submit(spec)
        with self._told:
            scaled = self._told.wait_for(lambda: self._replicas[f"samworkers-{region}"] == 1, PATIENCE_S)
        assert scaled, f"{region} got no worker"
        return time.monotonic() - began

    def cancel_all(self) -> None:
        """So that no region needs a worker."""
        for job in self._jobs.list(active_only=True, limit=self.COUNT):
            self._jobs.cancel(job.id)

    def _counts(self) -> list[int]:
        with self._told:
            return [self._replicas.get(f"samworkers-{region}", -1) for region in self.names]

    def _look(self) -> None:
        listing = client.AppsV1Api(self._api).list_namespaced_deployment
        try:
            for event in self._watch.stream(listing, self._namespace):
                with self._told:
                    self._replicas[event["object"].metadata.name] = event["object"].spec.replicas
                    self._told.notify_all()
        except urllib3.exceptions.ProtocolError:
            if not self._ended.is_set():  # else: the API server went first
                raise
