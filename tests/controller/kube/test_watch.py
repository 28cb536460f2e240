"""What changes is heard of at once, and nothing is written to be told."""

import threading
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from controller.kube import watch as watch_module
from controller.kube.wakes import Wakes, Woken
from controller.kube.watch import Watch
from samjobs.names import JOB_PLURAL
from tests.controller.kube.bed import Bed
from tests.waiting import until

UID = UUID(int=1)


@pytest.fixture
def heard(bed: Bed) -> Iterator[list[Woken]]:
    """What a watch of the namespace hears."""
    woken: list[Woken] = []
    wakes = Wakes()
    watch = Watch((bed.namespace,), wakes, lambda: woken.extend(wakes.take()))
    watch.start()
    yield woken
    watch.stop()
    assert watch.ended.is_set()


def test_each_change_is_heard(bed: Bed, heard: list[Woken]) -> None:
    uid = bed.apply("trip")
    until(lambda: any(str(one.uid) == uid for one in heard), "the new object is heard of")
    bed.patch("trip", priority=5)
    until(lambda: any(one.generation == 2 for one in heard), "its change is heard of")
    bed.delete("trip")
    until(lambda: any(one.deleted for one in heard), "its end is heard of")
    assert {(one.plural, one.namespace, one.name) for one in heard} == {(JOB_PLURAL, bed.namespace, "trip")}


def test_what_was_there_before_is_heard_of(bed: Bed) -> None:
    bed.apply("trip")
    wakes = Wakes()
    woken = threading.Event()
    watch = Watch((bed.namespace,), wakes, woken.set)
    watch.start()
    assert woken.wait(60)
    watch.stop()
    assert [one.name for one in wakes.take()] == ["trip"]


def test_a_watched_object_is_left_as_it_is(bed: Bed, heard: list[Woken]) -> None:
    bed.apply("trip")
    made = bed.object("trip")
    bed.patch("trip", priority=5)
    until(lambda: any(one.generation == 2 for one in heard), "its change is heard of")
    meta = bed.object("trip")["metadata"]
    assert "finalizers" not in meta
    assert meta.get("annotations") == made["metadata"].get("annotations")


def test_a_watch_that_breaks_off_begins_anew_at_leisure() -> None:
    assert watch_module._settings().watching.reconnect_backoff >= 1.0, "each time costs a LIST"


def test_a_watch_that_cannot_log_in_ends_and_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    watch = Watch((), Wakes(), lambda: None)
    watch.start()
    assert watch.ended.wait(60)


def test_a_watch_that_was_never_started_can_be_stopped() -> None:
    Watch((), Wakes(), lambda: None).stop()


def test_of_an_object_the_last_word_is_kept() -> None:
    wakes = Wakes()
    for generation in (1, 2):
        wakes.put(Woken(JOB_PLURAL, "team", "trip", UID, generation))
    assert [one.generation for one in wakes.take()] == [2]
    assert wakes.take() == []


def test_what_was_never_told_is_known() -> None:
    wakes = Wakes()
    wakes.put(Woken(JOB_PLURAL, "team", "trip", UID, 1))
    assert wakes.never_told(frozenset({UID, UUID(int=2)})) == {UUID(int=2)}
    wakes.put(Woken(JOB_PLURAL, "team", "trip", UID, 1, deleted=True))
    assert wakes.never_told(frozenset({UID})) == {UID}
