"""Jobs from Python: what one submits, sees, waits for and stops."""

import socket
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
import sqlalchemy as sa

from samjobs.client import MAX_SPEC_BYTES, Client
from samjobs.errors import DatabaseUnavailable, ErrorClass, InvalidInput, KeyReused, SchemaMismatch
from samjobs.names import Reason
from samjobs.queue import RedisQueue
from samjobs.spec import JobSpec
from samjobs.states import ImageState, JobState, ShardState
from samjobs.store import Connection, Store, connect, migrate, requests, shards, workers
from samjobs.store.rows import Request, Submitted, WorkerState
from samjobs.store.tables import requests as request_rows
from tests.store.builders import DEAD, read, run, running, shard_of


@pytest.fixture
def client(store: Store, store_url: str) -> Iterator[Client]:
    """On each of the two databases in turn."""
    with Client(store_url, actor="me") as opened:
        yield opened


def asked(**changes: Any) -> dict[str, Any]:
    """A job over a list of two images, as a person writes it."""
    images = {"list": [{"image": "/photos/a.jpg"}, {"image": "s3://photos/b.jpg"}]}
    return {"images": images, "prompts": {"text": ["red car"]}, "output": {"uri": f"/out/{uuid4()}"}} | changes


# Submitting.


def test_a_list_is_complete_at_once(client: Client, store: Store) -> None:
    submitted = client.submit(asked(shardSize=1), name="trip", tenant="team-a")

    job = client.get(submitted.job_id)
    assert submitted.created
    assert (job.name, job.tenant, job.state, job.images_total, job.shards_total) == ("trip", "team-a", "queued", 2, 2)
    assert job.expanded_at is not None
    assert [image.uri for image in client.images("trip")] == ["/photos/a.jpg", "s3://photos/b.jpg"]
    (event,) = client.events("trip")
    assert (event.reason, event.actor) == (Reason.SUBMITTED, "me")


def test_a_prefix_is_left_for_a_controller_to_list(postgres_url: str) -> None:
    with Client(postgres_url) as client:
        job = client.get(client.submit(asked(images={"prefix": "s3://photos/trip"})).job_id)
    assert (job.expanded_at, job.submitter, job.images_total) == (None, None, 0)


def test_sqlite_has_no_controller_that_would_list_a_prefix(sqlite_url: str) -> None:
    opened = connect(sqlite_url)
    migrate(opened)
    opened.close()
    with Client(sqlite_url) as client, pytest.raises(InvalidInput, match="samjobs process --no-process"):
        client.submit(asked(images={"prefix": "/photos"}))


def test_an_equal_active_job_is_joined_and_gets_no_images_twice(client: Client) -> None:
    spec = asked()
    first, second = client.submit(spec), client.submit(spec)
    assert (second.job_id, second.created) == (first.job_id, False)
    assert client.get(first.job_id).images_total == 2
    assert client.submit(spec, tenant="another").created
    assert client.submit(spec | {"dedupe": False}).created


def test_a_key_finds_its_first_submission_also_after_the_end(client: Client, store: Store) -> None:
    spec = asked()
    first = client.submit(spec, key="mine")
    run(store, first.job_id)
    assert client.submit(spec, key="mine") == Submitted(first.job_id, created=False)
    assert client.submit(spec, key="other").created
    assert client.submit(spec, key="mine", tenant="team-b").created


@pytest.mark.parametrize("changes", [{"name": "other"}, {"spec": asked()}], ids=["name", "spec"])
def test_a_key_is_not_for_another_request(client: Client, changes: dict[str, Any]) -> None:
    request: dict[str, Any] = {"spec": asked(), "key": "mine"}
    client.submit(**request)
    with pytest.raises(KeyReused, match="another request"):
        client.submit(**request | changes)


@pytest.mark.parametrize("key", ["", "x" * 256, "a\x00b"])
def test_a_key_that_is_none_is_refused(client: Client, key: str) -> None:
    with pytest.raises(InvalidInput, match="key"):
        client.submit(asked(), key=key)


