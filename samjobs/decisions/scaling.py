"""How many workers should a pool have, and why as many?

Demand is what waits, what is on its way and what runs: without the running work, a queue that is empty would end the
workers that are busy with it. A policy makes a number of it, the limits bound that, and the first of `RULES` that has
something to say answers, by the two cooldowns. What one decision has to know of those before it is its `Memory`.

- What stands counts, ready or not: pods that find no node are capacity that was asked for, and are not asked for again.
- A cooldown is for what comes by itself. What a person says (a number by hand, another limit) is obeyed at once.
- After an increase nothing goes for `downCooldownSeconds`; after a decrease nothing comes for `upCooldownSeconds`, but
  a first worker. So however the load swings, each turn comes a cooldown after the last change.
- What is not known holds the number.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType

from samjobs.names import Reason
from samjobs.pool import Scaling, ScalingMode, ScalingPolicy

# Until a worker of the pool has told: slow enough that a second worker is not late, where it is a GPU that works.
ASSUMED_IMAGE_S = 0.5
ASSUMED_LOAD_S = 60.0
# Less than twice its loading time is no time in which a new worker pays.
LEAST_LOADS = 2
_MANY = 1_000_000  # workers; more than any pool may have


@dataclass(frozen=True)
class Demand:
    """The work of a region, by the table."""

    due: int  # shards that may start now
    dispatched: int  # that are on their way to a worker
    running: int
    images_open: int  # of all these: images without an outcome
    capped: bool = False  # so many are due that they were not counted, but reckoned from their jobs
    at_once: int | None = None  # shards of the region that may be at work at once; more workers would find no work

    @property
    def shards(self) -> int:
        """All that keeps workers busy."""
        return self.due + self.dispatched + self.running


@dataclass(frozen=True)
class Speed:
    """What the workers of a pool have measured; None: nothing yet."""

    image_s: float | None = None  # seconds that one worker takes for an image
    load_s: float | None = None  # seconds from a worker's start of loading until it can work


@dataclass(frozen=True)
class Current:
    """What was decided last, and what has become of it."""

    replicas: int
    ready: int
    busy: int


@dataclass(frozen=True)
class Memory:
    """What a decision has to know of those before it. Times are the database's."""

    changed_at: datetime | None = None  # when the number was last changed
    enough_since: datetime | None = None  # since when fewer have been enough, …
    enough: int | None = None  # … and how many were, at the most demanding moment since


@dataclass(frozen=True)
class Scale:
    """A decision."""

    replicas: int
    reason: Reason
    message: str  # changes seldom: it has no countdowns, and large numbers have two digits
    wanted: int | None  # by the policy, before all limits; None: not known
    limited: bool  # more or fewer are wanted than may be
    memory: Memory  # for the next one


Answer = tuple[int, Reason, str]


@dataclass(frozen=True)
class View:
    """All that is known at a decision that the policy makes."""

    at: datetime
    demand: Demand
    scaling: Scaling
    current: Current
    memory: Memory  # its window covers this moment
    wanted: int
    told: str  # why as many are wanted

    @property
    def bounded(self) -> int:
        """What is wanted and may be."""
        usable = self.wanted if self.demand.at_once is None else min(self.wanted, self.demand.at_once)
        return min(max(usable, self.scaling.min_replicas), self.scaling.max_replicas)

    @property
    def need(self) -> int:
        """The same, and nobody who is busy goes; but for a lower maxReplicas, which a person has said."""
        return min(max(self.bounded, min(self.current.busy, self.current.replicas)), self.scaling.max_replicas)

    @property
    def rests(self) -> bool:
        """The last change is too young for an increase."""
        return _within(self.memory.changed_at, self.scaling.up_cooldown_seconds, self.at)


