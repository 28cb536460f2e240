"""Both images, unpacked, as the test cluster builds them: by the project's own script, on Debian's packages."""

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cluster import images as built
from tests.conftest import missing
from tests.containers.oci import Image

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = (*built.PROGRAMS, "runc")


@pytest.fixture(scope="session")
def container_images(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Image]]:
    """The controller's and the worker's image, by name. The worker is the small one, without torch."""
    lacking = [program for program in PROGRAMS if shutil.which(program) is None]
    if lacking or os.geteuid() != 0:
        missing(f"images are built by root with {', '.join(PROGRAMS)} (apt-get install {' '.join(PROGRAMS)})")
    folder: Path = tmp_path_factory.mktemp("containers")
    with ExitStack() as stack:
        yield {
            name: Image(*stack.enter_context(built.unpacked(name)), folder / name) for name in ("controller", "worker")
        }
