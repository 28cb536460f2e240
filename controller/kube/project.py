"""Rows of the job table are told at their SamJobs: `.status`, and an Event at the end.

The table is the source. Each second the active rows that have an object are looked at, in brief; what differs from
what was told, what has ended since, and what the intake saw for the first time or saw changed by others, is worked out
and written where it differs from what stands there. A status is written at most once a second, and all of them take no
more than `ROUND_S` of a round.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import fields
from typing import Any
from uuid import UUID

from controller.kube.api import Kube
from controller.kube.connection import Unwritten
from controller.kube.events import Events
from controller.kube.intake import OUTAGES
from controller.kube.objects import Known, Objects, digest_of
from controller.metrics import Metrics
from samjobs.decisions import jobstatus
from samjobs.decisions.lifecycle import JobCounts
from samjobs.errors import AccessDenied, InvalidInput
from samjobs.names import JOB_PLURAL, Condition, Reason
from samjobs.states import JOB_TERMINAL
from samjobs.store import Store, fronts, now
from samjobs.store.rows import Job

log = logging.getLogger("controller")

LEAST_S = 1.0  # between two looks at the table, and between two writes of one status
ROUND_S = 1.0
AT_ONCE = 50  # statuses worked out from one reading of the table

_NORMAL: dict[Condition, bool] = {Condition.COMPLETE: True, Condition.FAILED: False}
_COUNTS = [one.name for one in fields(JobCounts)]


class Project:
    """Tells SamJobs of their rows.

    Args:
        alive_within_s: a worker that was not heard of for longer is gone.
        least_s: time between two looks at the table, and between two writes of one status.
        beat: called after each part, as a sign of life.
    """

    def __init__(
        self,
        kube: Kube,
        store: Store,
        objects: Objects,
        events: Events,
        metrics: Metrics,
        *,
        alive_within_s: float,
        beat: Callable[[], None],
        least_s: float = LEAST_S,
    ) -> None:
        self._kube = kube
        self._store = store
        self._objects = objects
        self._events = events
        self._metrics = metrics
        self._alive_within_s = alive_within_s
        self._beat = beat
        self._unwritten: dict[UUID, str] = {}  # why, as it was logged
        self._open: set[UUID] = set()  # whose row had not ended when it was last told of
        self._regions: frozenset[str] = frozenset()
        self._least_s = least_s
        self._looked_at = -least_s
        self._counts: Counter[str] = Counter()

    def round(self, stop: threading.Event) -> bool:
        """Write what has changed; True when more could have been written now."""
        began = time.monotonic()
        if began - self._looked_at >= self._least_s:
            self._look()
            self._looked_at = began
        writable = self._writable(began)
        while writable and not stop.is_set() and time.monotonic() - began < ROUND_S:
            self._write_all(writable[:AT_ONCE])
            writable = writable[AT_ONCE:]
        return bool(writable)

    def did(self) -> Counter[str]:
        """What was done since the last call, in words of its own."""
        counts, self._counts = self._counts, Counter()
        return counts

    def _look(self) -> None:
        """Find the objects whose rows have changed."""
        with self._store.read() as conn:
            at = now(conn)
            rows = fronts.active(conn)
            self._regions = fronts.regions_at_work(conn, within_s=self._alive_within_s)
        for row in rows:
            known = self._objects.get(row.uid)
            waits_for = jobstatus.waits_for(row.state, row.not_before, row.region in self._regions, at)
            if known is not None and known.told_as != (row.updated_at, waits_for):
                self._objects.due.add(row.uid)
        # A row may begin and end between two looks: what counts is what was told of it, not what was seen.
        self._open = {uid for uid in self._open if self._objects.get(uid) is not None}
        self._objects.due.update(self._open - {row.uid for row in rows})

    def _writable(self, at: float) -> list[UUID]:
        """What is due and was not written just now, the longest unwritten first."""
        due = [(known.written_at, uid) for uid in self._objects.due if (known := self._objects.get(uid)) is not None]
        return [uid for written_at, uid in sorted(due) if at - written_at >= self._least_s or written_at == 0.0]

    def _write_all(self, uids: Collection[UUID]) -> None:
        with self._store.read() as conn:
            at = now(conn)
            rows = fronts.by_uid(conn, uids)
        for uid in uids:
            known, job = self._objects.get(uid), rows.get(uid)
            if job is None or job.state in JOB_TERMINAL:
                self._open.discard(uid)
            else:
                self._open.add(uid)
            if known is not None and (job is not None or known.fault is not None):
                waits = None
                if job is not None:
                    waits = jobstatus.waits_for(job.state, job.not_before, job.region in self._regions, at)
                if not self._try(known, job, waits):
                    continue
            self._objects.due.discard(uid)
            self._beat()

    def _try(self, known: Known, job: Job | None, waits_for: Reason | None) -> bool:
        """Write one status where it differs; what is refused is left until the row or the object changes.

        Returns:
            False when the server could not, and is to be asked again.
        """
        try:
            status = _status(known, job, waits_for)
            # Told also where only the Event is lacking, because that is where the last try ended.
            if digest_of(status) == known.status or self._written(known, status):
                self._tell(known, status)
        except OUTAGES:
            raise
        except Unwritten as error:
            known.written_at = time.monotonic()
            if self._unwritten.get(known.uid) != str(error):
                self._unwritten[known.uid] = str(error)
                log.warning("samjob=%s/%s status: %s", known.namespace, known.name, error)
            return False
        except (InvalidInput, AccessDenied) as error:
            log.warning("samjob=%s/%s status: %s", known.namespace, known.name, error)
        except Exception:
            log.exception("samjob=%s/%s: its status could not be written", known.namespace, known.name)
            self._metrics.unexpected("project")
            return True
        self._unwritten.pop(known.uid, None)
        known.told_as = None if job is None else (job.updated_at, waits_for)
        return True

    def _written(self, known: Known, status: dict[str, Any]) -> bool:
        """Write a status; False when the object is gone."""
        obj = self._kube.set_status(JOB_PLURAL, known.namespace, known.name, str(known.uid), status)
        if obj is None:
            self._objects.forget([known.uid])
            return False
        known.written_at = time.monotonic()
        known.status = digest_of(obj.get("status") or {})
        self._counts["written"] += 1
        return True

    def _tell(self, known: Known, status: dict[str, Any]) -> None:
        """An Event where a job has ended since the last writing, and keep the conditions for the next."""
        before = {one.get("type") for one in known.conditions if one.get("status") == "True"}
        for one in status["conditions"]:
            kind = one["type"]
            if one["status"] == "True" and kind in _NORMAL and kind not in before:
                normal = _NORMAL[Condition(kind)]
                self._events.tell(known.manifest, "Normal" if normal else "Warning", one["reason"], one["message"])
        known.conditions = status["conditions"]


def _status(known: Known, job: Job | None, waits_for: Reason | None) -> dict[str, Any]:
    if job is None:
        assert known.fault is not None, "asked before"
        return jobstatus.refusal(known.fault, known.generation, known.created_at, known.conditions)
    return jobstatus.status(_view(job, waits_for), known.generation, known.conditions)


def _view(job: Job, waits_for: Reason | None) -> jobstatus.View:
    return jobstatus.View(
        **{name: getattr(job, name) for name in _COUNTS},
        id=job.id,
        state=job.state,
        reason=job.reason,
        error=job.error,
        region=job.region,
        output_uri=job.spec.output.uri,
        expanded=job.expanded_at is not None,
        waits_for=waits_for,
        not_before=job.not_before,
        started_at=job.started_at,
        finished_at=job.finished_at,
        updated_at=job.updated_at,
    )
