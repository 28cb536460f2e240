"""What a test does with a cluster, whichever it is: kubectl, helm, a namespace of its own, a line of the audit log."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.cluster import binaries

RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


@dataclass(frozen=True)
class Client:
    """A way into a cluster, with the rights of its administrator."""

    kubeconfig: Path
    kubectl_path: Path
    audit_log: Path | None = None  # None where the cluster is not ours

    def kubectl(self, *arguments: str, input: str | None = None, check: bool = True) -> str:  # noqa: A002
        """What kubectl prints.

        Args:
            arguments: as on the command line.
            input: what it reads with `-f -`.
            check: fail the test if it fails; otherwise its output and its complaint are returned.
        """
        done = self.run(self.kubectl_path, *arguments, input=input)
        assert done.returncode == 0 or not check, f"kubectl {' '.join(arguments)} failed:\n{done.stdout}{done.stderr}"
        return done.stdout if check else done.stdout + done.stderr

    def run(self, *command: str | Path, input: str | None = None) -> "subprocess.CompletedProcess[str]":  # noqa: A002
        """Run a program that finds this cluster by KUBECONFIG, such as helm."""
        return subprocess.run(
            [str(word) for word in command],
            input=input,
            env={**os.environ, "KUBECONFIG": str(self.kubeconfig)},
            capture_output=True,
            text=True,
            check=False,
        )

    def get(self, *arguments: str) -> Any:
        """What `kubectl get` finds, as Python values: one object, or a list under `items`."""
        return json.loads(self.kubectl("get", *arguments, "--output=json"))

    def apply(self, *objects: dict[str, Any], namespace: str | None = None) -> None:
        """Create or change objects by server-side apply."""
        where = [f"--namespace={namespace}"] if namespace else []
        everything = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        self.kubectl("apply", "--server-side", "--filename=-", *where, input=json.dumps(everything))

    @contextmanager
    def namespace(self, wait: bool = True) -> Iterator[str]:
        """A new namespace that admits pods of the restricted level only; deleted afterwards.

        Args:
            wait: until it is gone. An API server without controllers never gets that far.
        """
        name = f"test-{uuid4().hex[:12]}"
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": RESTRICTED}})
        try:
            yield name
        finally:
            self.kubectl("delete", "namespace", name, "--ignore-not-found", f"--wait={str(wait).lower()}")

    @property
    def helm3(self) -> Path:
        """helm 3, built on first use."""
        return binaries.built(binaries.HELM3)

    @property
    def helm4(self) -> Path:
        """helm 4, built on first use."""
        return binaries.built(binaries.HELM4)

    def requests(self, **facts: str) -> list[dict[str, Any]]:
        """The audited requests with these facts, oldest first: `verb="patch"`, `resource="samjobs"`, `user=…`.

        Reads the whole log of this cluster, so name the namespace too, and count what was added since.
        """
        assert self.audit_log is not None, "only the tests' own cluster has an audit log"
        found = []
        for line in self.audit_log.read_text().splitlines():
            event = json.loads(line)
            object_ = event.get("objectRef", {})
            known = {**object_, "verb": event["verb"], "user": event["user"]["username"]}
            if all(known.get(name) == value for name, value in facts.items()):
                found.append(event)
        return found
