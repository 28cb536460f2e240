"""How one shard ends, by what happens while it runs."""

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from uuid import UUID

import psycopg
import pytest

from samjobs.errors import DeviceFault, EngineUnfit, ModelUnavailable, OutputUnwritable
from samjobs.execution.shard import End, Host, run_shard
from samjobs.inputs import NewImage
from samjobs.segmentation.engines.opencv import OpenCVEngine
from samjobs.segmentation.pipeline import Limit
from samjobs.segmentation.work import Outcome
from samjobs.spec import JobSpec, Prompts, RetryPolicy, TextPrompt
from samjobs.states import ImageState, ShardState
from samjobs.storage import Access, Storage
from samjobs.store import Store, connect, jobs, now, workers
from samjobs.store.rows import Shard
from samjobs.store.tables import images as image_table
from samjobs.store.tables import jobs as job_table
from samjobs.store.tables import shards as shard_table
from tests.execution.builders import Interrupted, draw, events, image_rows, job, job_of, settings, spec, states
from tests.store.builders import ME, read, running, shard_of
from tests.waiting import until


def test_a_finished_shard_has_an_outcome_per_image_and_ends_its_job(store: Store, tmp_path: Path) -> None:
    job_id = job(store, tmp_path, 3)
    (tmp_path / "photos" / "01.png").write_text("not a photo")
    seen: list[str] = []

    assert _run(store, job_id, watch=lambda outcome: seen.append(outcome.task.key)) is End.FINISHED

    assert states(store, job_id) == ["done", "failed", "done"]
    assert seen == ["00.png", "01.png", "02.png"]
    assert shard_of(store, job_id).state is ShardState.SUCCEEDED
    ended = read(store, job_id)
    assert (ended.state.value, ended.images_done, ended.images_failed) == ("succeeded", 2, 1)
    done, failed, _ = image_rows(store, job_id)
    assert (done.width, done.height, done.instances) == (64, 48, 1)
    assert done.output_uri is not None
    assert Path(done.output_uri).exists()
    assert failed.error is not None
    assert "not an image" in failed.error


def test_outcomes_that_wait_to_be_written_are_written_at_the_end(store: Store, tmp_path: Path) -> None:
    job_id = job(store, tmp_path, 3)

    assert _run(store, job_id, progress_seconds=3600) is End.FINISHED
    assert states(store, job_id) == ["done"] * 3


def test_a_shard_that_was_asked_to_stop_goes_back_uncharged(store: Store, tmp_path: Path) -> None:
    job_id = job(store, tmp_path, 4)
    stopped: list[Outcome] = []

    class UntilOneIsDone(Limit):
        def left(self) -> int | None:
            return 0 if stopped else None

    end = _run(store, job_id, watch=stopped.append, allowance=UntilOneIsDone())

    assert end is End.RELEASED
    shard = shard_of(store, job_id)
    assert (shard.state, shard.failures, shard.attempt) == (ShardState.QUEUED, 0, 1)
    assert "pending" in states(store, job_id)
    assert _run(store, job_id) is End.FINISHED
    assert states(store, job_id) == ["done"] * 4


def test_a_suspended_job_gets_its_shard_back_after_the_image_in_hand(store: Store, tmp_path: Path) -> None:
    job_id = job(store, tmp_path, 4)

    def suspend() -> None:
        with store.begin() as conn:
            jobs.set_suspend(conn, job_id, True, actor="a person")
        before = shard_of(store, job_id).heartbeat_at
        until(lambda: shard_of(store, job_id).heartbeat_at != before, "a heartbeat")

    assert _run(store, job_id, Interrupted(2, suspend), stale_job_timeout_seconds=2.0) is End.RELEASED

    shard = shard_of(store, job_id)
    assert (shard.state, shard.failures, shard.held) == (ShardState.QUEUED, 0, True)
    assert states(store, job_id) == ["done", "done", "pending", "pending"]


