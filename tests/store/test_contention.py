"""Many processes on one SQLite file: nobody sees a lock error, and every shard is taken exactly once."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from uuid import UUID, uuid4

from samjobs.states import JobState, ShardState
from samjobs.store import Store, connect, jobs, migrate, shards
from samjobs.store.tables import jobs as job_rows
from samjobs.store.tables import shards as shard_rows
from tests.store.builders import job, read

PROCESSES = 8
CLAIMS_EACH = 5_000


def _take(url: str) -> list[UUID]:
    """Claim shards one by one till none is left, running every tenth to its end; which ones it took."""
    store, me = connect(url), uuid4()
    migrate(store)
    taken: list[UUID] = []
    while True:
        with store.begin() as conn:
            claimed = shards.claim(conn, limit=1)
        if not claimed:
            return taken
        taken.append(claimed[0].id)
        if len(taken) % 10 == 0:
            with store.begin() as conn:
                assert shards.start(conn, claimed[0].id, claimed[0].attempt, me) is not None
                assert shards.finish(conn, claimed[0].id, claimed[0].attempt)


def _open_many_shards(store: Store, count: int) -> UUID:
    """A job of `count` shards without images: only the shards are of interest here."""
    job_id = job(store, 1, shard_size=1)
    with store.begin() as conn:
        row = dict(conn.execute(shard_rows.select()).one()._mapping) | {"images_total": 0}
        conn.execute(shard_rows.update().values(images_total=0))
        conn.execute(shard_rows.insert(), [row | {"id": uuid4(), "index": n} for n in range(1, count)])
        conn.execute(job_rows.update().values(shards_total=count))
    return job_id


def test_eight_processes_claim_forty_thousand_shards_of_one_file(sqlite_url: str) -> None:
    store = connect(sqlite_url)
    migrate(store)
    job_id = _open_many_shards(store, PROCESSES * CLAIMS_EACH)
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as processes:
        taken = list(processes.map(_take, [sqlite_url] * PROCESSES))
    ids = [shard_id for of_one in taken for shard_id in of_one]
    assert len(ids) == len(set(ids)) == PROCESSES * CLAIMS_EACH
    found = read(store, job_id)
    assert found.shards_succeeded == sum(len(of_one) // 10 for of_one in taken)
    assert found.state is JobState.RUNNING
    with store.read() as conn:
        page = shards.of_job(conn, job_id, limit=1000)
    assert {shard.attempt for shard in page} == {1}
    assert {shard.state for shard in page} <= {ShardState.DISPATCHED, ShardState.SUCCEEDED}
    store.close()


def _open(url: str) -> int:
    store = connect(url)
    migrate(store)
    with store.read() as conn:
        found = len(jobs.list_jobs(conn))
    store.close()
    return found


def test_processes_that_start_together_on_a_new_file_migrate_it_once(tmp_path: Path) -> None:
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as processes:
        # The first round starts the interpreters; from then on they are as much at once as two cores allow.
        for place in range(6):
            url = f"sqlite:///{tmp_path / f'{place}.db'}"
            assert list(processes.map(_open, [url] * PROCESSES)) == [0] * PROCESSES
