"""Passwords and keys are told to nobody: a marker is looked for in all that the processes say, after every fault.

Looked through are logs, the command lines of processes, answers of the API and the health port, the CLI's output, and
every column of every table.
"""

import base64
import json
import os
import subprocess
import sys
import traceback
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from psycopg import sql

from samjobs.client import Client
from samjobs.errors import InvalidInput, SamjobsError
from samjobs.queue import RedisQueue
from samjobs.spec import HttpUrl, Images, JobSpec, Output, parse
from samjobs.tokens import Entry, Role, sha256_of, written
from tests import postgres, redis_server
from tests.conftest import missing
from tests.security.names import free_port
from tests.segmentation.engines import hub
from tests.storage.test_web import Server, reply
from tests.system.system import System, draw
from tests.waiting import until

MARKER = "hunter2Xq7marker"
KEY = base64.b64encode(MARKER.encode()).decode()
FORMS = (MARKER, KEY, KEY.rstrip("="), MARKER.encode().hex())
PATIENCE_S = 120


def assert_untold(where: str, text: str) -> None:
    """Fail where a form of the marker is in the text, and show it there."""
    for form in FORMS:
        at = text.find(form)
        assert at < 0, f"{where} tells the secret: …{text[max(0, at - 200) : at + 40]!r}…"


@dataclass
class Trial:
    """A process with a fault in its settings, started."""

    command: list[str]
    environment: dict[str, str]
    log: Path
    popen: "subprocess.Popen[bytes]" = field(init=False)

    def __post_init__(self) -> None:
        with self.log.open("wb") as out:
            self.popen = subprocess.Popen(
                [sys.executable, "-m", *self.command],
                stdout=out,
                stderr=out,
                stdin=subprocess.DEVNULL,
                env=os.environ | self.environment,
            )

    def ended(self) -> str:
        """What it said, once it has ended."""
        try:
            self.popen.wait(PATIENCE_S)
        finally:
            if self.popen.poll() is None:
                self.popen.kill()
                self.popen.wait()
        return self.log.read_text(errors="replace")


@pytest.fixture
def roles(postgres_process: postgres.Server) -> Iterator[str]:
    """A server's address without user: it has a user `locked_samjobs` with another password, and `full_samjobs` whose
    connections are all taken."""
    with psycopg.connect(f"{postgres_process.url}/postgres", autocommit=True) as admin:
        admin.execute("CREATE ROLE locked_samjobs LOGIN PASSWORD 'another'")
        admin.execute("CREATE ROLE full_samjobs LOGIN CONNECTION LIMIT 0")
        row = admin.execute("SHOW hba_file").fetchone()
        assert row is not None
        rules = Path(row[0])
        before = rules.read_text()
        rules.write_text(f"host all locked_samjobs 127.0.0.1/32 scram-sha-256\n{before}")
        admin.execute("SELECT pg_reload_conf()")
        try:
            yield f"127.0.0.1:{postgres_process.port}"
        finally:
            rules.write_text(before)
            admin.execute("SELECT pg_reload_conf()")
            admin.execute("DROP ROLE locked_samjobs")
            admin.execute("DROP ROLE full_samjobs")


def databases(server: str, database: str) -> dict[str, str]:
    """Addresses that lead to no database, with the marker for a password."""
    user = f"samjobs:{MARKER}"
    return {
        "wrong password": f"postgresql://locked_samjobs:{MARKER}@{server}/{database}",
        "no connection left": f"postgresql://full_samjobs:{MARKER}@{server}/{database}",
        "no such database": f"postgresql://{user}@{server}/none",
        "no TLS": f"postgresql://{user}@{server}/{database}?sslmode=require",
        "nobody listens": f"postgresql://{user}@127.0.0.1:1/{database}",
        "no such host": f"postgresql://{user}@no-such-host.invalid/{database}",
        "a port that is none": f"postgresql://{user}@127.0.0.1:port/{database}",
        "an unclosed bracket": f"postgresql://{user}@[::1/{database}",
        "one slash": f"postgresql:/{user}@{server}/{database}",
        "another kind": f"mysql://{user}@{server}/{database}",
        "a slash in the password": f"postgresql://locked_samjobs:a/{MARKER}@{server}/{database}",
        "an at sign in the password": f"postgresql://locked_samjobs:a@{MARKER}@{server}/{database}",
        "a hash in the password": f"postgresql://locked_samjobs:a#{MARKER}@{server}/{database}",
        "a question mark in the password": f"postgresql://locked_samjobs:a?{MARKER}@{server}/{database}",
        "an option that is none": f"postgresql://{user}@{server}/{database}?no_such_option=1",
        "percent signs": f"postgresql://locked_samjobs:%zz{MARKER}@{server}/{database}",
        "password as an option": f"postgresql://{server}/{database}?user=locked_samjobs&password={MARKER}",
    }


