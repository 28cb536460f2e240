"""One tenant cannot reach another's places, nor the machine's own, by any way into the system.

The rule itself is tested in tests/decisions/test_places.py, symlinks in tests/storage/test_fence.py.
"""

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from controller.steps import admit
from samjobs.client import Client
from samjobs.errors import AccessDenied, InvalidInput
from samjobs.execution.merge import merge
from samjobs.execution.shard import End, Host, run_shard
from samjobs.inputs import NewImage
from samjobs.segmentation.engines.opencv import OpenCVEngine
from samjobs.segmentation.pipeline import Limit
from samjobs.settings import Settings
from samjobs.spec import JobSpec
from samjobs.states import JobState, ShardState
from samjobs.storage import Storage, access_of_server
from samjobs.store import jobs
from tests.controller.test_admit import answer, ask
from tests.controller.world import World
from tests.execution.builders import draw, image_rows
from tests.store.builders import ME, running, shard_of

MARKER = "hunter2-in-the-environment"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """The shared disk of two tenants, each with a folder and a photo in it."""
    for tenant in ("zoo", "farm"):
        draw(tmp_path / tenant / "photos" / "a.png")
    (tmp_path / "farm" / "boxes.csv").write_text("secret of the farm,1\n")
    return tmp_path


@pytest.fixture
def world(site: Path, postgres_url: str, redis_url: str) -> Iterator[World]:
    places = {tenant: [f"file://{site}/{tenant}/", f"s3://bucket/{tenant}/"] for tenant in ("zoo", "farm")}
    opened = World(postgres_url, redis_url, tenant_places=json.dumps(places))
    yield opened
    opened.close()


def spec(site: Path, **changes: Any) -> dict[str, Any]:
    """A job of the zoo within its places."""
    return {
        "images": {"prefix": f"{site}/zoo/photos"},
        "prompts": {"text": ["red disc"]},
        "output": {"uri": f"{site}/zoo/out"},
        "engine": "opencv",
    } | changes


def trespasses(site: Path) -> dict[str, dict[str, Any]]:
    """By the field that is at fault: jobs of the zoo that name the farm's places or the machine's."""
    boxes = {"prefix": f"{site}/zoo/photos", "boxes": f"{site}/farm/boxes.csv"}
    return {
        "output.uri": {"output": {"uri": f"{site}/farm/out"}},
        "output.uri: s3": {"output": {"uri": "s3://bucket/zoo/../farm"}},
        "output.uri: dots": {"output": {"uri": f"{site}/zoo/../farm"}},
        "images.prefix": {"images": {"prefix": f"file://{site}/farm/photos"}},
        "images.prefix: all": {"images": {"prefix": "/"}},
        "images.prefix: s3": {"images": {"prefix": "s3://bucket"}},
        "images.manifest": {"images": {"manifest": "/proc/self/environ"}},
        "images.boxes": {"images": boxes, "mode": "inside_box", "prompts": {}},
        "images.list.1.image": {"images": {"list": [{"image": "s3://bucket/zoo/a"}, {"image": "s3://bucket/farm/a"}]}},
        "images.list.0.image": {"images": {"list": [{"image": "https://any.example/a.jpg"}]}},
    }


