"""A connection on which nobody goes on is cut, whatever it stands still in; one in use is not."""

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from api.process import Server
from tests.waiting import until

LARGE = 32 << 20


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """/large: more than fits between here and there; else a word."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    if scope["path"] == "/large":
        for _ in range(LARGE >> 16):
            await send({"type": "http.response.body", "body": bytes(1 << 16), "more_body": True})
    await send({"type": "http.response.body", "body": b"done"})


@pytest.fixture
def server() -> Iterator[Server]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(app, lifespan="off", log_config=None, http="h11", timeout_keep_alive=60)
        server = Server(config, listening, patience_s=0.5)
        server.thread.start()
        until(lambda: server.started, "it serves")
        yield server
        server.should_exit = True
        server.thread.join(30)


@pytest.fixture
def port(server: Server) -> int:
    found: int = server.servers[0].sockets[0].getsockname()[1]
    return found


def until_cut(talk: socket.socket) -> bytes:
    """What comes until the server ends the connection; fails where it never does."""
    talk.settimeout(30)
    got = bytearray()
    try:
        while chunk := talk.recv(1 << 20):
            got += chunk
    except ConnectionError:
        pass
    return bytes(got)


STANDING = {
    "nothing": (b"", 0),
    "half a head": (b"GET / HTTP/1.1\r\nHost: ", 0),
    "one request": (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 1),
    "a request and a half": (b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HT", 1),
    "half a body that nobody reads": (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{", 1),
}


def test_who_does_not_go_on_is_cut(port: int) -> None:
    with ExitStack() as stack:
        talks = {}
        for name, (sent, _) in STANDING.items():
            talks[name] = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            talks[name].sendall(sent)
        got = {name: until_cut(talk).count(b"HTTP/1.1 200 ") for name, talk in talks.items()}
    assert got == {name: answers for name, (_, answers) in STANDING.items()}


def test_who_sends_a_head_without_end_is_cut(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as talk:
        talk.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        ended, sent = threading.Event(), 0

        def drip() -> None:
            nonlocal sent
            while not ended.wait(0.05):
                try:
                    talk.sendall(b"a")
                except OSError:
                    return
                sent += 1

        dripping = threading.Thread(target=drip)
        dripping.start()
        assert until_cut(talk) == b""
        ended.set()
        dripping.join(10)
        assert sent > 0


def test_who_takes_no_answer_is_cut(server: Server, port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as talk:
        talk.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        until(lambda: bool(server.server_state.tasks), "the request is there")
        until(lambda: not server.server_state.connections, "it is cut")
        assert len(until_cut(talk)) < LARGE


def test_who_takes_an_answer_slowly_gets_all_of_it(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=30) as talk:
        talk.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        got = 0
        while chunk := talk.recv(1 << 18):
            got += len(chunk)
            threading.Event().wait(0.02)
        assert got > LARGE