def test_after_a_cancel_nothing_more_is_written(store: Store, tmp_path: Path) -> None:
    job_id = job(store, tmp_path, 4)

    def cancel() -> None:
        with store.begin() as conn:
            jobs.cancel(conn, job_id, actor="a person")

    assert _run(store, job_id, Interrupted(2, cancel)) in (End.LOST, End.CANCELLED)

    assert states(store, job_id) == ["done", "pending", "pending", "pending"]
    # The image in hand may still have been published whole; none after it.
    assert len(list((tmp_path / "out" / "records").iterdir())) <= 2
    assert shard_of(store, job_id).state is ShardState.CANCELLED


def test_a_job_that_is_forgotten_under_a_running_shard_loses_it(store: Store, tmp_path: Path) -> None:
    job_id = job(store, tmp_path, 2)

    def forget() -> None:
        with store.begin() as conn:
            jobs.cancel(conn, job_id, actor="a person")
            jobs.delete(conn, job_id)

    assert _run(store, job_id, Interrupted(1, forget)) is End.LOST


def test_a_fault_of_the_device_gives_the_shard_back_charged_and_ends_the_run(store: Store, tmp_path: Path) -> None:
    job_id = job(store, tmp_path, 3)

    def fault() -> None:
        raise DeviceFault("the device fell off the bus")

    with pytest.raises(DeviceFault, match="fell off"):
        _run(store, job_id, Interrupted(2, fault))

    shard = shard_of(store, job_id)
    assert (shard.state, shard.failures) == (ShardState.QUEUED, 1)
    assert shard.error == "the device fell off the bus"
    assert shard.available_at > shard.created_at
    assert states(store, job_id) == ["done", "pending", "pending"]


def test_the_lease_is_renewed_while_the_engine_loads(store: Store, tmp_path: Path) -> None:
    job_id = job(store, tmp_path, 1)

    def slow(spec: JobSpec) -> OpenCVEngine:
        """Loads for two renewals, more than after which the lease would be lost."""
        for _ in range(2):
            before = shard_of(store, job_id).heartbeat_at
            until(lambda before=before: shard_of(store, job_id).heartbeat_at != before, "a heartbeat")  # type: ignore[misc]
        return OpenCVEngine()

    end = _run(store, job_id, engine_for=slow, stale_job_timeout_seconds=1.5, stall_timeout_seconds=0.2)

    assert end is End.FINISHED


def test_an_engine_that_cannot_be_loaded_gives_the_shard_back_uncharged_with_the_reason(
    store: Store, tmp_path: Path
) -> None:
    job_id = job(store, tmp_path, 1)

    def missing(spec: JobSpec) -> OpenCVEngine:
        raise ModelUnavailable("no weights: set SAMJOBS_SAM3_MODEL")

    with pytest.raises(ModelUnavailable):
        _run(store, job_id, engine_for=missing)

    shard = shard_of(store, job_id)
    assert (shard.state, shard.failures) == (ShardState.QUEUED, 0)
    with store.read() as conn:
        told = jobs.events(conn, job_id)[-1]
    assert (told.reason, told.message) == ("WorkerFault", "no weights: set SAMJOBS_SAM3_MODEL")


def test_an_engine_that_only_this_job_wants_is_charged_to_it(store: Store, tmp_path: Path) -> None:
    job_id = job(store, tmp_path, 1)

    def unfit(spec: JobSpec) -> OpenCVEngine:
        raise EngineUnfit("engine sam3 some/model cannot be loaded here")

    assert _run(store, job_id, engine_for=unfit) is End.RETRY

    shard = shard_of(store, job_id)
    assert (shard.state, shard.failures) == (ShardState.QUEUED, 1)
    assert shard.error == "engine sam3 some/model cannot be loaded here"
    assert events(store, job_id)[-1] == "EngineUnfit"


def test_an_engine_that_cannot_be_had_anywhere_is_dead_in_the_end(store: Store, tmp_path: Path) -> None:
    job_id = job(store, tmp_path, 1, retry_policy=RetryPolicy(max_attempts=1))

    def unfit(spec: JobSpec) -> OpenCVEngine:
        raise EngineUnfit("engine sam3 some/model cannot be loaded here")

    assert _run(store, job_id, engine_for=unfit) is End.DEAD
    assert shard_of(store, job_id).state is ShardState.DEAD


