"""Complete jobs written many at once: no different from those that are filled step by step; on both databases."""

from dataclasses import asdict
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
import sqlalchemy as sa

from samjobs.spec import JobSpec
from samjobs.states import JobState
from samjobs.store import Store, connect, fronts, images, jobs, shards, whole
from samjobs.store.rows import Job, Shard
from tests.store.builders import claim, new_images, run, spec

# Of each row, and of its own.
OWN = {"id", "uid", "job_id", "created_at", "updated_at", "alive_at", "expanded_at", "job_created_at", "available_at"}


def submit(store: Store, *wanted: whole.Whole) -> int:
    with store.begin() as conn:
        return whole.submit_whole(conn, wanted, actor="test")


def of(count: int, uid: UUID | None = None, **changes: Any) -> whole.Whole:
    """A job with so many images."""
    return whole.Whole(spec(**{"dedupe": False, **changes}), "team", "trip", uid or uuid4(), new_images(count))


def row(store: Store, uid: UUID) -> Job:
    with store.read() as conn:
        return fronts.by_uid(conn, [uid])[uid]


def told(store: Store, job: Job) -> dict[str, Any]:
    """All that the tables say of a job, without ids and times."""
    with store.read() as conn:
        cut = shards.of_job(conn, job.id)
        listed = [(one.index, one.key, one.uri, one.state) for one in _images(store, cut)]
        events = [
            (one.subject, one.from_state, one.to_state, one.reason, one.actor) for one in jobs.events(conn, job.id)
        ]
    return {"job": _rest(job), "shards": [_rest(shard) for shard in cut], "images": listed, "events": events}


def _images(store: Store, cut: Any) -> list[Any]:
    with store.read() as conn:
        return [one for shard in cut for one in images.pending(conn, shard)]


def _rest(one: Job | Shard) -> dict[str, Any]:
    return {name: value for name, value in asdict(one).items() if name not in OWN}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"suspend": True},
        {"parallelism": 2, "shard_size": 1},
        {"priority": 7, "region": "north", "active_deadline_seconds": None},
    ],
)
def test_it_is_the_same_job_as_step_by_step(store: Store, changes: dict[str, Any]) -> None:
    wanted = of(5, **changes)
    with store.begin() as conn:
        slow = jobs.submit(conn, wanted.spec, tenant="team", name="trip", uid=uuid4(), actor="test").job_id
        jobs.add_images(conn, slow, wanted.images)
        jobs.mark_expanded(conn, slow)
    assert submit(store, wanted) == 1
    with store.read() as conn:
        expected = jobs.get(conn, slow)
    assert expected is not None
    assert told(store, row(store, wanted.uid)) == told(store, expected)


def test_each_gets_its_own_images_and_is_worked_off(store: Store) -> None:
    few, many = of(1), of(7, shard_size=3)
    assert submit(store, few, many) == 2
    for one, images_total, shards_total in ((few, 1, 1), (many, 7, 3)):
        job = row(store, one.uid)
        assert (job.images_total, job.shards_total) == (images_total, shards_total)
        for _ in range(shards_total):
            run(store, job.id)
        assert row(store, one.uid).state is JobState.SUCCEEDED


def test_a_job_that_is_there_already_stays_as_it_is(store: Store) -> None:
    there, new = of(3), of(2)
    submit(store, there)
    before = row(store, there.uid)
    assert submit(store, new, there) == 1
    assert submit(store, new, there) == 0
    assert row(store, there.uid) == before
    assert len(claim(store, limit=10)) == 3, "two shards of the first and one of the second"


def test_an_image_that_is_listed_twice_undoes_them_all(store: Store) -> None:
    good, bad = of(2), of(2)
    with pytest.raises(sa.exc.IntegrityError):
        submit(store, good, whole.Whole(bad.spec, "team", "trip", bad.uid, new_images(2) + new_images(1)))
    with store.read() as conn:
        assert fronts.by_uid(conn, [good.uid, bad.uid]) == {}


def test_those_of_one_transaction_can_be_paged_by_their_time(postgres_url: str) -> None:
    store = connect(postgres_url)
    wanted = [of(1) for _ in range(5)]
    submit(store, *wanted)
    made = [row(store, one.uid).created_at for one in wanted]
    assert [one - made[0] for one in made] == [timedelta(microseconds=place) for place in range(5)]
    store.close()


def test_a_job_that_would_have_to_join_another_is_not_for_this(store: Store) -> None:
    joins: JobSpec = spec(dedupe=True)
    with pytest.raises(AssertionError, match="joined"):
        submit(store, whole.Whole(joins, "team", "trip", uuid4(), new_images(1)))