def test_one_client_acts_for_others(client: Client) -> None:
    job_id = client.acting("ada").submit(asked()).job_id
    client.suspend(job_id)
    assert [event.actor for event in client.events(job_id)] == ["ada", "me"]


def test_a_uid_is_submitted_once_in_whatever_state(client: Client) -> None:
    uid = uuid4()
    first = client.submit(asked(), uid=uid)
    client.cancel(first.job_id)
    assert client.submit(asked(), uid=uid) == Submitted(first.job_id, created=False)


def test_within_the_callers_transaction_the_job_exists_when_that_commits(client: Client, store_url: str) -> None:
    engine = sa.create_engine(store_url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.connect() as mine:
        with mine.begin():
            mine.execute(sa.text("CREATE TABLE orders (job TEXT)"))
        withdrawn = _with_order(client, mine, commit=False)
        kept = _with_order(client, mine, commit=True)
        orders = mine.execute(sa.text("SELECT job FROM orders")).scalars().all()
    engine.dispose()

    assert orders == [str(kept)]
    assert client.get(kept).images_total == 2
    with pytest.raises(InvalidInput, match="no job"):
        client.get(withdrawn)


def _with_order(client: Client, mine: sa.Connection, *, commit: bool) -> UUID:
    transaction = mine.begin()
    job_id = client.submit(asked(), within=mine).job_id
    mine.execute(sa.text("INSERT INTO orders VALUES (:job)"), {"job": str(job_id)})
    transaction.commit() if commit else transaction.rollback()
    return job_id


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"mode": "guess"}, "spec: mode: .*'guess'"),
        ({"prompt": ["car"]}, "spec: prompt: .*not permitted"),
        ({"prompts": {}}, "mode find_all needs text"),
        ({"output": {"uri": "out"}}, "output.uri: 'out' is a relative path"),
        ({"output": {"uri": "https://host/out"}}, "can only be read; give a folder"),
        ({"output": {"uri": "ftp://host/out"}}, "output.uri: ftp://host/out: scheme ftp is not known"),
        ({"output": {"uri": "s3://me:hush@host/out"}}, "output.uri: the address holds a user and a password"),
        ({"images": {"prefix": "photos"}}, "images.prefix: 'photos' is a relative path.*absolute"),
        ({"images": {"manifest": "m.jsonl"}}, "images.manifest: 'm.jsonl' is a relative path"),
        ({"images": {"list": [{"image": "a.jpg"}]}}, "images.list.0.image: 'a.jpg' is a relative path"),
        ({"images": {"list": [{"image": "/a.jpg"}, {"image": "/a.jpg"}]}}, "was named before"),
        ({"notBefore": "2026-12-24T18:00:00"}, "notBefore: .*timezone"),
    ],
)
def test_what_is_wrong_is_refused_by_name_and_writes_nothing(client: Client, wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidInput, match=told) as refused:
        client.submit(asked(**wrong))
    assert "hush" not in str(refused.value)
    assert client.list() == []


