"""SamJobs become rows of the job table, and what is changed at them is changed there.

Looked at are the objects that the watch told of, and now and then all of them, by a LIST: the watch says nothing of
what vanished while it was broken, and this process may have been away. `decisions/intake.py` says what is to be done;
each job is done in a transaction of its own, and the failure of one stops none of the others. Only new jobs with a
list of images are written many at once, and where that fails, one by one.
"""

import itertools
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from controller import ACTOR
from controller.kube.api import Kube
from controller.kube.connection import Unwritten
from controller.kube.objects import Known, Objects, refuse
from controller.kube.wakes import Woken
from controller.metrics import Metrics
from controller.outages import DATABASE_FAULTS
from samjobs.decisions.intake import Action, Do, ObjectView, RowView, Wish, decide
from samjobs.errors import AccessDenied, InvalidInput, KubernetesUnavailable, describe
from samjobs.listing import images_of
from samjobs.names import JOB_PLURAL
from samjobs.spec import JobSpec
from samjobs.storage import Storage
from samjobs.store import Store, fronts, jobs, now, whole

log = logging.getLogger("controller")

CHUNK = fronts.UIDS_AT_ONCE
NEW_AT_ONCE = 50  # in one transaction, which workers for the first ones wait for; each has 100 images at most
# What the watch has not told of by then, it missed.
ANNOUNCED_WITHIN = timedelta(seconds=60)
# Of a server, not of the object in hand: the round ends.
OUTAGES = (*DATABASE_FAULTS, KubernetesUnavailable)


@dataclass(frozen=True)
class _Subject:
    """What an action is about."""

    known: Known
    row: fronts.Brief | None
    spec: JobSpec | None  # of a new object

    @property
    def listed(self) -> bool:
        """Whether it is a new object whose images are known."""
        return self.spec is not None and self.spec.images.list is not None