def desired(
    demand: Demand | None,
    scaling: Scaling,
    by_hand: int | None,
    current: Current,
    speed: Speed | None,
    memory: Memory,
    at: datetime | None,
) -> Scale:
    """How many workers there should be.

    Args:
        demand: None: not known.
        by_hand: `spec.replicas`; wins over everything, over the limits and busy workers too (they drain).
        speed: None: nothing is measured yet.
        memory: of the last decision; `Memory()` at the first.
        at: the database's clock; None: it does not answer.

    >>> at = datetime.fromisoformat("2026-01-01T12:00Z")
    >>> def auto(demand, current, **scaling):
    ...     by = Scaling(max_replicas=8, **scaling)
    ...     made = desired(demand, by, None, current, Speed(0.5, 60), Memory(), at)
    ...     return made.replicas, made.reason.value, made.message
    >>> auto(Demand(due=60, dispatched=0, running=0, images_open=1920), Current(0, 0, 0))
    (2, 'ScaledUp', '0 → 2: about 1,900 images at 0.5 s each, within 600 s, want 2')
    >>> auto(Demand(due=0, dispatched=0, running=1, images_open=7), Current(1, 1, 1))
    (1, 'Steady', '7 images at 0.5 s each, within 600 s, want 1')
    >>> auto(Demand(due=0, dispatched=0, running=0, images_open=0), Current(2, 2, 0))
    (2, 'DownCooldown', 'held at 2: 0 would do, and has to until 12:02:00 UTC (downCooldownSeconds): no work')
    >>> auto(None, Current(2, 2, 0))
    (2, 'UnknownDemand', 'held at 2: the database does not say how much work there is')
    """
    if by_hand is not None:
        return _set(by_hand, f"{by_hand} by spec.replicas", current, memory, at)
    if scaling.mode is ScalingMode.EXTERNAL:
        return _set(
            scaling.min_replicas, "minReplicas: mode external, and nobody has set spec.replicas", current, memory, at
        )
    if demand is None or at is None:
        held = max(current.replicas, scaling.min_replicas)
        told = f"held at {held}: the database does not say how much work there is"
        return Scale(held, Reason.UNKNOWN_DEMAND, told, None, False, Memory(memory.changed_at))
    wanted, told = POLICIES[scaling.policy](demand, scaling, current, speed or Speed())
    view = View(at, demand, scaling, current, memory, wanted, told)
    view = View(at, demand, scaling, current, _seen(view), wanted, told)
    replicas, reason, message = next((answer for rule in RULES if (answer := rule(view)) is not None), _steady(view))
    kept = view.memory
    if replicas != current.replicas:
        fewer = view.need < replicas
        kept = Memory(at, at if fewer else None, view.need if fewer else None)
    return Scale(replicas, reason, message, wanted, view.bounded != wanted, kept)


def _set(replicas: int, told: str, current: Current, memory: Memory, at: datetime | None) -> Scale:
    """A number that somebody has said."""
    changed_at = at if replicas != current.replicas and at is not None else memory.changed_at
    return Scale(replicas, Reason.BY_HAND, told, replicas, False, Memory(changed_at))


def _seen(view: View) -> Memory:
    """The memory with this moment in its window of being enough."""
    before, need = view.memory, view.need
    if need >= view.current.replicas:
        return Memory(before.changed_at)
    # A window of another number of workers says nothing of this one.
    if before.enough_since is None or before.enough is None or before.enough >= view.current.replicas:
        return Memory(before.changed_at, view.at, need)
    return Memory(before.changed_at, before.enough_since, max(before.enough, need))


# The policies: a number, and why.


def by_steps(demand: Demand, scaling: Scaling, current: Current, speed: Speed) -> tuple[int, str]:
    """The first row that holds all shards; above the last row, its count plus one.

    >>> nobody = Current(0, 0, 0)
    >>> [by_steps(Demand(due, 0, 0, 0), Scaling(), nobody, Speed())[0] for due in (0, 1, 10, 11, 30, 60, 100, 101)]
    [0, 1, 1, 2, 2, 3, 4, 5]
    """
    if demand.shards == 0:
        return _idle()
    row = next((step.replicas for step in scaling.steps if demand.shards <= step.shards), None)
    wanted = scaling.steps[-1].replicas + 1 if row is None else row
    return wanted, f"{_about(demand.shards, demand.capped)} shards want {wanted}"


def by_backlog(demand: Demand, scaling: Scaling, current: Current, speed: Speed) -> tuple[int, str]:
    """As many as have done it all within the target: those that are ready from now on, new ones once they have loaded.

    Never more than there are shards. What a new worker would do after the target is not asked of it, so one that would
    be ready only when the rest is done is not started.

    >>> def wanted(images, ready, image_s=0.5, load_s=60.0):
    ...     work = Demand(1000, 0, 0, images)
    ...     return by_backlog(work, Scaling(target_seconds=600), Current(ready, ready, 0), Speed(image_s, load_s))[0]
    >>> wanted(1200, ready=1), wanted(1201, ready=1), wanted(2280, ready=1), wanted(2281, ready=1)
    (1, 2, 2, 3)
    >>> wanted(3600, ready=3), wanted(3600, ready=0), wanted(3600, ready=0, image_s=0.004)
    (3, 4, 1)
    """
    if demand.shards == 0:
        return _idle()
    image_s = speed.image_s or ASSUMED_IMAGE_S
    load_s = ASSUMED_LOAD_S if speed.load_s is None else speed.load_s
    within_s = max(float(scaling.target_seconds), LEAST_LOADS * load_s)
    work_s = demand.images_open * image_s
    ready = min(current.ready, current.replicas)
    left_s = work_s - ready * within_s
    many = work_s / within_s if left_s <= 0 else ready + left_s / (within_s - load_s)
    wanted = max(1, min(math.ceil(min(many, _MANY)), demand.shards))
    assumed = "" if speed.image_s else " (assumed)"
    images = _about(demand.images_open, demand.capped)
    return wanted, f"{images} images at {image_s:.2g} s{assumed} each, within {within_s:.0f} s, want {wanted}"


