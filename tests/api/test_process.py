"""The process: it starts when it has what it needs, outlives its database's outages, and ends in order."""

import os
import re
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import LiteralString
from uuid import uuid4

import httpx
import psycopg
import pytest

from samjobs.store import connect, migrate
from tests.api.server import Api
from tests.api.test_jobs import JOBS, body, problem
from tests.api.world import SPEC, submitted
from tests.postgres import Server, database
from tests.waiting import until


@pytest.fixture
def started(tmp_path: Path, postgres_url: str) -> Iterator[Api]:
    one = Api(tmp_path, postgres_url)
    yield one.until_ready()
    one.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order(started: Api, number: signal.Signals) -> None:
    started.stop(number)
    assert started.said.rstrip().endswith("ended")
    assert "Traceback" not in started.said


def test_it_is_alive_and_ready_on_both_ports(started: Api) -> None:
    with started.client(None) as client:
        assert client.get("/healthz").json() == client.get("/readyz").json() == {"status": "ok"}
    assert started.probe("/livez").status_code == started.probe("/readyz").status_code == 200


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"API_TOKENS_FILE": "/nowhere/tokens.yaml"}, "/nowhere/tokens.yaml"),
        ({"DATABASE_URL": "postgresql://samjobs:swordfish@127.0.0.1:1/none"}, "unavailable"),
        ({"API_PORT": "many"}, "SAMJOBS_API_PORT"),
    ],
    ids=["no tokens", "no database", "no port"],
)
def test_what_is_missing_is_told_with_its_exit_code(
    tmp_path: Path, postgres_url: str, settings: dict[str, object], words: str
) -> None:
    one = Api(tmp_path, **{"database": postgres_url} | settings)  # type: ignore[arg-type]
    try:
        one.ends(3)
        assert words in one.said
        assert "swordfish" not in one.said
        assert "Traceback" not in one.said
    finally:
        one.close()


def test_a_port_that_is_taken_is_told(tmp_path: Path, postgres_url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        one = Api(tmp_path, postgres_url, API_PORT=taken.getsockname()[1])
        one.ends(3)
        assert "SAMJOBS_API_PORT: cannot listen" in one.said


def crash(server: Server) -> None:
    """Stop it; what was committed is kept, of which the tests' servers are careless."""
    with psycopg.connect(f"{server.url}/postgres", autocommit=True) as admin:
        admin.execute("CHECKPOINT")
    server.stop()


def test_an_outage_of_the_database_is_a_503_that_passes(tmp_path: Path, postgres_process: Server) -> None:
    with ExitStack() as stack:
        url = stack.enter_context(database(postgres_process.url))
        api = Api(tmp_path, url)
        stack.callback(api.close)
        client = stack.enter_context(api.until_ready().client())
        job_id = client.post(JOBS, json=body()).json()["id"]
        crash(postgres_process)
        try:
            for ask in (
                lambda: client.get(f"{JOBS}/{job_id}"),
                lambda: client.post(JOBS, json=body()),
                lambda: client.get("/queue/status?tenant=ada"),
            ):
                answer = ask()
                assert "postgres" not in problem(answer, 503)["detail"]
                assert int(answer.headers["Retry-After"]) > 0
            until(  # what was found a moment before the crash may still be told
                lambda: client.get("/readyz").status_code == api.probe("/readyz").status_code == 503,
                "it is not ready on both ports",
            )
            assert client.get("/healthz").status_code == api.probe("/livez").status_code == 200
        finally:
            postgres_process.start()
        back = client.get(f"{JOBS}/{job_id}")
        assert back.status_code == 200, f"{back.text}\n{api.said}"
        api.stop()


def test_a_database_that_takes_no_writes_for_now_is_a_503(started: Api, postgres_url: str) -> None:
    """As a replica is that has not taken over yet."""
    name = postgres_url.rpartition("/")[2]
    with psycopg.connect(postgres_url, autocommit=True) as admin, started.client() as client:
        job_id = client.post(JOBS, json=body()).json()["id"]
        admin.execute(b"ALTER DATABASE %b SET default_transaction_read_only = on" % name.encode())
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()",
            [name],
        )
        for path, wanted in ((JOBS, body()), (f"{JOBS}/{job_id}/cancel", None)):
            answer = client.post(path, json=wanted)
            problem(answer, 503)
            assert int(answer.headers["Retry-After"]) > 0
        assert client.get(f"{JOBS}/{job_id}").status_code == 200
    assert "Traceback" not in started.said


