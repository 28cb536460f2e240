"""How does the controller talk to Kubernetes, and what do its answers mean here?

The only place that knows the official client. Of it the connection is used: configuration, tokens and their refresh,
TLS. Objects go in and out as the API writes them, as dicts: all kinds have the same addresses, and nothing is lost in
between.

- An object that is gone is no error: reads give None, writes give None or False. So is one of a namespace that is
  being deleted, and one that was made anew under the same name.
- `KubernetesUnavailable`: no answer, a server's fault, too many requests for too long, or credentials that are not
  taken now. Asking again later is right.
- `AccessDenied`: the role lacks a verb; `InvalidInput`: the object is refused. Both name the object.

Not to be shared between threads.
"""

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote

import urllib3
from kubernetes import client, config

from controller.kube.installation import Installation
from samjobs import __version__
from samjobs.errors import AccessDenied, InvalidInput, KubernetesUnavailable, describe
from samjobs.names import API_VERSION, FIELD_MANAGER, JOB_PLURAL, POOL_LABEL, POOL_PLURAL

CONNECT_TIMEOUT_S, READ_TIMEOUT_S = 10.0, 30.0
CHUNK = 500  # objects of one answer to a LIST
# A server that asks for patience is obeyed, so often and so long at most.
_MOST_WAITS = 3
_LONGEST_WAIT_S = 30.0

_JSON = "application/json"
_MERGE = "application/merge-patch+json"
_JSON_PATCH = "application/json-patch+json"
_APPLY = "application/apply-patch+yaml"

Object = dict[str, Any]


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

WORKERS = "app.kubernetes.io/name=samjobs,app.kubernetes.io/component=worker"


class Kube:
    """The API server, as far as the controller needs it.

    Args:
        stop: who waits because the server asked for it, stops waiting when this is set.

    Raises:
        InvalidInput: neither a service account nor a KUBECONFIG is there, or it cannot be read.
    """

    def __init__(self, installation: Installation, stop: threading.Event | None = None) -> None:
        self._namespaces = installation.watch_namespaces
        self._stop = stop or threading.Event()
        self._client = client.ApiClient(_configuration())
        self._host: str = self._client.configuration.host
        self._clock = (datetime.fromtimestamp(0, UTC), 0.0)

    @property
    def name(self) -> str:
        """The server's address."""
        return self._host

    def close(self) -> None:
        """End all connections."""
        self._client.rest_client.pool_manager.clear()
        self._client.close()

    def now(self) -> datetime:
        """The API server's clock, to the second, as of its last answer: what Kubernetes' own times are by.

        Raises:
            KubernetesUnavailable: it never answered.
        """
        if self._clock[1] == 0.0:
            self._ask("GET", "/version")
        at, heard = self._clock
        return at + timedelta(seconds=int(time.monotonic() - heard))

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
        return self._written("DELETE", JOBS.path(namespace, name), options, _JSON) is not None

    def apply_pool(self, manifest: Object) -> Object | None:
        """Make a SamWorkerPool be as `manifest` says, in the fields that it names; the object, or None."""
        return self._apply(POOLS, manifest)

    # Workers.

    def get_deployment(self, namespace: str, name: str) -> Object | None:
        """The Deployment of this name, or None."""
        return self._read(DEPLOYMENTS.path(namespace, name))

    def list_deployments(self) -> Iterator[Object]:
        """All Deployments of workers in the watched namespaces, in chunks. Their `kind` is not told."""
        return self._list(DEPLOYMENTS, labelSelector=WORKERS)

    def apply_deployment(self, manifest: Object) -> Object | None:
        """Make a Deployment be as `manifest` says, in the fields that it names, whoever else wrote them.

        Returns:
            The Deployment; None when its namespace is gone or being deleted.
        """
        return self._apply(DEPLOYMENTS, manifest)

    def pods(self, namespace: str, pool: str) -> list[Object]:
        """The pods of a pool. Their `kind` is not told."""
        return list(self._pages(PODS.path(namespace), labelSelector=f"{WORKERS},{POOL_LABEL}={pool}"))

    def patch_pod(self, namespace: str, name: str, body: Mapping[str, Any]) -> Object | None:
        """Merge `body` into a pod; the pod, or None when it is gone."""
        return self._written("PATCH", PODS.path(namespace, name), body, _MERGE, fieldManager=FIELD_MANAGER)

    # Events and what else there is.

    def create_event(self, event: Object) -> bool:
        """Put a new Event (core/v1) into its namespace. False: one of that name is there, or its namespace is gone."""
        return self._written("POST", EVENTS.path(event["metadata"]["namespace"]), event, _JSON) is not None

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
        for namespace in self._namespaces or (None,):
            yield from self._pages(resource.path(namespace), **query)

    def _pages(self, path: str, **query: str) -> Iterator[Object]:
        more = ""
        while True:
            try:
                page = self._ask("GET", path, limit=str(CHUNK), **({"continue": more} if more else {}), **query)
            except _Gone as error:
                raise KubernetesUnavailable(f"the CRDs of samjobs are not installed: {error}") from None
            yield from page["items"]
            more = page["metadata"].get("continue", "")
            if not more:
                return

    def _read(self, path: str) -> Object | None:
        try:
            return self._ask("GET", path)
        except _Gone:
            return None

    def _apply(self, resource: Resource, manifest: Object) -> Object | None:
        meta = manifest["metadata"]
        path = resource.path(meta["namespace"], meta["name"])
        return self._written("PATCH", path, manifest, _APPLY, fieldManager=FIELD_MANAGER, force="true")

    def _written(self, method: str, path: str, body: Any, kind: str, **query: str) -> Object | None:
        try:
            return self._ask(method, path, body, kind, **query)
        except _Gone:
            return None

    def _ask(self, method: str, path: str, body: Any = None, kind: str = _JSON, **query: str) -> Object:
        """One request, again when the server asks for that.

        Raises:
            _Gone: 404, 409, or the namespace is being deleted.
            KubernetesUnavailable, AccessDenied, InvalidInput: see above.
        """
        for _ in range(_MOST_WAITS):
            try:
                return self._answer(self._sent(method, path, body, kind, query))
            except client.ApiException as error:
                wait_s = _patience(error)
                if wait_s is None:
                    raise _translated(error, f"{method} {path}") from None
                if self._stop.wait(wait_s):
                    break
        raise KubernetesUnavailable(f"Kubernetes {self._host}: too many requests for now, at {method} {path}")

    def _sent(self, method: str, path: str, body: Any, kind: str, query: Mapping[str, str]) -> Any:
        headers = {"Accept": _JSON, "Content-Type": kind, "User-Agent": f"samjobs/{__version__}"}
        rest = self._client.rest_client

        def send() -> Any:
            self._client.update_params_for_auth(headers, [], ["BearerToken"])
            return rest.request(
                method,
                self._host + path,
                query_params=list(query.items()),
                headers=headers,
                body=body,
                _preload_content=False,
                _request_timeout=(CONNECT_TIMEOUT_S, READ_TIMEOUT_S),
            )

        return _once_more(send, self._host)

    def _answer(self, response: Any) -> Object:
        try:
            told: Object = json.loads(response.data)
        except (urllib3.exceptions.HTTPError, ValueError) as error:
            raise KubernetesUnavailable(f"Kubernetes {self._host}: an answer broke off: {describe(error)}") from None
        with suppress(KeyError, TypeError, ValueError):  # a proxy in between may send another one, or none
            self._clock = (parsedate_to_datetime(response.headers["Date"]).replace(tzinfo=UTC), time.monotonic())
        return told


