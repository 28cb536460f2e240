"""Jobs asked for by plain SQL, as the documentation shows it."""

import json
from typing import Any
from uuid import UUID

import psycopg
import pytest

from controller.steps import admit, dispatch
from samjobs.store import images, requests
from samjobs.store.rows import Request
from tests.controller.world import World

LISTED = {
    "images": {"list": [{"image": "/photos/a.jpg"}, {"image": "s3://bucket/b.jpg"}]},
    "prompts": {"text": ["red circle"]},
    "output": {"uri": "/out"},
}


def ask(world: World, spec: Any, **columns: str) -> UUID:
    names = "".join(f", {name}" for name in columns)
    marks = ", %s" * len(columns)
    with psycopg.connect(world.url) as conn:
        row = conn.execute(
            f"INSERT INTO requests (spec{names}) VALUES (%s{marks}) RETURNING id".encode(),
            [json.dumps(spec), *columns.values()],
        ).fetchone()
    assert row is not None
    found = row[0]
    assert isinstance(found, UUID)
    return found


def answer(world: World, request_id: UUID) -> Request:
    with world.store.read() as conn:
        found = requests.get(conn, request_id)
    assert found is not None
    return found


def test_a_short_list_becomes_a_job_of_the_same_id_with_all_its_images(world: World) -> None:
    asked = ask(world, LISTED, tenant="zoo", name="first")

    assert admit.run(world.ctx) == {"admitted": 1, "refused": 0}

    job = world.job(asked)
    assert (job.tenant, job.name, job.images_total, job.expanded_at is not None) == ("zoo", "first", 2, True)
    with world.store.read() as conn:
        assert [image.uri for image in images.iterate(conn, asked)] == ["/photos/a.jpg", "s3://bucket/b.jpg"]
    assert dispatch.run(world.ctx)["sent"] == 1
    assert next((event.to_state, event.actor) for event in world.events(asked)) == ("queued", "controller")


def test_a_prefix_becomes_a_job_that_is_still_to_be_listed(world: World) -> None:
    asked = ask(world, LISTED | {"images": {"prefix": "/photos"}})

    admit.run(world.ctx)

    assert world.job(asked).expanded_at is None


def test_an_equal_request_joins_the_job_that_is_active(world: World) -> None:
    first, second = ask(world, LISTED), ask(world, LISTED)

    assert admit.run(world.ctx) == {"admitted": 2, "refused": 0}

    assert answer(world, second).job_id == first
    assert world.job(first).images_total == 2


@pytest.mark.parametrize(
    ("spec", "columns", "message"),
    [
        (LISTED | {"mode": "find"}, {}, "spec: mode: "),
        ({}, {}, "spec: images: "),
        ([1], {}, "spec: the whole: "),
        (LISTED | {"output": {"uri": "out"}}, {}, "output.uri: 'out' is a relative path"),
        (LISTED, {"tenant": "../zoo"}, "requests.tenant '../zoo' is no name"),
        (LISTED, {"name": "a b"}, "requests.name 'a b' is no name"),
        (LISTED | {"images": {"list": [{"image": "/a.jpg"}, {"image": "/a.jpg"}]}}, {}, "/a.jpg was named before"),
    ],
)
def test_what_is_wrong_is_written_beside_it_and_nothing_else(
    spec: Any, columns: dict[str, str], message: str, world: World
) -> None:
    wrong = ask(world, spec, **columns)
    good = ask(world, LISTED)

    assert admit.run(world.ctx) == {"admitted": 1, "refused": 1}

    refused = answer(world, wrong)
    assert refused.job_id is None
    assert message in (refused.error or "")
    assert answer(world, good).job_id == good
    assert admit.run(world.ctx) == {"admitted": 0, "refused": 0}, "each is answered once"


def test_a_fault_of_ours_is_answered_too_and_keeps_no_other_waiting(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = ask(world, LISTED | {"output": {"uri": "/boom"}}), ask(world, LISTED)
    real = admit.places.admitted

    def admitted(spec: Any, *more: Any) -> Any:
        if spec.output.uri == "/boom":
            raise ZeroDivisionError("boom")
        return real(spec, *more)

    monkeypatch.setattr(admit.places, "admitted", admitted)

    assert admit.run(world.ctx) == {"admitted": 1, "refused": 1}
    assert answer(world, first).error == "ZeroDivisionError: boom"
    assert answer(world, second).job_id == second
