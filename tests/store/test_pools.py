"""What is remembered of pools; on both databases."""

from dataclasses import replace
from datetime import UTC, datetime

from samjobs.decisions.scaling import Current, Memory, Scale, Speed
from samjobs.names import Reason
from samjobs.store import Store, pools
from samjobs.store.rows import Pool

AT = datetime(2026, 3, 1, 14, 0, tzinfo=UTC)
SCALE = Scale(3, Reason.UP_COOLDOWN, "held at 3 until 14:00:30 UTC", 5, True, Memory(AT, AT, 2))


def pool(namespace: str = "lab", name: str = "gpu", scale: Scale = SCALE) -> Pool:
    return Pool.of(
        namespace, name, region="eu", engine="sam3", current=Current(3, 2, 1), speed=Speed(0.25, 41.5), scale=scale
    )


def test_a_decision_comes_back_as_it_was_kept(store: Store) -> None:
    with store.begin() as conn:
        assert pools.get(conn, "lab", "gpu") is None
        pools.save(conn, pool())
        kept = pools.get(conn, "lab", "gpu")
    assert kept == pool()
    assert kept.updated_at is not None
    assert (kept.memory, kept.speed) == (SCALE.memory, Speed(0.25, 41.5))
    assert (kept.desired, kept.ready, kept.busy, kept.reason) == (3, 2, 1, Reason.UP_COOLDOWN)


def test_a_later_decision_takes_the_place_of_the_earlier_one(store: Store) -> None:
    later = pool(scale=Scale(0, Reason.SCALED_DOWN, "3 → 0: no work", 0, False, Memory(AT)))
    with store.begin() as conn:
        pools.save(conn, pool())
        first = pools.get(conn, "lab", "gpu")
    with store.begin() as conn:
        pools.save(conn, later)
        second = pools.get(conn, "lab", "gpu")
    assert second == later
    assert second.memory == Memory(AT)
    assert first is not None
    assert first.updated_at is not None
    assert second.updated_at is not None
    assert second.updated_at >= first.updated_at


def test_pools_are_listed_by_namespace_and_name_and_forgotten_one_by_one(store: Store) -> None:
    with store.begin() as conn:
        for namespace, name in (("lab", "gpu"), ("art", "gpu"), ("lab", "cpu")):
            pools.save(conn, pool(namespace, name))
        assert [(one.namespace, one.name) for one in pools.listing(conn)] == [
            ("art", "gpu"),
            ("lab", "cpu"),
            ("lab", "gpu"),
        ]
        assert pools.forget(conn, "lab", "gpu")
        assert not pools.forget(conn, "lab", "gpu")
        assert [(one.namespace, one.name) for one in pools.listing(conn)] == [("art", "gpu"), ("lab", "cpu")]


def test_any_text_may_be_in_a_message(store: Store) -> None:
    odd = "not \x00 \ud800 \U0001f642 " + "x" * 5000
    with store.begin() as conn:
        pools.save(conn, replace(pool(), message=odd))
        kept = pools.get(conn, "lab", "gpu")
    assert kept is not None
    assert kept.message.endswith("…")
