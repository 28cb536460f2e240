"""What does the controller remember of each SamJob between two looks?

Only what saves work: which spec was acted on, and which status stands there. Losing it costs one full look. By uid,
since a name may be given again.
"""

import hashlib
import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from samjobs import places
from samjobs.decisions.intake import Wish
from samjobs.errors import InvalidInput, describe
from samjobs.names import API_VERSION, JOB_KIND
from samjobs.spec import JobSpec, parse
from samjobs.storage.fence import Fence

log = logging.getLogger("controller")

LONGEST_FAULT = 2000  # characters


@dataclass
class Known:
    """A SamJob that was seen."""

    uid: UUID
    namespace: str
    name: str
    generation: int
    created_at: datetime
    wish: Wish | None = None  # None: the spec has a fault
    fault: str | None = None
    conditions: list[dict[str, Any]] = field(default_factory=list)  # as they stand in the object
    status: bytes = b""  # digest of what stands there
    told_as: object = None  # of which state of the row the status tells
    written_at: float = 0.0  # monotonic

    @property
    def manifest(self) -> dict[str, Any]:
        """What an Event needs of the object."""
        meta = {"namespace": self.namespace, "name": self.name, "uid": str(self.uid)}
        return {"apiVersion": API_VERSION, "kind": JOB_KIND, "metadata": meta}


class Objects:
    """All SamJobs that are there, as far as this process knows. Of one thread."""

    def __init__(self, fence: Fence | None = None) -> None:
        self.fence = fence or Fence()
        self._known: dict[UUID, Known] = {}
        self.due: set[UUID] = set()  # whose status may no longer be right

    def __iter__(self) -> Iterator[UUID]:
        return iter(self._known)

    def get(self, uid: UUID) -> Known | None:
        """What is known of it, or None."""
        return self._known.get(uid)

    def see(self, obj: Mapping[str, Any]) -> tuple[Known, JobSpec | None]:
        """Note an object as it was read; the spec where it was parsed just now, since it is new or another one."""
        meta = obj["metadata"]
        uid, generation = UUID(meta["uid"]), int(meta.get("generation", 0))
        standing = obj.get("status") or {}
        known = self._known.get(uid)
        spec = None
        if known is None or known.generation != generation:
            created_at = datetime.fromisoformat(meta["creationTimestamp"])
            fresh = Known(uid, meta["namespace"], meta["name"], generation, created_at)
            if known is None:
                fresh.conditions = conditions_of(standing)
            else:
                fresh.conditions, fresh.status, fresh.written_at = known.conditions, known.status, known.written_at
            known, spec = fresh, self.judge(fresh, obj)
            self._known[uid] = known
            self.due.add(uid)
        if (digest := digest_of(standing)) != known.status:
            known.status = digest  # whoever wrote it
            self.due.add(uid)
        return known, spec

    def judge(self, known: Known, obj: Mapping[str, Any]) -> JobSpec | None:
        """The object's spec, and its wish noted; None, and its fault noted, when no job can come of it."""
        try:
            # Each object is a job of its own, whatever else asks for the same.
            parsed = parse(JobSpec, {**(obj.get("spec") or {}), "dedupe": False}, "spec")
            spec = places.admitted(parsed, known.namespace, self.fence)
        except InvalidInput as error:
            refuse(known, str(error))
            return None
        except Exception as error:
            # Whatever it is: it must not keep the others from being taken in.
            log.exception("samjob=%s/%s cannot be judged", known.namespace, known.name)
            refuse(
                known, f"spec: the operator failed on it, see its log ({describe(error, 200)}): write it another way"
            )
            return None
        known.wish = Wish(spec.suspend, spec.priority, spec.ttl_seconds_after_finished)
        known.fault = None
        return spec

    def forget(self, uids: Iterable[UUID]) -> None:
        """These are no longer there."""
        for uid in list(uids):
            self._known.pop(uid, None)
            self.due.discard(uid)


def refuse(known: Known, fault: str) -> None:
    """Note that no job can come of this spec."""
    told = "; ".join(fault.splitlines())
    known.wish, known.fault = None, told if len(told) <= LONGEST_FAULT else told[: LONGEST_FAULT - 1] + "…"


def digest_of(status: Mapping[str, Any]) -> bytes:
    """Equal for equal statuses."""
    return hashlib.blake2b(json.dumps(status, sort_keys=True).encode(), digest_size=16).digest()


def conditions_of(status: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The conditions in it, as far as they are any: whoever may write a status may write anything."""
    found = status.get("conditions")
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
