"""Jobs over HTTP: submitted once, listed in full, changed by who may, and unseen by who may not."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from samjobs.states import ImageState
from samjobs.store import Store, jobs
from tests.api.server import Api
from tests.api.world import SPEC, dead, finished, submitted
from tests.store.builders import read, run
from tests.waiting import until

Http = Callable[[str | None], httpx.Client]
JOBS = "/api/v1/jobs"


def body(**changes: Any) -> dict[str, Any]:
    """A submission that no other equals."""
    return {"name": "trip", "spec": SPEC | {"output": {"uri": f"s3://masks/{uuid4()}"}} | changes}


def problem(answer: httpx.Response, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["Content-Type"] == "application/problem+json"
    told: dict[str, Any] = answer.json()
    assert told["status"] == status
    assert told["instance"] == answer.request.url.path
    return told


def fields(answer: httpx.Response, status: int) -> list[str]:
    return [one["field"] for one in problem(answer, status)["errors"]]


# Submitting.


def test_a_job_is_made_and_told_of(root: httpx.Client, api_store: Store) -> None:
    answer = root.post(JOBS, json=body(priority=7) | {"tenant": "zoo"})
    assert answer.status_code == 201, answer.text
    told = answer.json()
    assert answer.headers["Location"] == f"{JOBS}/{told['id']}"
    assert root.get(answer.headers["Location"]).json() == told | {
        "why": root.get(answer.headers["Location"]).json()["why"]
    }
    assert (told["tenant"], told["name"], told["state"], told["priority"]) == ("zoo", "trip", "queued", 7)
    assert told["spec"]["images"]["prefix"] == "s3://photos/trip"
    assert told["why"]["reason"] == "Listing"
    assert told["createdAt"].endswith("Z")
    with api_store.read() as conn:
        (event,) = jobs.events(conn, UUID(told["id"]))
    assert event.actor == "token:root"


def test_a_list_of_images_is_complete_at_once(root: httpx.Client) -> None:
    images = {"list": [{"image": f"s3://photos/{n}.jpg"} for n in range(3)]}
    assert root.post(JOBS, json=body(images=images)).json()["images"]["total"] == 3


def test_whoever_names_no_tenant_submits_to_its_own(http: Http) -> None:
    assert http("ada").post(JOBS, json=body()).json()["tenant"] == "ada"
    assert http("root").post(JOBS, json=body()).json()["tenant"] == "default"


def test_an_equal_job_that_is_active_is_joined(root: httpx.Client) -> None:
    same = body()
    first, second = root.post(JOBS, json=same), root.post(JOBS, json=same)
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json()["id"] == second.json()["id"]


def test_the_same_key_answers_the_first_job_also_after_its_end(root: httpx.Client, api_store: Store) -> None:
    key = {"Idempotency-Key": str(uuid4())}
    same = body(images={"list": [{"image": "s3://photos/a.jpg"}]})
    first = root.post(JOBS, json=same, headers=key)
    run(api_store, UUID(first.json()["id"]))
    again = root.post(JOBS, json=same, headers=key)
    assert (again.status_code, again.json()["id"], again.json()["state"]) == (200, first.json()["id"], "succeeded")
    without = root.post(JOBS, json=same)
    assert without.status_code == 201
    assert without.json()["id"] != first.json()["id"]


def test_the_same_key_from_many_at_once_makes_one_job_of_which_all_are_told(api: Api) -> None:
    key, same = {"Idempotency-Key": str(uuid4())}, body(dedupe=False)
    ready = threading.Barrier(20)

    def submit(_: int) -> httpx.Response:
        with api.client() as client:
            client.get("/healthz")
            ready.wait(30)
            return client.post(JOBS, json=same, headers=key)

    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(submit, range(20)))
    assert sorted(one.status_code for one in answers) == [200] * 19 + [201]
    assert len({one.json()["id"] for one in answers}) == 1


def test_a_key_of_a_job_that_was_joined_answers_after_its_end_too(root: httpx.Client, api_store: Store) -> None:
    same = body(images={"list": [{"image": "s3://photos/a.jpg"}]})
    first = root.post(JOBS, json=same).json()
    key = {"Idempotency-Key": "joined"}
    assert root.post(JOBS, json=same, headers=key).json()["id"] == first["id"]
    run(api_store, UUID(first["id"]))
    assert root.post(JOBS, json=same, headers=key).json()["id"] == first["id"]


def test_a_key_with_another_request_is_refused(root: httpx.Client) -> None:
    key = {"Idempotency-Key": "reused"}
    same = body()
    root.post(JOBS, json=same, headers=key)
    for other in (same | {"name": "other"}, body()):
        assert fields(root.post(JOBS, json=other, headers=key), 422) == ["Idempotency-Key"]


def test_a_key_is_of_one_tenant(http: Http) -> None:
    key = {"Idempotency-Key": "shared"}
    ada, bob = (http(who).post(JOBS, json=body(), headers=key) for who in ("ada", "bob"))
    assert (ada.status_code, bob.status_code) == (201, 201)


@pytest.mark.parametrize("dedupe", [True, False])
def test_one_key_at_once_from_many_makes_one_job(root: httpx.Client, api: Api, dedupe: bool) -> None:
    same = body(dedupe=dedupe)
    key = {"Idempotency-Key": str(uuid4())}
    answers: list[httpx.Response] = []

    def submit() -> None:
        with api.client() as client:
            answer = client.post(JOBS, json=same, headers=key)
            while answer.status_code == 503:  # it is told to come again
                answer = client.post(JOBS, json=same, headers=key)
            answers.append(answer)

    threads = [threading.Thread(target=submit) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert sorted(answer.status_code for answer in answers) == [200] * 5 + [201]


# Listing.


def every(client: httpx.Client, path: str, **query: Any) -> list[dict[str, Any]]:
    """The items of all pages."""
    found: list[dict[str, Any]] = []
    while True:
        page = client.get(path, params=query)
        assert page.status_code == 200, page.text
        found += page.json()["items"]
        if page.json()["nextCursor"] is None:
            return found
        query["cursor"] = page.json()["nextCursor"]


def test_a_list_is_paged_from_the_newest(root: httpx.Client, api_store: Store) -> None:
    made = [str(submitted(api_store, ["/photos/a.jpg"], tenant="paged")) for _ in range(5)]
    found = every(root, JOBS, tenant="paged", limit=2)
    assert [one["id"] for one in found] == made[::-1]
    assert {(one["why"], one["spec"]) for one in found} == {(None, None)}


def test_a_list_is_filtered(root: httpx.Client, api_store: Store) -> None:
    waits = submitted(api_store, ["/photos/a.jpg"], tenant="filtered", region="eu")
    over = submitted(api_store, ["/photos/a.jpg"], tenant="filtered")
    run(api_store, over, ImageState.DONE)

    def listed(**query: Any) -> list[str]:
        return [one["id"] for one in every(root, JOBS, tenant="filtered", **query)]

    assert listed() == [str(over), str(waits)]
    assert listed(state="succeeded") == [str(over)]
    assert listed(active="true") == listed(region="eu") == listed(state="queued", region="eu") == [str(waits)]
    assert listed(active="true", state="succeeded") == []


def test_a_tenant_lists_its_own(http: Http, api_store: Store) -> None:
    mine = submitted(api_store, ["/photos/a.jpg"], tenant="ada", name="mine")
    other = submitted(api_store, ["/photos/a.jpg"], tenant="bob", name="other")
    seen = [one["id"] for one in every(http("ada"), JOBS)]
    assert str(mine) in seen
    assert str(other) not in seen
    problem(http("ada").get(JOBS, params={"tenant": "bob"}), 403)


@pytest.mark.parametrize(
    ("query", "status", "field"),
    [
        ("limit=0", 400, "limit"),
        ("limit=201", 400, "limit"),
        ("limit=many", 400, "limit"),
        ("limit=1&limit=2", 400, "limit"),
        ("limit=99999999999999999999999999", 400, "limit"),
        ("state=done", 400, "state"),
        ("active=maybe", 400, "active"),
        ("tenant=%00", 400, "tenant"),
        ("region=a b", 400, "region"),
        ("cursor=", 400, "cursor"),
        ("cursor=nonsense", 422, "cursor"),
        ("cursor=WyJuIiwxXQ", 422, "cursor"),  # of another list
        ("cursor=WyJ0IiwieCIsInkiXQ", 422, "cursor"),
        ("cursor=" + "W1tb" * 40, 422, "cursor"),
        ("offset=3", 400, "offset"),
    ],
)
def test_a_parameter_that_is_wrong_is_named(root: httpx.Client, query: str, status: int, field: str) -> None:
    assert fields(root.get(f"{JOBS}?{query}"), status) == [field]


# Changing.


def test_a_job_is_suspended_resumed_and_cancelled(root: httpx.Client, api_store: Store) -> None:
    job_id = submitted(api_store, ["/photos/a.jpg"])
    for act, state in (("suspend", "suspended"), ("resume", "queued"), ("cancel", "cancelled")):
        told = [root.post(f"{JOBS}/{job_id}/{act}").json() for _ in range(2)]
        assert [one["changed"] for one in told] == [True, False]
        assert told[0]["job"]["state"] == state
    with api_store.read() as conn:
        assert {event.actor for event in jobs.events(conn, job_id) if event.from_state} == {"token:root"}


def test_failed_images_are_retried(root: httpx.Client, api_store: Store, api_folder: Path) -> None:
    job_id = finished(api_store, api_folder)
    told = root.post(f"{JOBS}/{job_id}/retry", json={"what": "images"}).json()
    assert (told["changed"], told["images"], told["shards"], told["job"]["state"]) == (True, 1, 1, "running")
    assert read(api_store, job_id).images_failed == 0


def test_a_retry_without_a_body_is_of_everything(root: httpx.Client, api_store: Store) -> None:
    job_id = dead(api_store)
    assert root.post(f"{JOBS}/{job_id}/retry").json()["shards"] == 1


def test_what_cannot_be_retried_says_why(root: httpx.Client, api_store: Store) -> None:
    job_id = submitted(api_store, ["/photos/a.jpg"])
    root.post(f"{JOBS}/{job_id}/cancel")
    assert "submit it anew" in problem(root.post(f"{JOBS}/{job_id}/retry"), 409)["detail"]


def test_dead_shards_are_purged(root: httpx.Client, api_store: Store) -> None:
    job_id = dead(api_store, count=2)
    told = root.post(f"{JOBS}/{job_id}/purge").json()
    assert (told["shards"], told["job"]["shards"]["dead"], told["job"]["shards"]["cancelled"]) == (2, 0, 2)


# Seeing.


def test_a_job_that_may_not_be_seen_is_answered_as_one_that_there_is_not(http: Http, api_store: Store) -> None:
    hidden, none = submitted(api_store, ["/photos/a.jpg"], tenant="bob"), uuid4()

    def told(method: str, job_id: UUID, rest: str) -> tuple[int, str, dict[str, str]]:
        answer = http("ada").request(method, f"{JOBS}/{job_id}{rest}")
        headers = {name: value for name, value in answer.headers.items() if name != "date"}
        return answer.status_code, answer.text.replace(str(job_id), "ID"), headers

    for rest in ("", "/images", "/images/0/result", "/images/0/photo", "/shards", "/history", "/progress"):
        assert told("GET", hidden, rest) == told("GET", none, rest)
        assert told("GET", none, rest)[0] == 404
    for rest in ("/cancel", "/suspend", "/resume", "/retry", "/purge"):
        assert told("POST", hidden, rest) == told("POST", none, rest)
    assert read(api_store, hidden).state.value == "queued"


@pytest.mark.parametrize(
    ("who", "act", "status"),
    [("ada-viewer", "cancel", 403), ("ada-viewer", "retry", 403), ("ada-editor", "purge", 403), ("ada", "purge", 200)],
)
def test_a_right_that_is_lacking_is_told_of_a_job_that_may_be_seen(
    http: Http, api_store: Store, who: str, act: str, status: int
) -> None:
    job_id = submitted(api_store, ["/photos/a.jpg"], tenant="ada")
    assert http(who).post(f"{JOBS}/{job_id}/{act}").status_code == status
    assert read(api_store, job_id).state.value == "queued"


def test_a_viewer_submits_nothing(http: Http) -> None:
    problem(http("ada-viewer").post(JOBS, json=body()), 403)


@pytest.mark.parametrize("header", [None, "Bearer", "Bearer nobody's", "Basic cm9vdDpyb290", "Bearer \xe4"])
def test_without_a_good_token_nothing_is_answered(api: Api, header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header.encode("latin-1")}
    answer = httpx.get(f"{api.url}{JOBS}", headers=headers)  # type: ignore[arg-type]
    problem(answer, 401)
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")


def test_an_id_that_is_none_names_the_field(root: httpx.Client) -> None:
    assert fields(root.get(f"{JOBS}/17"), 400) == ["jobId"]


@pytest.mark.parametrize("act", ["cancel", "suspend", "resume", "retry", "purge"])
def test_a_job_that_is_forgotten_meanwhile_is_not_there(root: httpx.Client, api_store: Store, act: str) -> None:
    job_id = submitted(api_store, ["/p/a.jpg"])
    run(api_store, job_id)
    answers: list[httpx.Response] = []
    asking = threading.Thread(target=lambda: answers.append(root.post(f"{JOBS}/{job_id}/{act}")))
    waits = "SELECT count(*) FROM pg_locks WHERE NOT granted"
    with api_store.begin() as conn, api_store.engine.connect() as other:
        jobs.delete(conn, job_id)
        asking.start()  # it still sees the job, and then waits for it
        until(lambda: other.exec_driver_sql(waits).scalar_one() > 0, "the act waits for the job")
    asking.join(30)
    problem(answers[0], 404)
