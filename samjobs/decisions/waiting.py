"""Why does my job wait?

One line that is a full answer at 3 a.m.: the first rule of `RULES` that has something to say. Their order is from what
only a person can change to what time changes by itself, so that the answer names what has to happen first.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType

from samjobs.decisions.dispatch import Limits, Region, minute_used_up, region_full, tenant_full
from samjobs.names import Reason
from samjobs.states import JOB_TERMINAL, JobState

AHEAD_LIMIT = 1000  # more is not counted

Answer = tuple[Reason, str]
# What is said in place of an answer that counts workers, or what others have waiting and at work.
OF_OTHERS: Mapping[Reason, str] = MappingProxyType(
    {
        Reason.NO_WORKER: "waits for a worker: none of its region is ready",
        Reason.REGION_CAP: "waits for its region, which has as much at work as it may",
        Reason.WINDOW_FULL: "waits for a free worker",
        Reason.NEXT_IN_LINE: "waits for a free worker",
    }
)


@dataclass(frozen=True)
class NextShard:
    """The shard of the job that would be dispatched next, of those that no parallelism holds."""

    index: int
    available_at: datetime
    failures: int
    error: str | None  # of its last failure


@dataclass(frozen=True)
class Sent:
    """The shard of the job that waits in Redis for longest."""

    index: int
    queue: str
    dispatched_at: datetime


@dataclass(frozen=True)
class View:
    """A job and what surrounds it."""

    at: datetime  # the database's clock
    state: JobState
    reason: Reason  # of its state
    error: str | None
    suspend: bool
    not_before: datetime | None
    expanded: bool
    images_total: int
    images_open: int
    shards_open: int
    running: int
    sent: Sent | None
    next: NextShard | None
    held: int  # queued shards that its parallelism holds
    parallelism: int | None
    max_attempts: int
    tenant: str
    region: Region
    tenant_at_work: int  # in all regions
    ahead: int  # due shards of its region that go first, counted up to AHEAD_LIMIT
    limits: Limits
    minute_left: int | None = None  # what its tenant may still send in this minute; None: as much as it likes


def why(view: View) -> Answer:
    """Why the job waits, or what it does instead: a reason for machines and a line for people."""
    for rule in RULES:
        answer = rule(view)
        if answer is not None:
            return answer
    return free_worker(view)


def without_others(answer: Answer) -> Answer:
    """The answer for who may not know what others have: the same reason, and no number that is theirs."""
    reason, message = answer
    return reason, OF_OTHERS.get(reason, message)


def ended(view: View) -> Answer | None:
    """Nothing will happen any more."""
    if view.state not in JOB_TERMINAL:
        return None
    return view.reason, f"it has ended: {view.state.value}" + (f", {view.error}" if view.error else "")


def suspended(view: View) -> Answer | None:
    """A person holds it."""
    if not view.suspend:
        return None
    still = f"; {view.running} of its shards still run to their next image" if view.running else ""
    return Reason.SUSPENDED_BY_USER, f"is suspended until somebody resumes it{still}"


def being_listed(view: View) -> Answer | None:
    """It has no shards yet."""
    if view.expanded or view.shards_open:
        return None
    return Reason.LISTING, f"its images are being listed, {view.images_total} so far; the first shard starts after that"


def not_before(view: View) -> Answer | None:
    """Its own time has not come."""
    if view.not_before is None or view.not_before <= view.at:
        return None
    return Reason.NOT_BEFORE, f"waits for its notBefore, {_clock(view.not_before)}, {_span(view.not_before, view.at)}"


def running(view: View) -> Answer | None:
    """It does not wait."""
    if not view.running:
        return None
    finished = view.images_total - view.images_open
    told = f"is running: {view.running} of its {view.shards_open} open shards are at work"
    return Reason.STARTED, f"{told}, {finished} of {view.images_total} images are finished"


def in_a_queue(view: View) -> Answer | None:
    """A worker has only to take it."""
    if view.sent is None:
        return None
    waited = (view.at - view.sent.dispatched_at).total_seconds()
    told = f"shard {view.sent.index} was sent to queue {view.sent.queue} {waited:.0f} s ago"
    if view.region.ready == 0:
        return Reason.NO_WORKER, f"{told}, but {_workers(view.region)}"
    return Reason.NEXT_IN_LINE, f"{told} and waits there for a free worker; {_workers(view.region)}"


def backoff(view: View) -> Answer | None:
    """It failed, and is not tried again at once."""
    shard = view.next
    if shard is None or shard.available_at <= view.at or not (shard.failures or shard.error):
        return None
    until = f"waits for its backoff until {_clock(shard.available_at)}, {_span(shard.available_at, view.at)}"
    if not shard.failures:  # a fault that no shard is charged with
        return Reason.BACKOFF, f"{until}: {shard.error}"
    told = f"{until}, after failure {shard.failures} of {view.max_attempts} of shard {shard.index}"
    return Reason.BACKOFF, f"{told}: {shard.error or 'no error was told'}"


def parallelism(view: View) -> Answer | None:
    """Its own parallelism holds all that is left."""
    if view.next is not None or not view.held or view.parallelism is None:
        return None
    return Reason.PARALLELISM, f"its parallelism of {view.parallelism} is in use; {view.held} shards wait for a place"


def no_worker(view: View) -> Answer | None:
    """Nobody is there to do it."""
    return None if view.region.ready else (Reason.NO_WORKER, f"{_workers(view.region)}{_ahead(view)}")


def region_cap(view: View) -> Answer | None:
    """The region has as much at work as it may."""
    if view.region.at_work < view.limits.region_concurrency:
        return None
    reason, told = region_full(view.region, view.limits)
    return reason, f"{told}{_ahead(view)}"


def tenant_cap(view: View) -> Answer | None:
    """The tenant has as much at work as it may."""
    cap = view.limits.tenant_concurrency
    return None if cap is None or view.tenant_at_work < cap else tenant_full(view.tenant, view.tenant_at_work, cap)


def rate_limit(view: View) -> Answer | None:
    """The tenant has sent as much as it may."""
    rate = view.limits.tenant_rate_per_minute
    if rate is None or view.minute_left is None or view.minute_left > 0:
        return None
    reason, told = minute_used_up(view.tenant, rate)
    return reason, f"{told}; the next minute begins in {60 - view.at.second} s"


def free_worker(view: View) -> Answer:
    """It is its turn soon: what is always true."""
    reason = Reason.WINDOW_FULL if view.ahead or not view.region.room(view.limits) else Reason.NEXT_IN_LINE
    return reason, f"waits for a free worker: {_workers(view.region)}{_ahead(view)}"


RULES: tuple[Callable[[View], Answer | None], ...] = (
    ended,
    suspended,
    being_listed,
    not_before,
    running,
    in_a_queue,
    backoff,
    parallelism,
    no_worker,
    region_cap,
    tenant_cap,
    rate_limit,
)


def _workers(region: Region) -> str:
    """The region's workers in words."""
    alive = region.ready + region.loading + region.draining
    if alive == 0:
        since = "never had one" if region.silent_for_s is None else f"last heard of one {region.silent_for_s:.0f} s ago"
        return f"no worker of region {region.name} is alive ({since}): start one, or see why none starts"
    told = f"{alive} worker{'s' if alive != 1 else ''} of region {region.name} {'are' if alive != 1 else 'is'} alive"
    others = [f"{count} {doing}" for count, doing in _others(region) if count]
    return ", ".join([told, f"{region.ready} ready", *others])


def _others(region: Region) -> list[tuple[int, str]]:
    return [(region.loading, "loading a model"), (region.draining, "draining")]


def _ahead(view: View) -> str:
    if view.ahead == 0:
        return "; no shard is ahead of it"
    many = f"{AHEAD_LIMIT} shards or more" if view.ahead >= AHEAD_LIMIT else f"{view.ahead} shards"
    return f"; {many} are ahead of it" if view.ahead != 1 else "; 1 shard is ahead of it"


def _clock(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def _span(until: datetime, at: datetime) -> str:
    left = round((until - at).total_seconds())
    if left < 120:
        return f"in {left} s"
    return f"in {left // 60} min" if left < 7200 else f"in {left // 3600} h"
