"""The queue for who runs it, and for a tenant its own part; the dead list; what a process tells of itself."""

from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest

from samjobs.spec import Output
from samjobs.store import Store, connect, workers
from samjobs.store.rows import WorkerState
from samjobs.store.tables import jobs as job_rows
from tests.api.server import Api
from tests.api.test_jobs import every, problem
from tests.api.world import dead, submitted
from tests.postgres import database
from tests.store.builders import read
from tests.waiting import until

Http = Callable[[str | None], httpx.Client]
NOBODY = {"loading": 0, "ready": 0, "busy": 0, "draining": 0}


@pytest.fixture(scope="module")
def api_database(postgres_server: str) -> Iterator[str]:
    """Work of two tenants in two regions, with a busy worker in one of them."""
    with database(postgres_server) as url:
        store = connect(url)
        submitted(store, ["/p/a.jpg", "/p/b.jpg"], tenant="ada", shard_size=1)
        submitted(store, ["/p/a.jpg"], tenant="bob", region="eu")
        with store.begin() as conn:
            one = uuid4()
            workers.register(conn, one, pool="gpu", region="eu", node="n1", pid=7, pod="gpu-0")
            workers.set_state(conn, one, WorkerState.BUSY, image_s=0.5)
        store.close()
        yield url


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory, api_database: str) -> Iterator[Api]:
    """An API on that database alone."""
    one = Api(tmp_path_factory.mktemp("queue"), api_database)
    try:
        yield one.until_ready()
    finally:
        one.close()


def regions(answer: httpx.Response) -> dict[str, dict[str, Any]]:
    assert answer.status_code == 200, answer.text
    return {one["region"]: one for one in answer.json()["regions"]}


def test_who_may_sees_all_that_waits_and_who_works(root: httpx.Client) -> None:
    answer = root.get("/queue/status")
    seen = regions(answer)
    assert (seen["default"]["due"], seen["eu"]["due"]) == (2, 1)
    assert seen["default"]["workers"] == NOBODY
    assert seen["eu"]["workers"] == NOBODY | {"busy": 1}
    assert seen["eu"]["oldestDueAgeSeconds"] >= 0
    assert answer.json()["jobs"] == {"queued": 2, "running": 0, "suspended": 0}


def test_a_tenant_counts_its_own_alone(http: Http) -> None:
    answer = http("ada").get("/queue/status")
    seen = regions(answer)
    assert {name: (one["due"], one["workers"]) for name, one in seen.items()} == {"default": (2, None)}
    assert answer.json()["jobs"]["queued"] == 1
    problem(http("ada").get("/queue/status?tenant=bob"), 403)
    problem(http("reader").get("/queue/status"), 403)
    assert regions(http("reader").get("/queue/status?tenant=bob"))["eu"]["due"] == 1


def test_one_region_and_one_that_nobody_knows(http: Http) -> None:
    assert http("root").get("/queue/status/eu").json()["due"] == 1
    assert http("root").get("/queue/status/moon").json() | {"region": ""} == {
        "region": "",
        **dict.fromkeys(("due", "waiting", "held", "dispatched", "running", "dead"), 0),
        "oldestDueAgeSeconds": None,
        "workers": NOBODY,
    }
    # Another's region looks like none.
    assert http("ada").get("/queue/status/eu").json()["due"] == 0
    assert http("ada").get("/queue/status/eu").json()["workers"] is None


def test_samples_are_kept_of_the_whole_and_of_a_region(root: httpx.Client) -> None:
    until(lambda: root.get("/queue/history").json()["samples"] != [], "a sample was taken")
    told = root.get("/queue/history").json()
    (first, *_) = told["samples"]
    assert told["since"] == first["at"]
    assert (first["due"], first["workers"], first["busy"]) == (3, 1, 1)
    assert root.get("/queue/history?region=eu").json()["samples"][0]["due"] == 1


def test_workers_and_pools_are_for_who_runs_them(http: Http) -> None:
    (worker,) = http("root").get("/api/v1/workers").json()["items"]
    assert (worker["pod"], worker["state"], worker["imageSeconds"]) == ("gpu-0", "busy", 0.5)
    assert http("root").get("/api/v1/pools").json() == {"items": []}
    for path in ("/api/v1/workers", "/api/v1/pools", "/queue/history", "/admin/runtime/stats"):
        for who in ("ada", "reader"):
            problem(http(who).get(path), 403)


def test_the_process_tells_of_itself_without_a_secret(root: httpx.Client) -> None:
    told = root.get("/admin/runtime/stats").json()
    assert told["listening"] is True
    assert told["databaseBytes"] > 0
    assert "jobs" in [table["name"] for table in told["tables"]]
    assert told["settings"]["api_max_body_bytes"] == 2 << 20
    assert not [name for name in told["settings"] if "secret" in name or "url" in name]