class _Gone(Exception):
    """The object is not there, or is another one."""


def _configuration() -> Any:
    found = client.Configuration()
    try:
        if os.environ.get("KUBERNETES_SERVICE_HOST") and not os.environ.get("KUBECONFIG"):
            config.load_incluster_config(client_configuration=found)
        else:
            # By name: the library would take what KUBECONFIG was when it was imported.
            config.load_kube_config(config_file=os.environ.get("KUBECONFIG"), client_configuration=found)
    except (config.ConfigException, OSError) as error:
        raise InvalidInput(
            f"no Kubernetes is known: {describe(error)}: run in a pod with a service account's token, or let KUBECONFIG"
            " name a file"
        ) from None
    found.retries = False
    return found


def _once_more(send: Callable[[], Any], host: str) -> Any:
    """What `send` gives. A connection that the server closed just then, as at its restart, costs one more try: every
    request here may be done twice."""
    for last in (False, True):
        try:
            return send()
        except urllib3.exceptions.ProtocolError as error:
            if last:
                raise KubernetesUnavailable(f"Kubernetes {host} does not answer: {describe(error, 300)}") from None
        except (urllib3.exceptions.HTTPError, OSError, config.ConfigException) as error:
            raise KubernetesUnavailable(f"Kubernetes {host} does not answer: {describe(error, 300)}") from None
    raise AssertionError("the last try returns or raises")


def _patience(error: client.ApiException) -> float | None:
    """For how many seconds the server wants to be left alone, when that is what it says."""
    if error.status not in (429, 503):
        return None
    asked = (error.headers or {}).get("Retry-After", "")
    return min(float(asked), _LONGEST_WAIT_S) if asked.isdecimal() else None


def _translated(error: client.ApiException, what: str) -> Exception:
    told = _told(error)
    message = f"{what}: {error.status} {told.get('message') or error.reason}"
    causes = (told.get("details") or {}).get("causes") or ()
    if error.status in (404, 409) or any(cause.get("reason") == "NamespaceTerminating" for cause in causes):
        return _Gone(message)
    if error.status == 403:
        return AccessDenied(f"Kubernetes refuses this service account {message}")
    # A server-side apply of fields that the kind does not have is answered by 500, and would be for ever.
    untyped = error.status == 500 and "failed to create typed patch object" in (told.get("message") or "")
    if error.status in (400, 413, 415, 422) or untyped:
        return InvalidInput(f"Kubernetes refuses {message}")
    return KubernetesUnavailable(f"Kubernetes cannot answer now: {message}")


def _told(error: client.ApiException) -> Object:
    """The `Status` object in the answer; {} where it holds none."""
    try:
        told = json.loads(error.body or b"{}")
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}
