"""The whole system with the API before it: what a person at the page meets."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import httpx

from samjobs import tokens
from samjobs.states import JOB_TERMINAL
from tests import postgres
from tests import redis_server as redis_servers
from tests.system.system import Process, System

HOLDERS = [("root", "*", "admin"), ("ann", "acme", "editor"), ("vic", "acme", "viewer")]


@dataclass
class Site:
    """An API process before a system, and the tokens of those who may call it, by name."""

    system: System
    url: str
    tokens: dict[str, str]
    file: Path  # of their hashes
    process: Process = field(init=False)

    def start(self) -> None:
        """Start the API, and wait until it answers."""
        where = urlsplit(self.url)
        self.process = self.system.start("api", API_HOST=where.hostname, API_PORT=where.port, API_TOKENS_FILE=self.file)
        self.system.until(lambda: not self.process.alive or self._ready(), "the API is ready")
        assert self.process.alive, self.process.said

    def _ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/readyz").status_code == 200
        except httpx.TransportError:
            return False

    def api(self, who: str = "root") -> httpx.Client:
        """A client of the API with somebody's token."""
        headers = {"Authorization": f"Bearer {self.tokens[who]}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=30)

    def submit(self, name: str, *, who: str = "root", tenant: str = "acme", prefix: Path, **spec: Any) -> UUID:
        """Submit a job over a folder of photos, as any program does."""
        usual = {
            "images": {"prefix": str(prefix)},
            "prompts": {"text": ["red disc"]},
            "output": {"uri": str(self.system.root / "out" / name)},
            "engine": "opencv",
        }
        given = {field: value for field, value in (usual | spec).items() if value is not None}
        with self.api(who) as api:
            answer = api.post("/api/v1/jobs", json={"name": name, "tenant": tenant, "spec": given})
        assert answer.status_code == 201, answer.text
        return UUID(answer.json()["id"])

    @contextmanager
    def holder(self, name: str) -> Iterator[str]:
        """The token of somebody more, taken away in the end."""
        before, token = self.file.read_text(), tokens.fresh()
        self.file.write_text(before + entry(name, "*", "viewer", token))
        yield token
        self.file.write_text(before)

    def state(self, job_id: UUID) -> str:
        return self.system.job(job_id).state.value

    def until_ended(self, *job_ids: UUID) -> None:
        ended = {state.value for state in JOB_TERMINAL}
        self.system.until(lambda: all(self.state(one) in ended for one in job_ids), "the jobs end")

    def worker(self) -> Process:
        return self.system.start("worker")


@contextmanager
def running(postgres_url: str, redis: Path, root: Path) -> Iterator[Site]:
    """A controller and the API as processes on servers of their own; workers are started by who needs them."""
    given = {name: tokens.fresh() for name, _, _ in HOLDERS}
    file = root / "tokens.yaml"
    file.write_text("".join(entry(name, tenant, role, given[name]) for name, tenant, role in HOLDERS))
    with ExitStack() as stack:
        url = stack.enter_context(postgres.database(postgres_url))
        server = stack.enter_context(redis_servers.server(redis))
        system = System(root, url, url, server)
        stack.callback(system.close)
        system.start("controller")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        site = Site(system, f"http://127.0.0.1:{port}", given, file)
        site.start()
        yield site


def entry(name: str, tenant: str, role: str, token: str) -> str:
    """A line of the file of tokens."""
    return f"- {{name: {name}, tokenSha256: {tokens.sha256_of(token)}, tenant: '{tenant}', role: {role}}}\n"
