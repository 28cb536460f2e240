"""In which order, and how often, does the controller look at Kubernetes?

    SamJobs → rows (intake), pools → Deployments, rows → statuses (project)

In a thread beside the pass, so that a Kubernetes API that is away delays no dispatch. A round comes when the table or
the watch told of a change, and each second as long as the loop goes on; in it the three parts come one after the
other, and the failure of one keeps none of the others from being done: one that lacks a right is tried again at growing
intervals, and told once. What a LIST costs is paid every `list_seconds`.

While Kubernetes is away nothing is asked of it but at growing intervals; while the database is away, pools are still
looked at: they hold.
"""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from uuid import UUID

from controller.background import Background
from controller.kube.api import Kube
from controller.kube.defaults import Defaults, compare_schemas
from controller.kube.events import Events
from controller.kube.installation import Installation
from controller.kube.intake import Intake
from controller.kube.objects import Objects
from controller.kube.pools import Pools
from controller.kube.project import Project
from controller.kube.wakes import Wakes
from controller.kube.watch import Watch
from controller.metrics import Metrics
from controller.outages import DATABASE, DATABASE_FAULTS, KUBERNETES, Outages
from samjobs.errors import AccessDenied, KubernetesUnavailable
from samjobs.names import JOB_PLURAL
from samjobs.settings import Settings
from samjobs.storage.fence import fence_for
from samjobs.store import Store

log = logging.getLogger("controller")

REST_S = 0.2  # between two rounds
POOLS_S = 5.0  # between two looks at the pools when nothing was told
LEAST_POOLS_S = 1.0
# After a fault of the code, what a LIST costs is paid this late.
FAULT_LIST_S = 10.0
# The watch tells of what exists when it starts within this.
WATCH_STARTS_S = 60.0
# More changes than this are read by one LIST.
MOST_READS = 100
# Every request ends by itself, so a part that is silent for longer hangs.
HUNG_S = 300.0


