"""A real Prometheus that scrapes processes of this machine, and judges the rules that ship, hurried."""

import json
import re
import shutil
import socket
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.alerts.rules import INSTALL, RULES
from tests.conftest import missing
from tests.waiting import until

_DURATION = re.compile(r"(?P<before>\bfor: |\[|\boffset )(?P<number>\d+)(?P<unit>[mh])\b")
_UNITS = {"m": "s", "h": "m"}


def hurried(rules: str) -> str:
    """Rules in which sixty times less has to pass: each duration's hours are minutes, and its minutes seconds.

    Nothing else is touched: neither an expression's other numbers nor what a person reads.

    >>> hurried("for: 10m, rate(x[15m]) > 3 offset 1h  # 10m")
    'for: 10s, rate(x[15s]) > 3 offset 1m  # 10m'
    """
    return _DURATION.sub(lambda found: f"{found['before']}{found['number']}{_UNITS[found['unit']]}", rules)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
    return port


class Prometheus:
    """The server, by its API."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/api/v1"

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The samples of an expression now."""
        found: list[dict[str, Any]] = self._get("query?" + urllib.parse.urlencode({"query": expression}))["result"]
        return found

    def firing(self) -> set[str]:
        """The alerts that fire."""
        return {one["labels"]["alertname"] for one in self._get("alerts")["alerts"] if one["state"] == "firing"}

    def pending(self) -> set[str]:
        """The alerts whose condition holds, for however short."""
        return {one["labels"]["alertname"] for one in self._get("alerts")["alerts"]}

    def up(self) -> int:
        """How many targets answer."""
        return len(self.query("up == 1"))

    def _get(self, what: str) -> Any:
        with urllib.request.urlopen(f"{self._url}/{what}", timeout=30) as answer:
            return json.load(answer)["data"]


@contextmanager
def prometheus(folder: Path, targets: Mapping[str, Mapping[str, Any]]) -> Iterator[Prometheus]:
    """A server that scrapes each second; it is gone afterwards.

    Args:
        targets: by job, `ports` of this machine and the `namespace` that their pods would have.
    """
    program = shutil.which("prometheus")
    if program is None:
        missing(f"Prometheus is missing: {INSTALL}")
    for path in RULES:
        (folder / path.name).write_text(hurried(path.read_text()))
    config = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(folder / path.name) for path in RULES],
        "scrape_configs": [
            {
                "job_name": job,
                "static_configs": [
                    {
                        "targets": [f"127.0.0.1:{port}" for port in target["ports"]],
                        "labels": {"namespace": target["namespace"]},
                    }
                ],
            }
            for job, target in targets.items()
        ],
    }
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
    port = free_port()
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                program,
                f"--config.file={folder / 'prometheus.yaml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=log,
            stderr=log,
        )
    try:
        until(lambda: _answers(port), f"Prometheus answers; its log is {folder}/prometheus.log")
        yield Prometheus(port)
    finally:
        process.terminate()
        process.wait(60)


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready", timeout=30) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
