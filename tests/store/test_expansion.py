"""Filling a job with images: shards, order, names of every kind; on both databases."""

import os
from uuid import uuid4

import pytest

from samjobs.errors import InvalidInput
from samjobs.inputs import NewImage
from samjobs.spec import BoxPrompt, Mode, Prompts
from samjobs.store import Store, images, jobs, shards
from tests.store.builders import claim, job, new_images, read, spec


def _ranges(store: Store, job_id: object) -> list[tuple[int, int, int]]:
    with store.read() as conn:
        cut = shards.of_job(conn, job_id)  # type: ignore[arg-type]
    return [(shard.index, shard.first_index, shard.images_total) for shard in cut]


def test_batches_of_any_size_give_full_shards(store: Store) -> None:
    with store.begin() as conn:
        job_id = jobs.submit(conn, spec(shard_size=4)).job_id
        for first, count in ((0, 3), (3, 6), (9, 0), (9, 1)):
            jobs.add_images(conn, job_id, new_images(count, first))
        jobs.mark_expanded(conn, job_id)
    assert _ranges(store, job_id) == [(0, 0, 4), (1, 4, 4), (2, 8, 2)]
    assert read(store, job_id).images_total == 10


def test_a_short_shard_that_is_claimed_already_is_left_alone(store: Store) -> None:
    with store.begin() as conn:
        job_id = jobs.submit(conn, spec(shard_size=4)).job_id
        jobs.add_images(conn, job_id, new_images(2))
        assert len(shards.claim(conn, limit=1)) == 1
        jobs.add_images(conn, job_id, new_images(3, first=2))
        jobs.add_images(conn, job_id, new_images(2, first=5))
    assert _ranges(store, job_id) == [(0, 0, 2), (1, 2, 4), (2, 6, 1)]


def test_images_come_back_in_the_order_given_page_by_page(store: Store) -> None:
    job_id = job(store, 7)
    with store.read() as conn:
        first = images.iterate(conn, job_id, limit=5)
        rest = images.iterate(conn, job_id, after_index=first[-1].index, limit=5)
        assert images.iterate(conn, job_id, after_index=rest[-1].index) == []
    assert [image.key for image in first + rest] == [item.key for item in new_images(7)]
    assert [image.index for image in first + rest] == list(range(7))


@pytest.mark.parametrize("in_one_batch", [True, False], ids=["in one batch", "in two batches"])
def test_an_image_listed_twice_is_named(store: Store, in_one_batch: bool) -> None:
    twice = [NewImage("a/b.jpg", "one"), NewImage("c.jpg", "two"), NewImage("a/b.jpg", "three")]
    if in_one_batch:
        twice.insert(0, NewImage("innocent.jpg", "none"))
    with store.begin() as conn:
        job_id = jobs.submit(conn, spec()).job_id
        if not in_one_batch:
            jobs.add_images(conn, job_id, [twice.pop(0)])
    before = read(store, job_id)
    with pytest.raises(InvalidInput, match=r"a/b\.jpg"), store.begin() as conn:
        jobs.add_images(conn, job_id, twice)
    assert read(store, job_id) == before


NAMES = {
    "unicode": "ünï/照片 🌋.jpg",
    "right to left": "\u202eصورة.jpg",
    "newline and quotes": "a\n'b\"\\c%_.jpg",
    "NUL": "a\x00b.jpg",
    "not UTF-8": os.fsdecode(b"caf\xe9.jpg"),
    "what an escape looks like": r"caf\udce9 \x00.jpg",
    "longer than an index takes": "/".join(f"{n:04}-{uuid4().hex}" for n in range(110)),
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_names_of_every_kind_come_back_exactly_and_are_found(store: Store, name: str) -> None:
    item = NewImage(name, f"photos/{name}")
    with store.begin() as conn:
        job_id = jobs.submit(conn, spec(), name=name, tenant=name, actor=name).job_id
        jobs.add_images(conn, job_id, [item, NewImage("other.jpg", "photos/other.jpg")])
    with store.read() as conn:
        first = images.iterate(conn, job_id)[0]
        assert (first.key, first.uri) == (item.key, item.uri)
        for asked in (item.key, item.uri):
            assert [found.image.key for found in images.history(conn, asked)] == [name]
        assert jobs.events(conn, job_id)[0].actor.encode()
    with pytest.raises(InvalidInput), store.begin() as conn:
        jobs.add_images(conn, job_id, [item])


def test_an_image_keeps_its_own_prompts(store: Store) -> None:
    own = Prompts(boxes=(BoxPrompt(xyxy=(1, 2, 30.5, 40), label="cell 猫"),))
    with store.begin() as conn:
        job_id = jobs.submit(conn, spec(mode=Mode.INSIDE_BOX, prompts=own, **_one_photo())).job_id
        jobs.add_images(conn, job_id, [NewImage("a", "a", own), NewImage("b", "b")])
    with store.read() as conn:
        assert [image.prompts for image in images.iterate(conn, job_id)] == [own, None]
    assert read(store, job_id).spec.prompts == own


def _one_photo() -> dict[str, object]:
    return {"images": {"list": [{"image": "a.jpg"}]}}


def test_an_ended_or_complete_job_takes_no_more_images(store: Store) -> None:
    job_id = job(store, 2)
    with pytest.raises(InvalidInput, match="takes no more images"), store.begin() as conn:
        jobs.add_images(conn, job_id, new_images(1, first=9))


def test_shards_may_be_claimed_while_the_list_still_grows(store: Store) -> None:
    with store.begin() as conn:
        job_id = jobs.submit(conn, spec()).job_id
        jobs.add_images(conn, job_id, new_images(2))
    assert len(claim(store, job_id=job_id)) == 1
    assert read(store, job_id).expanded_at is None
