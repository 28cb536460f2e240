"""What does the table say of the work that pools are for, and what does it remember of them?

One look per round, in one transaction. While the database is away the look says that demand is not known; what was
known last stays at hand, which is who is busy, how fast work goes, and what the decisions remember.
"""

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from controller.kube.poolview import Key
from controller.outages import DATABASE_FAULTS
from samjobs.decisions.scaling import Demand, Speed
from samjobs.settings import Settings
from samjobs.store import Store, now, pools, scaling, workers
from samjobs.store.rows import Pool, WorkerState

log = logging.getLogger("controller")


@dataclass(frozen=True)
class Facts:
    """The table at one moment."""

    at: datetime | None = None  # None: it does not answer, and demand is not known
    demand: Mapping[str, Demand] = field(default_factory=dict)  # by region
    speed: Mapping[str, Speed] = field(default_factory=dict)  # by region
    rows: Mapping[Key, Pool] = field(default_factory=dict)
    busy: Mapping[str, frozenset[str]] = field(default_factory=dict)  # by pool, names of the pods with a shard in hand

    def busy_among(self, pool: str, pods: Iterable[str]) -> frozenset[str]:
        """Those of the pods whose worker has a shard in hand."""
        return self.busy.get(pool, frozenset()).intersection(pods)


class Table:
    """The looks of one controller. For one thread."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._alive_within_s = settings.stale_job_timeout_seconds
        self._at_once = settings.region_concurrency
        self._last = Facts()

    def look(self, regions: Collection[str]) -> Facts:
        """What is known now. `regions`: whose demand is asked for."""
        try:
            self._last = self._ask(regions)
        except DATABASE_FAULTS:  # told by the loop, which meets it too
            self._last = replace(self._last, at=None, demand={})
        return self._last

    def _ask(self, regions: Collection[str]) -> Facts:
        with self._store.read() as conn:
            busy: defaultdict[str, set[str]] = defaultdict(set)
            for worker in workers.alive(conn, within_s=self._alive_within_s):
                if worker.pod is not None and worker.state is WorkerState.BUSY:
                    busy[worker.pool].add(worker.pod)
            return Facts(
                at=now(conn),
                demand={region: scaling.demand(conn, region, at_once=self._at_once) for region in regions},
                speed={region: scaling.speed(conn, region) for region in regions},
                rows={(row.namespace, row.name): row for row in pools.listing(conn)},
                busy={pool: frozenset(pods) for pool, pods in busy.items()},
            )

    def keep(self, row: Pool) -> None:
        """Keep what was decided of a pool, where it differs from what is kept; here alone while the database is away.

        Raises:
            DatabaseUnavailable: it went away since the look: do not act on the decision.
        """
        key = (row.namespace, row.name)
        if self._last.rows.get(key) == row:
            return
        if self._last.at is not None:
            with self._store.begin() as conn:
                pools.save(conn, row)
        self._last = replace(self._last, rows={**self._last.rows, key: row})

    def forget(self, there: Collection[Key], namespaces: Collection[str], hidden: Collection[str]) -> None:
        """Drop the pools that are no longer there, of these namespaces (of all, where none is named), except of those
        that are `hidden`."""
        if self._last.at is None:
            return
        gone = [
            key
            for key in self._last.rows
            if key not in there and (not namespaces or key[0] in namespaces) and key[0] not in hidden
        ]
        for key in gone:
            with self._store.begin() as conn:
                pools.forget(conn, *key)
            log.info("pool=%s/%s is gone and forgotten", *key)
