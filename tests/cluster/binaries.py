"""The programs of the cluster, built once from the Go modules in binaries/ into the cache.

Each folder there pins its programs by go.mod and go.sum. A binary lies below the hash of the folder's files and its
flags, so that a change of any of them builds it anew. Where modules come from, and where the compiler keeps its own
cache, is for Go's environment to say (GOPROXY, GOCACHE).
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.paths import CACHE, HERE

_VERSION = "k8s.io/component-base/version"
KUBERNETES = "v1.34.4"


@dataclass(frozen=True)
class Program:
    """A binary: the folder of binaries/ that pins it, its package, what its linker sets, and the names it acts by."""

    name: str
    folder: str
    package: str = "."
    settings: tuple[str, ...] = ()
    links: tuple[str, ...] = ()


KUBE = Program(
    "kube",
    "kube",
    settings=(f"{_VERSION}.gitVersion={KUBERNETES}", f"{_VERSION}.gitMajor=1", f"{_VERSION}.gitMinor=34"),
    links=("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl"),
)
HELM3 = Program(
    "helm3",
    "helm",
    "helm.sh/helm/v3/cmd/helm",
    (
        "helm.sh/helm/v3/internal/version.version=v3.22.0",
        # helm 3's releases set so which Kubernetes `helm template` assumes; helm 4 finds that out by itself.
        *(
            f"helm.sh/helm/v3/{where}.k8sVersion{part}"
            for where in ("pkg/chartutil", "pkg/lint/rules")
            for part in ("Major=1", "Minor=37")
        ),
    ),
)
HELM4 = Program("helm4", "helm", "helm.sh/helm/v4/cmd/helm", ("helm.sh/helm/v4/internal/version.version=v4.3.1",))
# After the helms, whose versions of Kubernetes' libraries it uses, so that they are compiled once for the three.
COREDNS = Program("coredns", "coredns")
PAUSE = Program("pause", "pause")
ALL = (KUBE, HELM4, HELM3, COREDNS, PAUSE)


def lacking() -> str | None:
    """Why nothing can be built here; None where it can, or where everything has been."""
    if shutil.which("go") is None:
        return "Go is missing: the cluster's programs are built from its modules (https://go.dev/dl)"
    return None


def built(program: Program) -> Path:
    """The binary of a program, made if it is not there yet. Takes minutes the first time.

    Raises:
        RuntimeError: the build failed; the message has the end of what the compiler said.
    """
    with locked("binaries"):
        folder = CACHE / "binaries" / f"{program.name}-{_key(program)}"
        binary = folder / program.name
        if not binary.exists():
            _build(program, folder)
        return binary


def named(name: str) -> Path:
    """One of the programs that the binary `kube` is: etcd, kube-apiserver, …, kubectl."""
    return built(KUBE).parent / name


def _build(program: Program, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    began = time.monotonic()
    unfinished = folder / "unfinished"
    # At Go's own setting a seventh of the compiler's time goes into its memory.
    environment = {**os.environ, "GOGC": os.environ.get("GOGC", "400"), "GOFLAGS": "-mod=readonly"}
    done = subprocess.run(
        ["nice", "go", "build", *_flags(program), "-o", unfinished, program.package],
        cwd=HERE / "binaries" / program.folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"go build of {program.name} in tests/cluster/binaries failed:\n{done.stderr[-4000:]}")
    for link in program.links:
        (folder / link).symlink_to(program.name)
    unfinished.rename(folder / program.name)
    for older in folder.parent.glob(f"{program.name}-*"):
        if older != folder:
            shutil.rmtree(older)
    print(f"built {program.name} in {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)


def _flags(program: Program) -> list[str]:
    settings = " ".join(f"-X {setting}" for setting in program.settings)
    return ["-trimpath", "-buildvcs=false", "-ldflags", f"-s -w {settings}".strip()]


def _key(program: Program) -> str:
    found = hashlib.sha256(repr((program.package, _flags(program))).encode())
    for path in sorted((HERE / "binaries" / program.folder).iterdir()):
        found.update(path.name.encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:16]


@contextmanager
def locked(what: str) -> Iterator[None]:
    """Alone in this part of the cache, also among other processes."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{what}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
