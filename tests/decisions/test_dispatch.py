"""How many shards of whom go to the queues: caps hold, urgency and fairness decide, and no room stays empty."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from samjobs.decisions.dispatch import Lane, Limits, Plan, Region, View, plan
from samjobs.names import Reason

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
WIDE = Limits(region_concurrency=1000, dispatch_window=1000)


def lane(tenant: str = "ada", due: int = 100, *, region: str = "us", priority: int = 0, waited_s: int = 0) -> Lane:
    return Lane(region, tenant, priority, due, NOON - timedelta(seconds=waited_s), NOON, 0)


def view(*lanes: Lane, limits: Limits = WIDE, regions: tuple[Region, ...] = (), **more: object) -> View:
    at_work = more.pop("at_work", {})
    assert isinstance(at_work, dict)
    minute_left = more.pop("minute_left", {})
    assert isinstance(minute_left, dict)
    found = {region.name: region for region in regions or (Region("us", ready=1),)}
    return View(NOON, limits, found, at_work, lanes, minute_left)


def granted(made: Plan) -> dict[tuple[str, int], int]:
    return {(grant.lane.tenant, grant.lane.priority): grant.count for grant in made.grants}


def test_a_window_of_two_per_ready_worker_is_sent() -> None:
    limits = Limits(region_concurrency=10, dispatch_window=2)
    made = plan(view(lane(), limits=limits, regions=(Region("us", ready=3, dispatched=1, running=3),)))
    assert granted(made) == {("ada", 0): 5}
    (refusal,) = made.refusals
    assert refusal.reason is Reason.WINDOW_FULL
    assert refusal.message == "6 shards wait in the queue of region us, enough for its 3 ready workers"


def test_a_region_without_a_worker_gets_what_one_that_starts_will_need() -> None:
    made = plan(view(lane(), limits=Limits(10, 2), regions=(Region("us", loading=1),)))
    assert granted(made) == {("ada", 0): 2}
    assert made.refusals[0].reason is Reason.NO_WORKER
    assert made.refusals[0].message == "no worker of region us is ready; 2 shards wait in its queue"


def test_a_region_that_nobody_has_heard_of_is_as_one_without_a_worker() -> None:
    assert granted(plan(view(lane(region="mars"), limits=Limits(10, 2)))) == {("ada", 0): 2}


def test_the_cap_of_a_region_counts_what_waits_in_redis_and_what_runs() -> None:
    made = plan(view(lane(), limits=Limits(10, 50), regions=(Region("us", ready=9, dispatched=2, running=5),)))
    assert granted(made) == {("ada", 0): 3}
    assert made.refusals[0].message == "region us has 10 of 10 shards at work"
    assert made.refusals[0].reason is Reason.REGION_CAP


def test_a_higher_priority_takes_all_before_a_lower_one_takes_any() -> None:
    limits = replace(WIDE, region_concurrency=5)
    made = plan(view(lane("old", waited_s=999), lane("urgent", 4, priority=9), limits=limits))
    assert granted(made) == {("urgent", 9): 4, ("old", 0): 1}


def test_tenants_share_a_region_whoever_came_first() -> None:
    limits = replace(WIDE, region_concurrency=10)
    made = plan(view(lane("big", waited_s=999), lane("small", 3), limits=limits))
    assert granted(made) == {("big", 0): 7, ("small", 0): 3}


def test_who_has_the_least_at_work_catches_up_first() -> None:
    limits = replace(WIDE, region_concurrency=8)
    busy = Region("us", ready=1, running=4)
    made = plan(view(lane("big"), lane("small"), limits=limits, regions=(busy,), at_work={("us", "big"): 4}))
    assert granted(made) == {("small", 0): 4}


def test_among_equals_the_one_who_has_waited_longest_is_first() -> None:
    made = plan(view(lane("ada"), lane("zoe", waited_s=60), limits=replace(WIDE, region_concurrency=1)))
    assert granted(made) == {("zoe", 0): 1}


def test_what_a_tenant_got_at_a_high_priority_counts_at_a_lower_one() -> None:
    lanes = (lane("ada", 3, priority=1), lane("ada", waited_s=60), lane("zoe"))
    assert granted(plan(view(*lanes, limits=replace(WIDE, region_concurrency=6)))) == {("ada", 1): 3, ("zoe", 0): 3}


def test_the_cap_of_a_tenant_holds_over_all_regions_and_leaves_the_room_to_others() -> None:
    limits = replace(WIDE, region_concurrency=10, tenant_concurrency=4)
    lanes = (lane("ada"), lane("ada", region="eu"), lane("zoe", 6))
    made = plan(view(*lanes, limits=limits, at_work={("asia", "ada"): 1}))
    assert Counter(grant.lane.tenant for grant in made.grants for _ in range(grant.count)) == {"ada": 3, "zoe": 4}
    told = {refusal.message for refusal in made.refusals if refusal.tenant == "ada"}
    assert told == {"tenant ada has 4 of 4 shards at work"}


def test_a_tenant_sends_no_more_in_a_minute_than_it_may() -> None:
    limits = replace(WIDE, tenant_rate_per_minute=60)
    made = plan(view(lane("ada"), lane("zoe", 1), limits=limits, minute_left={"ada": 7}))
    assert granted(made) == {("ada", 0): 7, ("zoe", 0): 1}
    (refusal,) = made.refusals
    assert refusal.reason is Reason.RATE_LIMITED
    assert refusal.message == "tenant ada has sent 60 shards this minute, its limit"


REGIONS, TENANTS = ("us", "eu"), ("ada", "bob", "zoe")
few = st.integers(0, 6)


@st.composite
def views(draw: st.DrawFn) -> View:
    places = st.tuples(st.sampled_from(REGIONS), st.sampled_from(TENANTS), st.integers(-1, 1))
    lanes = tuple(
        lane(tenant, draw(few), region=region, priority=priority, waited_s=draw(few))
        for region, tenant, priority in draw(st.lists(places, unique=True, max_size=9))
    )
    at_work = {(region, tenant): draw(few) for region in REGIONS for tenant in TENANTS}
    regions = {}
    for name in REGIONS:
        total = sum(count for (region, _), count in at_work.items() if region == name)
        dispatched = draw(st.integers(0, total))
        regions[name] = Region(name, ready=draw(few), dispatched=dispatched, running=total - dispatched)
    limits = Limits(
        region_concurrency=draw(st.integers(1, 24)),
        dispatch_window=draw(st.integers(1, 4)),
        tenant_concurrency=draw(st.none() | st.integers(1, 20)),
        tenant_rate_per_minute=draw(st.none() | st.integers(1, 10)),
    )
    left = {tenant: draw(few) for tenant in TENANTS} if limits.tenant_rate_per_minute else {}
    return View(NOON, limits, regions, at_work, lanes, left)


def sums(made: Plan) -> tuple[Counter[str], Counter[str], Counter[tuple[str, str]]]:
    """What was granted by region, by tenant, by both."""
    by_region: Counter[str] = Counter()
    by_tenant: Counter[str] = Counter()
    by_both: Counter[tuple[str, str]] = Counter()
    for grant in made.grants:
        by_region[grant.lane.region] += grant.count
        by_tenant[grant.lane.tenant] += grant.count
        by_both[grant.lane.region, grant.lane.tenant] += grant.count
    return by_region, by_tenant, by_both


def may_have_more(seen: View, made: Plan, tenant: str) -> bool:
    """Whether neither the tenant's cap nor its minute stands against one more."""
    sent, limits = sums(made)[1][tenant], seen.limits
    busy = sent + sum(count for (_, name), count in seen.at_work.items() if name == tenant)
    below_cap = limits.tenant_concurrency is None or busy < limits.tenant_concurrency
    rate = limits.tenant_rate_per_minute
    return below_cap and (rate is None or sent < seen.minute_left.get(tenant, rate))


