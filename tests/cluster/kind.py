"""A cluster by kind, where Docker is: for contributors whose machines have it.

The machines that this project is built on have no Docker, so this was never run there.
"""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.cluster import Cluster
from tests.cluster.images import NAMES, SMALL_WORKER
from tests.cluster.node import GPUS
from tests.cluster.paths import HERE, ROOT

_NAME = "samjobs-test"


def lacking() -> str | None:
    """Why kind cannot make a cluster here; None if it can."""
    absent = [program for program in ("docker", "kind", "kubectl") if shutil.which(program) is None]
    if absent:
        return f"kind needs {', '.join(absent)}"
    if subprocess.run(["docker", "info"], capture_output=True, check=False).returncode != 0:
        return "kind needs Docker, which does not answer (`docker info`)"
    return None


@contextmanager
def cluster() -> Iterator[Cluster]:
    """A new cluster with samjobs' images on it, deleted in the end. It pulls those of the stores itself."""
    with tempfile.TemporaryDirectory(prefix="samjobs-kind-") as folder:
        kubeconfig = Path(folder, "kubeconfig")
        where = [f"--name={_NAME}", f"--kubeconfig={kubeconfig}"]
        _call("kind", "create", "cluster", *where, f"--config={HERE / 'kind.yaml'}", "--wait=120s")
        try:
            _call("tools/build_images.sh", BUILDER="docker", TAG="dev", WORKER_EXTRAS=SMALL_WORKER)
            ours = [name.removeprefix("docker.io/library/") for name in (NAMES.controller, NAMES.worker)]
            _call("kind", "load", "docker-image", f"--name={_NAME}", *ours)
            made = Cluster(kubeconfig, Path(_call("which", "kubectl").strip()))
            amount = {"nvidia.com/gpu": str(GPUS)}
            patch = json.dumps({"status": {"capacity": amount, "allocatable": amount}})
            nodes = made.kubectl("get", "nodes", "--output=name").split()
            made.kubectl("patch", nodes[0], "--subresource=status", "--type=merge", f"--patch={patch}")
            yield made
        finally:
            _call("kind", "delete", "cluster", *where)


def _call(*command: str, **variables: str) -> str:
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **variables}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{' '.join(command)} failed:\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
    return done.stdout
