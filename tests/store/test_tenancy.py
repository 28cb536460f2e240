"""A tenant's view of the queue holds its own shards and nobody else's."""

from samjobs.errors import ErrorClass
from samjobs.states import JobState
from samjobs.store import Store, jobs, shards, tenancy, views
from tests.store.builders import DEAD, claim, job, run, running


def crowd(store: Store, tenant: str) -> None:
    """Two due, one held, one dispatched, one running and one dead shard, in two regions; and finished ones."""
    job(store, 2, tenant=tenant, shard_size=1)
    held = job(store, 1, tenant=tenant, region="eu")
    with store.begin() as conn:
        jobs.set_suspend(conn, held, True, actor="ada")
    claim(store, job_id=job(store, 1, tenant=tenant, region="eu"))
    running(store, job(store, 1, tenant=tenant, region="eu"))
    given_up = running(store, job(store, 1, tenant=tenant, region="eu"))
    with store.begin() as conn:
        shards.fail(conn, given_up.id, given_up.attempt, DEAD, error_class=ErrorClass.TRANSIENT, error="away")
    run(store, job(store, 1, tenant=tenant))


def test_a_tenant_sees_what_is_its_own(store: Store) -> None:
    for tenant in ("ada", "bob", "bob"):
        crowd(store, tenant)
    with store.read() as conn:
        ada, bob = tenancy.regions(conn, {"ada"}), tenancy.regions(conn, {"bob"})
        eu = {one.region: one for one in ada}["eu"]
        assert [one.region for one in ada] == ["default", "eu"]
        assert (eu.shards_held, eu.shards_dispatched, eu.shards_running, eu.shards_dead) == (1, 1, 1, 1)
        assert [(one.shards_due, one.shards_waiting) for one in ada] == [(2, 0), (0, 0)]
        assert ada[0].oldest_due_age_s is not None
        assert [one.shards_due for one in bob] == [4, 0]
        assert tenancy.regions(conn, {"nobody"}) == []
        assert tenancy.active_jobs(conn, {"ada"}) == {
            JobState.QUEUED: 2,
            JobState.RUNNING: 1,
            JobState.SUSPENDED: 1,
        }


def test_all_tenants_together_are_the_whole_queue(store: Store) -> None:
    for tenant in ("ada", "bob"):
        crowd(store, tenant)
    with store.read() as conn:
        mine, whole = tenancy.regions(conn, {"ada", "bob"}), views.regions(conn)
        assert [vars(one) | {"oldest_due_age_s": 0} for one in mine] == [
            vars(one) | {"oldest_due_age_s": 0} for one in whole
        ]
        assert tenancy.active_jobs(conn, None) == tenancy.active_jobs(conn, {"ada", "bob"})
