"""What belongs to a job: images with results and photos, shards, story; and nothing that a photo's place betrays."""

import io
import zlib
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import httpx
import pytest
from PIL import Image

from api import cursors
from samjobs.states import ImageState
from samjobs.store import Store
from tests.api.test_jobs import JOBS, every, fields, problem
from tests.api.world import UPRIGHT, finished, photo, record, submitted


@pytest.fixture
def job_id(api_store: Store, api_folder: Path) -> UUID:
    return finished(api_store, api_folder)


def test_images_are_listed_with_what_became_of_them(root: httpx.Client, job_id: UUID) -> None:
    first, second = every(root, f"{JOBS}/{job_id}/images", limit=1)
    assert (first["index"], first["key"], first["state"], first["width"], first["height"]) == (
        0,
        "0000.jpg",
        "done",
        30,
        40,
    )
    assert (second["state"], second["error"]) == ("failed", "it does not exist")
    assert [one["index"] for one in every(root, f"{JOBS}/{job_id}/images", state="failed")] == [1]
    assert every(root, f"{JOBS}/{job_id}/images", state="pending") == []


@pytest.mark.parametrize("state", [None, *ImageState])
def test_a_list_may_go_on_behind_every_index_that_there_can_be(
    root: httpx.Client, job_id: UUID, state: ImageState | None
) -> None:
    asked = {"cursor": cursors.of_index(2**31 - 2)} | ({"state": state.value} if state else {})
    answer = root.get(f"{JOBS}/{job_id}/images", params=asked)
    assert answer.json() == {"items": [], "nextCursor": None}, answer.text


def test_a_result_is_the_record_as_it_was_written(root: httpx.Client, job_id: UUID, api_folder: Path) -> None:
    answer = root.get(f"{JOBS}/{job_id}/images/0/result")
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.content == record(str(api_folder / "photos/a.jpg"))


def test_an_image_without_a_result_says_why(root: httpx.Client, job_id: UUID) -> None:
    assert "it does not exist" in problem(root.get(f"{JOBS}/{job_id}/images/1/result"), 404)["detail"]
    problem(root.get(f"{JOBS}/{job_id}/images/2/result"), 404)
    assert fields(root.get(f"{JOBS}/{job_id}/images/{2**31}/result"), 400) == ["index"]
    assert fields(root.get(f"{JOBS}/{job_id}/images/-1/result"), 400) == ["index"]


def test_a_result_that_is_gone_or_damaged_is_none(root: httpx.Client, job_id: UUID, api_folder: Path) -> None:
    place = api_folder / "masks/records/a.json"
    place.write_bytes(b"{")
    problem(root.get(f"{JOBS}/{job_id}/images/0/result"), 404)
    place.unlink()
    problem(root.get(f"{JOBS}/{job_id}/images/0/result"), 404)


def shown(answer: httpx.Response) -> Image.Image:
    assert answer.status_code == 200, answer.text
    assert answer.headers["Content-Type"] == "image/jpeg"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cache-Control"].startswith("private")
    # A browser that is given another token shows nothing that it kept for the one before.
    assert answer.headers["Vary"] == "Authorization"
    return Image.open(io.BytesIO(answer.content))


def test_a_photo_is_shown_upright(root: httpx.Client, job_id: UUID) -> None:
    picture = shown(root.get(f"{JOBS}/{job_id}/images/0/photo"))
    assert picture.size == UPRIGHT
    top, bottom = picture.getpixel((15, 2)), picture.getpixel((15, 37))
    assert isinstance(top, tuple)
    assert isinstance(bottom, tuple)
    assert top[0] > 200 > 60 > top[2]
    assert bottom[2] > 200 > 60 > bottom[0]


@pytest.mark.parametrize(("max_side", "size"), [(20, (15, 20)), (4096, UPRIGHT)])
def test_a_photo_is_no_larger_than_asked_and_never_enlarged(
    root: httpx.Client, job_id: UUID, max_side: int, size: tuple[int, int]
) -> None:
    assert shown(root.get(f"{JOBS}/{job_id}/images/0/photo?maxSide={max_side}")).size == size