def test_a_caller_learns_what_it_may(http: Http) -> None:
    assert http("ada-viewer").get("/api/v1/me").json() == {
        "name": "token:ada-viewer",
        "tenants": ["ada"],
        "everywhere": [],
        "verbs": {"ada": ["get", "list"]},
    }
    assert "admin" in http("root").get("/api/v1/me").json()["everywhere"]


def test_the_dead_list_is_of_those_whom_a_caller_may_see(http: Http, api_store: Store) -> None:
    mine, other = dead(api_store, tenant="ada", count=3), dead(api_store, tenant="bob")
    seen = every(http("ada"), "/admin/queue-dead", limit=2)
    assert {one["jobId"] for one in seen} == {str(mine)}
    assert {(one["tenant"], one["error"], one["errorClass"]) for one in seen} == {
        ("ada", "the bucket is away", "transient")
    }
    assert {one["jobId"] for one in every(http("root"), "/admin/queue-dead")} >= {str(mine), str(other)}
    problem(http("ada").get("/admin/queue-dead?tenant=bob"), 403)


def test_dead_shards_are_retried_by_job_and_purged_by_tenant(http: Http, api_store: Store) -> None:
    first, second, third = (dead(api_store, tenant="cleo", count=2) for _ in range(3))
    order = {"jobIds": [str(first), str(first)]}
    assert http("root").post("/admin/queue-dead/retry", json=order).json() == {
        "jobs": 1,
        "shards": 2,
        "more": False,
        "refused": [],
    }
    assert read(api_store, first).shards_dead == 0
    told = http("root").post("/admin/queue-dead/purge", json={"tenant": "cleo"}).json()
    assert (told["jobs"], told["shards"]) == (2, 4)
    assert read(api_store, second).shards_cancelled == read(api_store, third).shards_cancelled == 2


def test_nothing_is_done_where_one_of_the_jobs_is_anothers(http: Http, api_store: Store) -> None:
    mine, other = dead(api_store, tenant="ada"), dead(api_store, tenant="bob")
    order = {"jobIds": [str(mine), str(other)]}
    problem(http("ada").post("/admin/queue-dead/retry", json=order), 404)
    problem(http("ada").post("/admin/queue-dead/purge", json={"tenant": "bob"}), 403)
    problem(http("ada-editor").post("/admin/queue-dead/purge", json={"jobIds": [str(mine)]}), 403)
    assert read(api_store, mine).shards_dead == read(api_store, other).shards_dead == 1


@pytest.mark.parametrize(
    "order", [{}, {"jobIds": []}, {"jobIds": None}, {"jobIds": ["x"]}, {"tenant": "a", "jobIds": [str(uuid4())]}]
)
def test_an_order_that_is_none_is_refused(root: httpx.Client, order: dict[str, Any]) -> None:
    answer = root.post("/admin/queue-dead/retry", json=order)
    assert answer.status_code in (400, 422)
    assert answer.json()["errors"]


def test_a_job_that_cannot_be_retried_is_named_and_stops_no_other(root: httpx.Client, api_store: Store) -> None:
    same = {"output": Output(uri="s3://masks/same")}
    given_up = dead(api_store, tenant="dora", **same)
    submitted(api_store, ["/p/a.jpg"], tenant="dora", **same)  # an equal one, which is active
    good = dead(api_store, tenant="dora")
    told = root.post("/admin/queue-dead/retry", json={"jobIds": [str(given_up), str(good)]}).json()
    assert (told["jobs"], told["shards"]) == (1, 1)
    assert [one["jobId"] for one in told["refused"]] == [str(given_up)]
    assert "equal job" in told["refused"][0]["detail"]


def test_who_asks_on_while_there_is_more_comes_to_an_end(root: httpx.Client, api_store: Store) -> None:
    """Though none of the first 200 shards can be moved."""
    job_id = dead(api_store, tenant="emma", count=201)
    with api_store.begin() as conn:
        conn.execute(job_rows.update().where(job_rows.c.id == job_id).values(expires_at=job_rows.c.created_at))
    told = root.post("/admin/queue-dead/retry", json={"tenant": "emma"}).json()
    assert (told["shards"], told["more"], [one["jobId"] for one in told["refused"]]) == (0, False, [str(job_id)])


def test_nothing_is_kept_of_answers_by_anybody_between(root: httpx.Client) -> None:
    answer = root.get("/queue/status")
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "server" not in answer.headers
