"""What do the objects of Kubernetes say of a pool, its Deployment and its pods, in the words of the decisions?

Only reading: of what the API gives, what is decided by. A pod that is over (evicted, or its node was lost) is none: its
Deployment has made another in its place.
"""

import re
from dataclasses import dataclass

from controller.kube.connection import Object
from controller.kube.deployment import CONTAINER
from controller.kube.objects import conditions_of
from samjobs.decisions.poolstatus import Pod
from samjobs.pool import PoolSpec
from samjobs.spec import parse

Key = tuple[str, str]  # a pool's namespace and name

_OVER = ("Succeeded", "Failed")
_ON_ITS_WAY = ("ContainerCreating", "PodInitializing", "CrashLoopBackOff")
# As `samjobs/process.py` has the log's lines written: time, level, name.
_LOG_PREFIX = re.compile(r"^\S+ \S+ [A-Z]+ [\w.]+: ")


@dataclass(frozen=True)
class PoolObject:
    """A SamWorkerPool, as it was listed."""

    obj: Object

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return self.namespace, self.name

    @property
    def namespace(self) -> str:
        """Its namespace, where its workers are, too."""
        namespace: str = self.obj["metadata"]["namespace"]
        return namespace

    @property
    def name(self) -> str:
        """Its name."""
        name: str = self.obj["metadata"]["name"]
        return name

    @property
    def region(self) -> str:
        """The region that it asks for, whether the rest of its spec can be followed or not."""
        return str((self.obj.get("spec") or {}).get("region", ""))

    @property
    def uid(self) -> str:
        """What tells it from an earlier one of the same name."""
        uid: str = self.obj["metadata"]["uid"]
        return uid

    @property
    def generation(self) -> int:
        """Goes up with each change of its spec."""
        return int(self.obj["metadata"]["generation"])

    @property
    def age_order(self) -> tuple[str, str, str]:
        """The oldest first; of two that were made within a second, the first by name."""
        return self.obj["metadata"]["creationTimestamp"], self.namespace, self.name

    @property
    def leaving(self) -> bool:
        """It is being deleted."""
        return "deletionTimestamp" in self.obj["metadata"]

    @property
    def status(self) -> Object:
        """What was written of it; {} when nothing was."""
        status: Object = self.obj.get("status") or {}
        return status

    @property
    def conditions(self) -> list[Object]:
        """The conditions in it."""
        return conditions_of(self.status)

    def spec(self) -> PoolSpec:
        """What it asks for.

        Raises:
            InvalidInput: something that the schema cannot refuse is wrong.
        """
        return parse(PoolSpec, self.obj.get("spec") or {}, "spec")


@dataclass(frozen=True)
class Live:
    """A pool's Deployment, as it stands."""

    replicas: int
    generation: int  # goes up with each change of its spec, by whomever
    rolling: bool  # some of its pods are of an older template
    refused: str | None  # why no pods are made
    has_pods: bool  # or should have


def live(obj: Object) -> Live:
    """What a Deployment says."""
    meta, spec, told = obj["metadata"], obj["spec"], obj.get("status") or {}
    failure: Object = next((one for one in told.get("conditions") or () if one["type"] == "ReplicaFailure"), {})
    return Live(
        replicas=spec.get("replicas", 1),
        generation=meta["generation"],
        rolling=told.get("updatedReplicas", 0) < told.get("replicas", 0),
        refused=failure.get("message") if failure.get("status") == "True" else None,
        has_pods=bool(spec.get("replicas", 1) or told.get("replicas", 0) or told.get("terminatingReplicas", 0)),
    )


def pods_of(objects: list[Object]) -> tuple[Pod, ...]:
    """The pods that are not over."""
    return tuple(_pod(obj) for obj in objects if (obj.get("status") or {}).get("phase") not in _OVER)


def _pod(obj: Object) -> Pod:
    meta, told = obj["metadata"], obj.get("status") or {}
    conditions = {one["type"]: one for one in told.get("conditions") or ()}
    scheduled = conditions.get("PodScheduled", {})
    container: Object = next((one for one in told.get("containerStatuses") or () if one["name"] == CONTAINER), {})
    waiting = (container.get("state") or {}).get("waiting") or {}
    reason = waiting.get("reason")
    end = (container.get("state") or {}).get("terminated") or (container.get("lastState") or {}).get("terminated")
    return Pod(
        name=meta["name"],
        ready=conditions.get("Ready", {}).get("status") == "True",
        ending="deletionTimestamp" in meta,
        unscheduled=scheduled.get("message") if scheduled.get("status") == "False" else None,
        unstarted=f"{reason}: {waiting.get('message', '')}" if reason and reason not in _ON_ITS_WAY else None,
        exit_code=None if end is None else end["exitCode"],
        last_words="" if end is None else last_words(end),
    )


def last_words(end: Object) -> str:
    """Why a container ended: the last line of its log, without the log's own prefix; or what the kubelet says.

    >>> last_words({"reason": "Error", "message": "2026-11-28 07:00:00,1 CRITICAL worker: model: no such folder\\n"})
    'model: no such folder'
    >>> last_words({"reason": "OOMKilled", "message": ""})
    'OOMKilled: the container took more memory than resources.limits.memory allows'
    """
    if end.get("reason") == "OOMKilled":
        return "OOMKilled: the container took more memory than resources.limits.memory allows"
    lines = (end.get("message") or "").strip().splitlines()
    return _LOG_PREFIX.sub("", lines[-1]) if lines else end.get("reason") or ""
