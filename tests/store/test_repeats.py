"""A key of a submission belongs to one tenant and one request, for as long as its job is remembered."""

from samjobs.store import Store, jobs, repeats
from samjobs.store.repeats import Repeat
from tests.store.builders import job, run


def test_a_key_is_found_by_its_tenant_alone(store: Store) -> None:
    job_id = job(store, 1)
    with store.begin() as conn:
        assert repeats.find(conn, "ada", "k") is None
        assert repeats.remember(conn, "ada", "k", "hash", job_id)
        assert repeats.find(conn, "ada", "k") == Repeat(job_id, "hash")
        assert repeats.find(conn, "bob", "k") is None


def test_who_comes_second_is_told_so_and_changes_nothing(store: Store) -> None:
    first, second = job(store, 1), job(store, 1)
    with store.begin() as conn:
        repeats.remember(conn, "ada", "k", "hash", first)
    with store.begin() as conn:
        assert not repeats.remember(conn, "ada", "k", "other", second)
        assert repeats.find(conn, "ada", "k") == Repeat(first, "hash")


def test_keys_are_forgotten_with_their_job(store: Store) -> None:
    kept, gone = job(store, 1), job(store, 1)
    run(store, gone)
    with store.begin() as conn:
        repeats.remember(conn, "ada", "kept", "hash", kept)
        repeats.remember(conn, "ada", "gone", "hash", gone)
    with store.begin() as conn:
        jobs.delete(conn, gone)
    with store.read() as conn:
        assert repeats.find(conn, "ada", "gone") is None
        assert repeats.find(conn, "ada", "kept") is not None