def test_a_fault_of_the_code_is_counted_and_tells_nothing(started: Api, postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute(
            "CREATE FUNCTION fault() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'swordfish'; END $$;"
            "CREATE TRIGGER fault BEFORE INSERT ON jobs EXECUTE FUNCTION fault()"
        )
    with started.client() as client:
        answer = client.post(JOBS, json=body())
    problem(answer, 500)
    assert "swordfish" not in answer.text
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    counted = f'samjobs_api_request_seconds_count{{method="POST",route="{JOBS}",status="5xx"}} 1.0'
    assert counted in started.probe("/metrics").text


def test_it_is_alive_while_all_of_its_threads_wait_for_the_database(started: Api, postgres_url: str) -> None:
    answers: list[int] = []

    def look() -> None:
        with started.client() as client:
            answers.append(client.get(JOBS).status_code)

    asking = [threading.Thread(target=look) for _ in range(60)]
    with psycopg.connect(postgres_url) as admin:
        admin.execute("LOCK TABLE jobs IN ACCESS EXCLUSIVE MODE")
        for thread in asking:
            thread.start()
        count = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'jobs'::regclass"
        until(lambda: _number(admin, count) >= 15, "as many wait as there are connections")
        with started.client(None) as client:
            assert client.get("/healthz", timeout=10).json() == {"status": "ok"}
    for thread in asking:
        thread.join(60)
    assert answers == [200] * 60


def _number(conn: psycopg.Connection[tuple[int]], query: LiteralString) -> int:
    (found,) = conn.execute(query).fetchone() or (0,)
    return found


def test_a_job_is_followed_through_an_outage(tmp_path: Path, postgres_process: Server) -> None:
    with ExitStack() as stack:
        url = stack.enter_context(database(postgres_process.url))
        api = Api(tmp_path, url)
        stack.callback(api.close)
        client = stack.enter_context(api.until_ready().client())
        job_id = client.post(JOBS, json=body()).json()["id"]
        seen: list[str] = []

        def follow() -> None:
            with api.client() as other, other.stream("GET", f"{JOBS}/{job_id}/progress") as answer:
                seen.extend(
                    re.findall(r'"state":"(\w+)"', line)[0] for line in answer.iter_lines() if '"state"' in line
                )

        thread = threading.Thread(target=follow, daemon=True)
        thread.start()
        until(lambda: "samjobs_api_watchers 1.0" in api.probe("/metrics").text, "it is followed")
        crash(postgres_process)
        api.until_said("no progress is told")
        postgres_process.start()
        client.post(f"{JOBS}/{job_id}/cancel")
        thread.join(60)
        assert seen == ["queued", "cancelled"]


def test_metrics_have_few_series_whatever_is_asked(started: Api) -> None:
    with started.client() as client:
        for number in range(30):
            client.get(f"{JOBS}/{uuid4()}")
            client.get(f"/no/such/path/{number}")
            client.request(f"METHOD{number}", JOBS)
    text = started.probe("/metrics").text
    assert f'samjobs_api_request_seconds_count{{method="GET",route="{JOBS}/{{jobId}}",status="4xx"}} 30.0' in text
    assert "METHOD1" not in text
    assert len([line for line in text.splitlines() if not line.startswith("#")]) < 50


def test_on_a_sqlite_file_a_person_sees_and_submits_lists(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    store = connect(url)
    migrate(store)
    job_id = submitted(store, ["/photos/a.jpg"])
    (tmp_path / "run").mkdir()
    api = Api(tmp_path / "run", url)
    try:
        with api.until_ready().client() as client:
            listed = client.get(JOBS).json()["items"]
            assert [one["id"] for one in listed] == [str(job_id)]
            images = {"list": [{"image": str(tmp_path / "b.jpg")}]}
            wanted = {"spec": SPEC | {"images": images, "output": {"uri": str(tmp_path / "masks")}}}
            for status in (201, 200):
                answer = client.post(JOBS, json=wanted, headers={"Idempotency-Key": "k"})
                assert answer.status_code == status, answer.text
            assert "prefix" in problem(client.post(JOBS, json=body()), 422)["detail"]
            # The whole queue is looked at once a second at most.
            until(lambda: client.get("/queue/status").json()["regions"][0]["due"] == 2, "both are due")
            assert client.post(f"{JOBS}/{job_id}/cancel").json()["job"]["state"] == "cancelled"
            assert [line for line in client.get(f"{JOBS}/{job_id}/progress").text.splitlines() if "event" in line] == [
                "event: job",
                "event: end",
            ]
        api.stop()
    finally:
        api.close()
        store.close()


def test_a_second_signal_ends_it_at_once(started: Api) -> None:
    """Though somebody has a request open that never ends."""
    host, port = started.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as talk:
        talk.sendall(
            b"POST /api/v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer root\r\nContent-Length: 9\r\n\r\n"
        )
        with started.client() as client:
            assert client.get("/healthz").status_code == 200
        started.process.send_signal(signal.SIGTERM)
        until(lambda: _refuses(started), "it accepts no more")
        os.kill(started.process.pid, signal.SIGTERM)
        assert started.process.wait(5) == -signal.SIGTERM


def _refuses(api: Api) -> bool:
    try:
        httpx.get(f"{api.url}/healthz", timeout=5)
    except httpx.HTTPError:
        return True
    return False
