"""What does the controller ask of Kubernetes?

Objects go in and out as the API writes them, as dicts: all kinds have the same addresses, and nothing is lost in
between. What answers mean, and which errors come of them, says `connection.py`; but an object that is gone is no error:
reads give None, writes give None or False. So is one of a namespace that is being deleted, and one that was made anew
under the same name.
"""

import logging
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote

from controller.kube.connection import JSON, Connection, Gone, Object
from controller.kube.deployment import WORKER_LABELS, pool_labels, selector
from controller.kube.installation import Installation
from samjobs.errors import AccessDenied, InvalidInput, KubernetesUnavailable
from samjobs.names import API_VERSION, FIELD_MANAGER, JOB_PLURAL, POOL_PLURAL

log = logging.getLogger("controller")

CHUNK = 500  # objects of one answer to a LIST

_MERGE = "application/merge-patch+json"
_JSON_PATCH = "application/json-patch+json"
_APPLY = "application/apply-patch+yaml"


@dataclass(frozen=True)
class Resource:
    """A kind of objects, by its address."""

    prefix: str
    plural: str

    def path(self, namespace: str | None = None, name: str | None = None, *more: str) -> str:
        """The address of all objects, of a namespace's, or of one and what belongs to it."""
        parts = [self.prefix]
        if namespace is not None:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        if name is not None:
            parts += [quote(name, safe=""), *more]
        return "/".join(parts)


JOBS = Resource(f"/apis/{API_VERSION}", JOB_PLURAL)
POOLS = Resource(f"/apis/{API_VERSION}", POOL_PLURAL)
DEPLOYMENTS = Resource("/apis/apps/v1", "deployments")
PODS = Resource("/api/v1", "pods")
EVENTS = Resource("/api/v1", "events")
CRDS = Resource("/apis/apiextensions.k8s.io/v1", "customresourcedefinitions")
_BY_PLURAL = {one.plural: one for one in (JOBS, POOLS)}


