"""How does a Deployment become what it should be, without a busy worker dying of it?

Before pods may go, because there are to be fewer or because the template is another one, the busy ones are made dear
(`controller.kube.costs`); only when that has been written, the Deployment is. It is applied only when it differs from
what this process applied last, or when somebody else has changed it since, which is put back and told.
"""

import logging
import time
from collections.abc import Collection
from dataclasses import dataclass

from controller.kube import costs
from controller.kube.api import Kube
from controller.kube.connection import Object
from controller.kube.events import Events
from controller.kube.poolview import Key, Live, PoolObject
from samjobs.errors import AccessDenied, InvalidInput, describe
from samjobs.names import Reason

log = logging.getLogger("controller")

# A Deployment that the API refused, by its schema, a quota or somebody's admission, is tried again after this.
REFUSED_S = 30.0


@dataclass(frozen=True)
class _Applied:
    """What this process last wrote, and what became of it."""

    manifest: Object
    generation: int | None  # of the Deployment after that: another one means that somebody changed its spec
    refused: str | None = None
    at: float = 0.0  # monotonic


class Rollout:
    """The Deployments that one controller applies. For one thread."""

    def __init__(self, kube: Kube, events: Events) -> None:
        self._kube, self._events = kube, events
        self._applied: dict[Key, _Applied] = {}

    def apply(
        self, pool: PoolObject, wanted: Object, standing: Live | None, pods: list[Object], busy: Collection[str]
    ) -> str | None:
        """Let the pool's Deployment be `wanted`.

        Args:
            standing: the Deployment as it is; None: there is none.
            pods: as the API gives them.
            busy: names of the pods whose worker has a shard in hand.

        Returns:
            Why the API refuses it; None: it does not.

        Raises:
            KubernetesUnavailable: nothing is known of the outcome; the next round does it again.
        """
        before = self._applied.get(pool.key)
        same = before is not None and before.manifest == wanted
        if before is not None and same and before.refused is not None and time.monotonic() - before.at < REFUSED_S:
            return before.refused
        foreign = standing is not None and before is not None and before.generation not in (None, standing.generation)
        to_write = standing is None or foreign or not same or (before is not None and before.refused is not None)
        if standing is not None and (standing.rolling or (to_write and _may_end(before, wanted, standing, foreign))):
            costs.price(self._kube, pool.namespace, pods, busy)
        if not to_write:
            return None
        try:
            made = self._kube.apply_deployment(wanted)
        except (AccessDenied, InvalidInput) as error:
            self._applied[pool.key] = _Applied(wanted, None, describe(error), time.monotonic())
            return describe(error)
        if made is None:  # its namespace goes
            self._applied.pop(pool.key, None)
            return None
        generation = made["metadata"]["generation"]
        self._applied[pool.key] = _Applied(wanted, generation)
        if before is not None and standing is not None and foreign and generation != standing.generation:
            self._tell_put_back(pool, before, standing)
        return None

    def forget(self, there: Collection[Key], hidden: Collection[str]) -> None:
        """No pools are there but these, and what there may be in the namespaces `hidden`."""
        for key in self._applied.keys() - there:
            if key[0] not in hidden:
                del self._applied[key]

    def _tell_put_back(self, pool: PoolObject, before: _Applied, standing: Live) -> None:
        was = before.manifest["spec"]["replicas"]
        if standing.replicas == was:
            told = "its Deployment was changed by somebody else and is put back: change the pool instead"
        else:
            told = (
                f"its Deployment was scaled from {was} to {standing.replicas} by somebody else and is put back: scale"
                f" the pool instead (kubectl scale samworkerpool {pool.name} --replicas={standing.replicas})"
            )
        log.warning("pool=%s/%s %s", *pool.key, told)
        self._events.tell(pool.obj, "Warning", Reason.PUT_BACK, told)


def _may_end(before: _Applied | None, wanted: Object, standing: Live, foreign: bool) -> bool:
    """Whether writing `wanted` may take pods away."""
    if before is None or foreign or wanted["spec"]["replicas"] < standing.replicas:
        return True
    return bool(before.manifest["spec"]["template"] != wanted["spec"]["template"])
