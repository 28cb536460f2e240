"""A tenant never sees another's jobs, images, results, photos, counts or keys, and changes nothing of them: at any
route, by any id, name, filter, key or cursor; and no answer is a 500.

Ada has all rights in her own tenant. Whatever could be told of Bob holds MARK or an id of his, and no answer to Ada may
hold either, but for what she sent herself. Routes are those that the application has: a new one without attempts fails.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
import sqlalchemy as sa
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute

from api.app import create_app
from samjobs.errors import ErrorClass
from samjobs.spec import Prompts, TextPrompt
from samjobs.store import Store, connect, shards
from samjobs.store.tables import events, idempotency_keys, images, jobs
from samjobs.store.tables import shards as shard_rows
from samjobs.tokens import Role
from tests.api import world
from tests.api.server import Api
from tests.cli.job_table import JobTable
from tests.store.builders import DEAD, running

Http = Callable[[str | None], httpx.Client]
MARK = "marked7c1f"
BOBS_REGION = f"region-{MARK}"
BOBS_KEY = f"key-{MARK}"
WAITING = 37  # shards of Bob's that wait
JOB = "/api/v1/jobs/{jobId}"
# What an answer to Ada may be.
HIDDEN, REFUSED, OWN = "as if it were not there", "403", "of her own alone"
# Routes that tell nothing of any tenant, and need no token.
OPEN = {"GET /", "GET /healthz", "GET /readyz", "GET /openapi.json", "MOUNT /static"}


def spec(**more: Any) -> dict[str, Any]:
    """A request whose every word is Bob's."""
    return {
        "images": {"list": [{"image": f"/photos/{MARK}.jpg"}]},
        "prompts": {"text": [MARK]},
        "output": {"uri": f"/masks/{MARK}"},
        **more,
    }


@dataclass
class Bob:
    """What Bob has."""

    done: UUID
    lost: UUID
    waiting: UUID
    keyed: UUID
    ids: frozenset[str]  # of his jobs and their shards
    cursors: dict[str, str]  # by the path of the list that gave it to him

    @property
    def jobs(self) -> tuple[UUID, ...]:
        return self.done, self.lost, self.waiting, self.keyed


@dataclass
class Ada:
    """What Ada has."""

    done: UUID
    lost: UUID
    waiting: UUID


@pytest.fixture(scope="module")
def table(api_database: str) -> Iterator[Store]:
    opened = connect(api_database)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def bob(api: Api, table: Store, api_folder: Path) -> Bob:
    marked = Prompts(text=(TextPrompt(text=MARK),))
    done = world.finished(table, api_folder / MARK, tenant="bob", name=f"done-{MARK}")
    lost = given_up(table, "bob", MARK, prompts=marked, region=BOBS_REGION)
    waiting = world.submitted(
        table, [f"/photos/{MARK}/{n}.jpg" for n in range(WAITING)], tenant="bob", shard_size=1, prompts=marked
    )
    with api.client("bob") as http:
        asked = {"name": f"keyed-{MARK}", "spec": spec()}
        keyed = UUID(http.post("/api/v1/jobs", json=asked, headers={"Idempotency-Key": BOBS_KEY}).json()["id"])
        lists = (
            "/api/v1/jobs",
            "/admin/queue-dead",
            f"/api/v1/jobs/{waiting}/images",
            f"/api/v1/jobs/{waiting}/shards",
        )
        cursors = {path: http.get(path, params={"limit": 1}).json()["nextCursor"] for path in lists}
    assert all(cursors.values()), cursors
    with table.read() as conn:
        found = conn.execute(sa.select(shard_rows.c.id).where(shard_rows.c.tenant == "bob")).scalars()
        ids = frozenset(str(one) for one in (done, lost, waiting, keyed, *found))
    return Bob(done, lost, waiting, keyed, ids, cursors)


@pytest.fixture(scope="module")
def ada(bob: Bob, table: Store, api_folder: Path) -> Ada:
    return Ada(
        done=world.finished(table, api_folder / "ada", tenant="ada", name="done"),
        lost=given_up(table, "ada", "the bucket is away"),
        waiting=world.submitted(table, [f"/photos/{n}.jpg" for n in range(3)], tenant="ada", shard_size=1),
    )


