"""Photos and results are read two at a time, and a storage that is slow keeps nobody else in the line for long."""

import asyncio
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from api.photos import AT_ONCE, Photos
from api.problems import Refused
from samjobs.settings import Settings
from samjobs.storage import Access, Storage
from tests.api.world import photo


class Slow(ThreadingHTTPServer):
    """A web server that answers when it is told to."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), SlowAnswer)
        self.go, self.asked = threading.Event(), threading.Semaphore(0)


class SlowAnswer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Slow)
        self.server.asked.release()
        self.server.go.wait(60)
        self.send_error(404)

    do_HEAD = do_GET

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def slow() -> Iterator[Slow]:
    with Slow() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.go.set()
        server.shutdown()


def test_who_gets_no_turn_is_told_to_come_back(slow: Slow, tmp_path: Path) -> None:
    there = f"http://127.0.0.1:{slow.server_port}/a.jpg"
    mine = str(photo(tmp_path / "a.jpg"))

    async def ask(storage: Storage) -> None:
        photos = Photos(Settings(), storage, patience_s=0.5)
        others = [asyncio.create_task(photos.jpeg(there, "eve", 100)) for _ in range(AT_ONCE)]
        for _ in others:
            assert await asyncio.to_thread(slow.asked.acquire, timeout=30)
        with pytest.raises(Refused) as refused:
            await photos.jpeg(mine, "ada", 100)
        assert (refused.value.status, refused.value.kind) == (503, "busy")
        assert int(refused.value.headers["Retry-After"]) > 0
        slow.go.set()
        assert {type(one) for one in await asyncio.gather(*others, return_exceptions=True)} == {Refused}
        assert (await photos.jpeg(mine, "ada", 100)).startswith(b"\xff\xd8")

    with Storage(Access(hosts=("127.0.0.1",), retries=0)) as storage:
        asyncio.run(ask(storage))
