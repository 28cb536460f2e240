"""A worker in the table: listed, told of, listed again when it was forgotten, and gone in the end."""

from collections.abc import Iterator
from contextlib import closing
from uuid import uuid4

import pytest

from samjobs.segmentation.engines.opencv import OpenCVEngine
from samjobs.store import Store, connect, workers
from samjobs.store.rows import Worker, WorkerState
from tests.execution.builders import settings
from tests.waiting import until
from worker.drain import Drain
from worker.presence import Presence

ME = uuid4()


@pytest.fixture
def store(postgres_url: str) -> Iterator[Store]:
    """One connection and no more: all that heartbeats need."""
    with closing(connect(postgres_url, connections=1)) as opened:
        yield opened


@pytest.fixture
def drain() -> Drain:
    return Drain()


@pytest.fixture
def presence(store: Store, drain: Drain) -> Presence:
    return Presence(store, ME, settings(heartbeat_seconds=0.05, region="asia", pod_name="gpu-7f9c-x2x"), drain)


def test_it_is_listed_as_loading_until_its_engine_is_there(store: Store, presence: Presence) -> None:
    with presence:
        assert (_row(store).state, _row(store).region) == (WorkerState.LOADING, "asia")
        assert (_row(store).pod, _row(store).load_s, _row(store).image_s) == ("gpu-7f9c-x2x", None, None)
        assert presence.ready() == "loading engine sam3"
        presence.loaded(OpenCVEngine().info, 1.5)
        until(lambda: _row(store).state is WorkerState.READY, "it is listed as ready")
        assert (_row(store).model, _row(store).device, _row(store).load_s) == ("none", "cpu", 1.5)
        assert presence.ready() is None
    assert _row(store).state is WorkerState.GONE


def test_it_beats_whatever_it_does(store: Store, presence: Presence) -> None:
    with presence:
        first = _row(store).heartbeat_at
        until(lambda: _row(store).heartbeat_at > first, "a heartbeat while it loads")
        shard_id = uuid4()
        presence.tell(WorkerState.BUSY, shard_id)
        until(lambda: _row(store).state is WorkerState.BUSY, "it is listed as busy")
        assert _row(store).shard_id == shard_id
        busy = _row(store).heartbeat_at
        until(lambda: _row(store).heartbeat_at > busy, "a heartbeat while it works")
        assert presence.age_s() < 60


def test_what_it_measured_is_told_with_the_next_change(store: Store, presence: Presence) -> None:
    with presence:
        presence.measured(0.25)
        presence.tell(WorkerState.READY)
        until(lambda: _row(store).image_s == 0.25, "its speed is listed")
        presence.tell(WorkerState.BUSY, uuid4())
        until(lambda: _row(store).state is WorkerState.BUSY, "it is listed as busy")
        assert _row(store).image_s == 0.25


def test_while_it_drains_it_is_listed_so_and_not_ready(store: Store, presence: Presence, drain: Drain) -> None:
    with presence:
        presence.tell(WorkerState.BUSY, uuid4())
        drain.requested = True
        until(lambda: _row(store).state is WorkerState.DRAINING, "it is listed as draining")
        assert presence.ready() == "draining"
        assert presence.alive() is None


def test_who_was_forgotten_is_listed_again_with_all_that_was_known(store: Store, presence: Presence) -> None:
    with presence:
        presence.loaded(OpenCVEngine().info, 1.5)
        until(lambda: _row(store).model == "none", "its model is listed")
        with store.begin() as conn:
            workers.remove(conn, ME)
        until(lambda: _rows(store) != [] and _row(store).model == "none", "it is listed again")
        row = _row(store)
        assert (row.state, row.pod, row.load_s) == (WorkerState.READY, "gpu-7f9c-x2x", 1.5)


def test_a_stall_is_a_reason_to_restart_it(presence: Presence) -> None:
    presence.stall = "no image finished for 300 s"
    assert presence.alive() == "no image finished for 300 s"


def _rows(store: Store) -> list[Worker]:
    with store.read() as conn:
        return workers.listing(conn)


def _row(store: Store) -> Worker:
    (row,) = _rows(store)
    return row
