"""What is told to people at an object (`kubectl describe`), without burying it?

One Event for what is the same: its name follows from the object, the reason and the message, so that a second telling
counts the first one up, also after a restart. What is told again within `REST_S` is counted here and written later: a
round may tell what it sees each time.
"""

import hashlib
import logging
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Literal

from controller.kube.api import Kube
from controller.kube.connection import Unwritten
from samjobs.errors import AccessDenied, InvalidInput, storable
from samjobs.names import FIELD_MANAGER

log = logging.getLogger("controller")

REST_S = 300.0
_REMEMBERED = 10_000  # Events, each some 200 bytes here
_LONGEST_NAME, _LONGEST_MESSAGE = 200, 1000  # the API takes 253 and 1024


@dataclass
class _Told:
    at: float  # monotonic, of the last writing
    unwritten: int = 0


class Events:
    """Tells Events. One for each thread."""

    def __init__(self, kube: Kube, rest_s: float = REST_S) -> None:
        self._kube = kube
        self._rest_s = rest_s
        self._told: OrderedDict[str, _Told] = OrderedDict()

    def tell(self, obj: dict[str, Any], kind: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        """Tell of an object (with its apiVersion, kind and metadata). An Event that is refused is logged, no more.

        Args:
            reason: a word in CamelCase, of few.
            message: for people; without counts and times that change, which would make each telling a new Event.

        Raises:
            KubernetesUnavailable: the API does not answer.
        """
        message = storable(message)[:_LONGEST_MESSAGE]
        name = _name(obj["metadata"], reason, message)
        told = self._told.get(name)
        if told is not None and time.monotonic() - told.at < self._rest_s:
            told.unwritten += 1
            return
        try:
            self._write(obj, name, kind, reason, message, 1 + (told.unwritten if told else 0))
        except (AccessDenied, InvalidInput, Unwritten) as error:
            log.warning("event %s at %s is not told: %s", reason, obj["metadata"]["name"], error)
        self._told[name] = _Told(time.monotonic())
        self._told.move_to_end(name)
        while len(self._told) > _REMEMBERED:
            self._told.popitem(last=False)

    def _write(self, obj: dict[str, Any], name: str, kind: str, reason: str, message: str, times: int) -> None:
        meta = obj["metadata"]
        at = self._kube.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"namespace": meta["namespace"], "name": name},
            "involvedObject": {
                "apiVersion": obj["apiVersion"],
                "kind": obj["kind"],
                "namespace": meta["namespace"],
                "name": meta["name"],
                "uid": meta["uid"],
            },
            "type": kind,
            "reason": reason,
            "message": message,
            "firstTimestamp": at,
            "lastTimestamp": at,
            "count": times,
            "source": {"component": FIELD_MANAGER},
            "reportingComponent": FIELD_MANAGER,
        }
        if self._kube.create_event(event):
            return
        standing = self._kube.get_event(meta["namespace"], name)
        if standing is not None:  # else its namespace is gone
            counted = {"count": (standing.get("count") or 0) + times, "lastTimestamp": at}
            self._kube.patch_event(meta["namespace"], name, counted)


def _name(meta: dict[str, Any], reason: str, message: str) -> str:
    same = hashlib.blake2b("\0".join((meta["uid"], reason, message)).encode(), digest_size=8).hexdigest()
    return f"{meta['name'][:_LONGEST_NAME].rstrip('.-')}.{same}"