def _idle() -> tuple[int, str]:
    return 0, "no work"


POLICIES: Mapping[ScalingPolicy, Callable[[Demand, Scaling, Current, Speed], tuple[int, str]]] = MappingProxyType(
    {ScalingPolicy.STEPS: by_steps, ScalingPolicy.BACKLOG: by_backlog}
)


# The rules: the first that has something to say decides.


def above_maximum(view: View) -> Answer | None:
    """The maximum was lowered: obeyed at once, and busy workers drain."""
    most = view.scaling.max_replicas
    if view.current.replicas <= most:
        return None
    return most, Reason.ABOVE_MAXIMUM, f"{view.current.replicas} → {most}: maxReplicas is {most}"


def scaled_up(view: View) -> Answer | None:
    """More are needed, and the last change is long enough ago."""
    if view.need <= view.current.replicas or view.rests:
        return None
    return view.need, Reason.SCALED_UP, f"{view.current.replicas} → {view.need}: {view.told}"


def below_minimum(view: View) -> Answer | None:
    """The minimum was raised: obeyed at once."""
    least = view.scaling.min_replicas
    if view.current.replicas >= least:
        return None
    return least, Reason.BELOW_MINIMUM, f"{view.current.replicas} → {least}: minReplicas is {least}"


def first_worker(view: View) -> Answer | None:
    """Work without any worker waits for no cooldown."""
    if view.current.replicas or not view.need:
        return None
    return 1, Reason.FIRST_WORKER, f"0 → 1 at once: {view.told}"


def up_cooldown(view: View) -> Answer | None:
    """More are needed, but not yet."""
    if view.need <= view.current.replicas:
        return None
    until = _clock(view.memory.changed_at, view.scaling.up_cooldown_seconds)
    held = view.current.replicas
    return held, Reason.UP_COOLDOWN, f"held at {held} until {until} (upCooldownSeconds): {view.told}"


def down_cooldown(view: View) -> Answer | None:
    """Fewer would do, but not for long enough."""
    held, since, enough = view.current.replicas, view.memory.enough_since, view.memory.enough
    if enough is None or not _within(since, view.scaling.down_cooldown_seconds, view.at):
        return None
    until = _clock(since, view.scaling.down_cooldown_seconds)
    told = f"held at {held}: {enough} would do, and has to until {until} (downCooldownSeconds): {view.told}"
    return held, Reason.DOWN_COOLDOWN, told


def scaled_down(view: View) -> Answer | None:
    """Fewer have been enough for long; so many stay as were needed at the most."""
    enough = view.memory.enough
    if enough is None:
        return None
    return enough, Reason.SCALED_DOWN, f"{view.current.replicas} → {enough}: {view.told}"


RULES: tuple[Callable[[View], Answer | None], ...] = (
    above_maximum,
    scaled_up,
    below_minimum,
    first_worker,
    up_cooldown,
    down_cooldown,
    scaled_down,
)


def _steady(view: View) -> Answer:
    """As many as are needed are there: what is always true."""
    there, limits = view.current.replicas, view.scaling
    if view.need > view.bounded:
        return there, Reason.BUSY_WORKERS, f"{view.told}; {there} are busy, and go once they are not"
    if view.wanted > view.bounded == limits.max_replicas:
        return there, Reason.AT_MAXIMUM, f"{view.told}; maxReplicas is {there}"
    if view.wanted > view.bounded:
        return there, Reason.REGION_CAP, f"{view.told}; no more shards of the region than {there} are at work at once"
    if view.wanted < view.bounded:
        return there, Reason.AT_MINIMUM, f"{view.told}; minReplicas is {there}"
    return there, Reason.STEADY, view.told


def _within(since: datetime | None, seconds: float, at: datetime) -> bool:
    """Whether `at` is less than so long after `since`. A time to come is one of a clock that was set back: no."""
    return since is not None and timedelta(0) <= at - since < timedelta(seconds=seconds)


def _clock(since: datetime | None, seconds: float) -> str:
    return "-" if since is None else f"{since + timedelta(seconds=seconds):%H:%M:%S} UTC"


def _about(count: int, reckoned: bool) -> str:
    """A count in two digits, so that what tells it is not another text each second."""
    digits = len(str(count))
    if digits <= 2 and not reckoned:
        return str(count)
    return f"about {round(count, 2 - digits):,}"
