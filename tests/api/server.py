"""The API as a process of its own, on a free port, with tokens of a file."""

import hashlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.waiting import until

_PORT = re.compile(r"api \S+ starts: port=(\d+) probes=(\d+)")
# Token → tenant and role.
TOKENS = {
    "root": ("*", "admin"),
    "reader": ("*", "viewer"),
    "ada": ("ada", "admin"),
    "ada-editor": ("ada", "editor"),
    "ada-viewer": ("ada", "viewer"),
    "bob": ("bob", "admin"),
}


def write_tokens(path: Path, tokens: dict[str, tuple[str, str]] = TOKENS) -> Path:
    """A file of tokens, each called like itself."""
    entries = [
        {"name": token, "tokenSha256": hashlib.sha256(token.encode()).hexdigest(), "tenant": tenant, "role": role}
        for token, (tenant, role) in tokens.items()
    ]
    path.write_text(yaml.safe_dump(entries))
    return path


class Api:
    """`python -m api` with settings of its own; its output goes to a file in `folder`."""

    def __init__(self, folder: Path, database: str, **settings: object) -> None:
        self.log = folder / f"api-{len(list(folder.iterdir()))}.log"
        known: dict[str, object] = {
            "DATABASE_URL": database,
            "API_HOST": "127.0.0.1",
            "API_PORT": 0,
            "HEALTH_HOST": "127.0.0.1",
            "HEALTH_PORT": 0,
            "API_TOKENS_FILE": write_tokens(folder / "tokens.yaml"),
            **settings,
        }
        environment = os.environ | {f"SAMJOBS_{name}": str(value) for name, value in known.items()}
        with self.log.open("wb") as out:
            self.process = subprocess.Popen([sys.executable, "-m", "api"], stdout=out, stderr=out, env=environment)

    @property
    def said(self) -> str:
        return self.log.read_text()

    def until_said(self, words: str) -> None:
        until(lambda: words in self.said or self.process.poll() is not None, f"the API says {words!r}")
        assert words in self.said, f"the API ended with {self.process.returncode}:\n{self.said}"

    def until_ready(self) -> "Api":
        self.until_said(" starts: ")
        until(lambda: self.probe("/readyz").status_code == 200, f"the API is ready:\n{self.said}")
        return self

    def _ports(self) -> tuple[str, str]:
        found = _PORT.search(self.said)
        assert found is not None, self.said
        return found[1], found[2]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._ports()[0]}"

    def probe(self, path: str) -> httpx.Response:
        """A page of the health port."""
        return httpx.get(f"http://127.0.0.1:{self._ports()[1]}{path}", timeout=10)

    def client(self, token: str | None = "root", **options: Any) -> httpx.Client:
        """An HTTP client with this token."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=30, **options)

    def ends(self, code: int) -> None:
        found = self.process.wait(60)
        assert found == code, f"the API ended with {found}, not {code}:\n{self.said}"

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(number)
        self.ends(0)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
