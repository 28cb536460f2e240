"""What does a SamWorkerPool say of itself?

Counts, and why there are as many workers as there are: the scaler's own reason and words, unless something keeps
workers from working, which then goes first. Ready means that nothing does, so a pool at zero is ready, and so is one
whose workers still load; Available means that somebody could take work now.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from samjobs.decisions.conditions import Verdict, conditions
from samjobs.names import WEIGHTLESS_EXIT, Condition, Reason

Answer = tuple[Reason, str]


@dataclass(frozen=True)
class Pod:
    """A worker's pod."""

    name: str
    ready: bool = False
    ending: bool = False  # it was asked to end
    unscheduled: str | None = None  # why the scheduler finds no node for it
    unstarted: str | None = None  # why the kubelet cannot start it: image, secret, volume
    exit_code: int | None = None  # of its last end; None: it has not ended yet
    last_words: str = ""  # before that end


@dataclass(frozen=True)
class View:
    """A pool, and what became of it."""

    generation: int
    selector: str
    desired: int
    scaled: Answer  # why as many
    limited: bool | None  # more or fewer are wanted than may be; None: how many are wanted is not known
    refusal: Answer | None  # why its spec is not followed
    pods: tuple[Pod, ...]
    busy: int
    pods_refused: str | None = None  # why the API takes no pods of its Deployment: quota, admission


def status(view: View, earlier: Iterable[Mapping[str, Any]], at: datetime) -> dict[str, Any]:
    """The whole status of the pool.

    Args:
        earlier: the conditions that stand in the object.
        at: now.
    """
    there = [pod for pod in view.pods if not pod.ending]
    ready = sum(pod.ready for pod in there)
    why_not = trouble(view)
    reason, message = view.refusal or why_not or view.scaled
    verdicts = {
        Condition.READY: _ready(view, why_not),
        Condition.AVAILABLE: _available(view, ready, why_not),
        Condition.SCALING_LIMITED: _limited(view),
        Condition.MODEL_UNAVAILABLE: _flag(model_unavailable(view), "no worker lacks its model"),
        Condition.UNSCHEDULABLE: _flag(unschedulable(view), "no worker waits for a node"),
        Condition.STALLED: _flag(view.refusal, "the spec is followed"),
    }
    return {
        "observedGeneration": view.generation,
        "replicas": len(there),
        "readyReplicas": ready,
        "busyReplicas": view.busy,
        "desiredReplicas": view.desired,
        "selector": view.selector,
        "reason": reason.value,
        "message": message,
        "conditions": conditions(verdicts, earlier, view.generation, at),
    }


def model_unavailable(view: View) -> Answer | None:
    """The weights or the engine's libraries cannot be had."""
    pod = _first(view, lambda pod: pod.exit_code == WEIGHTLESS_EXIT)
    return None if pod is None else (Reason.MODEL_UNAVAILABLE, pod.last_words or "a worker cannot have its model")


def unstarted(view: View) -> Answer | None:
    """The kubelet cannot start the container."""
    pod = _first(view, lambda pod: pod.unstarted is not None)
    return None if pod is None else (Reason.WORKER_UNSTARTED, pod.unstarted or "")


def failing(view: View) -> Answer | None:
    """Workers start and end by an error."""
    pod = _first(view, lambda pod: pod.exit_code not in (None, 0))
    if pod is None:
        return None
    return Reason.WORKER_FAILS, f"exit code {pod.exit_code}: {pod.last_words or 'nothing was said'}"


def refused(view: View) -> Answer | None:
    """The API takes no pods."""
    return None if view.pods_refused is None else (Reason.PODS_REFUSED, view.pods_refused)


def unschedulable(view: View) -> Answer | None:
    """There is no node for a pod."""
    pod = _first(view, lambda pod: pod.unscheduled is not None)
    return None if pod is None else (Reason.UNSCHEDULABLE, pod.unscheduled or "")


# What only a person can change goes before what another node may bring.
TROUBLES: tuple[Callable[[View], Answer | None], ...] = (model_unavailable, unstarted, failing, refused, unschedulable)


def trouble(view: View) -> Answer | None:
    """What keeps workers from working, first of all."""
    return next((answer for rule in TROUBLES if (answer := rule(view)) is not None), None)


def _first(view: View, wanted: Callable[[Pod], bool]) -> Pod | None:
    """A pod that is to stay, is not ready, and is `wanted`: what a worker died of before it became ready is over."""
    return next((pod for pod in view.pods if not pod.ready and not pod.ending and wanted(pod)), None)


def _ready(view: View, why_not: Answer | None) -> Verdict:
    if why := view.refusal or why_not:
        return Verdict("False", *why)
    return Verdict("True", Reason.AS_ASKED, "the Deployment is as the pool asks")


def _available(view: View, ready: int, why_not: Answer | None) -> Verdict:
    if ready:
        return Verdict("True", Reason.WORKERS_READY, "a worker is ready")
    if view.desired == 0:
        return Verdict("True", Reason.NONE_WANTED, "no worker is wanted")
    return Verdict("False", *(view.refusal or why_not or (Reason.WORKERS_LOADING, "no worker is ready yet")))


def _limited(view: View) -> Verdict:
    if view.limited is None:
        return Verdict("Unknown", *view.scaled)
    return Verdict("True" if view.limited else "False", *view.scaled)


def _flag(answer: Answer | None, otherwise: str) -> Verdict:
    return Verdict("False", Reason.AS_ASKED, otherwise) if answer is None else Verdict("True", *answer)
