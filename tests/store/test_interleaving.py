"""Workers, a person and a reclaiming controller act on the same jobs at once: no deadlock, and true counters."""

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from uuid import UUID, uuid4

import sqlalchemy as sa

from samjobs.decisions.lifecycle import JobCounts
from samjobs.errors import ErrorClass, InvalidInput
from samjobs.names import Reason
from samjobs.states import ImageState, ShardState
from samjobs.store import Connection, Store, images, jobs, shards, workers
from samjobs.store.retrying import What
from samjobs.store.tables import shards as shard_rows
from samjobs.store.transitions import verdict_of
from tests.store.builders import DEAD, REQUEUE, job, new_images, outcomes, read, spec

THREADS = 6
ACTS = 40
CREW = [uuid4() for _ in range(3)]
_TAKEN = {ShardState.DISPATCHED, ShardState.RUNNING}


def test_whatever_happens_at_once_nothing_deadlocks_and_counters_add_up(store: Store) -> None:
    with store.begin() as conn:
        for incarnation in CREW:
            workers.register(conn, incarnation, pool="p", region="default", node="n", pid=1)
    ids = [job(store, 12), job(store, 12, parallelism=2), _growing(store)]
    together = Barrier(THREADS)

    def act(seed: int) -> None:
        chance = random.Random(seed)
        together.wait()
        for _ in range(ACTS):
            _act(store, chance, chance.choice(ids))

    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(act, range(THREADS)))
    for job_id in ids:
        _check(store, job_id)


def _growing(store: Store) -> UUID:
    with store.begin() as conn:
        return jobs.submit(conn, spec()).job_id


def _act(store: Store, chance: random.Random, job_id: UUID) -> None:
    """One transaction of somebody, mostly of a worker."""
    act = chance.choice([_work, _work, _work, _work, _suspend, _resume, _retry, _purge, _reclaim, _beat, _grow])
    try:
        with store.begin() as conn:
            act(conn, chance, job_id)
    except InvalidInput:
        pass  # refused to a person, e.g. more images for a job whose list is complete


def _work(conn: Connection, chance: random.Random, job_id: UUID) -> None:
    taken = [shard for shard in shards.of_job(conn, job_id) if shard.state in _TAKEN]
    if not taken:
        shards.claim(conn, limit=2, job_id=job_id)
        return
    shard = chance.choice(taken)
    name = (shard.id, shard.attempt)
    if shard.state is ShardState.DISPATCHED:
        shards.start(conn, *name, chance.choice(CREW))
        return
    match chance.randrange(5):
        case 0:
            shards.release(conn, *name, reason=Reason.DRAINED)
        case 1:
            verdict = chance.choice([REQUEUE, DEAD])
            shards.fail(conn, *name, verdict, error_class=ErrorClass.TRANSIENT, error="x")
        case _:
            told = outcomes(shard, chance.choice([ImageState.DONE, ImageState.FAILED, ImageState.SKIPPED]))
            some = chance.randrange(len(told) + 1)
            if shards.record(conn, *name, told[:some]):
                shards.finish(conn, *name, told)


def _suspend(conn: Connection, chance: random.Random, job_id: UUID) -> None:
    jobs.set_suspend(conn, job_id, True, actor="ada")


def _resume(conn: Connection, chance: random.Random, job_id: UUID) -> None:
    jobs.set_suspend(conn, job_id, False, actor="ada")


def _retry(conn: Connection, chance: random.Random, job_id: UUID) -> None:
    what: list[What] = ["all", "dead", "images"]
    jobs.retry_failed(conn, job_id, what=chance.choice(what), actor="ada")


def _purge(conn: Connection, chance: random.Random, job_id: UUID) -> None:
    if chance.random() < 0.2:
        jobs.purge_dead(conn, job_id, actor="ada")


def _beat(conn: Connection, chance: random.Random, job_id: UUID) -> None:
    """A lease's transaction: the shard's row, then the worker's."""
    for shard in shards.at_work(conn, job_id)[:1]:
        if shard.incarnation is not None:
            shards.heartbeat(conn, shard.id, shard.attempt, shard.incarnation)
            workers.heartbeat(conn, shard.incarnation)


def _reclaim(conn: Connection, chance: random.Random, job_id: UUID) -> None:
    for shard in shards.abandoned(conn, older_than_s=0)[:1]:
        shards.reclaim(conn, shard, REQUEUE)


def _grow(conn: Connection, chance: random.Random, job_id: UUID) -> None:
    job_now = jobs.get(conn, job_id)
    assert job_now is not None
    jobs.add_images(conn, job_id, new_images(3, first=job_now.images_total))


def _check(store: Store, job_id: UUID) -> None:
    """The job's counters and state are what its rows say, and no more runs than its parallelism."""
    found = read(store, job_id)
    with store.read() as conn:
        of_shards = Counter(shard.state for shard in shards.of_job(conn, job_id))
        of_images = Counter(image.state for image in images.iterate(conn, job_id))
        free = sa.select(sa.func.count()).where(
            shard_rows.c.job_id == job_id, shard_rows.c.state == ShardState.QUEUED, sa.not_(shard_rows.c.held)
        )
        claimable = conn.execute(free).scalar_one()
    counted = JobCounts(
        images_total=of_images.total(),
        images_done=of_images[ImageState.DONE],
        images_failed=of_images[ImageState.FAILED],
        images_skipped=of_images[ImageState.SKIPPED],
        shards_total=of_shards.total(),
        shards_succeeded=of_shards[ShardState.SUCCEEDED],
        shards_dead=of_shards[ShardState.DEAD],
        shards_cancelled=of_shards[ShardState.CANCELLED],
    )
    assert {name: getattr(found, name) for name in vars(counted)} == vars(counted)
    assert found.state is verdict_of(found).state
    at_work = of_shards[ShardState.DISPATCHED] + of_shards[ShardState.RUNNING]
    if found.suspend:
        assert claimable == 0
    elif found.spec.parallelism is not None:
        # All of the window is in use, and no more than it.
        assert at_work + claimable == min(found.spec.parallelism, found.shards_open)
    else:
        assert claimable == of_shards[ShardState.QUEUED]
