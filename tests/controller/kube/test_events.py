"""One Event for what is the same."""

from controller.kube.events import Events
from tests.controller.kube.bed import Bed


def told(bed: Bed, name: str) -> dict[tuple[str, str], int]:
    """Counts by reason and message."""
    return {(reason, kind): count for kind, reason, count in bed.events(name)}


def test_what_is_told_again_is_counted(bed: Bed) -> None:
    bed.apply("trip")
    events = Events(bed.kube, rest_s=0)
    for _ in range(3):
        events.tell(bed.object("trip"), "Warning", "InvalidSpec", "no such place")
    assert told(bed, "trip") == {("InvalidSpec", "Warning"): 3}


def test_what_is_told_in_each_round_is_written_once(bed: Bed) -> None:
    bed.apply("trip")
    events = Events(bed.kube)
    for _ in range(100):
        events.tell(bed.object("trip"), "Normal", "Completed", "done")
    assert told(bed, "trip") == {("Completed", "Normal"): 1}


def test_a_restart_counts_on(bed: Bed) -> None:
    bed.apply("trip")
    for _ in range(2):
        Events(bed.kube).tell(bed.object("trip"), "Normal", "Completed", "done")
    assert told(bed, "trip") == {("Completed", "Normal"): 2}


def test_another_reason_or_object_is_another_event(bed: Bed) -> None:
    bed.apply("trip")
    bed.apply("other")
    events = Events(bed.kube)
    events.tell(bed.object("trip"), "Normal", "Completed", "done")
    events.tell(bed.object("trip"), "Warning", "ShardsDead", "done")
    events.tell(bed.object("other"), "Normal", "Completed", "done")
    assert len(bed.events("trip")) == 2
    assert len(bed.events("other")) == 1


def test_odd_and_long_texts_and_names_are_told(bed: Bed) -> None:
    name = "a" * 240 + ".b"
    bed.apply(name)
    Events(bed.kube).tell(bed.object(name), "Warning", "Failed", "NUL \x00, surrogate \udcff, " + "long " * 1000)
    assert bed.events(name) == [("Warning", "Failed", 1)]


def test_an_event_that_is_refused_stops_nobody(bed: Bed) -> None:
    bed.apply("trip")
    nowhere = {**bed.object("trip"), "metadata": {"name": "trip", "namespace": "Not A Name", "uid": "x"}}
    Events(bed.kube).tell(nowhere, "Normal", "Completed", "done")
