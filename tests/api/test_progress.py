"""Progress as events: the state now, each change, the end; for many at the price of one, and not for ever."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest

from samjobs.store import Store, jobs, shards
from tests.api.server import TOKENS, Api, write_tokens
from tests.api.test_jobs import JOBS
from tests.api.world import submitted
from tests.store.builders import outcomes, running
from tests.waiting import until

Event = tuple[str, Any]


def events(lines: Iterator[str]) -> Iterator[Event]:
    """Names and data of a stream's events."""
    name, data = "", ""
    for line in lines:
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            data = line.removeprefix("data: ")
        elif not line and name:
            yield name, json.loads(data)
            name = ""


class Watch:
    """Somebody who follows a job, in a thread."""

    def __init__(self, api: Api, job_id: UUID, token: str = "root", **headers: str) -> None:
        self.seen: list[Event] = []
        self.thread = threading.Thread(target=self._follow, args=(api, job_id, token, headers), daemon=True)
        self.thread.start()

    def _follow(self, api: Api, job_id: UUID, token: str, headers: dict[str, str]) -> None:
        with api.client(token) as client, client.stream("GET", f"{JOBS}/{job_id}/progress", headers=headers) as answer:
            assert answer.headers["Content-Type"].startswith("text/event-stream")
            for event in events(answer.iter_lines()):
                self.seen.append(event)

    def until_seen(self, count: int) -> "Watch":
        until(lambda: len(self.seen) >= count, f"{count} events are seen, not only {self.seen}")
        return self

    def ended(self) -> list[Event]:
        self.thread.join(60)
        assert not self.thread.is_alive(), f"the stream goes on after {self.seen}"
        return self.seen

    @property
    def states(self) -> list[tuple[str, int]]:
        return [(data["state"], data["images"]["done"]) for name, data in self.seen if name == "job"]


def work(store: Store, job_id: UUID, *, to_the_end: bool = True) -> None:
    shard = running(store, job_id)
    with store.begin() as conn:
        assert shards.record(conn, shard.id, shard.attempt, outcomes(shard))
        if to_the_end:
            assert shards.finish(conn, shard.id, shard.attempt)


def test_a_job_is_followed_from_now_to_its_end(api: Api, api_store: Store) -> None:
    job_id = submitted(api_store, ["/photos/a.jpg", "/photos/b.jpg"], shard_size=1)
    watch = Watch(api, job_id).until_seen(1)
    for _ in range(2):
        seen = len(watch.seen)
        work(api_store, job_id)
        watch.until_seen(seen + 1)
    assert watch.ended()[-1] == ("end", {})
    assert watch.states[0] == ("queued", 0)
    assert watch.states[-1] == ("succeeded", 2)
    assert ("running", 1) in watch.states
    assert watch.seen[0][1]["spec"] is None


def test_a_job_that_has_ended_is_told_and_that_is_all(api: Api, api_store: Store) -> None:
    job_id = submitted(api_store, ["/photos/a.jpg"])
    with api_store.begin() as conn:
        jobs.cancel(conn, job_id, actor="ada")
    watch = Watch(api, job_id, **{"Last-Event-ID": "17"})
    assert [name for name, _ in watch.ended()] == ["job", "end"]
    assert watch.states == [("cancelled", 0)]


def test_a_job_that_is_forgotten_meanwhile_ends_the_stream(api: Api, api_store: Store) -> None:
    job_id = submitted(api_store, ["/photos/a.jpg"])
    watch = Watch(api, job_id).until_seen(1)
    with api_store.begin() as conn:
        jobs.cancel(conn, job_id, actor="ada")
        jobs.delete(conn, job_id)
    assert watch.ended()[-1] == ("end", {"forgotten": True})


def test_many_watchers_share_the_connections_of_the_process(api: Api, api_store: Store, api_database: str) -> None:
    job_ids = [submitted(api_store, ["/photos/a.jpg"]) for _ in range(5)]
    watches = [Watch(api, job_ids[number % 5]).until_seen(1) for number in range(20)]
    assert "samjobs_api_watchers 20.0" in api.probe("/metrics").text
    with psycopg.connect(api_database) as plain:
        query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%LISTEN%'"
        (listening,) = plain.execute(query).fetchone() or (0,)
    assert listening <= 2  # this question, and the one listener
    for job_id in job_ids:
        work(api_store, job_id)
    for watch in watches:
        watch.ended()
        assert watch.states[-1] == ("succeeded", 1)
    until(lambda: "samjobs_api_watchers 0.0" in api.probe("/metrics").text, "nobody is counted any more")


def test_who_goes_away_is_no_longer_counted(api: Api, api_store: Store) -> None:
    job_id = submitted(api_store, ["/photos/a.jpg"])
    with api.client() as client, client.stream("GET", f"{JOBS}/{job_id}/progress") as answer:
        told = events(answer.iter_lines())
        next(told)
        assert "samjobs_api_watchers 1.0" in api.probe("/metrics").text
    until(lambda: "samjobs_api_watchers 0.0" in api.probe("/metrics").text, "the watcher is gone")


@pytest.fixture
def own_api(tmp_path: Path, api_database: str) -> Iterator[Api]:
    one = Api(tmp_path, api_database)
    yield one.until_ready()
    one.close()


def test_the_end_of_the_process_is_not_the_end_of_the_job(own_api: Api, api_store: Store) -> None:
    watch = Watch(own_api, submitted(api_store, ["/photos/a.jpg"])).until_seen(1)
    own_api.stop()
    assert [name for name, _ in watch.ended()] == ["job"]


def test_a_token_that_is_taken_away_ends_its_stream(own_api: Api, api_store: Store, tmp_path: Path) -> None:
    watch = Watch(own_api, submitted(api_store, ["/photos/a.jpg"], tenant="ada"), "ada").until_seen(1)
    write_tokens(tmp_path / "tokens.yaml", {name: one for name, one in TOKENS.items() if name != "ada"})
    assert [name for name, _ in watch.ended()] == ["job"]