def redises(url: str) -> dict[str, str]:
    """The same for a Redis at `url`, which wants another password."""
    rest = url.removeprefix("redis://")
    return {
        "wrong password": f"redis://:x{MARKER}@{rest}",
        "a user": f"redis://somebody:{MARKER}@{rest}",
        "no TLS": f"rediss://:{MARKER}@{rest}",
        "nobody listens": f"redis://:{MARKER}@127.0.0.1:1/0",
        "a port that is none": f"redis://:{MARKER}@127.0.0.1:port/0",
        "a slash in the password": f"redis://:a/{MARKER}@{rest}",
        "an at sign in the password": f"redis://:a@{MARKER}@{rest}",
        "an option that is none": f"redis://{rest}?no_such={MARKER}",
        "password as an option": f"redis://{rest}?password={MARKER}",
    }


def told_of(attempt: Callable[[], object]) -> str:
    """The error, and what the log of an unexpected one would show."""
    with pytest.raises(SamjobsError) as refused:
        attempt()
    return "".join(traceback.format_exception(refused.value))


def test_no_error_of_a_database_tells_its_password(roles: str, postgres_url: str) -> None:
    for name, url in databases(roles, postgres_url.rpartition("/")[2]).items():
        assert_untold(name, told_of(partial(Client, url)))


@pytest.fixture
def locked_redis() -> Iterator[str]:
    program = redis_server.programs()
    if program is None:
        missing(f"Redis is missing: {redis_server.INSTALL}")
    with redis_server.server(program, "--requirepass", "another") as server:
        yield server.url


def test_no_error_of_a_redis_tells_its_password(locked_redis: str) -> None:
    for name, url in redises(locked_redis).items():
        assert_untold(name, told_of(lambda url=url: RedisQueue.connect(url).ping()))  # type: ignore[misc]


def test_what_a_process_lacks_at_its_start_is_told_without_its_secrets(
    roles: str, locked_redis: str, postgres_url: str, tmp_path: Path
) -> None:
    plain = {"SAMJOBS_HEALTH_PORT": "0", "SAMJOBS_HEALTH_HOST": "127.0.0.1", "SAMJOBS_ENGINE": "opencv"}
    secrets = {"AWS_SECRET_ACCESS_KEY": MARKER, "HF_TOKEN": MARKER, "SAMJOBS_WEBHOOK_SECRET": f"whsec_{KEY}"}
    (tmp_path / "tokens.yaml").write_text(f"- {{name: ci, tokenSha256: {MARKER}, tenant: '*', role: viewer}}\n")
    good = {"SAMJOBS_DATABASE_URL": postgres_url.replace("samjobs@", f"samjobs:{MARKER}@")}
    locked = databases(roles, postgres_url.rpartition("/")[2])
    faults = [
        *((process, {"SAMJOBS_DATABASE_URL": locked["wrong password"]}) for process in ("controller", "worker", "api")),
        ("worker", {"SAMJOBS_DATABASE_URL": locked["no TLS"]}),
        ("samjobs.cli get", {"SAMJOBS_DATABASE_URL": locked["an at sign in the password"]}),
        ("worker", good | {"SAMJOBS_REDIS_URL": redises(locked_redis)["wrong password"]}),
        ("controller", good | {"SAMJOBS_WEBHOOK_SECRET": MARKER, "SAMJOBS_HEALTH_PORT": "none"}),
        ("api", good | {"SAMJOBS_API_TOKENS_FILE": str(tmp_path / "tokens.yaml")}),
    ]
    trials = [
        Trial(process.split(), plain | secrets | settings, tmp_path / f"{number}.log")
        for number, (process, settings) in enumerate(faults)
    ]
    for trial in trials:
        said = trial.ended()
        assert_untold(str(trial.command), said)
        assert "Traceback" not in said, f"a line for people is missing\n{said}"
        assert said.strip()
        assert trial.popen.returncode not in (0, 1)


