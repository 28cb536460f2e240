"""`python -m tools.sbom`: what each container image is made of, as CycloneDX 1.6 in dist/IMAGE.cdx.json.

The Python packages of an image are those that requirements.lock pins for the extras that its Dockerfile names, each
with its version and the hashes that its build demands. Packages of the base image are not ours to list: ask a scanner
of the built image for those.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import samjobs

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ("controller", "worker")
PYTHON = "3.12"  # of the base image


def extras(image: str) -> list[str]:
    """The extras of samjobs that an image has, as its Dockerfile says."""
    text = (ROOT / f"Dockerfile.{image}").read_text(encoding="utf-8")
    found = re.search(r"^ARG EXTRAS=([\w,]+)$", text, re.MULTILINE)
    assert found is not None, f"Dockerfile.{image} names no EXTRAS"
    return found[1].split(",")


def requirements(image: str) -> str:
    """Name, version and hashes of every Python package of an image, as pip reads them."""
    command = [str(Path(sys.executable).parent / "uv"), "pip", "compile", "pyproject.toml", "--quiet"]
    command += ["--constraints", "requirements.lock", "--generate-hashes", "--no-header", "--no-annotate"]
    command += ["--no-emit-index-url", "--python-version", PYTHON, "--python-platform", "x86_64-manylinux_2_28"]
    for extra in extras(image):
        command += ["--extra", extra]
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def bill(image: str, listed: str, program: Path) -> dict[str, Any]:
    """The bill of materials of an image, of packages as `requirements` lists them."""
    command = [str(program), "requirements", "-", "--pyproject", "pyproject.toml", "--output-reproducible"]
    quiet = os.environ | {"PYTHONWARNINGS": "ignore"}  # that a list of pins has no graph
    made = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, input=listed, text=True, env=quiet)
    found: dict[str, Any] = json.loads(made.stdout)
    found["metadata"]["component"] |= {"name": f"samjobs-{image}", "version": samjobs.__version__, "type": "container"}
    for component in found["components"]:
        component.pop("description", None)  # the line of the lock, again
    return found


def main(program: str) -> None:
    """Write them; `program` is cyclonedx-py."""
    folder = ROOT / "dist"
    folder.mkdir(exist_ok=True)
    for image in IMAGES:
        made = bill(image, requirements(image), Path(program))
        path = folder / f"{image}.cdx.json"
        path.write_text(json.dumps(made, indent=2) + "\n", encoding="utf-8")
        print(f"{path.relative_to(ROOT)}: {len(made['components'])} components")


if __name__ == "__main__":
    main(sys.argv[1])