class TestAdmission:
    def test_a_request_by_sql_for_anothers_place_is_refused_by_its_field(self, world: World, site: Path) -> None:
        asked = {name: ask(world, spec(site, **changes), tenant="zoo") for name, changes in trespasses(site).items()}
        own = ask(world, spec(site), tenant="zoo")

        assert admit.run(world.ctx) == {"admitted": 1, "refused": len(asked)}

        for name, request in asked.items():
            told = answer(world, request).error or ""
            assert told.startswith(f"{name.partition(': ')[0]}: "), told
            assert "\n" not in told
        assert answer(world, own).job_id == own

    def test_a_client_refuses_it_before_it_writes(
        self, world: World, site: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SAMJOBS_TENANT_PLACES", world.settings.tenant_places or "")
        with Client(world.url) as client:
            for name, changes in trespasses(site).items():
                with pytest.raises(InvalidInput, match=f"^{name.partition(': ')[0]}: "):
                    client.submit(spec(site, **changes), tenant="zoo")
            with pytest.raises(InvalidInput, match="tenant stranger's places, which has none"):
                client.submit(spec(site), tenant="stranger")
            assert client.submit(spec(site), tenant="zoo").created
            assert len(client.list()) == 1

    def test_one_that_cannot_be_read_is_told_at_once_and_writes_nothing(
        self, postgres_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SAMJOBS_TENANT_PLACES", "/no/such/file")
        with pytest.raises(InvalidInput, match="SAMJOBS_TENANT_PLACES: /no/such/file cannot be read"):
            Client(postgres_url)


def submitted(world: World, wanted: dict[str, Any], tenant: str = "zoo") -> UUID:
    """A job in the table as somebody who never asked a rule would have put it there."""
    with world.store.begin() as conn:
        return jobs.submit(conn, JobSpec.model_validate(wanted), tenant=tenant).job_id


class TestListing:
    @pytest.mark.parametrize("name", ["images.prefix", "images.prefix: all", "images.manifest", "images.boxes"])
    def test_the_controller_lists_no_place_of_another(self, world: World, site: Path, name: str) -> None:
        job = submitted(world, spec(site, **trespasses(site)[name]))

        world.lister.list_next(threading.Event())

        ended = world.job(job)
        assert (ended.state, ended.images_total) == (JobState.FAILED, 0)
        assert "secret" not in (ended.error or "")

    def test_the_controllers_environment_is_no_table_of_boxes(
        self, site: Path, postgres_url: str, redis_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What is wrong with a table is told to whoever wrote the job."""
        monkeypatch.setenv("SAMJOBS_A_SECRET", MARKER)
        (site / "zoo" / "boxes.csv").symlink_to("/proc/self/environ")
        world = World(postgres_url, redis_url)  # without a list of places
        try:
            for boxes in ("/proc/self/environ", f"/proc/{os.getpid()}/environ", f"{site}/zoo/boxes.csv"):
                images = {"prefix": f"{site}/zoo/photos", "boxes": boxes}
                job = submitted(world, spec(site, images=images, mode="inside_box", prompts={}, output={"uri": boxes}))
                world.lister.list_next(threading.Event())
                ended = world.job(job)
                assert ended.state is JobState.FAILED
                assert "belongs to the machine" in (ended.error or "")
                assert not [event for event in world.events(job) if MARKER in event.message]
        finally:
            world.close()


class TestWork:
    def run(self, world: World, job: UUID) -> End:
        with Storage(access_of_server(world.settings)) as storage, world.store.read() as conn:
            found = jobs.get(conn, job)
            assert found is not None
            host = Host(world.store, storage, Settings(decode_threads=1), ME)
            engine = OpenCVEngine()
            return run_shard(
                host,
                running(world.store, job),
                found.spec,
                lambda spec: engine,
                allowance=Limit(),
                watch=lambda outcome: None,
            )

    def prepared(self, world: World, wanted: dict[str, Any], *images: str) -> UUID:
        job = submitted(world, wanted)
        with world.store.begin() as conn:
            jobs.add_images(conn, job, [NewImage(f"{number}.png", uri) for number, uri in enumerate(images)])
            jobs.mark_expanded(conn, job)
        return job

    def test_an_image_of_another_fails_alone(self, world: World, site: Path) -> None:
        (site / "zoo" / "photos" / "link.png").symlink_to(site / "farm" / "photos" / "a.png")
        job = self.prepared(
            world,
            spec(site),
            f"{site}/zoo/photos/a.png",
            f"{site}/farm/photos/a.png",
            f"{site}/zoo/photos/link.png",
            "/proc/self/environ",
            "s3://bucket/farm/a.png",
            "https://any.example/a.png",
        )

        assert self.run(world, job) is End.FINISHED

        done, *failed = image_rows(world.store, job)
        assert (done.state.value, {image.state.value for image in failed}) == ("done", {"failed"})
        for image in failed:
            assert "tenant zoo's places" in (image.error or "") or "belongs to the machine" in (image.error or "")

    def test_a_shard_that_would_write_into_anothers_place_is_dead_and_wrote_nothing(
        self, world: World, site: Path
    ) -> None:
        before = sorted(site.rglob("*"))
        job = self.prepared(world, spec(site, output={"uri": f"{site}/farm/out"}), f"{site}/zoo/photos/a.png")

        assert self.run(world, job) is End.DEAD

        shard = shard_of(world.store, job)
        assert shard.state is ShardState.DEAD
        assert "/farm/out is below none of tenant zoo's places" in (shard.error or "")
        assert sorted(site.rglob("*")) == before

    def test_results_are_gathered_nowhere_else_either(self, world: World, site: Path) -> None:
        job = self.prepared(world, spec(site, output={"uri": f"{site}/farm/out"}), f"{site}/zoo/photos/a.png")
        with Storage(access_of_server(world.settings)) as storage, pytest.raises(AccessDenied):
            merge(world.store, storage, world.job(job), threads=1)
        assert not (site / "farm" / "out").exists()
