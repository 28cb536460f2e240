"""When a webhook is tried again."""

import pytest

from samjobs.decisions.delivery import RETRY_AFTER_S, next_attempt


def test_each_try_waits_longer_than_the_one_before_and_the_last_gives_up() -> None:
    delays = [next_attempt(tries) for tries in range(1, len(RETRY_AFTER_S) + 2)]

    assert delays[-1] is None, "after the schedule it is given up"
    waits = [delay for delay in delays if delay is not None]
    assert len(waits) == len(RETRY_AFTER_S)
    assert waits == sorted(set(waits))
    assert 20 * 3600 < sum(waits) < 48 * 3600, "a receiver may be away for a night, and is not asked for ever"


@pytest.mark.parametrize("status", [None, 301, 400, 404, 429, 500, 503])
def test_whatever_else_a_receiver_answers_is_tried_again(status: int | None) -> None:
    assert next_attempt(1, status) == 5


@pytest.mark.parametrize("tries", [1, 3])
def test_a_receiver_that_is_gone_is_asked_no_more(tries: int) -> None:
    assert next_attempt(tries, 410) is None
