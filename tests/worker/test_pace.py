"""A worker measures what its pool's size is reckoned by, and tells it in the table."""

from tests.waiting import until
from tests.worker.machine import Machine


def test_a_worker_tells_its_pod_how_long_it_loaded_and_how_long_an_image_takes(machine: Machine) -> None:
    machine.ready(POD_NAME="gpu-7f9c-x2x")
    until(lambda: machine.listed().load_s is not None, "how long it loaded is listed")
    assert (machine.listed().pod, machine.listed().image_s) == ("gpu-7f9c-x2x", None)
    machine.done("first")
    until(lambda: machine.listed().image_s is not None, "its speed is listed")
    loaded, image_s = machine.listed().load_s, machine.listed().image_s
    assert loaded is not None
    assert image_s is not None
    assert loaded > 0
    assert image_s > 0