@pytest.mark.parametrize("max_side", ["0", "4097", "wide"])
def test_a_side_that_is_none_is_named(root: httpx.Client, job_id: UUID, max_side: str) -> None:
    assert fields(root.get(f"{JOBS}/{job_id}/images/0/photo?maxSide={max_side}"), 400) == ["maxSide"]


def test_what_is_no_photo_is_not_quoted(root: httpx.Client, api_store: Store, tmp_path: Path) -> None:
    secret = tmp_path / "secret.jpg"
    secret.write_text("password: swordfish")
    job_id = submitted(api_store, [str(secret), str(tmp_path / "none.jpg"), str(tmp_path)])
    answers = [root.get(f"{JOBS}/{job_id}/images/{n}/photo") for n in range(3)]
    problem(answers[0], 422)
    problem(answers[1], 404)
    assert answers[2].status_code in (404, 422)
    assert not any("swordfish" in one.text or str(tmp_path) in one.text for one in answers)


@pytest.mark.parametrize("place", ["http://127.0.0.1:1/a.jpg", "http://169.254.169.254/latest", "/proc/self/environ"])
def test_a_place_that_no_worker_would_read_is_not_read(root: httpx.Client, api_store: Store, place: str) -> None:
    job_id = submitted(api_store, [place])
    problem(root.get(f"{JOBS}/{job_id}/images/0/photo"), 404)


def test_a_photo_that_is_too_large_to_decode_is_refused(root: httpx.Client, api_store: Store, tmp_path: Path) -> None:
    """A PNG of 30,000 × 30,000 pixels in a few hundred bytes: what its header says is enough."""
    bomb = photo(tmp_path / "bomb.png", (8, 8), "PNG")
    data = bytearray(bomb.read_bytes())
    data[16:24] = (30_000).to_bytes(4) * 2
    data[29:33] = zlib.crc32(bytes(data[12:29])).to_bytes(4)
    bomb.write_bytes(data)
    job_id = submitted(api_store, [str(bomb)])
    problem(root.get(f"{JOBS}/{job_id}/images/0/photo"), 422)


def test_names_that_json_cannot_hold_are_escaped(root: httpx.Client, api_store: Store) -> None:
    job_id = submitted(api_store, ["/photos/caf\udce9.jpg"])
    (image,) = every(root, f"{JOBS}/{job_id}/images")
    assert image["uri"] == "/photos/caf\\udce9.jpg"


def test_shards_are_listed(root: httpx.Client, job_id: UUID) -> None:
    found = every(root, f"{JOBS}/{job_id}/shards", limit=1)
    assert [(one["index"], one["firstImage"], one["images"], one["state"]) for one in found] == [
        (0, 0, 1, "succeeded"),
        (1, 1, 1, "succeeded"),
    ]


def test_the_story_is_told_in_parts(root: httpx.Client, job_id: UUID) -> None:
    told, after = [], 0
    while after is not None:
        page = root.get(f"{JOBS}/{job_id}/history", params={"after": after, "limit": 2}).json()
        told += page["items"]
        after = page["nextAfter"]
    assert (told[0]["subject"], told[0]["toState"], told[0]["reason"]) == ("job", "queued", "Submitted")
    assert (told[-1]["subject"], told[-1]["toState"]) == ("job", "succeeded")
    assert len({one["id"] for one in told}) == len(told)


def test_a_tenant_sees_no_image_of_another(
    http: Callable[[str | None], httpx.Client], api_store: Store, api_folder: Path
) -> None:
    job_id = finished(api_store, api_folder, tenant="bob")
    for rest in ("images", "images/0/result", "images/0/photo", "shards", "history"):
        problem(http("ada").get(f"{JOBS}/{job_id}/{rest}"), 404)
        assert http("bob").get(f"{JOBS}/{job_id}/{rest}").status_code == 200
