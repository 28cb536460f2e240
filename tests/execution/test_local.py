"""One machine's queue: it is worked to its end, and the shards of dead processes go on elsewhere."""

import os
import signal
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest

from samjobs.errors import ModelUnavailable
from samjobs.execution.local import LocalWorker
from samjobs.execution.presence import locks_folder
from samjobs.execution.shard import End
from samjobs.segmentation.engines.base import Engine
from samjobs.segmentation.engines.opencv import OpenCVEngine
from samjobs.segmentation.pipeline import Limit
from samjobs.segmentation.work import Outcome
from samjobs.spec import JobSpec
from samjobs.states import ShardState
from samjobs.storage import Storage
from samjobs.store import Store, connect, jobs, migrate, now, workers
from samjobs.store.rows import Job, Shard, Worker, WorkerState
from tests.execution.builders import Other, events, job, settings, spec, states
from tests.store.builders import new_images, read, running, shard_of
from tests.waiting import until


@pytest.fixture
def store(sqlite_url: str) -> Iterator[Store]:
    """SQLite alone: this is what one machine has."""
    opened = connect(sqlite_url)
    migrate(opened)
    yield opened
    opened.close()


@pytest.fixture
def locks(store: Store) -> Path:
    return locks_folder(Path(store.name))


class Watched:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.images: list[str] = []
        self.ends: list[End] = []

    def image(self, job: Job, outcome: Outcome) -> None:
        self.images.append(outcome.task.key)

    def shard_ended(self, job: Job, shard: Shard, end: End) -> None:
        self.ends.append(end)


def test_it_works_until_the_whole_queue_is_done(store: Store, locks: Path, tmp_path: Path) -> None:
    first, second = job(store, tmp_path / "a", 6), job(store, tmp_path / "b", 1)

    watched = _work(store, locks)

    assert len(watched.images) == 7
    assert watched.ends == [End.FINISHED] * 3
    assert read(store, first).state.value == read(store, second).state.value == "succeeded"
    with store.read() as conn:
        assert workers.listing(conn) == []


def test_it_works_on_one_job_alone(store: Store, locks: Path, tmp_path: Path) -> None:
    first, second = job(store, tmp_path / "a", 1), job(store, tmp_path / "b", 1)

    _work(store, locks, job_id=second)

    assert (read(store, first).state.value, read(store, second).state.value) == ("queued", "succeeded")


@pytest.mark.parametrize("listed", [True, False])
def test_the_shard_of_a_killed_process_is_put_back_and_charged(
    store: Store, sqlite_url: str, locks: Path, tmp_path: Path, listed: bool
) -> None:
    job_id = job(store, tmp_path, 2)
    other = Other(sqlite_url, locks)
    with _worker(store, locks) as mine:
        assert mine.put_back_orphans() == 0
        assert shard_of(store, job_id).incarnation == other.incarnation
        other.kill()
        if not listed:  # whether its row in the table of workers is there makes no difference
            with store.begin() as conn:
                workers.remove(conn, other.incarnation)

        assert mine.put_back_orphans() == 1

    shard = shard_of(store, job_id)
    assert (shard.state, shard.failures) == (ShardState.QUEUED, 1)
    assert "WorkerFault" in events(store, job_id)
    assert list(locks.glob("*.lock")) == []


def test_the_shard_of_a_process_that_was_stopped_for_long_goes_on_elsewhere(
    store: Store, sqlite_url: str, locks: Path, tmp_path: Path
) -> None:
    job_id = job(store, tmp_path, 2)
    other = Other(sqlite_url, locks)
    os.kill(other.process.pid, signal.SIGSTOP)
    with _worker(store, locks, stale_job_timeout_seconds=0.2) as mine:
        until(lambda: mine.put_back_orphans() == 1, "its heartbeat is stale")
    other.kill()

    assert shard_of(store, job_id).state is ShardState.QUEUED


def test_a_shard_whose_lease_this_process_gave_up_is_released_uncharged(
    store: Store, locks: Path, tmp_path: Path
) -> None:
    job_id = job(store, tmp_path, 2)
    with _worker(store, locks) as mine:
        running(store, job_id, mine.incarnation)
        until(lambda: mine.put_back_orphans() == 1, "it is put back")

    shard = shard_of(store, job_id)
    assert (shard.state, shard.failures) == (ShardState.QUEUED, 0)