def given_up(store: Store, tenant: str, error: str, **more: Any) -> UUID:
    """A job of two shards that wait for a person."""
    job_id = world.submitted(store, [f"/photos/{error}/{n}.jpg" for n in "ab"], tenant=tenant, shard_size=1, **more)
    for _ in "ab":
        shard = running(store, job_id)
        with store.begin() as conn:
            shards.fail(conn, shard.id, shard.attempt, DEAD, error_class=ErrorClass.TRANSIENT, error=error)
    return job_id


# What Ada tries at each route, all of it about Bob's.


@dataclass(frozen=True)
class Attempt:
    """A request, and what may come of it. In its path `{jobId}` stands for each of Bob's jobs in turn."""

    expected: str
    query: dict[str, str] = field(default_factory=dict)
    body: object = None
    headers: dict[str, str] = field(default_factory=dict)
    region: str = BOBS_REGION


def hers(**query: str) -> Attempt:
    return Attempt(OWN, query=query)


NO_ADMIN = [Attempt(REFUSED)]
HIDES = [Attempt(HIDDEN)]
SHOW_LIST = [hers(), hers(tenant="ada"), Attempt(REFUSED, {"tenant": "bob"}), Attempt(REFUSED, {"tenant": "nobody"})]


def attempts(bob: Bob) -> dict[str, list[Attempt]]:
    """By method and path."""

    def order(*ids: object) -> dict[str, object]:
        return {"jobIds": [str(one) for one in ids]}

    listed = bob.cursors["/api/v1/jobs"]
    dead = [Attempt(HIDDEN, body=order(one)) for one in bob.jobs]
    dead += [Attempt(REFUSED, body={"tenant": "bob"}), Attempt(REFUSED, body={"tenant": "nobody"})]
    within = [Attempt(HIDDEN, {"cursor": bob.cursors[f"/api/v1/jobs/{bob.waiting}/images"]})]
    return {
        "POST /api/v1/jobs": [
            Attempt(REFUSED, body={"tenant": "bob", "spec": spec()}),
            Attempt(REFUSED, body={"tenant": "bob", "spec": spec()}, headers={"Idempotency-Key": BOBS_KEY}),
            Attempt(REFUSED, body={"tenant": "nobody", "spec": spec()}),
            # The very same words, in her own tenant: a job of her own, and no way to Bob's.
            Attempt(OWN, body={"name": f"keyed-{MARK}", "spec": spec()}, headers={"Idempotency-Key": BOBS_KEY}),
            Attempt(OWN, body={"spec": spec()}),
        ],
        "GET /api/v1/jobs": [
            *SHOW_LIST,
            hers(cursor=listed),
            hers(region=BOBS_REGION),
            hers(state="failed"),
            hers(active="true", region="default", limit="200"),
            Attempt(REFUSED, {"tenant": "bob", "cursor": listed}),
        ],
        f"GET {JOB}": HIDES,
        f"POST {JOB}/cancel": HIDES,
        f"POST {JOB}/suspend": HIDES,
        f"POST {JOB}/resume": HIDES,
        f"POST {JOB}/retry": [Attempt(HIDDEN, body={"what": what}) for what in ("all", "dead", "images")],
        f"POST {JOB}/purge": HIDES,
        f"GET {JOB}/images": [*HIDES, *within, Attempt(HIDDEN, {"state": "failed"})],
        f"GET {JOB}/images/{{index}}": HIDES,
        f"GET {JOB}/images/{{index}}/result": HIDES,
        f"GET {JOB}/images/{{index}}/photo": [*HIDES, Attempt(HIDDEN, {"maxSide": "64"})],
        f"GET {JOB}/shards": [*HIDES, *within],
        f"GET {JOB}/history": [*HIDES, Attempt(HIDDEN, {"after": "1"})],
        f"GET {JOB}/progress": [*HIDES, Attempt(HIDDEN, headers={"Last-Event-ID": "1"})],
        "GET /queue/status": SHOW_LIST,
        "GET /queue/status/{region}": [*SHOW_LIST, Attempt(OWN, region="default")],
        "GET /queue/history": [*NO_ADMIN, Attempt(REFUSED, {"region": BOBS_REGION})],
        "GET /api/v1/workers": [*NO_ADMIN, Attempt(REFUSED, {"region": BOBS_REGION})],
        "GET /api/v1/pools": NO_ADMIN,
        "GET /admin/runtime/stats": NO_ADMIN,
        "GET /admin/queue-dead": [
            *SHOW_LIST,
            hers(cursor=bob.cursors["/admin/queue-dead"]),
            hers(cursor=cursor_before_all()),
        ],
        "POST /admin/queue-dead/retry": dead,
        "POST /admin/queue-dead/purge": dead,
        "GET /api/v1/me": [hers(), hers(tenant="bob")],
    }


