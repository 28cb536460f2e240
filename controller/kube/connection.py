"""How is a question put to Kubernetes, and what does its answer mean here?

The only place that knows the official client. Of it the connection is used: configuration, tokens and their refresh,
TLS.

- `Gone`: the object is not there, or is another one; or its namespace is being deleted.
- `KubernetesUnavailable`: no answer, a server's fault, too many requests for too long, or credentials that are not
  taken now. Asking again later is right.
- `Unwritten`: a write was answered by a fault of the server, as when a webhook in its way fails. It may concern this
  object alone, so whoever has others goes on with them, and asks again later.
- `AccessDenied`: the role lacks a verb; `InvalidInput`: the object is refused. Both name the object.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

import urllib3
from kubernetes import client, config

from samjobs import __version__
from samjobs.errors import AccessDenied, ErrorClass, InvalidInput, KubernetesUnavailable, SamjobsError, describe
from samjobs.kubernetes import configuration

CONNECT_TIMEOUT_S, READ_TIMEOUT_S = 10.0, 30.0
# A server that asks for patience is obeyed, so often and so long at most.
_MOST_WAITS = 3
_LONGEST_WAIT_S = 30.0

JSON = "application/json"

Object = dict[str, Any]


class Gone(Exception):
    """The object is not there, or is another one."""


class Unwritten(SamjobsError):
    """The server could not write this object, now."""

    error_class = ErrorClass.TRANSIENT


class Connection:
    """To the API server of this pod, or of KUBECONFIG. Not to be shared between threads.

    Args:
        stop: who waits because the server asked for it, stops waiting when this is set.

    Raises:
        InvalidInput: neither a service account nor a KUBECONFIG is there, or it cannot be read.
    """

    def __init__(self, stop: threading.Event | None = None) -> None:
        self._stop = stop or threading.Event()
        self._client = client.ApiClient(configuration())
        self.host: str = self._client.configuration.host  # the server's address
        self._clock = (datetime.fromtimestamp(0, UTC), 0.0)

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
            self.ask("GET", "/version")
        at, heard = self._clock
        return at + timedelta(seconds=int(time.monotonic() - heard))

    def ask(self, method: str, path: str, body: Any = None, kind: str = JSON, **query: str) -> Object:
        """One request, again when the server asks for that.

        Raises:
            Gone, KubernetesUnavailable, Unwritten, AccessDenied, InvalidInput: see above.
        """
        for _ in range(_MOST_WAITS):
            try:
                return self._answer(self._sent(method, path, body, kind, query))
            except client.ApiException as error:
                wait_s = _patience(error)
                if wait_s is None:
                    raise _translated(error, method, path) from None
                if self._stop.wait(wait_s):
                    break
        raise KubernetesUnavailable(f"Kubernetes {self.host}: too many requests for now, at {method} {path}")

    def _sent(self, method: str, path: str, body: Any, kind: str, query: Mapping[str, str]) -> Any:
        headers = {"Accept": JSON, "Content-Type": kind, "User-Agent": f"samjobs/{__version__}"}
        rest = self._client.rest_client

        def send() -> Any:
            self._client.update_params_for_auth(headers, [], ["BearerToken"])
            return rest.request(
                method,
                self.host + path,
                query_params=list(query.items()),
                headers=headers,
                body=body,
                _preload_content=False,
                _request_timeout=(CONNECT_TIMEOUT_S, READ_TIMEOUT_S),
            )

        return _once_more(send, self.host)

    def _answer(self, response: Any) -> Object:
        try:
            told: Object = json.loads(response.data)
        except (urllib3.exceptions.HTTPError, ValueError) as error:
            raise KubernetesUnavailable(f"Kubernetes {self.host}: an answer broke off: {describe(error)}") from None
        with suppress(KeyError, TypeError, ValueError):  # a proxy in between may send another one, or none
            self._clock = (parsedate_to_datetime(response.headers["Date"]).replace(tzinfo=UTC), time.monotonic())
        return told


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


def _translated(error: client.ApiException, method: str, path: str) -> Exception:
    told = _told(error)
    message = f"{method} {path}: {error.status} {told.get('message') or error.reason}"
    causes = (told.get("details") or {}).get("causes") or ()
    if error.status in (404, 409) or any(cause.get("reason") == "NamespaceTerminating" for cause in causes):
        return Gone(message)
    if error.status == 403:
        return AccessDenied(f"Kubernetes refuses this service account {message}")
    # A server-side apply of fields that the kind does not have is answered by 500, and would be for ever.
    untyped = error.status == 500 and "failed to create typed patch object" in (told.get("message") or "")
    if error.status in (400, 413, 415, 422) or untyped:
        return InvalidInput(f"Kubernetes refuses {message}")
    if error.status >= 500 and method != "GET":
        return Unwritten(f"Kubernetes cannot do now {message}")
    return KubernetesUnavailable(f"Kubernetes cannot answer now: {message}")


def _told(error: client.ApiException) -> Object:
    """The `Status` object in the answer; {} where it holds none."""
    try:
        told = json.loads(error.body or b"{}")
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}
