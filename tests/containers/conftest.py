"""Both images, built once by the project's own script on a base of Debian's packages."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import missing
from tests.containers.oci import Image

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ("buildah", "debootstrap", "runc")
BASE = "localhost/samjobs-base"
# The engine that needs no model: the image is a tenth as large, and built in a fraction of the time.
WORKER_EXTRAS = "worker,s3"


@pytest.fixture(scope="session")
def images() -> Iterator[dict[str, Image]]:
    """The controller's and the worker's image, by name."""
    lacking = [program for program in PROGRAMS if shutil.which(program) is None]
    if lacking or os.geteuid() != 0:
        missing(f"images are built by root with {', '.join(PROGRAMS)} (apt-get install {' '.join(PROGRAMS)})")
    # Not below pytest's own folder, which keeps what it holds, and this is large.
    with tempfile.TemporaryDirectory(prefix="samjobs-images-") as folder:
        yield from _built(Path(folder))


def _built(folder: Path) -> Iterator[dict[str, Image]]:
    configuration = folder / "storage.conf"
    configuration.write_text(
        f'[storage]\ndriver = "{os.environ.get("STORAGE_DRIVER", "overlay")}"\n'
        f'graphroot = "{folder}/storage"\nrunroot = "{folder}/run"\n'
    )
    environment = {
        **os.environ,
        "CONTAINERS_STORAGE_CONF": str(configuration),
        "BUILDAH_ISOLATION": "chroot",
        "BUILDER": "buildah",
        "BASE": BASE,
        "WORKER_EXTRAS": WORKER_EXTRAS,
    }

    def call(*command: str) -> str:
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{' '.join(command)} failed:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        return done.stdout.strip()

    try:
        call("tools/debian_base.sh", BASE)
        call("tools/build_images.sh")
        made = {}
        for name in ("controller", "worker"):
            image = f"localhost/samjobs-{name}:dev"
            config = json.loads(call("buildah", "inspect", "--type", "image", image))["Docker"]["config"]
            root = Path(call("buildah", "mount", call("buildah", "from", image)))
            made[name] = Image(config, root, folder / "containers" / name)
        yield made
    finally:
        # Mounts must be gone before the folder is.
        call("buildah", "rm", "--all")
        call("buildah", "rmi", "--all", "--force")
