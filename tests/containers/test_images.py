"""Both images, built by the project's own script and run as a cluster runs them."""

import json
import re

import pytest

import samjobs
from tests.containers.conftest import ROOT
from tests.containers.oci import Image

pytestmark = [pytest.mark.needs_buildah, pytest.mark.timeout(900)]

WEIGHTS = {".safetensors", ".pt", ".pth", ".ckpt", ".onnx", ".gguf", ".h5"}
PROCESSES = {"controller": ["controller", "api"], "worker": ["worker"]}
OURS = ("app", "opt")  # folders of an image that do not come from its base
# What a process of a container may do, told by itself.
WITNESS = """
import errno, json, os, pathlib, pwd
def refusal(folder):
    try:
        pathlib.Path(folder, "witness").write_text("x")
    except OSError as error:
        return errno.errorcode[error.errno]
print(json.dumps({
    "process": os.getpid(), "user": [os.getuid(), os.getgid()], "name": pwd.getpwuid(os.getuid()).pw_name,
    "refused": {folder: refusal(folder) for folder in ("/", "/app", "/opt/venv", str(pathlib.Path.home()))},
}))
"""
FINDER = "import importlib.util, sys; print([name for name in sys.argv[1:] if importlib.util.find_spec(name)])"


@pytest.fixture(params=["controller", "worker"])
def name(request: pytest.FixtureRequest) -> str:
    """Each of the two in turn."""
    found: str = request.param
    return found


@pytest.fixture
def image(container_images: dict[str, Image], name: str) -> Image:
    """Its image."""
    return container_images[name]


def test_it_runs_as_a_user_without_rights_who_can_write_to_tmp_alone(image: Image) -> None:
    assert json.loads(image.run("python", "-c", WITNESS)) == {
        "process": 1,
        "user": [10001, 10001],
        "name": "samjobs",
        "refused": {"/": "EROFS", "/app": "EROFS", "/opt/venv": "EROFS", "/tmp": None},
    }


def test_its_user_could_change_nothing_of_it_on_a_writable_root_either(image: Image) -> None:
    def may_change(path_mode: int, owner: int) -> bool:
        return owner == 10001 or bool(path_mode & 0o022)

    entries = [path for folder in OURS for path in (image.root / folder).rglob("*") if not path.is_symlink()]
    found = [path for path in entries if may_change(path.stat().st_mode, path.stat().st_uid)]
    assert entries
    assert not found


def test_the_process_is_started_itself_so_that_it_gets_the_signal_to_stop(image: Image, name: str) -> None:
    assert image.config["Entrypoint"] == ["python", "-m", name]
    assert image.config["StopSignal"] == "SIGTERM"


def test_the_command_is_there_and_of_this_version(image: Image) -> None:
    assert image.run("samjobs", "--version").strip() == samjobs.__version__


def test_it_holds_its_own_processes_and_not_the_others(image: Image, name: str) -> None:
    found = image.run("python", "-c", FINDER, "controller", "api", "worker", "samjobs")
    assert found == f"{[*PROCESSES[name], 'samjobs']}\n"


def test_without_the_sam3_extra_there_is_no_torch(image: Image) -> None:
    # The controller's image never has the extra; the worker's is built here without it.
    assert image.run("python", "-c", FINDER, "torch", "torchvision", "transformers", "triton", "redis") == "['redis']\n"


def test_opencv_and_postgres_need_no_library_of_the_base(image: Image) -> None:
    assert image.run("python", "-c", "import cv2, psycopg; print(psycopg.pq.__impl__)") == "binary\n"


def test_there_are_no_weights_and_no_photos_in_it(image: Image) -> None:
    found = [path for folder in OURS for path in (image.root / folder).rglob("*") if path.suffix in WEIGHTS]
    assert not found
    assert sorted(path.name for path in (image.root / "app").iterdir()) == sorted(
        ["LICENSE", "bin", "samjobs", *PROCESSES[image.config["Entrypoint"][-1]]]
    )


def test_bytecode_is_there_and_does_not_depend_on_the_times_of_files(image: Image) -> None:
    compiled = [path for folder in OURS for path in (image.root / folder).rglob("*.pyc")]
    assert {path.parts[-3] for path in compiled} >= {"samjobs", "sqlalchemy"}
    checked_by_hash = 0b11  # PEP 552
    others = [path for path in compiled if int.from_bytes(path.read_bytes()[4:8], "little") != checked_by_hash]
    assert not others


def test_nothing_of_the_machine_that_built_it_stays(image: Image) -> None:
    allowed = re.compile(r"PATH|PYTHON\w+|HOME|XDG_\w+_HOME|HF_HOME|NVIDIA_DRIVER_CAPABILITIES")
    assert [name for name in image.environment if not allowed.fullmatch(name)] == []
    assert not list((image.root / "run").rglob("secrets/*"))


def test_it_says_what_it_is(image: Image, name: str) -> None:
    labels = {key.rpartition(".")[2]: text for key, text in image.config["Labels"].items() if "opencontainers" in key}
    assert labels["title"] == f"samjobs {name}"
    assert labels["licenses"] == "Apache-2.0"
    assert labels["version"] == samjobs.__version__
    assert re.fullmatch(r"[0-9a-f]{40}|unknown", labels["revision"])


def test_both_install_with_the_tool_that_the_checkout_uses(name: str) -> None:
    makefile = re.search(r"^UV_VERSION := (.+)$", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    dockerfile = re.search(r"^ARG UV_VERSION=(.+)$", (ROOT / f"Dockerfile.{name}").read_text(), flags=re.MULTILINE)
    assert makefile is not None
    assert dockerfile is not None
    assert dockerfile[1] == makefile[1]
