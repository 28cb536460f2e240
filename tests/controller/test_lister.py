"""Prefixes and manifests become images, by one controller at a time."""

import json
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from controller import lister as lister_module
from controller.lister import GIVEN_UP_AFTER, Lister
from controller.steps import dispatch, expand
from samjobs.errors import DatabaseUnavailable, StorageUnavailable
from samjobs.inputs import NewImage
from samjobs.names import Reason
from samjobs.spec import Images, Prompts
from samjobs.store import jobs
from tests.controller.world import World, opened
from tests.execution.builders import draw
from tests.store.builders import spec
from tests.waiting import until

STALE_S = 60


def submit(world: World, images: Images, **changes: object) -> UUID:
    with world.store.begin() as conn:
        return jobs.submit(conn, spec(images=images, **changes)).job_id


def photos(folder: Path, count: int = 3) -> Images:
    for number in range(count):
        draw(folder / f"{number}.png")
    return Images(prefix=str(folder))


def manifest(path: Path, count: int) -> Images:
    path.write_text("".join(json.dumps({"image": f"{n:07}.png"}) + "\n" for n in range(count)))
    return Images(manifest=str(path))


def list_all(lister: Lister) -> None:
    while lister.list_next(threading.Event()):
        pass


def test_a_folder_is_listed_and_its_shards_are_sent(world: World, tmp_path: Path) -> None:
    job_id = submit(world, photos(tmp_path / "photos"))

    list_all(world.lister)

    job = world.job(job_id)
    assert (job.images_total, job.shards_total, job.expanded_at is not None, job.keeper) == (3, 2, True, None)
    assert dispatch.run(world.ctx)["sent"] == 2


def test_the_thread_does_it_when_the_pass_wakes_it(world: World, tmp_path: Path) -> None:
    job_id = submit(world, photos(tmp_path / "photos"))
    world.ctx.listing.start()

    expand.run(world.ctx)

    until(lambda: world.job(job_id).expanded_at is not None, "the job is listed")
    world.ctx.listing.stop()
    assert world.ctx.listing.join(60)


def test_a_long_manifest_is_written_in_batches_that_are_sent_meanwhile(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lister_module, "BATCH", 10)
    job_id = submit(world, manifest(tmp_path / "list.jsonl", 25), shard_size=4)
    seen = []
    real = jobs.add_images

    def watched(*arguments: object, **options: object) -> int:
        count = real(*arguments, **options)  # type: ignore[arg-type]
        seen.append(count)
        return count

    monkeypatch.setattr(lister_module.jobs, "add_images", watched)
    list_all(world.lister)

    assert seen == [10, 10, 5]
    assert world.job(job_id).images_total == 25
    assert [shard.images_total for shard in world.shards(job_id)] == [4, 4, 4, 4, 4, 4, 1]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"notes.txt": "x"}, "no images in {root}/photos (passed over: 1 "),
        ({}, "no images in {root}/photos"),
        (None, "{root}/photos does not exist"),
    ],
)
def test_a_job_without_images_fails_and_says_why(
    content: dict[str, str] | None, message: str, world: World, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / "photos").mkdir()
        for name, text in content.items():
            (tmp_path / "photos" / name).write_text(text)
    job_id = submit(world, Images(prefix=str(tmp_path / "photos")))

    list_all(world.lister)

    job = world.job(job_id)
    assert (job.state, job.reason) == ("failed", Reason.INVALID_INPUT)
    assert (job.error or "").startswith(message.format(root=tmp_path))


def test_a_wrong_line_in_the_middle_fails_the_job_with_its_number(world: World, tmp_path: Path) -> None:
    images = manifest(tmp_path / "list.jsonl", 3)
    with (tmp_path / "list.jsonl").open("a") as file:
        file.write("nonsense\n")
    job_id = submit(world, images)

    list_all(world.lister)

    assert "list.jsonl, line 4: no JSON" in (world.job(job_id).error or "")
    assert set(world.states(job_id)) <= {"cancelled"}


def failing(monkeypatch: pytest.MonkeyPatch, error: Exception, times: int) -> None:
    """Listing fails so many times, then works."""
    left = [times]
    real = lister_module.images_of

    def images_of(*arguments: object) -> object:
        if left[0] > 0:
            left[0] -= 1
            raise error
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(lister_module, "images_of", images_of)


def test_a_storage_that_does_not_answer_is_asked_again_later_and_others_have_their_turn(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lister_module, "FIRST_PAUSE_S", 1000.0)
    monkeypatch.setattr(lister_module, "LONGEST_PAUSE_S", 1000.0)
    failing(monkeypatch, StorageUnavailable("bucket did not answer"), 1)
    first, second = submit(world, photos(tmp_path / "photos")), submit(world, photos(tmp_path / "photos"))

    list_all(world.lister)
    assert [world.job(one).images_total for one in (first, second)] == [0, 3]
    assert world.job(first).state == "queued"

    monkeypatch.setattr(lister_module.time, "monotonic", lambda: 1e12)
    list_all(world.lister)
    assert world.job(first).images_total == 3


def test_a_storage_that_has_been_away_for_a_day_fails_the_job(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, StorageUnavailable("bucket did not answer"), 1)
    job_id = submit(world, photos(tmp_path / "photos"))
    world.age("jobs", "alive_at", GIVEN_UP_AFTER.total_seconds())

    list_all(world.lister)

    assert world.job(job_id).error == "its images could not be listed for a day: bucket did not answer"