def cursor_before_all() -> str:
    """As somebody might make one who knows how they are made."""
    from api import cursors

    return cursors.of_id(UUID(int=0))


@cache
def routes() -> dict[str, APIRoute | BaseRoute]:
    """All that the application answers, by method and path."""

    def walked(of: Sequence[BaseRoute]) -> Iterator[BaseRoute]:
        for one in of:
            inner = getattr(one, "original_router", None)
            yield from [one] if inner is None else walked(inner.routes)

    app = create_app(None)
    found: dict[str, APIRoute | BaseRoute] = {}
    for one in walked(app.routes):
        path = getattr(one, "path", "?")
        for method in getattr(one, "methods", None) or {"MOUNT"}:
            if method != "HEAD":
                found[f"{method} {path}"] = one
    described = {f"{verb.upper()} {path}" for path, verbs in app.openapi()["paths"].items() for verb in verbs}
    assert described <= set(found), "this walk over the routes misses some"
    return found


def test_every_route_has_its_attempts(bob: Bob) -> None:
    assert set(routes()) - OPEN == set(attempts(bob)), "say here what another tenant may try at the new route"


@pytest.mark.parametrize("route", sorted(set(routes()) - OPEN))
def test_ada_gets_nothing_of_bobs(http: Http, bob: Bob, ada: Ada, table: Store, route: str) -> None:
    client = http("ada")
    for attempt in attempts(bob)[route]:
        for job_id in bob.jobs if "{jobId}" in route else (None,):
            before = all_of(table, bob)
            answer = sent(client, route, attempt, job_id)
            what = f"{route} {attempt} of {job_id}: {answer.status_code} {answer.text[:500]}"
            assert told_of(bob, answer) == set(), what
            if attempt.expected == REFUSED:
                assert answer.status_code == 403, what
            elif attempt.expected == OWN:
                assert answer.status_code in (200, 201), what
                assert set(re.findall(r'"tenant": ?"([^"]*)"', answer.text)) <= {"ada"}, what
            else:
                never = sent(client, route, unknown(attempt, bob), uuid4())
                assert answer.status_code == 404, what
                assert neutral(answer) == neutral(never), f"{what}: it is told apart from {never.text}"
            assert all_of(table, bob) == before, f"{what}: it changed something of Bob's"


@pytest.mark.parametrize("route", sorted(set(routes()) - OPEN))
def test_without_a_token_of_ours_nothing_is_told_at_all(http: Http, bob: Bob, route: str) -> None:
    for token in (None, "nobody", "bob,root"):
        client = http(token)
        for attempt in attempts(bob)[route]:
            answer = sent(client, route, attempt, bob.done)
            assert answer.status_code == 401, f"{route} {attempt}: {answer.status_code} {answer.text[:500]}"
            assert answer.headers["WWW-Authenticate"].startswith("Bearer")
            assert told_of(bob, answer) == set()


def test_a_way_around_authorization_is_none(http: Http, bob: Bob) -> None:
    path = f"/api/v1/jobs/{bob.done}"
    client = http(None)
    for headers in (
        {"Authorization": "Basic cm9vdDpyb290"},
        {"Authorization": "root"},
        {"Cookie": "Authorization=Bearer root; token=root"},
        {"X-Forwarded-User": "root", "X-Remote-User": "root", "Impersonate-User": "root"},
    ):
        assert client.get(path, headers=headers).status_code == 401, headers
    for query in ("token=root", "access_token=root", "authorization=Bearer%20root"):
        assert client.get(f"{path}?{query}").status_code in (400, 401), query
    for method in ("PUT", "PATCH", "DELETE", "TRACE"):
        assert http("ada").request(method, path).status_code == 405, method


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/jobs/{}/",
        "//api/v1/jobs/{}",
        "/api/v1/jobs/../jobs/{}",
        "/static/../api/v1/jobs/{}",
        "/api/v1/jobs/%2e%2e/jobs/{}",
    ],
)
def test_another_spelling_of_a_path_leads_no_further(http: Http, bob: Bob, path: str) -> None:
    answer = http("ada").get(path.format(bob.done))
    assert answer.status_code == 404
    assert told_of(bob, answer) == set()


# What Ada sees of her own is all hers: counts, lists, the reason why a job waits.


