"""Which pods go first when there are to be fewer?

Kubernetes chooses, and takes the cheapest by this annotation among those that are ready. A busy worker is dear, an idle
one costs nothing. Costs are only read when pods go, so they are written just before that, and only where they differ:
an API server is not told of every shard.
"""

from collections.abc import Collection, Iterable
from typing import Any

from controller.kube.api import Kube
from samjobs.names import DELETION_COST

BUSY, IDLE = "100", "0"


def price(kube: Kube, namespace: str, pods: Iterable[dict[str, Any]], busy: Collection[str]) -> None:
    """Write the costs that differ from what stands there.

    Args:
        pods: as the API gives them.
        busy: names of the pods whose worker has a shard in hand.

    Raises:
        KubernetesUnavailable, AccessDenied: see `Kube`; nothing may be taken away then.
    """
    for pod in pods:
        meta = pod["metadata"]
        if "deletionTimestamp" in meta:
            continue
        wanted = BUSY if meta["name"] in busy else IDLE
        if (meta.get("annotations") or {}).get(DELETION_COST, IDLE) != wanted:
            kube.patch_pod(namespace, meta["name"], {"metadata": {"annotations": {DELETION_COST: wanted}}})
