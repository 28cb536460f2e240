"""An installed release of the chart, and the ways into it: kubectl, its own command, its tables, its volume.

Everything goes through the API server, so that it works on whichever cluster the tests use.
"""

import json
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster.cluster import Cluster
from tests.waiting import PATIENCE_S, until

NAME = "samjobs"
CONTROLLER = "deploy/samjobs-controller"
DATA_CLAIM = "samjobs-data"


@dataclass(frozen=True)
class Release:
    """The release `NAME` in a namespace of its own."""

    cluster: Cluster
    namespace: str

    def kubectl(self, *arguments: str, input: str | None = None, check: bool = True) -> str:  # noqa: A002
        """See `Client.kubectl`; in the release's namespace."""
        return self.cluster.kubectl(f"--namespace={self.namespace}", *arguments, input=input, check=check)

    def get(self, *arguments: str) -> Any:
        """What `kubectl get` finds, as Python values."""
        return json.loads(self.kubectl("get", *arguments, "--output=json"))

    def find(self, *arguments: str) -> Any:
        """The same for one object; None where there is none."""
        found = self.kubectl("get", *arguments, "--output=json", "--ignore-not-found")
        return json.loads(found) if found else None

    def apply(self, *objects: dict[str, Any]) -> None:
        """Create or change objects as a person with kubectl does."""
        self.cluster.apply(*objects, namespace=self.namespace)

    def samjobs(self, *arguments: str) -> str:
        """What the command says, run in the controller's pod."""
        return self.kubectl("exec", CONTROLLER, "--container=controller", "--", "samjobs", *arguments)

    def sql(self, statement: str) -> None:
        """Run statements in the job table's database."""
        self._psql("--set=ON_ERROR_STOP=1", f"--command={statement}")

    def rows(self, query: str) -> list[dict[str, Any]]:
        """What a SELECT finds there."""
        found = self._psql(f"--command=SELECT coalesce(json_agg(found), '[]') FROM ({query}) AS found")
        listed: list[dict[str, Any]] = json.loads(found)
        return listed

    def _psql(self, *arguments: str) -> str:
        psql = ("psql", "--username=samjobs", "--dbname=samjobs", "--tuples-only", "--no-align", "--quiet")
        return self.kubectl("exec", "samjobs-postgres-0", "--", *psql, *arguments)

    def put(self, folder: Path, place: str) -> None:
        """Copy a local folder onto the shared volume; `place` is its path there, in a folder that exists."""
        self.kubectl("cp", str(folder), f"{self._pod}:{place}", "--container=controller")

    def fetch(self, place: str, folder: Path) -> None:
        """Copy a folder of the shared volume here."""
        self.kubectl("cp", f"{self._pod}:{place}", str(folder), "--container=controller")

    @property
    def _pod(self) -> str:
        selector = "--selector=app.kubernetes.io/component=controller"
        return self.kubectl("get", "pods", selector, "--output=jsonpath={.items[0].metadata.name}")

    @contextmanager
    def watching(self, *arguments: str) -> Iterator[Callable[[], list[str]]]:
        """`kubectl get … --watch` in the background; gives a function that tells the lines so far."""
        command = [str(self.cluster.kubectl_path), f"--namespace={self.namespace}", "get", *arguments]
        with tempfile.NamedTemporaryFile() as said:
            process = subprocess.Popen(
                [*command, "--watch", "--no-headers", f"--kubeconfig={self.cluster.kubeconfig}"], stdout=said
            )
            try:
                yield lambda: Path(said.name).read_text().splitlines()
            finally:
                process.terminate()
                process.wait()

    def until(self, condition: Callable[[], bool], what: str, patience_s: float = PATIENCE_S) -> None:
        """Poll until `condition` holds, at the pace of a process per look; a failure tells how things stand."""
        try:
            until(condition, what, patience_s, every_s=0.4)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.told()}") from None

    def told(self) -> str:
        """How things stand, for who reads a failure."""
        looks = (
            ("get", "pods,deployments,samjobs,samworkerpools", "--output=wide"),
            ("get", "events", "--sort-by=.lastTimestamp"),
            ("logs", CONTROLLER, "--container=controller", "--tail=60"),
        )
        return "\n".join(self.kubectl(*look, check=False) for look in looks)
