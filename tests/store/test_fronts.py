"""Jobs with an object in front of them: found by its uid, changed as it is changed."""

from datetime import timedelta
from uuid import UUID, uuid4

from samjobs.states import JobState
from samjobs.store import Store, fronts, jobs, now, workers
from samjobs.store.forgetting import OBJECT_GRACE
from samjobs.store.fronts import Brief
from samjobs.store.rows import Job, WorkerState
from samjobs.store.tables import jobs as table
from tests.store.builders import claim, new_images, read, spec


def front(store: Store, count: int = 4, **changes: object) -> Job:
    """A job that an object is in front of, complete."""
    with store.begin() as conn:
        job_id = jobs.submit(conn, spec(dedupe=False, **changes), name="trip", tenant="team", uid=uuid4()).job_id
        jobs.add_images(conn, job_id, new_images(count))
        jobs.mark_expanded(conn, job_id)
    return read(store, job_id)


def end(store: Store, job_id: UUID) -> None:
    with store.begin() as conn:
        assert jobs.cancel(conn, job_id, actor="test")


def briefs(store: Store, *found: Job) -> dict[UUID, Brief]:
    with store.read() as conn:
        return fronts.briefs(conn, [job.uid for job in found if job.uid is not None])


def test_a_brief_is_the_row_without_its_spec(store: Store) -> None:
    job = front(store, priority=3, ttl_seconds_after_finished=60, suspend=True)
    assert job.uid is not None
    brief = briefs(store, job)[job.uid]
    assert (brief.id, brief.tenant, brief.name) == (job.id, "team", "trip")
    assert (brief.state, brief.suspend, brief.priority, brief.ttl_s) == (JobState.SUSPENDED, True, 3, 60)
    assert brief.updated_at == job.updated_at


def test_a_job_that_is_kept_for_ever_has_no_ttl(store: Store) -> None:
    job = front(store)
    assert [brief.ttl_s for brief in briefs(store, job).values()] == [None]


def test_only_active_jobs_with_an_object_are_listed(store: Store) -> None:
    active, ended = front(store), front(store)
    end(store, ended.id)
    with store.begin() as conn:
        jobs.submit(conn, spec())
    with store.read() as conn:
        assert [brief.id for brief in fronts.active(conn)] == [active.id]
        assert set(fronts.by_uid(conn, [active.uid, ended.uid, uuid4()])) == {active.uid, ended.uid}  # type: ignore[list-item]


def test_a_higher_priority_goes_first(store: Store) -> None:
    first, second = front(store), front(store)
    with store.begin() as conn:
        assert fronts.set_priority(conn, second.id, 10)
    assert claim(store)[0].job_id == second.id
    assert read(store, second.id).priority == read(store, second.id).spec.priority == 10
    assert read(store, second.id).updated_at > second.updated_at
    assert first.priority == 0


def test_the_priority_that_it_has_changes_nothing(store: Store) -> None:
    job = front(store, priority=5)
    with store.begin() as conn:
        assert not fronts.set_priority(conn, job.id, 5)
    assert read(store, job.id) == job


def test_an_ended_job_keeps_its_priority(store: Store) -> None:
    job = front(store)
    end(store, job.id)
    with store.begin() as conn:
        assert not fronts.set_priority(conn, job.id, 5)


def test_a_ttl_holds_from_the_end_on(store: Store) -> None:
    job = front(store)
    with store.begin() as conn:
        assert fronts.set_ttl(conn, job.id, 60)
        assert not fronts.set_ttl(conn, job.id, 60)
    assert read(store, job.id).expires_at is None
    end(store, job.id)
    ended = read(store, job.id)
    assert ended.finished_at is not None
    assert ended.expires_at == ended.finished_at + timedelta(seconds=60)


def test_a_ttl_is_changed_after_the_end(store: Store) -> None:
    job = front(store)
    end(store, job.id)
    for ttl_s in (30, None):
        with store.begin() as conn:
            assert fronts.set_ttl(conn, job.id, ttl_s)
        ended = read(store, job.id)
        assert ended.finished_at is not None
        assert ended.expires_at == (None if ttl_s is None else ended.finished_at + timedelta(seconds=ttl_s))


def test_a_region_is_at_work_while_a_worker_is_heard_of(store: Store) -> None:
    incarnation = uuid4()
    with store.begin() as conn:
        workers.register(conn, incarnation, pool="default", region="far", node="node", pid=1)
    with store.read() as conn:
        assert fronts.regions_at_work(conn, within_s=60) == {"far"}
        assert fronts.regions_at_work(conn, within_s=-1) == frozenset()
    with store.begin() as conn:
        workers.set_state(conn, incarnation, WorkerState.GONE)
    with store.read() as conn:
        assert fronts.regions_at_work(conn, within_s=60) == frozenset()


def test_an_expired_job_outlives_its_object(store: Store) -> None:
    job = front(store, ttl_seconds_after_finished=0)
    end(store, job.id)
    with store.begin() as conn:
        jobs.mark_published(conn, job.id)
        assert jobs.prune_finished(conn) == 0
    assert read(store, job.id).state is JobState.CANCELLED
    with store.begin() as conn:
        conn.execute(table.update().values(expires_at=now(conn) - OBJECT_GRACE))
        assert jobs.prune_finished(conn) > 0
