"""How does the controller learn at once that somebody changed a SamJob or a pool? By kopf, which watches.

Kopf runs in a thread with a loop of its own and does nothing but tell which objects changed: no finalizer, no
annotation, no patch, no Event, no retries. Whoever is told reads the object itself. What kopf misses (objects that
vanish while its watch is broken) is found by the LIST of `intake.py`.

While the API is away it tries for ever, and in silence: the outage is told once, by who asks. Should its thread end for
any other reason, `ended` is set and the process is to end: a controller that sees nothing looks like one with nothing
to do.
"""

import asyncio
import itertools
import logging
import os
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any
from uuid import UUID

import kopf

from controller.kube.wakes import Wakes, Woken
from samjobs.names import GROUP, JOB_PLURAL, POOL_PLURAL, VERSION

log = logging.getLogger("controller")

_LEAVE_S = 10.0
_CLOSE_S = 0.25  # what the goodbye of a TLS connection takes, after its session is closed


class _Backoffs:
    """Seconds between tries, for ever. Iterated anew for each request."""

    def __iter__(self) -> Iterator[float]:
        return itertools.chain((0.5, 1, 2, 3, 5), itertools.repeat(10.0))


class Watch:
    """The watch.

    Args:
        namespaces: those to watch; () for all.
        wake: called from its thread after `wakes` was told something.
    """

    def __init__(self, namespaces: Collection[str], wakes: Wakes, wake: Callable[[], None]) -> None:
        self._namespaces = tuple(namespaces)
        self._wakes = wakes
        self._wake = wake
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watch", daemon=True)
        self.ended = threading.Event()

    @property
    def started(self) -> bool:
        """Whether it was started."""
        return self._thread.ident is not None

    def start(self) -> None:
        """Begin, once the kinds are known to the API: kopf looks for them but once."""
        # At its level it would tell of every try of every request during an outage.
        logging.getLogger("kopf").setLevel(logging.CRITICAL)
        self._thread.start()

    def stop(self) -> None:
        """End it, from any thread."""
        self._stopping.set()
        if self._loop is not None and self._stop is not None:
            with suppress(RuntimeError):  # its loop is closed: it has ended
                self._loop.call_soon_threadsafe(self._stop.set)
        if self.started:
            self._thread.join(_LEAVE_S)

    def _watch(self) -> None:
        try:
            asyncio.run(self._operate())
        except BaseException as error:
            self._failed(repr(error))
        finally:
            self.ended.set()

    def _failed(self, why: str) -> None:
        """Have the process end, unless it was going to."""
        if not self._stopping.is_set() and not self.ended.is_set():
            log.critical("the watch of Kubernetes objects ended: %s", why)
            self.ended.set()

    async def _operate(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        if self._stopping.is_set():
            return
        mine = asyncio.all_tasks()
        tasks = await kopf.spawn_tasks(
            registry=self._registry(),
            settings=_settings(),
            standalone=True,
            clusterwide=not self._namespaces,
            namespaces=self._namespaces,
            stop_flag=self._stop,
        )
        # Kopf ends when one of its tasks does, but may wait for another one for ever: said here, at once.
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        self._failed("; ".join(_ends(tasks)))
        try:
            await kopf.run_tasks(tasks, ignored=mine)
        finally:
            await asyncio.sleep(_CLOSE_S)

    def _registry(self) -> kopf.OperatorRegistry:
        registry = kopf.OperatorRegistry()
        kopf.on.login(registry=registry, errors=kopf.ErrorsMode.PERMANENT)(self._login)
        for plural in (JOB_PLURAL, POOL_PLURAL):
            kopf.on.event(GROUP, VERSION, plural, registry=registry, param=plural)(self._noticed)
        return registry

    def _login(self, **kwargs: Any) -> kopf.ConnectionInfo | None:
        """Asked again when the API no longer takes what this gave. Kopf would wait for ever after an error of it."""
        try:
            return _credentials(**kwargs)
        except Exception as error:
            self._failed(f"no credentials: {error!r}")
            raise

    async def _noticed(self, *, type: str | None, meta: kopf.Meta, param: str = "", **_: Any) -> None:  # noqa: A002
        told = Woken(
            plural=param,
            namespace=str(meta["namespace"]),
            name=str(meta["name"]),
            uid=UUID(meta["uid"]),
            generation=int(meta.get("generation", 0)),
            deleting="deletionTimestamp" in meta,
            deleted=type == "DELETED",
        )
        self._wakes.put(told)
        self._wake()


def _ends(tasks: Iterable["asyncio.Task[Any]"]) -> list[str]:
    """How those tasks ended that did."""
    return [f"{task.get_name()}: {task.exception()!r}" for task in tasks if task.done() and not task.cancelled()]


def _settings() -> kopf.OperatorSettings:
    """What a careful operator sets: nothing but the watch, and no wait without an end."""
    settings = kopf.OperatorSettings()
    settings.peering.standalone = True
    settings.scanning.disabled = True
    settings.posting.enabled = False
    settings.networking.request_timeout = 30
    settings.networking.connect_timeout = 10
    settings.networking.error_backoffs = _Backoffs()
    settings.networking.enforce_retry_after = True
    settings.watching.server_timeout = 300
    settings.watching.client_timeout = 330
    settings.watching.chunk_size = 500
    settings.watching.reconnect_backoff = 1.0  # seconds; each time it begins with a LIST
    settings.queueing.error_delays = (1, 2, 3, 5, 8, 13, 21, 34, 60)
    settings.execution.max_workers = 1
    settings.process.ultimate_exiting_timeout = 20
    return settings


def _credentials(**kwargs: Any) -> kopf.ConnectionInfo | None:
    """Those of the pod's service account, else of KUBECONFIG: as `connection.py` does."""
    host = os.environ.get("KUBERNETES_SERVICE_HOST")
    if not host or os.environ.get("KUBECONFIG"):
        return kopf.login_with_kubeconfig(**kwargs)
    found = kopf.login_with_service_account(**kwargs)
    port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    # By its address, as the official client: a cluster's DNS may be the next thing to fail.
    return found and replace(found, server=f"https://{f'[{host}]' if ':' in host else host}:{port}")