def test_an_outage_of_the_database_in_the_middle_costs_a_pause_and_no_image(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lister_module, "FIRST_PAUSE_S", 0.0)
    failing(monkeypatch, DatabaseUnavailable("restarting"), 1)
    job_id = submit(world, photos(tmp_path / "photos"))

    with pytest.raises(DatabaseUnavailable):
        world.lister.list_next(threading.Event())
    list_all(world.lister)

    assert world.job(job_id).images_total == 3


class TestTwoControllers:
    def test_only_one_of_them_lists_a_job(self, world: World, tmp_path: Path) -> None:
        other = Lister(world.settings, world.store)
        job_id = submit(world, photos(tmp_path / "photos"))
        with world.store.begin() as conn:
            assert jobs.keep(conn, job_id, world.lister.keeper, stale_s=STALE_S)

        assert not other.list_next(threading.Event())
        assert world.job(job_id).keeper == world.lister.keeper

    def test_one_that_vanished_in_the_middle_is_taken_over_from_and_no_image_is_doubled(
        self, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(lister_module, "BATCH", 10)
        images = manifest(tmp_path / "list.jsonl", 35)
        job_id = submit(world, images)
        dead, other = world.lister, Lister(world.settings, world.store)
        with world.store.begin() as conn:
            assert jobs.keep(conn, job_id, dead.keeper, stale_s=STALE_S)
            first = list(lister_module.images_of(world.job(job_id).spec, dead._storage, Counter()))[:20]
            jobs.add_images(conn, job_id, first, keeper=dead.keeper)
        world.age("jobs", "kept_at", STALE_S + 1)

        list_all(other)

        job = world.job(job_id)
        assert (job.images_total, job.expanded_at is not None) == (35, True)

    def test_one_whose_storage_is_slow_stays_the_keeper(self, world: World, tmp_path: Path) -> None:
        job_id = submit(world, photos(tmp_path / "photos"))
        with world.store.begin() as conn:
            jobs.keep(conn, job_id, world.lister.keeper, stale_s=STALE_S)
        world.age("jobs", "kept_at", STALE_S - 1)
        world.lister._current, world.lister._renewed_at = job_id, -1e9

        expand.run(world.ctx)
        world.age("jobs", "kept_at", STALE_S - 1)

        assert not Lister(world.settings, world.store).list_next(threading.Event())

    def test_one_that_is_asked_to_stop_leaves_the_job_to_the_next_at_once(
        self, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(lister_module, "BATCH", 10)
        job_id = submit(world, manifest(tmp_path / "list.jsonl", 25))
        stop = threading.Event()
        stop.set()

        world.lister.list_next(stop)
        assert (world.job(job_id).images_total, world.job(job_id).keeper) == (10, None)

        list_all(Lister(world.settings, world.store))
        assert world.job(job_id).images_total == 25


def at_image(monkeypatch: pytest.MonkeyPatch, number: int, happens: Callable[[], None]) -> None:
    """Something happens while a job is listed, just before an image of that number is found."""
    real = lister_module.images_of

    def images_of(*arguments: Any) -> Iterator[NewImage]:
        for place, image in enumerate(real(*arguments)):
            if place == number:
                happens()
            yield image

    monkeypatch.setattr(lister_module, "images_of", images_of)


class TestWishes:
    def test_a_job_that_is_suspended_meanwhile_goes_on_once_it_is_resumed(
        self, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def suspend(wish: bool) -> None:
            with world.store.begin() as conn:
                jobs.set_suspend(conn, job_id, wish, actor="me")

        monkeypatch.setattr(lister_module, "BATCH", 10)
        job_id = submit(world, manifest(tmp_path / "list.jsonl", 25))
        at_image(monkeypatch, 5, lambda: suspend(True))
        list_all(world.lister)
        assert (world.job(job_id).images_total, world.job(job_id).keeper) == (10, None)

        suspend(False)
        monkeypatch.undo()
        list_all(Lister(world.settings, world.store))
        assert world.job(job_id).images_total == 25

    def test_a_job_that_is_cancelled_meanwhile_takes_no_more_images(
        self, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def cancel() -> None:
            with world.store.begin() as conn:
                jobs.cancel(conn, job_id, actor="me")

        monkeypatch.setattr(lister_module, "BATCH", 10)
        job_id = submit(world, manifest(tmp_path / "list.jsonl", 25))
        at_image(monkeypatch, 15, cancel)

        list_all(world.lister)

        job = world.job(job_id)
        assert (job.state, job.reason, job.images_total) == ("cancelled", Reason.CANCELLED_BY_USER, 10)


def test_a_job_of_too_many_images_is_no_job_and_the_controller_goes_on(
    postgres_url: str, redis_url: str, tmp_path: Path
) -> None:
    with opened(postgres_url, redis_url, max_job_images=1000) as world:
        many = submit(world, manifest(tmp_path / "m.jsonl", 2001))
        fine = submit(world, manifest(tmp_path / "n.jsonl", 1000))

        list_all(world.lister)

        assert world.job(many).state.value == "failed"
        assert "more than 1,000 images: make several jobs" in (world.job(many).error or "")
        assert world.job(fine).images_total == 1000


@pytest.mark.parametrize("field", ["manifest", "boxes"])
def test_what_is_no_regular_file_is_told_once(world: World, tmp_path: Path, field: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    places = {"manifest": str(tmp_path / "pipe")} if field == "manifest" else None
    images = Images.model_validate(places or {"prefix": str(tmp_path), "boxes": str(tmp_path / "pipe")})
    job_id = submit(world, images, mode="inside_box", prompts=Prompts())

    list_all(world.lister)

    assert world.job(job_id).state.value == "failed"
    assert "not a regular file" in (world.job(job_id).error or "")