def test_lists_hold_her_own_jobs_and_no_other(http: Http, bob: Bob, ada: Ada) -> None:
    jobs_ = {one["id"] for one in everything(http("ada"), "/api/v1/jobs")}
    assert {str(ada.done), str(ada.lost), str(ada.waiting)} <= jobs_
    assert jobs_.isdisjoint(bob.ids)
    dead = everything(http("ada"), "/admin/queue-dead")
    assert {one["jobId"] for one in dead} == {str(ada.lost)}


def test_counts_are_of_her_own_shards(http: Http, bob: Bob, ada: Ada) -> None:
    for query in ({}, {"tenant": "ada"}):
        (region,) = http("ada").get("/queue/status", params=query).json()["regions"]
        assert region["region"] == "default"
        assert 3 <= region["due"] < WAITING
        assert region["dead"] == 2
        assert region["workers"] is None
    assert http("ada").get(f"/queue/status/{BOBS_REGION}").json() == {
        **http("ada").get("/queue/status/nowhere").json(),
        "region": BOBS_REGION,
    }


def test_why_her_job_waits_tells_no_number_of_bobs(http: Http, table: Store) -> None:
    crowd = {"region": "crowd", "shard_size": 1}
    first = world.submitted(table, ["/photos/a.jpg"], tenant="ada", **crowd)

    def why() -> Any:
        return http("ada").get(f"/api/v1/jobs/{first}").json()["why"]

    alone = why()
    world.submitted(table, [f"/photos/{n}.jpg" for n in range(WAITING)], tenant="bob", priority=9, **crowd)
    assert why() == alone
    assert str(WAITING) in http("root").get(f"/api/v1/jobs/{first}").json()["why"]["message"]


def test_bob_and_who_may_see_all_see_what_ada_does_not(http: Http, bob: Bob) -> None:
    # Or the tests above would be content with a server that shows nothing to anybody.
    for token in ("bob", "root", "reader"):
        found = http(token).get(f"/api/v1/jobs/{bob.waiting}")
        assert found.status_code == 200
        assert MARK in found.text
    assert len(everything(http("bob"), "/api/v1/jobs")) >= len(bob.jobs)
    assert http("bob").get(f"/api/v1/jobs/{bob.done}/images/0/photo").status_code == 200
    assert http("bob").get(f"/api/v1/jobs/{bob.done}/images/0/result").status_code == 200


# Roles within the own tenant: what the least role is for each route, and that the one below is refused.

LEAST = {
    "POST /api/v1/jobs": Role.EDITOR,
    f"POST {JOB}/cancel": Role.EDITOR,
    f"POST {JOB}/suspend": Role.EDITOR,
    f"POST {JOB}/resume": Role.EDITOR,
    f"POST {JOB}/retry": Role.EDITOR,
    "POST /admin/queue-dead/retry": Role.EDITOR,
    f"POST {JOB}/purge": Role.ADMIN,
    "POST /admin/queue-dead/purge": Role.ADMIN,
}
OVER_ALL = {"GET /queue/history", "GET /api/v1/workers", "GET /api/v1/pools", "GET /admin/runtime/stats"}
TOKEN = {Role.VIEWER: "ada-viewer", Role.EDITOR: "ada-editor", Role.ADMIN: "ada"}


def test_every_route_has_a_least_role() -> None:
    reads = {route for route in routes() if route.startswith("GET")} - OPEN - OVER_ALL
    assert set(routes()) - OPEN == set(LEAST) | OVER_ALL | reads, "say here which role the new route needs"


@pytest.mark.parametrize("role", list(Role))
@pytest.mark.parametrize("route", sorted(set(routes()) - OPEN - OVER_ALL))
def test_a_role_opens_what_it_says(http: Http, ada: Ada, table: Store, route: str, role: Role) -> None:
    needed = LEAST.get(route, Role.VIEWER)
    target = ada.done if "images/" in route else given_up(table, "ada", "the bucket is away")
    body: Any = {"jobIds": [str(target)]} if "queue-dead/" in route else None
    body = {"spec": spec(output={"uri": f"/masks/{uuid4().hex}"})} if route == "POST /api/v1/jobs" else body
    answer = sent(http(TOKEN[role]), route, Attempt(OWN, body=body), target)
    enough = list(Role).index(role) >= list(Role).index(needed)
    assert answer.status_code in ((200, 201) if enough else (403,)), (
        f"{route}: {answer.status_code} {answer.text[:500]}"
    )
    if not enough:
        assert "has no right to" in answer.json()["detail"]


