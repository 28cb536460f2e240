"""How do any number of callers follow their jobs for the price of one?

    caller ─┐                       ┌─ one thread: all followed jobs by one statement, every second, and at once
    caller ─┼─ Following (its own) ─┤   when the database tells of a change (LISTEN), which it does not of progress
    caller ─┘                       └─ one connection for LISTEN, for the whole process

A caller is told once a second at most, whatever happens in between; the last state is never skipped. A job that ended,
or was forgotten, ends the stream for good; where this process ends, the caller comes back elsewhere.
"""

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

from samjobs.client import Client
from samjobs.errors import SamjobsError, describe
from samjobs.states import JOB_TERMINAL
from samjobs.store import pages
from samjobs.store.notify import Listener
from samjobs.store.rows import Job

log = logging.getLogger("api")

LEAST_S = 1.0  # between two events of one caller, and between two looks when nothing is told
REST_S = 0.2  # between two looks, whatever is told
HEARTBEAT_S = 15.0
MOST = 1000  # followers of one process
AT_ONCE = 500  # jobs in one statement


class Following:
    """One caller's view of a job: the last state that it has not seen yet."""

    def __init__(self, job: Job, loop: asyncio.AbstractEventLoop) -> None:
        self.job: Job | None = job  # None: forgotten
        self._loop, self._news, self._closed = loop, asyncio.Event(), False
        self._told_at = time.monotonic()

    @property
    def closed(self) -> bool:
        """Whether this process ends."""
        return self._closed

    @property
    def is_due(self) -> bool:
        """Whether the last news is old enough for others to come."""
        return time.monotonic() - self._told_at >= LEAST_S

    def tell(self, job: Job | None) -> None:
        """There is news. From any thread."""
        self._told_at = time.monotonic()

        def told() -> None:
            self.job = job
            self._news.set()

        self._loop.call_soon_threadsafe(told)

    def close(self) -> None:
        """End the stream, not the job. From any thread."""

        def closed() -> None:
            self._closed = True
            self._news.set()

        self._loop.call_soon_threadsafe(closed)

    async def news(self, timeout_s: float) -> bool:
        """Wait for it; False after so many seconds in vain."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._news.wait()
        except TimeoutError:
            return False
        self._news.clear()
        return True


class Watchers:
    """All followers of this process."""

    def __init__(self, client: Client, count: Callable[[int], None] = lambda _: None) -> None:
        self._client, self._count = client, count
        store = client.store
        self._listener = None if store.is_sqlite or store.pooled else Listener(store)
        self._guard = threading.Lock()
        self._followers: dict[UUID, dict[Following, Job]] = {}
        self._some, self._closed = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._look_until_closed, name="watchers", daemon=True)
        self._thread.start()

    def __len__(self) -> int:
        with self._guard:
            return sum(map(len, self._followers.values()))

    @property
    def full(self) -> bool:
        """Whether there are as many as one process takes."""
        return len(self) >= MOST

    @property
    def listening(self) -> bool:
        """Whether changes are told by the database."""
        return self._listener is not None and self._listener.connected

    def follow(self, job: Job) -> Following | None:
        """Begin to follow a job from how the caller knows it; None: there are too many. In the event loop."""
        one = Following(job, asyncio.get_running_loop())
        with self._guard:
            if self._closed.is_set() or sum(map(len, self._followers.values())) >= MOST:
                return None
            self._followers.setdefault(job.id, {})[one] = job
        self._some.set()
        self._count(len(self))
        return one

    def leave(self, job_id: UUID, one: Following) -> None:
        """Follow no more."""
        with self._guard:
            others = self._followers.get(job_id, {})
            others.pop(one, None)
            if not others:
                self._followers.pop(job_id, None)
            if not self._followers:
                self._some.clear()
        self._count(len(self))

    def close(self) -> None:
        """End all streams."""
        with self._guard:
            self._closed.set()
            left = [one for others in self._followers.values() for one in others]
        self._some.set()  # who waits for followers waits no more
        if self._listener is not None:
            self._listener.close()
        for one in left:
            one.close()
        self._thread.join(LEAST_S)

    def _look_until_closed(self) -> None:
        out = False
        while True:
            self._some.wait()
            if self._closed.is_set():
                return
            began = time.monotonic()
            try:
                self._look()
                out = False
            except SamjobsError as error:
                if not out:
                    log.warning("no progress is told: %s", describe(error, 500))
                out = True
            except Exception:
                log.exception("a look at the followed jobs failed; the next one goes on")
            self._rest(began)

    def _rest(self, began: float) -> None:
        """What changes meanwhile is told together."""
        self._closed.wait(REST_S)
        left_s = max(0.0, began + LEAST_S - time.monotonic())
        if self._listener is None:
            self._closed.wait(left_s)
        else:
            self._listener.wait(left_s)

    def _look(self) -> None:
        with self._guard:
            wanted = [*self._followers]
        for start in range(0, len(wanted), AT_ONCE):
            chunk = wanted[start : start + AT_ONCE]
            with self._client.store.read() as conn:
                found = pages.changes(conn, chunk)
            for job_id in chunk:
                self._tell(job_id, found.get(job_id))

    def _tell(self, job_id: UUID, row: dict[str, Any] | None) -> None:
        with self._guard:
            for one, known in self._followers.get(job_id, {}).items():
                job = None if row is None else replace(known, **row)
                if job != known and one.is_due:
                    one.tell(job)
                    if job is not None:
                        self._followers[job_id][one] = job


async def stream(
    watchers: Watchers, job: Job, told: Callable[[Job], str], still_allowed: Callable[[], Awaitable[bool]]
) -> AsyncIterator[bytes]:
    """The events of one follower, from how it knows the job to the end.

    Args:
        told: the job as one line of JSON.
        still_allowed: asked each HEARTBEAT_S, however much there is to tell; False ends the stream.
    """
    # Here, not before: a stream of which nothing is ever read would never end what it began.
    following = watchers.follow(job)
    if following is None:
        yield b": too many follow jobs here; come back\n\n"
        return
    number, judged_at = 0, time.monotonic()
    try:
        while True:
            number += 1
            yield _event("job", told(job), number)
            if job.state in JOB_TERMINAL:
                yield _event("end", "{}", number)
                return
            while True:
                news = await following.news(HEARTBEAT_S)
                if not news or time.monotonic() - judged_at >= HEARTBEAT_S:
                    if not await still_allowed():
                        return
                    judged_at = time.monotonic()
                if news:
                    break
                yield b": still here\n\n"
            if following.closed:
                yield b": this server ends; come back\n\n"
                return
            if following.job is None:
                yield _event("end", '{"forgotten":true}', number)
                return
            job = following.job
    finally:
        watchers.leave(job.id, following)


def _event(name: str, data: str, number: int) -> bytes:
    return f"event: {name}\nid: {number}\ndata: {data}\n\n".encode()
