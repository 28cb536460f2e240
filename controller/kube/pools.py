"""How do pools become workers?

One round: gather all pools, their Deployments and pods, and what the table says of demand and of who is busy; decide
per pool, by `samjobs.decisions.scaling`; keep the decision, and carry it out. Objects are written only when they are to
change, so a round with nothing to do costs a few reads.

- While the database is away nothing is known: every pool keeps its number, and says so.
- A region has one pool, the oldest. What a refused pool had stays as it is: a spelling error ends no worker. One that
  asks for what is not allowed, and never had workers, keeps no region from a younger one.
- The Deployment of a pool that was deleted goes by its owner reference, and its workers drain.
"""

import logging
import threading
from dataclasses import dataclass
from typing import Any

from controller.kube.api import DEPLOYMENTS, Kube
from controller.kube.connection import Unwritten
from controller.kube.deployment import deployment_name, manifest, pool_labels, selector
from controller.kube.events import Events
from controller.kube.installation import Installation
from controller.kube.poolfacts import Facts, Table
from controller.kube.poolview import Key, Live, PoolObject, live, pods_of
from controller.kube.rollout import Rollout
from controller.metrics import Metrics, PoolSize
from samjobs.decisions import poolstatus, scaling
from samjobs.decisions.poolstatus import Pod
from samjobs.errors import AccessDenied, InvalidInput, describe
from samjobs.names import POOL_PLURAL, Reason
from samjobs.pool import PoolSpec
from samjobs.settings import Settings
from samjobs.store import Store
from samjobs.store.rows import Pool

log = logging.getLogger("controller")

Refusal = tuple[Reason, str]


@dataclass(frozen=True)
class _Seen:
    """A pool, and what belongs to it."""

    pool: PoolObject
    live: Live | None  # its Deployment
    objects: list[dict[str, Any]]  # its pods, as the API gives them
    pods: tuple[Pod, ...]
    busy: frozenset[str]  # names of pods


@dataclass(frozen=True)
class _Accepted:
    """A pool that is followed."""

    spec: PoolSpec
    manifest: dict[str, Any]  # of its Deployment, without a worker yet


