"""The port that probes and Prometheus ask."""

import socket
import urllib.error
import urllib.request
from collections.abc import Callable

import pytest
from prometheus_client import CollectorRegistry, Counter

from samjobs.errors import InvalidInput
from samjobs.health import HealthPort


def test_who_is_well_answers_ok() -> None:
    with _port() as port:
        assert _get(port, "/livez") == (200, "ok\n")
        assert _get(port, "/readyz?verbose") == (200, "ok\n")


def test_who_is_not_says_why() -> None:
    with _port(alive=lambda: "the device hangs", ready=lambda: "loading") as port:
        assert _get(port, "/livez") == (503, "the device hangs\n")
        assert _get(port, "/readyz") == (503, "loading\n")


def test_metrics_are_those_of_the_registry_that_was_given() -> None:
    registry = CollectorRegistry()
    Counter("eggs", "Eggs laid.", registry=registry).inc(3)
    with _port(registry) as port:
        status, text = _get(port, "/metrics")
    assert status == 200
    assert "eggs_total 3.0" in text
    assert "python_info" not in text


def test_other_pages_name_those_that_there_are() -> None:
    with _port() as port:
        assert _get(port, "/") == (404, "not here: /livez, /readyz, /metrics\n")


def test_a_client_that_says_nothing_keeps_nobody_waiting() -> None:
    with _port() as port, socket.create_connection(("127.0.0.1", port.server_port)):
        assert _get(port, "/livez") == (200, "ok\n")


def test_a_port_that_is_taken_is_told() -> None:
    with _port() as port, pytest.raises(InvalidInput, match=f"SAMJOBS_HEALTH_PORT.*{port.server_port}"):
        _port(number=port.server_port)


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
def test_an_ipv6_address_will_do() -> None:
    with (
        HealthPort("::1", 0, CollectorRegistry(), alive=_well, ready=_well) as port,
        urllib.request.urlopen(f"http://[::1]:{port.server_port}/livez", timeout=30) as answer,
    ):
        assert answer.status == 200


def _well() -> None:
    return None


def _port(
    registry: CollectorRegistry | None = None,
    number: int = 0,
    alive: Callable[[], str | None] = _well,
    ready: Callable[[], str | None] = _well,
) -> HealthPort:
    return HealthPort("127.0.0.1", number, registry or CollectorRegistry(), alive=alive, ready=ready)


def _get(port: HealthPort, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port.server_port}{path}", timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