def test_a_phrase_that_the_engine_cannot_take_kills_the_shard_and_touches_no_image(
    store: Store, tmp_path: Path
) -> None:
    assert _run(store, job(store, tmp_path, 2)) is End.FINISHED
    left = {path: path.read_bytes() for path in (tmp_path / "out" / "records").iterdir()}
    job_id = job(store, tmp_path, 2, prompts=Prompts(text=(TextPrompt(text="red disc"), TextPrompt(text="car"))))

    assert _run(store, job_id) is End.DEAD

    shard = shard_of(store, job_id)
    assert (shard.state, shard.error_class) == (ShardState.DEAD, "permanent")
    assert shard.error is not None
    assert "car" in shard.error
    assert states(store, job_id) == ["pending", "pending"]
    assert {path: path.read_bytes() for path in (tmp_path / "out" / "records").iterdir()} == left


def test_an_output_that_cannot_be_written_charges_nothing_and_fails_no_image(store: Store, tmp_path: Path) -> None:
    job_id = job(store, tmp_path, 2)
    (tmp_path / "out").write_text("a file")

    with pytest.raises(OutputUnwritable):
        _run(store, job_id)

    shard = shard_of(store, job_id)
    assert (shard.state, shard.failures) == (ShardState.QUEUED, 0)
    assert states(store, job_id) == ["pending", "pending"]


def test_a_shard_whose_results_cannot_be_written_is_left_alone_for_a_while(store: Store, tmp_path: Path) -> None:
    job_id = job(store, tmp_path, 2)
    (tmp_path / "out").write_text("a file")

    with pytest.raises(OutputUnwritable):
        _run(store, job_id, critical_pause_s=1000)

    with store.read() as conn:
        assert 900 < (shard_of(store, job_id).available_at - now(conn)).total_seconds() <= 1000


def test_a_fault_of_the_device_ends_the_run_though_the_lease_is_lost(store: Store, tmp_path: Path) -> None:
    """Else the next shard would meet it, and be charged for it."""
    job_id = job(store, tmp_path, 2)

    def cancelled_then_broken() -> None:
        with store.begin() as conn:
            workers.register(conn, ME, pool="", region="", node="", pid=1)
            jobs.cancel(conn, job_id, actor="a person")
        beats: set[datetime] = set()

        def heard() -> int:
            beats.add(_beat(store))
            return len(beats)

        # At the third one the second is over, which began after the cancel.
        until(lambda: heard() > 3, "the loss is learnt")
        raise DeviceFault("the device fell off the bus")

    with pytest.raises(DeviceFault):
        _run(store, job_id, Interrupted(1, cancelled_then_broken), stale_job_timeout_seconds=2.0)

    assert shard_of(store, job_id).state is ShardState.CANCELLED


def test_outcomes_that_the_database_forgot_are_done_again(store: Store, tmp_path: Path) -> None:
    """As after a failover to a replica that lagged: what was committed is not there."""
    job_id = job(store, tmp_path, 4)

    def forget() -> None:
        until(lambda: "done" in states(store, job_id), "an outcome is committed")
        with store.begin() as conn:
            conn.execute(image_table.update().values(state=ImageState.PENDING, finished_at=None))
            conn.execute(shard_table.update().values(images_done=0))
            conn.execute(job_table.update().values(images_done=0))

    assert _run(store, job_id, Interrupted(3, forget)) is End.RETRY
    assert shard_of(store, job_id).failures == 1
    assert "have no outcome" in (shard_of(store, job_id).error or "")
    with store.begin() as conn:
        conn.execute(shard_table.update().values(available_at=now(conn)))
    assert _run(store, job_id) is End.FINISHED
    assert set(states(store, job_id)) <= {"done", "skipped"}


