"""Outages are told once, and servers that are away are asked seldom."""

import logging

import pytest

from controller import outages as outages_module
from controller.outages import Outages
from samjobs.errors import QueueUnavailable

ERROR = QueueUnavailable("away")


class Clock:
    """A monotonic clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.at = 100.0

    def monotonic(self) -> float:
        return self.at


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    one = Clock()
    monkeypatch.setattr(outages_module, "time", one)
    return one


def test_the_pauses_grow_to_the_longest_and_begin_anew_after_the_outage(clock: Clock) -> None:
    outages = Outages(longest_s=5)
    pauses = []
    for _ in range(5):
        outages.failed("redis", ERROR)
        pauses.append(outages.pause_s("redis"))
        clock.at += pauses[-1]
    assert pauses == [1, 2, 4, 5, 5]
    assert outages.pause_s("redis") == 0
    assert outages.away("redis")

    outages.fine("redis")
    assert not outages.away("redis")
    outages.failed("redis", ERROR)
    assert outages.pause_s("redis") == 1


def test_several_threads_that_meet_one_failure_make_one_pause_of_it(clock: Clock) -> None:
    outages = Outages(longest_s=60)
    for _ in range(5):
        outages.failed("database", ERROR)

    assert outages.pause_s("database") == 1


def test_an_outage_is_told_when_it_begins_and_when_it_ends(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    outages = Outages(longest_s=60)
    outages.fine("redis")
    for _ in range(3):
        outages.failed("redis", ERROR)
        clock.at += 60
    outages.fine("redis")
    outages.fine("redis")

    assert caplog.messages == ["outage server=redis began: away", "outage server=redis over after 180.0 s"]
