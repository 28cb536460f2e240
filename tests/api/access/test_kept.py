"""Answers are kept for a while, and never more than so many."""

from api.access.kept import Kept


def test_an_answer_is_kept_until_its_time_is_over() -> None:
    now = [100.0]
    kept: Kept[str, int] = Kept(most=10, seconds=5, clock=lambda: now[0])
    kept.put("a", 1)
    now[0] = 104.9
    assert kept.get("a") == 1
    now[0] = 105.0
    assert kept.get("a") is None


def test_what_was_never_asked_has_no_answer() -> None:
    kept: Kept[str, int] = Kept(most=10, seconds=5)
    assert kept.get("a") is None


def test_the_oldest_give_way_when_there_are_too_many() -> None:
    kept: Kept[int, int] = Kept(most=3, seconds=5, clock=lambda: 0.0)
    for number in range(1_000):
        kept.put(number, number)
    assert len(kept) == 3
    assert [kept.get(number) for number in (996, 997, 999)] == [None, 997, 999]


def test_an_answer_that_is_given_again_is_new_again() -> None:
    kept: Kept[str, int] = Kept(most=2, seconds=5, clock=lambda: 0.0)
    for key in ("a", "b", "a", "c"):
        kept.put(key, 1)
    assert [kept.get(key) for key in ("a", "b", "c")] == [1, None, 1]