class Intake:
    """Makes rows of objects.

    Args:
        namespaces: those that are watched; () for all.
        beat: called after each part, as a sign of life.
    """

    def __init__(
        self,
        kube: Kube,
        store: Store,
        objects: Objects,
        metrics: Metrics,
        namespaces: Collection[str],
        beat: Callable[[], None],
    ) -> None:
        self._kube = kube
        self._store = store
        self._objects = objects
        self._metrics = metrics
        self._namespaces = frozenset(namespaces)
        self._beat = beat
        self._counts: Counter[str] = Counter()
        self._faults: dict[UUID, str] = {}  # why something could not be done for an object, as it was logged
        self._unread: set[str] = set()  # namespaces of which it was logged that no object can be read by its name

    def look_at_all(self) -> frozenset[UUID]:
        """LIST the objects and do what is to be done for each, and for rows whose object is gone.

        Returns:
            The uids of those that are older than ANNOUNCED_WITHIN.
        """
        seen: set[UUID] = set()
        old: set[UUID] = set()
        listed = self._kube.jobs()
        while chunk := list(itertools.islice(listed, CHUNK)):
            known = self._settle(chunk)
            seen.update(one.uid for one in known)
            past = self._kube.now() - ANNOUNCED_WITHIN
            old.update(one.uid for one in known if one.created_at < past)
        # Only here: a LIST that broke off says nothing of what it did not show.
        unseen = [self._objects.get(uid) for uid in self._objects if uid not in seen]
        self._objects.forget([one.uid for one in unseen if one is not None and self._is_shown(one.namespace)])
        self._faults = {uid: fault for uid, fault in self._faults.items() if self._objects.get(uid) is not None}
        self._cancel_orphans(seen)
        return frozenset(old)

    def news(self, woken: Iterable[Woken]) -> list[Woken]:
        """What of it asks for a look: most of what the watch tells is the echo of a status that was written here."""
        return [one for one in woken if one.deleted or one.deleting or not self._is_known(one)]

    def _is_known(self, one: Woken) -> bool:
        known = self._objects.get(one.uid)
        return known is not None and known.generation == one.generation

    def look_at(self, news: Iterable[Woken]) -> None:
        """Do what is to be done for objects that are new, changed, or gone."""
        found, gone = [], []
        for one in news:
            if one.deleted:
                gone.append(one.uid)
            else:
                try:
                    obj = self._kube.get_job(one.namespace, one.name)
                except AccessDenied as error:
                    self._say_unread(one.namespace, error)  # the next LIST shows it
                    continue
                # Another uid under the name: the watch tells of it, too.
                if obj is None or obj["metadata"]["uid"] != str(one.uid):
                    gone.append(one.uid)
                else:
                    found.append(obj)
            self._beat()
        for chunk in (found[start : start + CHUNK] for start in range(0, len(found), CHUNK)):
            self._settle(chunk)
        self._objects.forget(gone)
        for start in range(0, len(gone), CHUNK):
            with self._store.read() as conn:
                standing = fronts.briefs(conn, gone[start : start + CHUNK])
            self._cancel(standing.values())

    def did(self) -> Counter[str]:
        """What was done since the last call, in words of its own."""
        counts, self._counts = self._counts, Counter()
        return counts

    def _settle(self, objs: list[dict[str, Any]]) -> list[Known]:
        """Do what is to be done for objects that are there, at most CHUNK."""
        seen = [(*self._objects.see(obj), obj) for obj in objs]
        with self._store.read() as conn:
            at = now(conn)
            rows = fronts.briefs(conn, [known.uid for known, _, _ in seen])
        new: list[tuple[Action, _Subject]] = []
        for known, spec, obj in seen:
            row = rows.get(known.uid)
            deleting = "deletionTimestamp" in obj["metadata"]
            for action in decide(ObjectView(known.wish, known.fault, deleting), _view(row), at):
                if action.do is not Do.SUBMIT:
                    self._try(action, _Subject(known, row, None))
                elif (spec := spec or self._objects.judge(known, obj)) is not None:
                    new.append((action, _Subject(known, None, spec)))
            if len(new) >= NEW_AT_ONCE:
                self._submit_all(new)
                new = []
            self._beat()
        self._submit_all(new)
        return [known for known, _, _ in seen]

    def _submit_all(self, new: Sequence[tuple[Action, _Subject]]) -> None:
        """Submit jobs: those with a list together; the others, and where that fails all of them, one by one."""
        listed = [subject for _, subject in new if subject.listed]
        together = bool(listed) and self._submitted(listed)
        for action, subject in new:
            if together and subject.listed:
                self._did(action, subject)
            else:
                self._try(action, subject)
            self._beat()

    def _submitted(self, listed: Sequence[_Subject]) -> bool:
        """Submit jobs together. False: nothing was written, since at least one of them has a fault."""
        try:
            with Storage() as storage, self._store.begin() as conn:
                whole.submit_whole(conn, [_whole(subject, storage) for subject in listed], actor=ACTOR)
        except OUTAGES:
            raise
        except Exception as error:
            # Which one it was is told by submitting it alone.
            log.debug("%d SamJobs cannot be submitted together: %s", len(listed), describe(error))
            return False
        return True

    def _try(self, action: Action, subject: _Subject) -> None:
        """Do one thing for one object; only a server that is away ends more than that."""
        name = f"{subject.known.namespace}/{subject.known.name}"
        try:
            self._do(action, subject)
        except OUTAGES:
            raise
        except (InvalidInput, AccessDenied, Unwritten) as error:
            # Some are met again at every LIST.
            if self._faults.get(subject.known.uid) != str(error):
                self._faults[subject.known.uid] = str(error)
                log.warning("samjob=%s %s: %s", name, action.do.value, error)
        except Exception:
            log.exception("samjob=%s %s failed; it is tried again", name, action.do.value)
            self._metrics.unexpected("intake")
        else:
            self._did(action, subject)

    def _did(self, action: Action, subject: _Subject) -> None:
        self._counts[action.do.value] += 1
        if action.do is not Do.REFUSE:
            known = subject.known
            log.info("samjob=%s/%s %s: %s", known.namespace, known.name, action.do.value, action.message)

    def _do(self, action: Action, subject: _Subject) -> None:
        known = subject.known
        if action.do is Do.REFUSE:
            self._objects.due.add(known.uid)
        elif action.do is Do.DELETE:
            self._kube.delete_job(known.namespace, known.name, str(known.uid))
        elif action.do is Do.SUBMIT:
            assert subject.spec is not None, "judged before"
            self._submit(known, subject.spec)
        else:
            assert subject.row is not None, "decided from a row"
            self._change(action, subject.row, known.wish)

    def _submit(self, known: Known, spec: JobSpec) -> None:
        """All of the job, or nothing. One that another controller has submitted meanwhile has its row."""
        try:
            with self._store.begin() as conn, Storage() as storage:
                made = jobs.submit(conn, spec, tenant=known.namespace, name=known.name, uid=known.uid, actor=ACTOR)
                if made.created and spec.images.list is not None:
                    jobs.add_images(conn, made.job_id, [*images_of(spec, storage, Counter())])
                    jobs.mark_expanded(conn, made.job_id)
        except InvalidInput as error:
            refuse(known, str(error))
            self._objects.due.add(known.uid)
            raise

    def _change(self, action: Action, row: fronts.Brief, wish: Wish | None) -> None:
        with self._store.begin() as conn:
            match action.do:
                case Do.CANCEL:
                    jobs.cancel(conn, row.id, reason=action.reason, actor=ACTOR)
                case Do.SUSPEND:
                    jobs.set_suspend(conn, row.id, True, actor=ACTOR)
                case Do.RESUME:
                    jobs.set_suspend(conn, row.id, False, actor=ACTOR)
                case Do.SET_PRIORITY if wish is not None:
                    fronts.set_priority(conn, row.id, wish.priority)
                case Do.SET_TTL if wish is not None:
                    fronts.set_ttl(conn, row.id, wish.ttl_s)

    def _cancel_orphans(self, seen: Collection[UUID]) -> None:
        """Cancel active jobs of which a complete LIST showed no object."""
        with self._store.read() as conn:
            rows = fronts.active(conn)
        orphans = [row for row in rows if row.uid not in seen and self._is_shown(row.tenant)]
        # Asked once more, each by its name: an object may have been made, and submitted, since the LIST was.
        self._cancel(row for row in orphans if not self._is_there(row))

    def _is_shown(self, namespace: str) -> bool:
        """Whether a LIST shows what is there."""
        watched = not self._namespaces or namespace in self._namespaces
        return watched and namespace not in self._kube.denied(JOB_PLURAL)

    def _is_there(self, row: fronts.Brief) -> bool:
        self._beat()
        try:
            obj = None if row.name is None else self._kube.get_job(row.tenant, row.name)
        except AccessDenied as error:
            self._say_unread(row.tenant, error)
            return True  # for all that is known
        return obj is not None and obj["metadata"]["uid"] == str(row.uid)

    def _say_unread(self, namespace: str, error: AccessDenied) -> None:
        """Log once what comes of it that the objects of a namespace cannot be read by their names."""
        if namespace not in self._unread:
            self._unread.add(namespace)
            log.error(
                "namespace %s: SamJobs that change wait for the next LIST, and jobs of those that are gone are not"
                " cancelled, until this is granted: %s",
                namespace,
                error,
            )

    def _cancel(self, rows: Iterable[fronts.Brief]) -> None:
        for row in rows:
            for action in decide(None, _view(row), row.updated_at):
                gone = Known(row.uid, row.tenant, row.name or "", 0, row.updated_at)
                self._try(action, _Subject(gone, row, None))
            self._beat()


def _whole(subject: _Subject, storage: Storage) -> whole.Whole:
    """A new job and its images."""
    known, spec = subject.known, subject.spec
    assert spec is not None, "judged before"
    return whole.Whole(spec, known.namespace, known.name, known.uid, [*images_of(spec, storage, Counter())])


def _view(row: fronts.Brief | None) -> RowView | None:
    if row is None:
        return None
    return RowView(row.state, Wish(row.suspend, row.priority, row.ttl_s), row.expires_at)