def test_a_neighbour_leaves_a_process_alone_that_loads_its_engine(store: Store, locks: Path, tmp_path: Path) -> None:
    job_id = job(store, tmp_path, 1)
    stale_s = 0.3

    def slow(spec: JobSpec) -> Engine:
        began = shard_of(store, job_id).heartbeat_at
        assert began is not None
        with _worker(store, locks, stale_job_timeout_seconds=stale_s) as neighbour:
            while _database_now(store) - began < timedelta(seconds=2 * stale_s):
                assert neighbour.put_back_orphans() == 0
        return OpenCVEngine()

    watched = _work(store, locks, engine_for=slow, stale_job_timeout_seconds=stale_s)

    assert watched.ends == [End.FINISHED]
    assert shard_of(store, job_id).failures == 0


def test_the_list_of_workers_tells_what_each_does_and_has_loaded(store: Store, locks: Path, tmp_path: Path) -> None:
    job_id = job(store, tmp_path, 1)
    seen: list[Worker] = []

    def look(*_: object) -> None:
        with store.read() as conn:
            seen.extend(workers.listing(conn))

    class Looking(Watched):
        image = shard_ended = look

    def loading(spec: JobSpec) -> Engine:
        look()
        return OpenCVEngine()

    with _worker(store, locks, engine_for=loading) as worker:
        worker.run(Looking(), allowance=Limit())

    shard = shard_of(store, job_id)
    assert [(one.state, one.shard_id, one.device, one.model) for one in seen] == [
        (WorkerState.LOADING, None, "", ""),
        (WorkerState.BUSY, shard.id, "cpu", "none"),
        (WorkerState.READY, None, "cpu", "none"),
    ]


def test_a_model_that_cannot_be_loaded_charges_no_shard(store: Store, locks: Path, tmp_path: Path) -> None:
    job_id = job(store, tmp_path, 2)

    def missing(spec: JobSpec) -> Engine:
        raise ModelUnavailable("no weights: set SAMJOBS_SAM3_MODEL")

    with pytest.raises(ModelUnavailable):
        _work(store, locks, engine_for=missing)

    shard = shard_of(store, job_id)
    assert (shard.state, shard.failures) == (ShardState.QUEUED, 0)


def test_a_job_whose_listing_broke_off_is_worked_as_far_as_it_goes(store: Store, locks: Path, tmp_path: Path) -> None:
    with store.begin() as conn:
        job_id = jobs.submit(conn, spec(tmp_path), name="job").job_id
        jobs.add_images(conn, job_id, new_images(2))

    _work(store, locks, job_id=job_id)

    assert states(store, job_id) == ["failed", "failed"]  # the files are not there
    assert read(store, job_id).state.value == "running"


def test_who_is_at_work_on_a_job_is_known(store: Store, sqlite_url: str, locks: Path, tmp_path: Path) -> None:
    job_id = job(store, tmp_path, 2)
    with _worker(store, locks) as mine:
        assert not mine.at_work_on(read(store, job_id))
        other = Other(sqlite_url, locks)
        assert mine.at_work_on(read(store, job_id))
        other.kill()
        assert not mine.at_work_on(read(store, job_id))


def _database_now(store: Store) -> datetime:
    with store.read() as conn:
        return now(conn)


def _worker(
    store: Store,
    locks: Path,
    *,
    engine_for: Callable[[JobSpec], Engine] = lambda spec: OpenCVEngine(),
    **changes: object,
) -> LocalWorker:
    return LocalWorker(store, Storage(), settings(**changes), engine_for, locks)


def _work(
    store: Store,
    locks: Path,
    *,
    job_id: UUID | None = None,
    engine_for: Callable[[JobSpec], Engine] = lambda spec: OpenCVEngine(),
    **changes: object,
) -> Watched:
    watched = Watched()
    with _worker(store, locks, engine_for=engine_for, **changes) as worker:
        worker.run(watched, allowance=Limit(), job_id=job_id)
    return watched