class Pools:
    """The rounds of one controller. For one thread."""

    def __init__(
        self,
        kube: Kube,
        store: Store,
        installation: Installation,
        settings: Settings,
        events: Events,
        metrics: Metrics,
    ) -> None:
        self._kube, self._events, self._worker = kube, events, installation.worker
        self._metrics = metrics
        self._sizes: list[PoolSize] = []  # of this round
        self._watched = frozenset(installation.watch_namespaces)
        self._table = Table(store, settings)
        self._rollout = Rollout(kube, events)
        self._listed: list[PoolObject] = []  # in the last round
        self._faults: dict[Key, str] = {}  # that were logged, and last

    def round(self, stop: threading.Event) -> None:
        """See to all pools once; to none more once `stop` is set.

        Raises:
            KubernetesUnavailable: the API does not answer; the next round goes on.
            DatabaseUnavailable: a decision could not be kept, so it was not carried out.
        """
        found = [PoolObject(obj) for obj in self._kube.pools()]
        hidden = self._kube.denied(POOL_PLURAL)
        # Those last seen where nothing may be listed now keep their regions.
        found += [pool for pool in self._listed if pool.namespace in hidden]
        self._listed = listed = sorted(found, key=lambda pool: pool.age_order)
        pools = [pool for pool in listed if not pool.leaving]
        deployments = {_key(obj): obj for obj in self._kube.list_deployments()} if pools else {}
        unknown = self._kube.denied(DEPLOYMENTS.plural)  # whether a Deployment is there
        owners: dict[str, PoolObject] = {}
        standing = {pool.key: deployments.get((pool.namespace, deployment_name(pool.name))) for pool in pools}
        stands = {pool.key: standing[pool.key] is not None or pool.namespace in unknown for pool in pools}
        judged = [(pool, self._judged(pool, stands[pool.key], owners)) for pool in pools]
        facts = self._table.look(owners)
        self._sizes = []
        for pool, verdict in judged:
            if stop.is_set():
                return
            if pool.namespace in hidden or pool.namespace in unknown:
                continue  # told by `api.py`
            try:
                self._see_to(self._gather(pool, standing[pool.key], facts), verdict, facts)
            except (AccessDenied, InvalidInput, Unwritten) as error:
                self._say(pool, describe(error))
            else:
                self._faults.pop(pool.key, None)
        self._metrics.pools(self._sizes)
        there = {pool.key for pool in listed}
        self._rollout.forget(there, hidden)
        self._table.forget(there, self._watched, hidden)

    def _gather(self, pool: PoolObject, standing: dict[str, Any] | None, facts: Facts) -> _Seen:
        now = None if standing is None else live(standing)
        objects = self._kube.pods(*pool.key) if now is not None and now.has_pods else []
        pods = pods_of(objects)
        busy = facts.busy_among(pool.name, (pod.name for pod in pods if not pod.ending))
        return _Seen(pool, now, objects, pods, busy)

    def _judged(self, pool: PoolObject, stands: bool, owners: dict[str, PoolObject]) -> _Accepted | Refusal:
        """The pool's spec and Deployment, or why there is none to follow. Who is first asked about a region gets it.

        Args:
            stands: it has a Deployment, whose workers may be at work in its region.
        """
        try:
            spec = pool.spec()
        except InvalidInput as error:
            return Reason.INVALID_SPEC, describe(error)
        try:
            wanted = manifest(pool.name, pool.namespace, pool.uid, spec, 0, self._worker)
        except InvalidInput as error:
            if stands:
                owners.setdefault(spec.region, pool)
            return Reason.INVALID_SPEC, describe(error)
        owner = owners.setdefault(spec.region, pool)
        if owner is not pool:
            return (
                Reason.REGION_TAKEN,
                f"spec.region: {spec.region} is worked by the older pool {owner.namespace}/{owner.name}: give another"
                " region, or delete that pool",
            )
        return _Accepted(spec, wanted)

    def _see_to(self, seen: _Seen, judged: _Accepted | Refusal, facts: Facts) -> None:
        if not isinstance(judged, _Accepted):
            there = [pod for pod in seen.pods if not pod.ending]
            sizes = {"current": len(there), "ready": sum(pod.ready for pod in there), "busy": len(seen.busy)}
            self._sizes.append(PoolSize(seen.pool.region, seen.pool.name, judged[0], sizes))
            self._tell(seen, None, judged, facts)
            return
        scale = self._scale(seen, judged.spec, facts)
        judged.manifest["spec"]["replicas"] = scale.replicas
        fault = self._rollout.apply(seen.pool, judged.manifest, seen.live, seen.objects, seen.busy)
        self._tell(seen, scale, (Reason.INVALID_SPEC, fault) if fault else None, facts)

    def _scale(self, seen: _Seen, spec: PoolSpec, facts: Facts) -> scaling.Scale:
        """Decide how many, and keep what the next decision has to know."""
        pool, there = seen.pool, [pod for pod in seen.pods if not pod.ending]
        row = facts.rows.get(pool.key)
        # What was decided, not what stands: a Deployment that somebody else has scaled says nothing.
        replicas = row.desired if row is not None else 0 if seen.live is None else seen.live.replicas
        current = scaling.Current(replicas, ready=sum(pod.ready for pod in there), busy=len(seen.busy))
        demand, speed = facts.demand.get(spec.region), facts.speed.get(spec.region)
        memory = scaling.Memory() if row is None else row.memory
        scale = scaling.desired(demand, spec.scaling, spec.replicas, current, speed, memory, facts.at)
        about = {"region": spec.region, "engine": spec.engine}
        self._table.keep(Pool.of(*pool.key, **about, current=current, speed=speed, scale=scale))
        sizes = {"desired": scale.replicas, "current": len(there), "ready": current.ready, "busy": current.busy}
        limits = {"minimum": spec.scaling.min_replicas, "maximum": spec.scaling.max_replicas}
        self._sizes.append(PoolSize(spec.region, pool.name, scale.reason, sizes | limits))
        if scale.replicas != replicas:
            log.info("pool=%s/%s replicas=%d reason=%s %s", *pool.key, scale.replicas, scale.reason, scale.message)
            self._events.tell(pool.obj, "Normal", scale.reason, scale.message)
        return scale

    def _tell(self, seen: _Seen, scale: scaling.Scale | None, refusal: Refusal | None, facts: Facts) -> None:
        """Write the status where it differs, and tell of trouble when it begins."""
        pool, now = seen.pool, seen.live
        if scale is None:
            assert refusal is not None, "a pool that is not refused is decided on"
            desired, scaled, limited = 0 if now is None else now.replicas, refusal, None
        else:
            desired, scaled = scale.replicas, (scale.reason, scale.message)
            limited = None if scale.wanted is None else scale.limited
        view = poolstatus.View(
            generation=pool.generation,
            selector=selector(pool_labels(pool.name)),
            desired=desired,
            scaled=scaled,
            limited=limited,
            refusal=refusal,
            pods=seen.pods,
            busy=len(seen.busy),
            pods_refused=None if now is None else now.refused,
        )
        status = poolstatus.status(view, pool.conditions, facts.at or self._kube.now())
        if status == pool.status:
            return
        trouble = refusal or poolstatus.trouble(view)
        if trouble is not None and trouble[0].value != pool.status.get("reason"):
            self._events.tell(pool.obj, "Warning", *trouble)
            log.warning("pool=%s/%s reason=%s %s", *pool.key, *trouble)
        self._kube.set_status(POOL_PLURAL, pool.namespace, pool.name, pool.uid, status)

    def _say(self, pool: PoolObject, fault: str) -> None:
        """Log a fault once, however often it is met."""
        if self._faults.get(pool.key) != fault:
            self._faults[pool.key] = fault
            log.error("pool=%s/%s %s", *pool.key, fault)


def _key(obj: dict[str, Any]) -> Key:
    return obj["metadata"]["namespace"], obj["metadata"]["name"]