def test_a_gated_model_is_told_without_the_token(tmp_path: Path) -> None:
    pytest.importorskip("huggingface_hub")
    code = (
        "from samjobs.segmentation.engines.weights import sam3_checkpoint\n"
        "from samjobs.errors import describe\n"
        "try:\n    sam3_checkpoint('facebook/sam3', None)\n"
        "except Exception as error:\n    print(describe(error)); raise\n"
    )
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "config.json").write_text("{}")
    for refusal in ((401, "GatedRepo"), (403, "GatedRepo")):
        with hub.serve(tmp_path / "files", refusal) as url:
            environment = {"HF_ENDPOINT": url, "HF_HOME": str(tmp_path / "cache"), "HF_TOKEN": f"hf_{MARKER}"}
            done = subprocess.run(
                [sys.executable, "-c", code], env=os.environ | environment, capture_output=True, text=True, check=False
            )
        assert done.returncode != 0
        assert_untold(f"a hub that answers {refusal}", done.stdout + done.stderr)


class Live:
    """The running system, every password of which is the marker."""

    def __init__(self, system: System, token: str) -> None:
        self.system, self.token = system, token
        self.bodies: dict[str, str] = {}
        self.commands: set[str] = set()
        self.broken: list[str] = []  # paths that were answered by a fault of the server

    def ask(self, port: int, path: str, *, token: str | None = None, body: Any = None) -> str:
        """A body of the API or of a health port, whatever its status."""
        headers = {"Content-Type": "application/json"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}{path}", None if body is None else json.dumps(body).encode(), headers
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                text: str = answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                text = error.read().decode()
                self.broken += [path] * (error.code >= 500)
        self.bodies[f"{port}{path} {'with' if token else 'without'} a token"] = text
        return text

    def note_commands(self) -> None:
        """The command lines of all processes of samjobs, as anybody on the machine sees them."""
        for process in self.system.processes:
            one = psutil.Process(process.popen.pid)
            self.commands.update(" ".join(each.cmdline()) for each in (one, *one.children(recursive=True)))

    def tables(self) -> Iterator[tuple[str, str]]:
        """Every table, its rows as text."""
        with psycopg.connect(self.system.direct_url) as conn:
            names = conn.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
            for (name,) in names:
                rows = conn.execute(sql.SQL("SELECT t::text FROM {} AS t").format(sql.Identifier(name))).fetchall()
                yield name, "\n".join(row[0] for row in rows)


@pytest.fixture
def bucket() -> Iterator[Server]:
    """An object store that refuses everybody, in the words that clients sent."""

    def refused(handler: Any) -> None:
        words = f"<Error><Code>AccessDenied</Code><Message>{handler.headers.get('Authorization')}</Message></Error>"
        reply(403, words.encode())(handler)

    class Refusing(dict[str, Any]):
        def get(self, *_: Any) -> Any:
            return refused

    server = Server()
    server.answers = Refusing()
    yield server
    server.close()


@pytest.fixture
def live(postgres_url: str, bucket: Server, tmp_path: Path) -> Iterator[Live]:
    program = redis_server.programs()
    if program is None:
        missing(f"Redis is missing: {redis_server.INSTALL}")
    token = f"samjobs_{MARKER}"
    tokens = tmp_path / "tokens.yaml"
    tokens.write_text(written(Entry(name="ci", token_sha256=sha256_of(token), tenant="*", role=Role.ADMIN)))
    with ExitStack() as stack:
        redis = stack.enter_context(redis_server.server(program, "--requirepass", MARKER))
        made = System(
            tmp_path,
            postgres_url.replace("samjobs@", f"samjobs:{MARKER}@"),
            postgres_url,
            redis,
            settings={
                "REDIS_URL": redis.url.replace("redis://", f"redis://:{MARKER}@"),
                "WEBHOOK_SECRET": f"whsec_{KEY}",
                "API_TOKENS_FILE": tokens,
                "API_PORT": free_port(),
                "ALLOWED_HOSTS": "localhost",
            },
        )
        stack.callback(made.close)
        with pytest.MonkeyPatch.context() as patch:
            for name, value in {
                "AWS_ACCESS_KEY_ID": "AKIAEXAMPLE",
                "AWS_SECRET_ACCESS_KEY": MARKER,
                "AWS_SESSION_TOKEN": MARKER,
                "AWS_DEFAULT_REGION": "us-east-1",
                "AWS_ENDPOINT_URL": bucket.url(""),
                "HF_TOKEN": f"hf_{MARKER}",
            }.items():
                patch.setenv(name, value)
            yield Live(made, token)