class Front:
    """The rounds of one controller, in a thread of their own.

    Raises:
        InvalidInput: no Kubernetes is known here.
    """

    def __init__(
        self, settings: Settings, installation: Installation, store: Store, outages: Outages, metrics: Metrics
    ) -> None:
        self._outages, self._metrics = outages, metrics
        self._thread = Background("kubernetes", self.round, rest_s=REST_S, outages=outages, metrics=metrics)
        self._list_s = installation.list_seconds
        self._stop = threading.Event()
        self._kube = Kube(installation, self._stop)
        events = Events(self._kube)
        self._wakes, objects = Wakes(), Objects(fence_for(settings))
        self.watch = Watch(installation.watch_namespaces, self._wakes, self.changed)
        self._defaults = Defaults(self._kube, installation)
        self._intake = Intake(self._kube, store, objects, metrics, installation.watch_namespaces, self._breathe)
        self._pools = Pools(self._kube, store, installation, settings, events, metrics)
        alive_within_s = settings.stale_job_timeout_seconds
        self._project = Project(
            self._kube, store, objects, events, metrics, alive_within_s=alive_within_s, beat=self._beat
        )
        self._parts = {"intake": self._take_in, "pools": self._see_to_pools, "project": self._project_rows}
        self._changed = threading.Event()
        self._list_at = time.monotonic()
        self._pools_at = self._list_at - POOLS_S
        self._watched_at = 0.0  # monotonic, by when the watch should have told of everything
        self._missed = 0  # LISTs in a row that found what the watch never told of
        self._alive_at = time.monotonic()

    @property
    def name(self) -> str:
        """The API server's address."""
        return self._kube.name

    def changed(self) -> None:
        """Let a round be done soon, since something changed. From any thread."""
        self._changed.set()
        self._thread.wake()

    def tick(self) -> None:
        """Let a round be done, since time goes on. From any thread."""
        self._thread.wake()

    def start(self) -> None:
        """Begin with the first round."""
        self._thread.start()
        self._thread.wake()

    def stop(self) -> None:
        """Ask both threads to end, the watch's and this one's after the part in hand. From any thread."""
        self._stop.set()
        self._thread.stop()
        self.watch.stop()

    def join(self, timeout_s: float) -> bool:
        """Whether the thread has ended within `timeout_s`."""
        return self._thread.join(timeout_s)

    def why_dead(self) -> str | None:
        """Why this process is better started anew; None: all is well."""
        silent_s = time.monotonic() - self._alive_at
        if silent_s > HUNG_S:
            return f"nothing was done for Kubernetes for {silent_s:.0f} s"
        if self._missed >= 2:
            return "the watch of Kubernetes objects is silent: two LISTs in a row found objects that it never told of"
        return None

    def round(self, stop: threading.Event) -> bool:
        """One round; True when there is more to do at once."""
        self._beat()
        if self._outages.pause_s(KUBERNETES) > 0:
            return False
        more = False
        try:
            for name, part in self._parts.items():
                if not stop.is_set():
                    more |= self._ran(name, part, stop)
        except KubernetesUnavailable as error:
            self._outages.failed(KUBERNETES, error)
            self._list_at = time.monotonic()
            more = False
        else:
            self._outages.fine(KUBERNETES)
        away = any(self._outages.away(one) for one in (KUBERNETES, *map(_server, self._parts)))
        self._metrics.up(KUBERNETES, not away and not self._kube.hides)
        self._beat()
        return more

    def _ran(self, name: str, part: Callable[[threading.Event], bool], stop: threading.Event) -> bool:
        if self._outages.pause_s(_server(name)) > 0:
            return False
        try:
            more = part(stop)
        except AccessDenied as error:
            self._outages.failed(_server(name), error)
            # After the pause it is done anew: what was told may be lost, and nothing else shows whether it may again.
            if part == self._take_in:
                self._list_at = time.monotonic()
            self._changed.set()
        except DATABASE_FAULTS as error:
            self._outages.failed(DATABASE, error)
            self._list_at = time.monotonic()  # what the watch told is gone
        except KubernetesUnavailable:
            raise
        except Exception:
            log.exception("kubernetes: a part of the round failed; the next round goes on")
            self._metrics.unexpected("kubernetes")
            # So is it here; but a fault that stays must not list everything again and again.
            if not 0 < self._list_at - time.monotonic() < FAULT_LIST_S:
                self._list_at = time.monotonic() + FAULT_LIST_S
        else:
            self._outages.fine(_server(name))
            return more
        return False

    def _take_in(self, _stop: threading.Event) -> bool:
        if self._outages.away(DATABASE):
            return False
        began = time.monotonic()
        news = self._intake.news(one for one in self._wakes.take() if one.plural == JOB_PLURAL)
        if began >= self._list_at or len(news) > MOST_READS:
            self._defaults.keep()
            self._judge_watch(self._intake.look_at_all())
            self._list_at = began + self._list_s
        elif news:
            self._intake.look_at(news)
        self._metrics.did("intake", time.monotonic() - began, self._intake.did())
        return False

    def _judge_watch(self, old: frozenset[UUID]) -> None:
        """Start the watch after the first LIST, which shows that the kinds are there; later compare the two."""
        if not self.watch.started:
            with suppress(AccessDenied):  # told by the part that needs it
                next(self._kube.pools(), None)
            compare_schemas(self._kube)
            self.watch.start()
            self._watched_at = time.monotonic() + WATCH_STARTS_S
            return
        missed = self._wakes.never_told(old) if time.monotonic() > self._watched_at else frozenset()
        self._missed = self._missed + 1 if missed else 0
        if missed:
            log.error("the watch never told of %d SamJobs that a LIST found, e.g. %s", len(missed), next(iter(missed)))

    def _see_to_pools(self, stop: threading.Event) -> bool:
        since_s = time.monotonic() - self._pools_at
        if since_s < LEAST_POOLS_S or (since_s < POOLS_S and not self._changed.is_set()):
            return False
        self._changed.clear()
        began = self._pools_at = time.monotonic()
        self._pools.round(stop)
        self._metrics.did("pools", time.monotonic() - began, {})
        return False

    def _project_rows(self, stop: threading.Event) -> bool:
        if self._outages.away(DATABASE):
            return False
        began = time.monotonic()
        more = self._project.round(stop)
        self._metrics.did("project", time.monotonic() - began, self._project.did())
        return more

    def _breathe(self) -> None:
        """Between two objects of thousands that are taken in: workers for the first ones need not wait for the last."""
        self._beat()
        if self._changed.is_set():
            self._ran("pools", self._see_to_pools, self._stop)

    def _beat(self) -> None:
        self._alive_at = time.monotonic()


def _server(part: str) -> str:
    """By which name an outage tells of a part that Kubernetes refuses."""
    return f"{KUBERNETES}/{part}"
