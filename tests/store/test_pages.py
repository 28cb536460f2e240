"""Lists page by page: complete, without repeats, whatever filters there are and whatever comes in between."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from samjobs.errors import ErrorClass
from samjobs.states import JOB_ACTIVE, ImageState, JobState
from samjobs.store import Store, jobs, now, pages, shards
from samjobs.store.pages import Page
from samjobs.store.tables import jobs as job_rows
from tests.store.builders import DEAD, job, new_images, outcomes, run, running, spec


def walked(store: Store, page_of: Callable[..., Page[Any, Any]], *, limit: int = 2, **which: Any) -> list[Any]:
    """All items of all pages."""
    found: list[Any] = []
    which = {"limit": limit} | which
    while True:
        with store.read() as conn:
            page = page_of(conn, **which)
        assert len(page.items) <= limit
        found += page.items
        if page.after is None:
            return found
        which["after"] = page.after


def ids(found: list[Any]) -> list[UUID]:
    return [one.id for one in found]


def test_jobs_come_newest_first_and_each_once(store: Store) -> None:
    made = [job(store, 1) for _ in range(5)]
    assert ids(walked(store, pages.jobs_page)) == made[::-1]


def test_jobs_of_one_instant_are_all_there(store: Store) -> None:
    made = {job(store, 1) for _ in range(5)}
    with store.begin() as conn:
        conn.execute(job_rows.update().values(created_at=now(conn)))
    assert sorted(ids(walked(store, pages.jobs_page))) == sorted(made)
    assert sorted(ids(walked(store, pages.jobs_page, tenants={"default"}))) == sorted(made)


def test_a_job_that_comes_between_two_pages_moves_none_of_the_others(store: Store) -> None:
    made = [job(store, 1) for _ in range(4)]
    with store.read() as conn:
        first = pages.jobs_page(conn, limit=2)
    job(store, 1)
    with store.read() as conn:
        second = pages.jobs_page(conn, limit=2, after=first.after)
    assert ids([*first.items, *second.items]) == made[::-1]


def test_filters_may_be_joined(store: Store) -> None:
    mine = job(store, 1, tenant="ada", region="eu")
    job(store, 1, tenant="ada", region="us")
    job(store, 1, tenant="bob", region="eu")
    ended = job(store, 1, tenant="ada", region="eu")
    run(store, ended)
    assert ids(walked(store, pages.jobs_page, tenants={"ada"}, region="eu")) == [ended, mine]
    assert ids(walked(store, pages.jobs_page, tenants={"ada"}, region="eu", states=JOB_ACTIVE)) == [mine]
    assert ids(walked(store, pages.jobs_page, region="eu", states={JobState.SUCCEEDED})) == [ended]
    assert len(walked(store, pages.jobs_page, tenants={"ada", "bob"})) == 4
    assert walked(store, pages.jobs_page, tenants={"nobody"}) == []


def test_a_rare_region_is_found_though_a_page_looks_at_few(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    rare = job(store, 1, region="asia")
    for _ in range(7):
        job(store, 1)
    monkeypatch.setattr(pages, "LOOKED_AT", 3)
    with store.read() as conn:
        first = pages.jobs_page(conn, region="asia", limit=2)
    assert first.items == []
    assert first.after is not None
    assert ids(walked(store, pages.jobs_page, region="asia")) == [rare]


def test_a_page_of_large_specs_holds_fewer(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    made = [job(store, 1) for _ in range(4)]
    monkeypatch.setattr(pages, "LARGEST_PAGE", 10)
    with store.read() as conn:
        assert ids(list(pages.jobs_page(conn, limit=3).items)) == made[-1:]
    assert ids(walked(store, pages.jobs_page, limit=3)) == made[::-1]


def test_images_in_one_state_are_found_though_a_page_looks_at_few(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = job(store, 9, shard_size=3)
    for state in (ImageState.DONE, ImageState.FAILED):
        run(store, job_id, state)
    monkeypatch.setattr(pages, "LOOKED_AT", 2)

    def places(state: ImageState | None) -> list[int]:
        return [one.index for one in walked(store, pages.images_page, job_id=job_id, state=state)]

    assert places(ImageState.DONE) == [0, 1, 2]
    assert places(ImageState.FAILED) == [3, 4, 5]
    assert places(ImageState.PENDING) == [6, 7, 8]
    assert places(ImageState.SKIPPED) == []
    assert places(None) == list(range(9))


def test_one_image_is_found_by_its_index(store: Store) -> None:
    job_id = job(store, 2)
    with store.read() as conn:
        found = pages.image(conn, job_id, 1)
        assert found is not None
        assert found.key == "0001.jpg"
        assert pages.image(conn, job_id, 2) is None


def test_dead_shards_of_a_tenant_with_the_names_of_their_jobs(store: Store) -> None:
    made = [dead_job(store, tenant) for tenant in ("ada", "ada", "bob")]
    found = walked(store, pages.dead_page, limit=1, tenants={"ada"})
    assert sorted((shard.job_id, name) for shard, name in found) == sorted((one, "trip") for one in made[:2])
    assert len(walked(store, pages.dead_page)) == 3


def dead_job(store: Store, tenant: str) -> UUID:
    with store.begin() as conn:
        job_id = jobs.submit(conn, spec(), tenant=tenant, name="trip").job_id
        jobs.add_images(conn, job_id, new_images(1))
        jobs.mark_expanded(conn, job_id)
    shard = running(store, job_id)
    with store.begin() as conn:
        assert shards.fail(conn, shard.id, shard.attempt, DEAD, error_class=ErrorClass.TRANSIENT, error="away")
    return job_id


def test_what_changed_of_jobs_is_all_but_the_spec(store: Store) -> None:
    job_id = job(store, 1)
    shard = running(store, job_id)
    with store.begin() as conn:
        shards.record(conn, shard.id, shard.attempt, outcomes(shard))
    with store.read() as conn:
        found = pages.changes(conn, [job_id, UUID(int=7)])
        row = jobs.get(conn, job_id)
    assert row is not None
    assert found == {job_id: {name: getattr(row, name) for name in found[job_id]}}
    assert found[job_id].keys() == {column.name for column in job_rows.c} - {"spec"}
    assert found[job_id]["images_done"] == 1