@contextmanager
def _away(url: str) -> Iterator[Callable[[], None]]:
    """A database that accepts no connection and has dropped those that it had, once the function is called."""
    server, _, name = url.rpartition("/")
    with psycopg.connect(f"{server}/postgres", autocommit=True) as admin:

        def leave() -> None:
            admin.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false".encode())
            admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])

        yield leave
        admin.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true".encode())


def test_while_the_database_is_away_work_goes_on_and_nothing_is_done_again(postgres_url: str, tmp_path: Path) -> None:
    with closing(connect(postgres_url)) as store:
        job_id = job(store, tmp_path, 4)
        last = tmp_path / "out" / "records" / "03.png.json"

        def come_back_at_the_last_one() -> None:
            with _away(postgres_url) as leave:
                leave()
                away.set()
                until(last.exists, "the last picture is done while the database is away")

        away = threading.Event()
        outage = threading.Thread(target=come_back_at_the_last_one)

        def begins() -> None:
            outage.start()
            away.wait()

        assert _run(store, job_id, Interrupted(2, begins)) is End.FINISHED
        outage.join()
        assert states(store, job_id) == ["done"] * 4
        assert shard_of(store, job_id).failures == 0


def test_a_database_that_is_away_for_longer_than_the_lease_has_charged_nobody(
    postgres_url: str, tmp_path: Path
) -> None:
    with closing(connect(postgres_url)) as store:
        job_id = job(store, tmp_path, 2)
        with _away(postgres_url) as leave:
            assert _run(store, job_id, Interrupted(2, leave), stale_job_timeout_seconds=0.5) is End.LOST
        shard = shard_of(store, job_id)
        assert (shard.state, shard.failures) == (ShardState.RUNNING, 0), "left to whoever looks after lost leases"


@pytest.fixture
def overloaded() -> Iterator[str]:
    """The address of a server that answers 503 to everything."""

    class Overloaded(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(503)

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Overloaded) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_transient_error_puts_off_its_image_and_charges_the_shard(
    store: Store, tmp_path: Path, overloaded: str
) -> None:
    job_id = _partly_remote(store, tmp_path, overloaded)

    assert _run(store, job_id) is End.RETRY

    assert states(store, job_id) == ["pending", "done"]
    shard = shard_of(store, job_id)
    assert (shard.state, shard.failures) == (ShardState.QUEUED, 1)
    assert shard.error is not None
    assert "503" in shard.error


def test_at_the_last_attempt_a_transient_error_fails_its_image_alone(
    store: Store, tmp_path: Path, overloaded: str
) -> None:
    job_id = _partly_remote(store, tmp_path, overloaded, retry_policy=RetryPolicy(max_attempts=1))

    assert _run(store, job_id) is End.FINISHED

    assert states(store, job_id) == ["failed", "done"]
    assert shard_of(store, job_id).state is ShardState.SUCCEEDED


def _beat(store: Store) -> datetime:
    with store.read() as conn:
        (me,) = workers.listing(conn)
    return me.heartbeat_at


def _partly_remote(store: Store, root: Path, server: str, **changes: object) -> UUID:
    items = [NewImage("far.png", f"{server}/far.png"), NewImage("near.png", str(draw(root / "photos" / "near.png")))]
    return job_of(store, spec(root, **changes), items)


def _run(  # type: ignore[no-untyped-def]
    store: Store,
    job_id: UUID,
    engine: OpenCVEngine | None = None,
    *,
    engine_for=None,
    watch=None,
    allowance=None,
    critical_pause_s: float = 0.0,
    **changes: object,
) -> End:
    """Claim the job's next shard and run it here."""
    shard: Shard = running(store, job_id)
    with Storage(Access(hosts=("127.0.0.1",), retries=0)) as storage:
        return run_shard(
            Host(store, storage, settings(**changes), ME, critical_pause_s=critical_pause_s),
            shard,
            read(store, job_id).spec,
            engine_for or (lambda spec: engine or OpenCVEngine()),
            allowance=allowance or Limit(),
            watch=watch or (lambda outcome: None),
        )
