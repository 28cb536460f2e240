"""How many workers a pool should have: worked cases, what always holds, and what swinging load does over time."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samjobs.decisions.scaling import Current, Demand, Memory, Scale, Speed, desired
from samjobs.names import Reason
from samjobs.pool import Scaling, ScalingMode, ScalingPolicy, ScalingStep

AT = datetime(2026, 3, 1, 14, 0, 0, tzinfo=UTC)
STEPS = Scaling(max_replicas=8, policy=ScalingPolicy.STEPS)
BACKLOG = Scaling(max_replicas=8)  # within 600 s
SPEED = Speed(image_s=0.5, load_s=60.0)
NO_WORK = Demand(0, 0, 0, 0)
NOTHING_YET = Memory()


def ago(seconds: float) -> datetime:
    return AT - timedelta(seconds=seconds)


def work(shards: int, images: int | None = None, **changes: Any) -> Demand:
    """Shards that are due, of 32 images each."""
    return replace(Demand(shards, 0, 0, 32 * shards if images is None else images), **changes)


def there(replicas: int, *, ready: int | None = None, busy: int = 0) -> Current:
    return Current(replicas, replicas if ready is None else ready, busy)


@dataclass(frozen=True)
class Case:
    demand: Demand | None
    current: Current
    replicas: int
    reason: Reason
    scaling: Scaling = STEPS
    by_hand: int | None = None
    memory: Memory = NOTHING_YET
    speed: Speed | None = SPEED
    at: datetime | None = AT
    limited: bool = False
    says: str = ""


LONG_ENOUGH = Memory(enough_since=ago(120), enough=0)
CASES = {
    "nothing to do, nobody there": Case(NO_WORK, there(0), 0, Reason.STEADY),
    "work for nobody: a first worker at once": Case(work(1), there(0), 1, Reason.SCALED_UP),
    "as many as are wanted at once, where nobody came lately": Case(work(60), there(0), 3, Reason.SCALED_UP),
    "the first worker waits for no cooldown, the others do": Case(
        work(60), there(0), 1, Reason.FIRST_WORKER, memory=Memory(ago(5))
    ),
    "a second worker waits for the cooldown": Case(
        work(11), there(1), 1, Reason.UP_COOLDOWN, memory=Memory(ago(29)), says="held at 1 until 14:00:01 UTC"
    ),
    "and comes after it": Case(work(11), there(1), 2, Reason.SCALED_UP, memory=Memory(ago(30)), says="1 → 2: "),
    "steps: above the last row, its count plus one": Case(work(5000), there(4), 5, Reason.SCALED_UP),
    "steps: never above the maximum": Case(
        work(5000),
        there(3),
        3,
        Reason.AT_MAXIMUM,
        scaling=Scaling(max_replicas=3, policy=ScalingPolicy.STEPS),
        limited=True,
        says="about 5,000 shards want 5; maxReplicas is 3",
    ),
    "an empty queue with one at work keeps its worker": Case(
        Demand(0, 0, 1, 3), there(1, busy=1), 1, Reason.STEADY, memory=LONG_ENOUGH
    ),
    "and a shard on its way to a worker does, too": Case(Demand(0, 1, 0, 3), there(1), 1, Reason.STEADY),
    "fewer have only begun to be enough": Case(
        NO_WORK, there(2), 2, Reason.DOWN_COOLDOWN, says="held at 2: 0 would do, and has to until 14:02:00 UTC"
    ),
    "fewer have been enough for long": Case(NO_WORK, there(2), 0, Reason.SCALED_DOWN, memory=LONG_ENOUGH),
    "what was needed meanwhile stays": Case(
        NO_WORK, there(4), 3, Reason.SCALED_DOWN, memory=Memory(enough_since=ago(500), enough=3)
    ),
    "a window of another number means nothing": Case(
        NO_WORK, there(2), 2, Reason.DOWN_COOLDOWN, memory=Memory(enough_since=ago(500), enough=2)
    ),
    "the busy stay": Case(
        Demand(0, 0, 4, 9), there(4, busy=4), 4, Reason.BUSY_WORKERS, memory=LONG_ENOUGH, says="4 are busy"
    ),
    "the idle three of four go": Case(
        Demand(0, 0, 1, 9), there(4, busy=1), 1, Reason.SCALED_DOWN, memory=Memory(enough_since=ago(120), enough=1)
    ),
    "rows of workers that are gone make none": Case(NO_WORK, there(0, busy=3), 0, Reason.STEADY),
    "the minimum without work": Case(
        NO_WORK,
        there(2),
        2,
        Reason.AT_MINIMUM,
        scaling=Scaling(min_replicas=2, max_replicas=4),
        limited=True,
        says="no work; minReplicas is 2",
    ),
    "a raised minimum waits for no cooldown": Case(
        NO_WORK,
        there(1),
        2,
        Reason.BELOW_MINIMUM,
        scaling=Scaling(min_replicas=2, max_replicas=4),
        memory=Memory(ago(1)),
        limited=True,
    ),
    "a lowered maximum is obeyed at once, by the busy too": Case(
        work(60), there(4, busy=4), 2, Reason.ABOVE_MAXIMUM, scaling=Scaling(max_replicas=2), memory=Memory(ago(1))
    ),
    "pods that find no node are capacity": Case(
        work(100), there(4, ready=0), 4, Reason.STEADY, memory=Memory(ago(300))
    ),
    "not known: held": Case(None, there(3), 3, Reason.UNKNOWN_DEMAND, memory=LONG_ENOUGH),
    "not known, and no clock": Case(work(60), there(3), 3, Reason.UNKNOWN_DEMAND, at=None),
    "not known, but a minimum is": Case(
        None, there(0), 1, Reason.UNKNOWN_DEMAND, scaling=Scaling(min_replicas=1), at=None
    ),
    "by hand": Case(work(60), there(3), 6, Reason.BY_HAND, by_hand=6, memory=Memory(ago(1))),
    "by hand, above the maximum": Case(work(60), there(3), 50, Reason.BY_HAND, by_hand=50),
    "by hand to nothing, though they are busy": Case(work(60), there(3, busy=3), 0, Reason.BY_HAND, by_hand=0),
    "by hand, while the database is away": Case(None, there(3), 5, Reason.BY_HAND, by_hand=5, at=None),
    "external: whoever it is": Case(
        work(60), there(1), 7, Reason.BY_HAND, scaling=Scaling(mode=ScalingMode.EXTERNAL), by_hand=7
    ),
    "external, and nobody yet": Case(
        work(60), there(0), 1, Reason.BY_HAND, scaling=Scaling(mode=ScalingMode.EXTERNAL, min_replicas=1)
    ),
    "backlog: what one does within the target": Case(work(40, 1200), there(1), 1, Reason.STEADY, scaling=BACKLOG),
    "backlog: one that is not ready does less": Case(
        work(40, 1200), there(1, ready=0), 2, Reason.SCALED_UP, scaling=BACKLOG
    ),
    "backlog: the speed is assumed": Case(
        work(60), there(0), 2, Reason.SCALED_UP, scaling=BACKLOG, speed=None, says="at 0.5 s (assumed) each"
    ),
    "backlog: so is what was not measured": Case(
        work(60), there(0), 2, Reason.SCALED_UP, scaling=BACKLOG, speed=Speed(None, 10.0), says="(assumed)"
    ),
    "backlog: fast workers": Case(
        work(1000), there(1), 1, Reason.STEADY, scaling=BACKLOG, speed=Speed(0.004, 60.0), says="at 0.004 s each"
    ),
    "backlog: slow workers, but no more than there are shards": Case(
        work(3), there(1), 3, Reason.SCALED_UP, scaling=BACKLOG, speed=Speed(1000.0, 60.0)
    ),
    "backlog: who would load until the rest is done is not started": Case(
        work(20, 20), there(1), 1, Reason.STEADY, scaling=Scaling(max_replicas=8, target_seconds=10), speed=SPEED
    ),
    "backlog: a target shorter than the load is as much as can be": Case(
        work(40, 1200),
        there(1),
        1 + 8,  # 480 s are left after 120 s of the first one, and each new one has 60 s
        Reason.SCALED_UP,
        scaling=Scaling(max_replicas=20, target_seconds=10),
        says="within 120 s",
    ),
    "backlog: images are told, shards may still be open": Case(
        work(1, 0), there(0), 1, Reason.SCALED_UP, scaling=BACKLOG
    ),
    "no more than may be at work in the region": Case(
        work(1000, at_once=2), there(2), 2, Reason.REGION_CAP, scaling=BACKLOG, limited=True
    ),
    "reckoned, not counted": Case(
        work(999_999, capped=True),
        there(8),
        8,
        Reason.AT_MAXIMUM,
        scaling=BACKLOG,
        limited=True,
        says="about 32,000,000 images",
    ),
    "a clock that was set back holds nothing up": Case(
        work(11), there(1), 2, Reason.SCALED_UP, memory=Memory(AT + timedelta(hours=1))
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_a_case(case: Case) -> None:
    made = desired(case.demand, case.scaling, case.by_hand, case.current, case.speed, case.memory, case.at)
    assert (made.replicas, made.reason, made.limited) == (case.replicas, case.reason, case.limited), made.message
    assert case.says in made.message


# What always holds.

small = st.integers(0, 12)
times = st.one_of(st.none(), st.integers(-50, 500).map(ago))
memories = st.builds(Memory, times, times, st.one_of(st.none(), small))
demands = st.builds(Demand, st.integers(0, 10**6), small, small, st.integers(0, 10**8), at_once=st.none() | small)
speeds = st.builds(Speed, st.none() | st.floats(0, 1e6), st.none() | st.floats(0, 1e5))


@st.composite
def scalings(draw: st.DrawFn) -> Scaling:
    least, most = sorted((draw(small), draw(st.integers(1, 12))))
    shards = sorted(draw(st.sets(st.integers(1, 1000), min_size=1, max_size=5)))
    return Scaling(
        min_replicas=least,
        max_replicas=max(1, most),
        policy=draw(st.sampled_from(ScalingPolicy)),
        steps=tuple(ScalingStep(shards=many, replicas=1 + 2 * n) for n, many in enumerate(shards)),
        target_seconds=draw(st.integers(1, 10_000)),
        up_cooldown_seconds=draw(st.integers(0, 200)),
        down_cooldown_seconds=draw(st.integers(0, 200)),
    )


@st.composite
def currents(draw: st.DrawFn) -> Current:
    replicas = draw(small)
    return Current(replicas, draw(st.integers(0, replicas)), draw(st.integers(0, replicas)))


def auto(demand: Demand | None, scaling: Scaling, current: Current, speed: Speed, memory: Memory) -> Scale:
    return desired(demand, scaling, None, current, speed, memory, AT)


@given(demands, scalings(), currents(), speeds, memories)
def test_it_is_within_the_limits_and_the_busy_stay_within_them(
    demand: Demand, scaling: Scaling, current: Current, speed: Speed, memory: Memory
) -> None:
    made = auto(demand, scaling, current, speed, memory)
    assert scaling.min_replicas <= made.replicas <= scaling.max_replicas
    assert made.replicas >= min(current.busy, scaling.max_replicas)


@given(demands, demands, scalings(), currents(), speeds, memories)
def test_more_work_never_makes_fewer_workers(
    one: Demand, more: Demand, scaling: Scaling, current: Current, speed: Speed, memory: Memory
) -> None:
    more = Demand(
        one.due + more.due,
        one.dispatched + more.dispatched,
        one.running + more.running,
        one.images_open + more.images_open,
        at_once=one.at_once,
    )
    few, many = (auto(demand, scaling, current, speed, memory) for demand in (one, more))
    assert few.replicas <= many.replicas


@given(scalings(), currents(), speeds, memories)
def test_what_is_not_known_takes_nobody_away(scaling: Scaling, current: Current, speed: Speed, memory: Memory) -> None:
    made = auto(None, scaling, current, speed, memory)
    assert made.replicas == max(current.replicas, scaling.min_replicas)
    assert made.memory == Memory(memory.changed_at)


@given(demands, scalings(), currents(), speeds, memories, small)
def test_a_number_by_hand_wins(
    demand: Demand, scaling: Scaling, current: Current, speed: Speed, memory: Memory, by_hand: int
) -> None:
    assert desired(demand, scaling, by_hand, current, speed, memory, AT).replicas == by_hand


@given(demands, scalings(), currents(), speeds, memories)
def test_the_number_changes_with_a_memory_of_when_and_stands_with_none(
    demand: Demand, scaling: Scaling, current: Current, speed: Speed, memory: Memory
) -> None:
    made = auto(demand, scaling, current, speed, memory)
    changed = made.replicas != current.replicas
    assert made.memory.changed_at == (AT if changed else memory.changed_at)


# Over time.


@dataclass
class Pool:
    """A pool over time, decided on every second; its workers are ready at once, and busy while there is work."""

    scaling: Scaling
    replicas: int = 0
    ready: bool = True
    memory: Memory = NOTHING_YET
    second: int = 0

    def step(self, demand: Demand | None) -> Scale:
        ready = self.replicas if self.ready else 0
        current = Current(self.replicas, ready, 0 if demand is None else min(ready, demand.running))
        made = desired(demand, self.scaling, None, current, SPEED, self.memory, AT + timedelta(seconds=self.second))
        self.replicas, self.memory = made.replicas, made.memory
        self.second += 1
        return made

    def run(self, seconds: int, demand: Demand | None) -> list[int]:
        """The number at each second."""
        return [self.step(demand).replicas for _ in range(seconds)]


@pytest.mark.parametrize("policy", ScalingPolicy)
def test_pods_that_wait_for_a_node_for_minutes_are_not_asked_for_again(policy: ScalingPolicy) -> None:
    pool = Pool(Scaling(max_replicas=50, policy=policy), ready=False)
    assert len(set(pool.run(300, work(100)))) == 1


@settings(deadline=None, max_examples=50)
@given(
    low=st.integers(0, 100),
    high=st.integers(0, 100),
    half_s=st.integers(1, 300),
    up_s=st.integers(1, 60),
    down_s=st.integers(1, 240),
    policy=st.sampled_from(ScalingPolicy),
)
def test_a_square_wave_turns_the_number_at_most_once_per_cooldown(
    low: int, high: int, half_s: int, up_s: int, down_s: int, policy: ScalingPolicy
) -> None:
    """Between the last change and one the other way lies the other way's cooldown; but a first worker never waits."""
    scaling = Scaling(max_replicas=9, policy=policy, up_cooldown_seconds=up_s, down_cooldown_seconds=down_s)
    pool = Pool(scaling)
    numbers = [0]
    while len(numbers) < 1500:
        for shards in (high, low):
            numbers += pool.run(half_s, work(shards))
    changes = [(n, after - before) for n, (before, after) in enumerate(pairwise(numbers)) if after != before]
    for (when, change), (later, other) in pairwise(changes):
        if other < 0:
            assert later - when >= down_s
        elif numbers[later] > 0:
            assert later - when >= up_s
        else:
            assert change < 0


def test_a_wave_shorter_than_the_cooldown_changes_nothing_once_it_is_served() -> None:
    pool = Pool(STEPS)
    pool.run(100, work(60))
    for _ in range(20):
        assert set(pool.run(60, NO_WORK) + pool.run(60, work(60))) == {3}


def test_an_outage_of_the_database_is_no_time_in_which_fewer_were_enough() -> None:
    pool = Pool(STEPS, replicas=3)
    assert set(pool.run(60, NO_WORK) + pool.run(600, None) + pool.run(120, NO_WORK)) == {3}
    assert pool.run(1, NO_WORK) == [0]


def test_after_the_work_is_done_all_go_at_once() -> None:
    pool = Pool(STEPS)
    pool.run(100, work(60))
    numbers = pool.run(300, NO_WORK)
    assert (numbers[119], numbers[120], numbers[-1]) == (3, 0, 0)


def test_the_message_of_a_queue_that_is_worked_off_changes_seldom() -> None:
    pool = Pool(BACKLOG, replicas=3)
    messages = {pool.step(work(300, images, running=3)).message for images in range(9600, 5600, -1)}
    assert len(messages) < 60
