"""The images of the test cluster, built by buildah on a base of Debian's packages, and kept as archives in the cache.

Pods ask for the stores by the names that users have for them (`postgres:17`, `redis:8`), and for samjobs as `:dev`.
An archive's name holds the hash of what it was built from, so that a change of the code builds the image anew, which
takes seconds where its packages did not change, and nothing else does.
"""

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster import binaries
from tests.cluster.node import PAUSE_IMAGE
from tests.cluster.paths import CACHE, HERE, ROOT

PROGRAMS = ("buildah", "debootstrap")
CHECKPOINT = "/models/sam3-tiny"  # in the full worker
_BASE_SCRIPT = ROOT / "tools" / "debian_base.sh"
_SHARED = ("pyproject.toml", "requirements.lock", "tools/install_locked.sh", "LICENSE", "samjobs")
SMALL_WORKER, _FULL_WORKER = "worker,s3", "worker,sam3,s3"  # without torch: the opencv engine, a tenth of the size


@dataclass(frozen=True)
class Images:
    """The names that pods use."""

    controller: str = "docker.io/library/samjobs-controller:dev"
    worker: str = "docker.io/library/samjobs-worker:dev"
    full_worker: str = "docker.io/library/samjobs-worker:full"  # only after Cluster.load(NAMES.full_worker)
    postgres: str = "docker.io/library/postgres:17"
    redis: str = "docker.io/library/redis:8"


NAMES = Images()
FIRST = (PAUSE_IMAGE, NAMES.postgres, NAMES.redis, NAMES.controller, NAMES.worker)  # what a new cluster gets


def archive(name: str) -> Path:
    """The archive of one image, of the code as it is now; built if it is not there yet.

    Raises:
        KeyError: no such image is built here.
        RuntimeError: the build failed; the message has the end of what it said.
    """
    inputs: dict[str, Callable[[], Iterable[Path]]] = {
        PAUSE_IMAGE: lambda: [binaries.built(binaries.PAUSE)],
        NAMES.postgres: lambda: [_BASE_SCRIPT, HERE / "images" / "postgres"],
        NAMES.redis: lambda: [_BASE_SCRIPT, HERE / "images" / "redis"],
        NAMES.controller: lambda: _sources("controller"),
        NAMES.worker: lambda: _sources("worker"),
        NAMES.full_worker: lambda: [*_sources("worker"), ROOT / "tests" / "data" / "sam3-tiny"],
    }
    builders: dict[str, Callable[[], str]] = {
        PAUSE_IMAGE: _pause,
        NAMES.postgres: lambda: _store("postgres"),
        NAMES.redis: lambda: _store("redis"),
        NAMES.controller: lambda: _samjobs("controller"),
        NAMES.worker: lambda: _samjobs("worker", SMALL_WORKER),
        NAMES.full_worker: _full_worker,
    }
    found = inputs[name]()
    short = name.rpartition("/")[2].replace(":", "-")
    with binaries.locked("images"):
        path = CACHE / "images" / f"{short}-{_hash(found)}.tar"
        if not path.exists():
            began = time.monotonic()
            path.parent.mkdir(parents=True, exist_ok=True)
            built = builders[name]()
            unfinished = path.with_suffix(".unfinished")
            unfinished.unlink(missing_ok=True)
            _buildah("push", "--quiet", "--disable-compression", built, f"docker-archive:{unfinished}:{name}")
            for older in path.parent.glob(f"{short}-{'?' * 16}.tar"):
                older.unlink()
            unfinished.rename(path)
            print(f"built the image {name} in {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
        return path


@contextmanager
def unpacked(process: str) -> Iterator[tuple[dict[str, Any], Path]]:
    """The configuration of the controller's or the (small) worker's image, as its Dockerfile says, and its files."""
    archive(getattr(NAMES, process))
    image = f"localhost/samjobs-{process}:dev"
    config: dict[str, Any] = json.loads(_buildah("inspect", "--type", "image", image))["Docker"]["config"]
    container = _buildah("from", image)
    try:
        yield config, Path(_buildah("mount", container))
    finally:
        _buildah("rm", container)


def _sources(process: str) -> list[Path]:
    processes = ("controller", "api") if process == "controller" else (process,)
    return [_BASE_SCRIPT, *(ROOT / name for name in (*_SHARED, f"Dockerfile.{process}", *processes))]


def _pause() -> str:
    container = _buildah("from", "scratch")
    _buildah("add", "--quiet", container, str(binaries.built(binaries.PAUSE)), "/pause")
    _buildah("config", "--entrypoint", '["/pause"]', "--user", "65535:65535", container)
    return _buildah("commit", "--quiet", "--rm", container)


def _store(name: str) -> str:
    folder = HERE / "images" / name
    tag = f"localhost/samjobs-test-{name}"
    _buildah(
        "build", "--quiet", "--format=docker", "--layers", f"--build-arg=BASE={_base()}", f"--tag={tag}", str(folder)
    )
    return tag


def _samjobs(process: str, extras: str = "", tag: str = "dev") -> str:
    _call("tools/build_images.sh", process, BUILDER="buildah", BASE=_base(), WORKER_EXTRAS=extras, TAG=tag)
    return f"localhost/samjobs-{process}:{tag}"


def _full_worker() -> str:
    container = _buildah("from", _samjobs("worker", _FULL_WORKER, "full"))
    _buildah("add", "--quiet", container, str(ROOT / "tests" / "data" / "sam3-tiny"), CHECKPOINT)
    return _buildah("commit", "--quiet", "--rm", container)


def _base() -> str:
    """The base of all but pause: Debian with Python."""
    name = f"localhost/samjobs-base:{_hash([_BASE_SCRIPT])}"
    if not _buildah("images", "--quiet", "--filter", f"reference={name}"):
        _call(str(_BASE_SCRIPT), name)
    return name


def _buildah(*arguments: str) -> str:
    return _call("buildah", *arguments)


def _call(*command: str, **variables: str) -> str:
    """Run a command on image storage of its own, below the cache."""
    storage = CACHE / "storage"
    storage.mkdir(parents=True, exist_ok=True)
    configuration = storage / "storage.conf"
    driver = os.environ.get("STORAGE_DRIVER", "overlay")
    configuration.write_text(
        f'[storage]\ndriver = "{driver}"\ngraphroot = "{storage}/graph"\nrunroot = "{storage}/run"\n'
    )
    mine = {"CONTAINERS_STORAGE_CONF": str(configuration), "BUILDAH_ISOLATION": "chroot", **variables}
    done = subprocess.run(
        ["nice", *command], cwd=ROOT, env={**os.environ, **mine}, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
    return done.stdout.strip()


def _hash(inputs: Iterable[Path]) -> str:
    found = hashlib.sha256()
    for place in inputs:
        files = [place] if place.is_file() else sorted(path for path in place.rglob("*") if path.is_file())
        for path in files:
            if "__pycache__" not in path.parts:
                found.update(f"{path.relative_to(place)}\0{path.stat().st_mode:o}\0".encode() + path.read_bytes())
    return found.hexdigest()[:16]
