"""The operator as a process, for `kubernetes.py`: how long it takes to start, what it uses, what it asks Kubernetes."""

import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from controller.kube.installation import Installation, WorkerDefaults
from tests.cluster.client import Client
from tests.waiting import until

PATIENCE_S = 3600.0
_PROBES = re.compile(r"probes=(\d+)")


@dataclass(frozen=True)
class Place:
    """Where an operator works."""

    api: Client
    namespace: str
    database: str
    redis: str

    def status_writes(self) -> int:
        """Writes of SamJobs' statuses that the API server has audited in this namespace."""
        return len(self.api.requests(verb="patch", resource="samjobs", namespace=self.namespace, subresource="status"))


class Operator:
    """`python -m controller`, for one namespace, with the settings of the `prod` profile."""

    def __init__(self, place: Place, folder: Path) -> None:
        installation = Installation(
            namespace=place.namespace,
            watch_namespaces=(place.namespace,),
            worker=WorkerDefaults(image="samjobs-worker:none"),
        )
        config, self._log = folder / "kubernetes.yaml", folder / "log"
        config.write_text(installation.model_dump_json(by_alias=True, exclude_none=True, exclude_defaults=True))
        settings = {
            "SAMJOBS_PROFILE": "prod",
            "SAMJOBS_DATABASE_URL": place.database,
            "SAMJOBS_REDIS_URL": place.redis,
            "SAMJOBS_KUBERNETES_CONFIG": str(config),
            "SAMJOBS_HEALTH_HOST": "127.0.0.1",
            "SAMJOBS_HEALTH_PORT": "0",
            "KUBECONFIG": str(place.api.kubeconfig),
        }
        self.began = time.monotonic()
        with self._log.open("wb") as out:
            command = [sys.executable, "-m", "controller"]
            self._process = subprocess.Popen(command, stdout=out, stderr=out, env=os.environ | settings)

    def until_ready(self) -> float:
        """Seconds from the start of the process until it is ready."""
        until(lambda: self._port() is not None and self._answers(), "the operator is ready", PATIENCE_S)
        return time.monotonic() - self.began

    def kill(self) -> None:
        """End it as a node that fails would."""
        self._process.kill()
        self._process.wait()

    def cpu_s(self) -> float:
        """Processor time so far."""
        after_name = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")

    def memory_mib(self) -> float:
        """What it holds of the machine's memory."""
        lines = Path(f"/proc/{self._process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024

    def _port(self) -> str | None:
        assert self._process.poll() is None, f"the operator ended:\n{self._log.read_text()}"
        found = _PROBES.search(self._log.read_text())
        return None if found is None else found[1]

    def _answers(self) -> bool:
        try:
            self._page("/readyz")
        except OSError:
            return False
        return True

    def _page(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port()}{path}", timeout=10) as answer:
            text: str = answer.read().decode()
            return text


@contextmanager
def operator(place: Place) -> Iterator[Operator]:
    """An operator, killed at the end of the block."""
    with TemporaryDirectory(prefix="samjobs-bench-") as folder:
        one = Operator(place, Path(folder))
        try:
            yield one
        finally:
            one.kill()