@given(views())
def test_no_cap_is_ever_passed(seen: View) -> None:
    by_region, by_tenant, _ = sums(plan(seen))
    for name, count in by_region.items():
        assert count <= seen.region(name).room(seen.limits)
    for tenant, count in by_tenant.items():
        busy = sum(many for (_, name), many in seen.at_work.items() if name == tenant)
        assert seen.limits.tenant_concurrency is None or busy + count <= seen.limits.tenant_concurrency
        assert seen.limits.tenant_rate_per_minute is None or count <= seen.minute_left[tenant]


@given(views())
def test_no_room_stays_empty_while_somebody_may_fill_it(seen: View) -> None:
    made = plan(seen)
    by_region = sums(made)[0]
    given_to = {grant.lane: grant.count for grant in made.grants}
    for one in seen.lanes:
        if given_to.get(one, 0) < one.due and may_have_more(seen, made, one.tenant):
            assert by_region[one.region] == seen.region(one.region).room(seen.limits)


@given(views())
def test_nothing_goes_to_a_lower_priority_while_a_higher_one_may_have_it(seen: View) -> None:
    made = plan(seen)
    given_to = {grant.lane: grant.count for grant in made.grants}
    for high in seen.lanes:
        if given_to.get(high, 0) < high.due and may_have_more(seen, made, high.tenant):
            below = [one for one in given_to if one.region == high.region and one.priority < high.priority]
            assert not below


@given(views())
def test_at_one_priority_nobody_is_given_more_than_one_ahead_of_who_wants_and_may(seen: View) -> None:
    made = plan(seen)
    given_to = {grant.lane: grant.count for grant in made.grants}
    at_work = Counter(seen.at_work)
    at_work.update(sums(made)[2])
    for wants in seen.lanes:
        if given_to.get(wants, 0) == wants.due or not may_have_more(seen, made, wants.tenant):
            continue
        for got in given_to:
            alike = got.region == wants.region and got.priority == wants.priority and got.tenant != wants.tenant
            if alike and not any(one.region == got.region and one.priority < got.priority for one in given_to):
                assert at_work[got.region, got.tenant] <= at_work[wants.region, wants.tenant] + 1


@given(views())
def test_who_gets_less_than_is_due_is_told_why(seen: View) -> None:
    made = plan(seen)
    given_to = {grant.lane: grant.count for grant in made.grants}
    told = {(refusal.region, refusal.tenant) for refusal in made.refusals}
    short = {(one.region, one.tenant) for one in seen.lanes if given_to.get(one, 0) < one.due}
    assert told == short
