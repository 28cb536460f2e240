"""How many shards of whom go to the queues now, and why no more?

This says *how many from whom*; *which rows* of a lane, and only if they are still there, is `store/lanes.py`'s matter.

A lane is the due shards of one region, tenant and priority. A region's room is what its cap leaves, and no more than
a short window of shards per worker: so priority, fairness and cancellation are decided late, in the table, and little
is in Redis to lose. The room is given away shard by shard: to the highest priority first, within it to the tenant with
the least at work in the region, then to who has waited longest. Tenants' limits hold over all regions.
"""

import heapq
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from samjobs.names import Reason


@dataclass(frozen=True)
class Limits:
    """What an installation sets; see `samjobs.settings`."""

    region_concurrency: int
    dispatch_window: int
    tenant_concurrency: int | None = None
    tenant_rate_per_minute: int | None = None


@dataclass(frozen=True)
class Region:
    """A region's workers and what they have."""

    name: str
    ready: int = 0  # workers that take shards, idle or busy
    loading: int = 0
    draining: int = 0
    silent_for_s: float | None = None  # since the last sign of life of a worker that was ready once; None: never one
    dispatched: int = 0
    running: int = 0

    @property
    def at_work(self) -> int:
        """Shards that count against the region's cap."""
        return self.dispatched + self.running

    def room(self, limits: Limits) -> int:
        """Shards that may be dispatched now. Without a worker a few are: one that starts finds them."""
        window = limits.dispatch_window * max(self.ready, 1)
        return max(0, min(limits.region_concurrency - self.at_work, window - self.dispatched))


@dataclass(frozen=True)
class Lane:
    """The due shards of one region, tenant and priority."""

    region: str
    tenant: str
    priority: int
    due: int  # how many; counted up to a limit that is never below the room
    due_at: datetime  # of the first one, with the next two its place in the lane
    job_created_at: datetime
    index: int


@dataclass(frozen=True)
class View:
    """The queue as one pass sees it."""

    at: datetime  # the database's clock
    limits: Limits
    regions: Mapping[str, Region]
    at_work: Mapping[tuple[str, str], int]  # dispatched and running, by (region, tenant)
    lanes: tuple[Lane, ...]
    minute_left: Mapping[str, int] = field(default_factory=dict)  # by tenant; one that is not named has all of it

    @property
    def tenants(self) -> list[str]:
        """Who has something due."""
        return sorted({lane.tenant for lane in self.lanes})

    def region(self, name: str) -> Region:
        """The region, even if it has neither workers nor shards at work."""
        return self.regions.get(name, Region(name))


@dataclass(frozen=True)
class Grant:
    """So many of a lane's first shards are to be claimed."""

    lane: Lane
    count: int


@dataclass(frozen=True)
class Refusal:
    """Due shards stay where they are, and why."""

    region: str
    tenant: str
    reason: Reason
    message: str


@dataclass(frozen=True)
class Plan:
    """What a pass dispatches and what it does not, most urgent first."""

    grants: tuple[Grant, ...]
    refusals: tuple[Refusal, ...]


def plan(view: View) -> Plan:
    """Give away the room of every region.

    No cap is passed; nobody gets a shard before somebody with a better right who may have one; and no room stays empty
    while somebody who may fill it has something due.
    """
    tally = _Tally(view)
    granted: Counter[Lane] = Counter()
    refusals: dict[tuple[str, str, Reason], Refusal] = {}
    queue = [(tally.turn(lane), number) for number, lane in enumerate(view.lanes) if lane.due > 0]
    heapq.heapify(queue)
    while queue:
        turn, number = heapq.heappop(queue)
        lane = view.lanes[number]
        if turn != tally.turn(lane):  # its tenant got something at a higher priority since
            heapq.heappush(queue, (tally.turn(lane), number))
            continue
        refusal = tally.refusal(lane)
        if refusal is not None:  # what is used up stays so: it gets no other turn
            refusals.setdefault((lane.region, lane.tenant, refusal.reason), refusal)
            continue
        tally.take(lane)
        granted[lane] += 1
        if granted[lane] < lane.due:
            heapq.heappush(queue, (tally.turn(lane), number))
    return Plan(tuple(Grant(lane, count) for lane, count in granted.items()), tuple(refusals.values()))


class _Tally:
    """What is used up so far: before the plan and by it."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._room = {lane.region: view.region(lane.region).room(view.limits) for lane in view.lanes}
        self._at_work = Counter(view.at_work)
        self._sent: Counter[str] = Counter()
        self._of_region: Counter[str] = Counter()
        self._of_tenant: Counter[str] = Counter()
        for (_, tenant), count in view.at_work.items():
            self._of_tenant[tenant] += count

    def turn(self, lane: Lane) -> tuple[int, int, datetime, str, str]:
        """The lane with the least of these is next."""
        return -lane.priority, self._at_work[lane.region, lane.tenant], lane.due_at, lane.region, lane.tenant

    def take(self, lane: Lane) -> None:
        """One more shard of the lane is at work."""
        self._room[lane.region] -= 1
        self._of_region[lane.region] += 1
        self._of_tenant[lane.tenant] += 1
        self._sent[lane.tenant] += 1
        self._at_work[lane.region, lane.tenant] += 1

    def refusal(self, lane: Lane) -> Refusal | None:
        """Why the lane gets nothing more; None: it may have one."""
        limits, region, tenant = self._view.limits, lane.region, lane.tenant
        if self._room[region] <= 0:
            return Refusal(region, tenant, *region_full(self._view.region(region), limits, self._of_region[region]))
        if limits.tenant_concurrency is not None and self._of_tenant[tenant] >= limits.tenant_concurrency:
            return Refusal(region, tenant, *tenant_full(tenant, self._of_tenant[tenant], limits.tenant_concurrency))
        rate = limits.tenant_rate_per_minute
        if rate is not None and self._view.minute_left.get(tenant, rate) - self._sent[tenant] <= 0:
            return Refusal(region, tenant, *minute_used_up(tenant, rate))
        return None


def region_full(region: Region, limits: Limits, granted: int = 0) -> tuple[Reason, str]:
    """Why a region without room has none, where `granted` more than the view shows are at work."""
    at_work, cap = region.at_work + granted, limits.region_concurrency
    if at_work >= cap:
        return Reason.REGION_CAP, f"region {region.name} has {at_work} of {cap} shards at work"
    waiting = region.dispatched + granted
    if region.ready == 0:
        return Reason.NO_WORKER, f"no worker of region {region.name} is ready; {waiting} shards wait in its queue"
    told = f"{waiting} shards wait in the queue of region {region.name}, enough for its {region.ready} ready workers"
    return Reason.WINDOW_FULL, told


def tenant_full(tenant: str, at_work: int, cap: int) -> tuple[Reason, str]:
    """A tenant has as much at work as it may."""
    return Reason.TENANT_CAP, f"tenant {tenant} has {at_work} of {cap} shards at work"


def minute_used_up(tenant: str, rate: int) -> tuple[Reason, str]:
    """A tenant has sent what it may in this minute."""
    return Reason.RATE_LIMITED, f"tenant {tenant} has sent {rate} shards this minute, its limit"
