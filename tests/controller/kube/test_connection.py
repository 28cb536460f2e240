"""What the answers of an API server mean, as far as a real one cannot be made to give them."""

import json
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from controller.kube.api import Kube
from samjobs.errors import AccessDenied, InvalidInput, KubernetesUnavailable
from tests.controller.kube.bed import installation


def kubeconfig(folder: Path, server: str) -> Path:
    path = folder / "kubeconfig"
    cluster = {"name": "c", "cluster": {"server": server}}
    user = {"name": "u", "user": {"token": "secret"}}
    context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
    lists = {"clusters": [cluster], "users": [user], "contexts": [context]}
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": "x", **lists}))
    return path


class Answers(ThreadingHTTPServer):
    """A server that gives prepared answers, one after another, and notes what it was asked."""

    def __init__(self, *answers: tuple[int, dict[str, str], object]) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, str | None]] = []
        super().__init__(("127.0.0.1", 0), _Answer)
        Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()


@contextmanager
def serving(*answers: tuple[int, dict[str, str], object]) -> Iterator[Answers]:
    server = Answers(*answers)
    yield server
    server.shutdown()
    server.server_close()


class _Answer(BaseHTTPRequestHandler):
    server: Answers

    def do_GET(self) -> None:
        self.server.asked.append((self.path, self.headers["Authorization"]))
        status, headers, body = self.server.answers.pop(0)
        text = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(text))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text)

    def date_time_string(self, timestamp: float | None = None) -> str:
        return "Sat, 28 Nov 2026 12:00:00 GMT"

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def kube_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A client of a server at an address."""
    opened: list[Kube] = []

    def make(port: int, stop: Event | None = None) -> Kube:
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path, f"http://127.0.0.1:{port}")))
        opened.append(Kube(installation("team"), stop))
        return opened[-1]

    yield make
    for one in opened:
        one.close()


def test_a_server_that_asks_for_patience_is_obeyed(kube_of: Any) -> None:
    busy = (429, {"Retry-After": "1"}, {"message": "later"})
    with serving(busy, (200, {}, {"metadata": {"name": "trip"}})) as server:
        assert kube_of(server.server_port).get_job("team", "trip") == {"metadata": {"name": "trip"}}
        assert len(server.asked) == 2
        assert server.asked[0][1] == "Bearer secret"


def test_who_is_to_end_does_not_wait_for_it(kube_of: Any) -> None:
    stop = Event()
    stop.set()
    with serving((429, {"Retry-After": "30"}, {})) as server:
        with pytest.raises(KubernetesUnavailable, match="too many requests"):
            kube_of(server.server_port, stop).get_job("team", "trip")
        assert len(server.asked) == 1


@pytest.mark.parametrize("status", [401, 429, 500, 503])
def test_a_servers_fault_is_an_outage(kube_of: Any, status: int) -> None:
    with serving((status, {}, {"message": "no"})) as server, pytest.raises(KubernetesUnavailable, match="no"):
        kube_of(server.server_port).get_job("team", "trip")


def test_an_answer_that_is_no_json_is_an_outage(kube_of: Any) -> None:
    with serving((502, {}, "a proxy's page")) as server, pytest.raises(KubernetesUnavailable):
        kube_of(server.server_port).get_job("team", "trip")


def test_a_role_that_lacks_a_verb_is_named(kube_of: Any) -> None:
    told = {"message": 'cannot get resource "samjobs"'}
    with serving((403, {}, told)) as server, pytest.raises(AccessDenied, match='cannot get resource "samjobs"'):
        kube_of(server.server_port).get_job("team", "trip")


def test_kinds_that_are_not_installed_are_an_outage(kube_of: Any) -> None:
    answer: tuple[int, dict[str, str], object] = (404, {}, {"message": "page not found"})
    with (
        serving(answer) as server,
        pytest.raises(KubernetesUnavailable, match="CRDs of samjobs are not installed"),
    ):
        list(kube_of(server.server_port).jobs())


def test_nobody_there_is_an_outage(kube_of: Any) -> None:
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(KubernetesUnavailable, match="does not answer"):
        kube_of(port).get_job("team", "trip")


def test_the_clock_goes_on_between_answers(kube_of: Any) -> None:
    with serving((200, {}, {})) as server:
        at = kube_of(server.server_port).now()
    assert 0 <= (at - datetime(2026, 11, 28, 12, tzinfo=UTC)).total_seconds() < 60


def test_no_kubernetes_at_all_is_told_with_a_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(InvalidInput, match="KUBECONFIG"):
        Kube(installation("team"))
