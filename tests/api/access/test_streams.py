"""A stream of progress is no way to keep a right that was taken away, whether the job rests or not."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from api import sse
from samjobs.client import Client
from samjobs.store import connect, migrate
from samjobs.store.rows import Job
from tests.store.builders import job, read
from tests.waiting import PATIENCE_S


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    store = connect(url)
    migrate(store)
    store.close()
    with Client(url) as opened:
        yield opened


class Followed(sse.Watchers):
    """Knows who came last, so that a test can tell that one of changes at a pace of its own."""

    last: sse.Following | None = None

    def follow(self, job: Job) -> sse.Following | None:
        self.last = super().follow(job)
        return self.last


@pytest.mark.parametrize("busy", [True, False], ids=["a job that never rests", "a job that rests"])
def test_a_follower_is_judged_again_and_sent_away(client: Client, monkeypatch: pytest.MonkeyPatch, busy: bool) -> None:
    monkeypatch.setattr(sse, "HEARTBEAT_S", 0.05)
    followed = read(client.store, job(client.store))
    asked = []

    async def still_allowed() -> bool:
        asked.append(True)
        return len(asked) < 3

    async def work(watchers: Followed) -> None:
        done = 0
        while True:
            if watchers.last is not None:
                watchers.last.tell(changed(followed, done := done + 1))
            await asyncio.sleep(0.005)

    async def followed_to_the_end() -> list[bytes]:
        watchers = Followed(client)
        at_work = asyncio.create_task(work(watchers)) if busy else None
        async with asyncio.timeout(PATIENCE_S):
            told = [event async for event in sse.stream(watchers, followed, lambda job: "{}", still_allowed)]
        if at_work is not None:
            at_work.cancel()
        watchers.close()
        return told

    told = asyncio.run(followed_to_the_end())
    assert len(asked) == 3
    assert told[0].startswith(b"event: job")
    assert b"event: end" not in b"".join(told)


def changed(job: Job, done: int) -> Job:
    return replace(job, images_done=done)