@pytest.mark.parametrize(("field", "value"), [("tenant", "../team"), ("tenant", ""), ("name", "my trip")])
def test_a_name_that_could_be_no_kubernetes_name_is_refused(client: Client, field: str, value: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{field}: "):
        client.submit(asked(), **{field: value})


def test_a_spec_that_is_too_large_is_told_its_size_and_the_way_out(client: Client) -> None:
    phrases = [f"{number} {'x' * 190}" for number in range(64)]
    items = [{"image": f"/{number}.jpg", "prompts": {"text": phrases}} for number in range(100)]
    with pytest.raises(InvalidInput, match=rf"spec: [\d,]+ bytes, more than {MAX_SPEC_BYTES:,}.*manifest"):
        client.submit(asked(images={"list": items}))


def test_a_spec_may_be_a_jobspec_and_a_path_a_file_url(client: Client) -> None:
    spec = JobSpec.model_validate(asked(output={"uri": "file:///out/a%20b"}))
    assert client.get(client.submit(spec).job_id).spec.output.uri == "/out/a b"


# Looking.


def test_a_job_is_found_by_id_by_its_first_digits_and_by_name(client: Client) -> None:
    job_id = client.submit(asked(), name="trip").job_id
    assert {client.get(name).id for name in (job_id, str(job_id), job_id.hex[:8], "trip")} == {job_id}
    with pytest.raises(InvalidInput, match="no job 'nix': `samjobs get` lists them"):
        client.get("nix")


def test_a_list_is_newest_first_and_filtered(client: Client, store: Store) -> None:
    first = client.submit(asked(region="us"), name="first").job_id
    client.submit(asked(), name="second", tenant="team-a")
    client.cancel(first)
    assert [job.name for job in client.list()] == ["second", "first"]
    assert [job.name for job in client.list(active_only=True)] == ["second"]
    assert [job.name for job in client.list(region="us")] == ["first"]
    assert [job.name for job in client.list(state=JobState.CANCELLED)] == ["first"]
    assert [job.name for job in client.list(tenant="team-a")] == ["second"]


def test_a_request_by_sql_is_told_while_it_waits_and_when_it_is_refused(client: Client, store: Store) -> None:
    waiting = _request(store, asked())
    with pytest.raises(InvalidInput, match=f"request {waiting.id} waits for a controller to admit it"):
        client.get(waiting.id)
    with pytest.raises(TimeoutError, match="not admitted yet"):
        client.wait(waiting.id, timeout=0)
    with store.begin() as conn:
        requests.refuse(conn, waiting.id, "spec: mode: wrong")
    with pytest.raises(InvalidInput, match=f"request {waiting.id} was refused: spec: mode: wrong"):
        client.get(waiting.id)


def test_a_request_that_joined_an_equal_job_leads_to_that(client: Client, store: Store) -> None:
    spec = asked()
    job_id = client.submit(spec).job_id
    request = _request(store, spec)
    with store.begin() as conn:
        requests.admit(conn, request, client.get(job_id).spec, actor="controller")
    assert client.get(request.id).id == job_id


def _request(store: Store, spec: dict[str, Any]) -> Request:
    with store.begin() as conn:
        request_id = uuid4()
        conn.execute(request_rows.insert().values(id=request_id, spec=spec))
        found = requests.get(conn, request_id)
    assert found is not None
    return found


def test_watch_tells_each_change_to_the_end(client: Client, store: Store) -> None:
    job_id = client.submit(asked(shardSize=1)).job_id
    told = []
    for job in client.watch(job_id, poll_s=0.001):
        told.append((job.state.value, job.images_done))
        if job.images_open:
            run(store, job_id)
    assert told == [("queued", 0), ("running", 1), ("succeeded", 2)]


def test_wait_gives_the_job_that_has_ended(client: Client, store: Store) -> None:
    job_id = client.submit(asked()).job_id
    with pytest.raises(TimeoutError, match="still queued after 0 s"):
        client.wait(job_id, timeout=0)
    worker = threading.Thread(target=run, args=(store, job_id))
    worker.start()
    assert client.wait(job_id, timeout=60, poll_s=0.01).state is JobState.SUCCEEDED
    worker.join()


def test_why_says_what_has_to_happen_first(client: Client, store: Store) -> None:
    job_id = client.submit(asked(suspend=True)).job_id
    assert client.why(job_id)[0] is Reason.SUSPENDED_BY_USER
    client.resume(job_id)
    reason, message = client.why(job_id)
    assert reason is Reason.NO_WORKER
    assert "no worker of region default is alive" in message
    later = datetime.now(UTC) + timedelta(days=1)  # noqa: TID251 - far from any clock
    assert client.why(client.submit(asked(notBefore=later.isoformat())).job_id)[0] is Reason.NOT_BEFORE


def test_a_tenants_minute_is_told_where_redis_can_be_asked(
    postgres_url: str, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAMJOBS_TENANT_RATE_PER_MINUTE", "1")
    monkeypatch.setenv("SAMJOBS_REDIS_URL", redis_url)
    queue = RedisQueue.connect(redis_url)
    with Client(postgres_url) as client:
        job_id = client.submit(asked()).job_id
        with client.store.begin() as conn:
            _worker(conn)
        for minute in (0, 1):  # it may end between the two questions
            queue.spend({"default": 1}, int(client.now().timestamp() // 60) + minute)
        assert client.why(job_id)[0] is Reason.RATE_LIMITED
        monkeypatch.setenv("SAMJOBS_REDIS_URL", "redis://127.0.0.1:1")
    with Client(postgres_url) as client:
        assert client.why(job_id)[0] is Reason.NEXT_IN_LINE
    queue.close()


def test_a_redis_that_did_not_answer_is_not_asked_again_at_once(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as redis:
        monkeypatch.setenv("SAMJOBS_TENANT_RATE_PER_MINUTE", "1")
        monkeypatch.setenv("SAMJOBS_REDIS_URL", f"redis://127.0.0.1:{redis.getsockname()[1]}")
        with Client(postgres_url) as client:
            job_id = client.submit(asked()).job_id
            for actor in ("ada", "bob"):
                assert client.acting(actor).why(job_id)[0] is Reason.NO_WORKER
                assert _asked(redis) == (actor == "ada")


def _asked(server: socket.socket) -> bool:
    """Whether anybody came since the last time; all are let in, and sent away."""
    came = False
    server.setblocking(False)
    while True:
        try:
            server.accept()[0].close()
        except BlockingIOError:
            return came
        came = True


def _worker(conn: Connection) -> None:
    incarnation = uuid4()
    workers.register(conn, incarnation, pool="p", region="default", node="n", pid=1)
    workers.set_state(conn, incarnation, WorkerState.READY)


# Acting.


def test_cancel_suspend_and_resume_say_whether_they_changed_anything(client: Client) -> None:
    job_id = client.submit(asked()).job_id
    assert [client.suspend(job_id), client.suspend(job_id)] == [True, False]
    assert client.get(job_id).state is JobState.SUSPENDED
    assert [client.resume(job_id), client.resume(job_id)] == [True, False]
    assert [client.cancel(job_id), client.cancel(job_id), client.suspend(job_id)] == [True, False, False]
    assert client.get(job_id).state is JobState.CANCELLED


def test_dead_shards_and_failed_images_are_retried_apart(client: Client, store: Store) -> None:
    job_id = client.submit(asked(shardSize=1)).job_id
    run(store, job_id, ImageState.FAILED)
    _kill_next(store, job_id)
    assert [(shard.index, job.id) for shard, job in client.dead()] == [(1, job_id)]

    assert client.retry(job_id, what="dead").shards == 1
    assert client.retry(job_id, what="dead").shards == 0
    assert [image.index for image in client.images(job_id, failed_only=True)] == [0]
    assert client.retry(job_id, what="images").images == 1
    assert read(store, job_id).state is JobState.RUNNING


def test_purge_gives_dead_shards_up(client: Client, store: Store) -> None:
    job_id = client.submit(asked()).job_id
    _kill_next(store, job_id)
    assert [client.purge(job_id), client.purge(job_id)] == [1, 0]
    assert client.dead() == []
    assert shard_of(store, job_id).state is ShardState.CANCELLED


def _kill_next(store: Store, job_id: UUID) -> None:
    shard = running(store, job_id)
    with store.begin() as conn:
        assert shards.fail(conn, shard.id, shard.attempt, DEAD, error_class=ErrorClass.PERMANENT, error="no such mode")


# The database.


def test_a_database_that_is_away_is_named_without_its_password() -> None:
    with pytest.raises(DatabaseUnavailable, match=r"127\.0\.0\.1") as refused:
        Client("postgresql://me:hush@127.0.0.1:1/db")
    assert "hush" not in str(refused.value)


def test_a_database_without_tables_is_refused_with_the_command_that_makes_them(tmp_path: Path) -> None:
    with pytest.raises(SchemaMismatch, match="samjobs migrate"):
        Client(f"sqlite:///{tmp_path / 'empty.db'}")


def test_left_out_the_address_is_the_one_that_is_set(
    client: Client, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = client.submit(asked()).job_id
    monkeypatch.setenv("SAMJOBS_DATABASE_URL", store_url)
    with Client() as another:
        assert another.get(job_id).id == job_id