def test_a_running_system_tells_nobody_its_secrets_or_those_of_addresses(live: Live) -> None:
    system = live.system
    controller, worker, api = (system.start(kind) for kind in ("controller", "worker", "api"))
    port = int(str(system.settings["API_PORT"]))
    url = f"https://localhost:{free_port()}/hook?token={MARKER}"
    fine = system.submit("fine", 2, callback=HttpUrl(url))
    no_list = system.submit_listed("listed", images=Images(prefix="s3://bucket/photos"))
    draw(system.root / "photos" / "remote" / "0000.png")
    no_output = system.submit("output", 1, output=Output(uri="s3://bucket/out"))
    system.until_ended(fine, no_list)
    system.until(lambda: "bucket/out" in worker.said, "the worker tells that it cannot write")
    system.until(lambda: system.count("deliveries", "attempts > 0") > 0, "the callback was tried")
    until(lambda: "port=" in api.said, "the API listens")

    paths = ["/api/v1/jobs", f"/api/v1/jobs/{no_list}", f"/api/v1/jobs/{no_list}/history", "/queue/status"]
    paths += [f"/api/v1/jobs/{no_output}", f"/api/v1/jobs/{no_output}/shards", f"/api/v1/jobs/{no_output}/history"]
    paths += ["/admin/runtime/stats", "/admin/queue-dead", "/api/v1/workers", "/api/v1/pools", "/api/v1/me"]
    paths += ["/healthz", "/readyz", "/openapi.json", "/no/such/page", f"/api/v1/jobs/{fine}/images"]
    for path in paths:
        live.ask(port, path, token=live.token)
        live.ask(port, path)
        live.ask(port, path, token=f"x{MARKER}")
    live.ask(port, "/api/v1/jobs", token=live.token, body={"spec": {"images": {"list": [f"http://me:{MARKER}@h/a"]}}})
    live.ask(port, "/api/v1/jobs", token=live.token, body={"spec": {"callbackUrl": f"https://h/?token={MARKER}"}})
    for process in (controller, worker, api):
        health = int(
            process.said.partition("probes=" if "probes=" in process.said else "probes on port ")[2].split()[0]
        )
        for page in ("/metrics", "/livez", "/nothing"):
            live.ask(health, page)
    told = {
        command: system.cli(*command.split(), code=None)
        for command in (
            "get",
            f"describe {no_list}",
            f"events {no_output}",
            f"why {no_output}",
            "workers",
            "get nothing",
        )
    }
    live.note_commands()
    for process in (controller, worker, api):
        process.popen.terminate()
        process.popen.wait(60)

    for process in (controller, worker, api):
        assert_untold(f"the log of the {process.kind}", process.said)
    for command in live.commands:
        assert_untold("a command line", command)
    assert len(live.commands) >= 3
    assert live.broken == []
    for where, text in (live.bodies | told).items():
        assert_untold(where, text)
    for name, text in live.tables():
        # The address of a callback is what the job's author wrote: it is kept, for it must be called.
        assert_untold(f"table {name}", text.replace(f"token={MARKER}", "") if name in ("jobs", "deliveries") else text)


def test_a_secret_in_an_address_of_a_job_is_not_repeated_when_it_is_refused() -> None:
    """What is wrong with a spec is told with the value that is wrong, but for what may be a secret."""
    specs: list[dict[str, Any]] = [
        {"images": {"prefix": f"s3://key:{MARKER}@bucket/a"}},
        {"images": {"list": [{"image": f"https://me:{MARKER}@host/a.jpg"}]}},
        {"images": {"list": [f"https://me:{MARKER}@host/a.jpg"]}},
        {"images": {"list": [{"image": "/a.jpg", "uri": f"https://host/a.jpg?sig={MARKER}"}]}},
        {"callback": f"http://host/hook?token={MARKER}"},
        {"callback": [f"https://host/hook?token={MARKER}"]},
        {"callbackUrl": f"https://host/hook?token={MARKER}"},
        {"output": {"uri": f"https://me:{MARKER}@host/out"}},
        {"output": f"s3://key:{MARKER}@bucket/out"},
        {"model": f"https://me:{MARKER}@host/model"},
        {"model": f"https://host/{'x' * 5000}?token={MARKER}"},
    ]
    base = {"images": {"prefix": "/photos"}, "prompts": {"text": ["car"]}, "output": {"uri": "/out"}}
    for spec in specs:
        with pytest.raises(InvalidInput) as refused:
            parse(JobSpec, base | spec, "spec")
        assert_untold(str(spec)[:60], "".join(traceback.format_exception(refused.value)))