class Kube:
    """The API server, as far as the controller needs it. Not to be shared between threads.

    Args:
        stop: who waits because the server asked for it, stops waiting when this is set.

    Raises:
        InvalidInput: neither a service account nor a KUBECONFIG is there, or it cannot be read.
    """

    def __init__(self, installation: Installation, stop: threading.Event | None = None) -> None:
        self._namespaces = installation.watch_namespaces
        self._connection = Connection(stop)
        self._denied: dict[str, frozenset[str]] = {}  # by plural name

    @property
    def name(self) -> str:
        """The server's address."""
        return self._connection.host

    def close(self) -> None:
        """End all connections."""
        self._connection.close()

    def now(self) -> datetime:
        """The API server's clock, to the second, as of its last answer: what Kubernetes' own times are by.

        Raises:
            KubernetesUnavailable: it never answered.
        """
        return self._connection.now()

    def denied(self, plural: str) -> frozenset[str]:
        """The watched namespaces that the last complete LIST of this kind had to leave out: what was not shown of them
        may well be there.

        Args:
            plural: `names.JOB_PLURAL`, `names.POOL_PLURAL` or "deployments".
        """
        return self._denied.get(plural, frozenset())

    @property
    def hides(self) -> bool:
        """Whether a LIST of any kind had to leave a namespace out."""
        return any(self._denied.values())

    # SamJobs and pools.

    def jobs(self) -> Iterator[Object]:
        """All SamJobs of the watched namespaces, in chunks."""
        return self._list(JOBS)

    def pools(self) -> Iterator[Object]:
        """All SamWorkerPools of the watched namespaces, in chunks."""
        return self._list(POOLS)

    def get_job(self, namespace: str, name: str) -> Object | None:
        """The SamJob of this name, or None."""
        return self._read(JOBS.path(namespace, name))

    def get_pool(self, namespace: str, name: str) -> Object | None:
        """The SamWorkerPool of this name, or None."""
        return self._read(POOLS.path(namespace, name))

    def set_status(self, plural: str, namespace: str, name: str, uid: str, status: Mapping[str, Any]) -> Object | None:
        """Replace the whole status of the object that has this uid, whatever stands there.

        Args:
            plural: `names.JOB_PLURAL` or `names.POOL_PLURAL`.

        Returns:
            The object; None when it is gone or another one has its name.
        """
        patch = [
            {"op": "test", "path": "/metadata/uid", "value": uid},
            {"op": "add", "path": "/status", "value": status},
        ]
        path = _BY_PLURAL[plural].path(namespace, name, "status")
        try:
            return self._written("PATCH", path, patch, _JSON_PATCH, fieldManager=FIELD_MANAGER)
        except InvalidInput:
            # A failed test and a status that the schema refuses are the same answer: look which one it was.
            standing = self._read(_BY_PLURAL[plural].path(namespace, name))
            if standing is None or standing["metadata"]["uid"] != uid:
                return None
            raise

    def delete_job(self, namespace: str, name: str, uid: str) -> bool:
        """Delete the SamJob that has this uid. False when it is gone."""
        options = {"propagationPolicy": "Background", "preconditions": {"uid": uid}}
        return self._written("DELETE", JOBS.path(namespace, name), options, JSON) is not None

    def apply_pool(self, manifest: Object) -> Object | None:
        """Make a SamWorkerPool be as `manifest` says, in the fields that it names; the object, or None."""
        return self._apply(POOLS, manifest)

    # Workers.

    def list_deployments(self) -> Iterator[Object]:
        """All Deployments of workers in the watched namespaces, in chunks. Their `kind` is not told."""
        return self._list(DEPLOYMENTS, labelSelector=selector(WORKER_LABELS))

    def apply_deployment(self, manifest: Object) -> Object | None:
        """Make a Deployment be as `manifest` says, in the fields that it names, whoever else wrote them.

        Returns:
            The Deployment; None when its namespace is gone or being deleted.
        """
        return self._apply(DEPLOYMENTS, manifest)

    def pods(self, namespace: str, pool: str) -> list[Object]:
        """The pods of a pool. Their `kind` is not told."""
        return list(self._pages(PODS.path(namespace), labelSelector=selector(pool_labels(pool))))

    def patch_pod(self, namespace: str, name: str, body: Mapping[str, Any]) -> Object | None:
        """Merge `body` into a pod; the pod, or None when it is gone."""
        return self._written("PATCH", PODS.path(namespace, name), body, _MERGE, fieldManager=FIELD_MANAGER)

    # Events and what else there is.

    def create_event(self, event: Object) -> bool:
        """Put a new Event (core/v1) into its namespace. False: one of that name is there, or its namespace is gone."""
        return self._written("POST", EVENTS.path(event["metadata"]["namespace"]), event, JSON) is not None

    def get_event(self, namespace: str, name: str) -> Object | None:
        """The Event of this name, or None."""
        return self._read(EVENTS.path(namespace, name))

    def patch_event(self, namespace: str, name: str, body: Mapping[str, Any]) -> Object | None:
        """Merge `body` into an Event; the Event, or None when it is gone."""
        return self._written("PATCH", EVENTS.path(namespace, name), body, _MERGE)

    def get_crd(self, plural: str, group: str) -> Object | None:
        """The CustomResourceDefinition, or None."""
        return self._read(CRDS.path(None, f"{plural}.{group}"))

    # Requests.

    def _list(self, resource: Resource, **query: str) -> Iterator[Object]:
        """Raises AccessDenied where nothing may be listed; a namespace among others is left out, and that is logged."""
        if not self._namespaces:
            yield from self._pages(resource.path(), **query)
            return
        denied: dict[str, AccessDenied] = {}
        for namespace in self._namespaces:
            try:
                yield from self._pages(resource.path(namespace), **query)
            except AccessDenied as error:
                denied[namespace] = error
        if len(denied) == len(self._namespaces):
            raise denied[self._namespaces[0]]
        self._note_denied(resource, denied)

    def _note_denied(self, resource: Resource, denied: Mapping[str, AccessDenied]) -> None:
        """Keep which namespaces were left out, and log where one begins or ends to be."""
        before = self.denied(resource.plural)
        for namespace in denied.keys() - before:
            log.error(
                "namespace %s: its %s are not seen to, all else is, until this is granted: %s",
                namespace,
                resource.plural,
                denied[namespace],
            )
        for namespace in before - denied.keys():
            log.warning("namespace %s: its %s are seen to again", namespace, resource.plural)
        self._denied[resource.plural] = frozenset(denied)

    def _pages(self, path: str, **query: str) -> Iterator[Object]:
        more = ""
        while True:
            try:
                page = self._connection.ask(
                    "GET", path, limit=str(CHUNK), **({"continue": more} if more else {}), **query
                )
            except Gone as error:
                raise KubernetesUnavailable(f"the CRDs of samjobs are not installed: {error}") from None
            yield from page["items"]
            more = page["metadata"].get("continue", "")
            if not more:
                return

    def _read(self, path: str) -> Object | None:
        try:
            return self._connection.ask("GET", path)
        except Gone:
            return None

    def _apply(self, resource: Resource, manifest: Object) -> Object | None:
        meta = manifest["metadata"]
        path = resource.path(meta["namespace"], meta["name"])
        return self._written("PATCH", path, manifest, _APPLY, fieldManager=FIELD_MANAGER, force="true")

    def _written(self, method: str, path: str, body: Any, kind: str, **query: str) -> Object | None:
        try:
            return self._connection.ask(method, path, body, kind, **query)
        except Gone:
            return None