@pytest.mark.parametrize("route", sorted(OVER_ALL))
def test_what_belongs_to_no_tenant_is_for_who_administers_all(http: Http, route: str) -> None:
    found = {token: sent(http(token), route, Attempt(OWN), None).status_code for token in ("reader", "ada", "root")}
    assert found == {"reader": 403, "ada": 403, "root": 200}


def test_who_views_all_tenants_changes_none(http: Http, bob: Bob, table: Store) -> None:
    before = all_of(table, bob)
    for route in LEAST:
        body = {"tenant": "bob", "spec": spec()} if route == "POST /api/v1/jobs" else {"tenant": "bob"}
        answer = sent(http("reader"), route, Attempt(REFUSED, body=body if "{jobId}" not in route else None), bob.lost)
        assert answer.status_code == 403, f"{route}: {answer.text}"
    assert all_of(table, bob) == before


# The command line has the database's own address and sees all; with --tenant it shows and changes that one alone.


def test_the_command_keeps_to_the_tenant_that_it_is_given(
    api_database: str, table: Store, tmp_path: Path, bob: Bob, ada: Ada
) -> None:
    command = JobTable(api_database, tmp_path, table)
    before = all_of(table, bob)
    for arguments in (
        ("get", "--tenant", "ada", "--json"),
        ("dead", "list", "--tenant", "ada", "--json"),
        ("dead", "retry", "--all", "--tenant", "ada"),
        ("dead", "purge", "--all", "--tenant", "ada"),
    ):
        said = command.run(*arguments)
        assert MARK not in said.out + said.err, arguments
        assert not [one for one in bob.ids if one in said.out + said.err], arguments
    assert all_of(table, bob) == before


# Help.


def sent(client: httpx.Client, route: str, attempt: Attempt, job_id: UUID | None) -> httpx.Response:
    method, path = route.split(" ")
    path = path.format(jobId=job_id, index=0, region=attempt.region)
    # A stream that were let through would go on: its first words tell.
    with client.stream(method, path, params=attempt.query, json=attempt.body, headers=attempt.headers) as answer:
        if answer.headers.get("content-type", "").startswith("text/event-stream"):
            answer._content = next(answer.iter_bytes(), b"")
        else:
            answer.read()
    assert answer.status_code < 500, f"{route} {attempt}: {answer.text}"
    return answer


def unknown(attempt: Attempt, bob: Bob) -> Attempt:
    """The same about a job that there is not."""
    if not isinstance(attempt.body, dict) or "jobIds" not in attempt.body:
        return attempt
    return Attempt(attempt.expected, attempt.query, {"jobIds": [str(uuid4())]}, attempt.headers)


def told_of(bob: Bob, answer: httpx.Response) -> set[str]:
    """What an answer tells of Bob beyond what its request held."""
    request = f"{answer.request.url} {answer.request.content.decode()} {answer.request.headers}"
    told = f"{answer.headers} {answer.text}"
    return {word for word in (*bob.ids, MARK) if word in told and word not in request}


def neutral(answer: httpx.Response) -> tuple[int, str, dict[str, str]]:
    """An answer without what the request itself held."""
    ids = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
    headers = {name: value for name, value in answer.headers.items() if name != "date"}
    return answer.status_code, ids.sub("…", answer.text), headers


def everything(client: httpx.Client, path: str) -> list[dict[str, Any]]:
    """All pages of a list."""
    found, cursor = [], None
    while True:
        page = client.get(path, params={"limit": 2, **({"cursor": cursor} if cursor else {})}).json()
        found += page["items"]
        cursor = page["nextCursor"]
        if cursor is None:
            return found


def all_of(store: Store, bob: Bob) -> list[Any]:
    """All rows that are Bob's."""
    with store.read() as conn:
        mine = [jobs.c.tenant == "bob", jobs.c.id.in_(bob.jobs)]
        queries = [
            sa.select(jobs).where(*mine).order_by(jobs.c.id),
            sa.select(sa.func.count()).select_from(jobs).where(jobs.c.tenant == "bob"),
            sa.select(idempotency_keys).where(idempotency_keys.c.tenant == "bob"),
        ]
        for of in (shard_rows, images, events):
            queries.append(sa.select(of).where(of.c.job_id.in_(bob.jobs)).order_by(*of.primary_key.columns))
        return [tuple(row) for query in queries for row in conn.execute(query)]
