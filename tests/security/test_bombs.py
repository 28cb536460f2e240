"""A hostile file fails as that one image, or is decoded as what it is; in memory and time that were known before.

Measured in a child process, whose peak is set back before each file.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.security.bombs import LARGE, SIDE, SMALL

MEBI = 1 << 20
ROOM = 48 * MEBI  # working image, preview, and what the allocator rounds up
# What a chunk of text or a profile of a PNG may inflate to (imagefile.py), twice: as bytes and as text.
MOST_OF_SMALL = 192 * MEBI
TOO_LARGE = "3,600,000,000 pixels, over the limit"
WHY = {
    **dict.fromkeys(("png header", "jpeg header", "bmp header", "gif header", "tiff strip"), TOO_LARGE),
    "jpeg scans": "over 100 scans",
    "jpeg scans behind a comment": "over 100 scans",
    "gzip": "gzip-compressed data",
}
CHILD = """
import json, pathlib, sys, time
from samjobs.errors import ImageError
from samjobs.segmentation.engines.base import Square
from samjobs.segmentation.images import Limits, decode, decode_bytes

def status(field):
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))

def seen(path):
    data = path.read_bytes()
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before, promised, began = status("VmRSS"), None, time.process_time()
    try:
        promised = decode_bytes(data, Square(1008), Limits(), 1600)
        photo = decode(data, Square(1008), Limits(), preview=1600)
        said = [photo.width, photo.height]
    except ImageError as error:
        said = str(error)
    return {"said": said, "took": status("VmHWM") - before, "promised": promised, "cpu_s": time.process_time() - began}

folder = pathlib.Path(sys.argv[1])
print(json.dumps({path.name: seen(path) for path in sorted(folder.iterdir())}))
"""


def seen(folder: Path, files: Mapping[str, Callable[[], bytes]]) -> dict[str, dict[str, Any]]:
    """What became of each file, by its name."""
    for name, make in files.items():
        (folder / name).write_bytes(make())
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", CHILD, str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return told


def test_a_large_picture_takes_the_memory_that_was_promised(tmp_path: Path) -> None:
    found = seen(tmp_path, LARGE)
    assert found.keys() == LARGE.keys()
    for name, told in found.items():
        print(f"{name}: {told['took'] / MEBI:.0f} MiB, {told['promised'] / MEBI:.0f} promised, {told['cpu_s']:.2f} s")
        assert told["said"] == [SIDE, SIDE], name
        assert told["took"] < told["promised"] + ROOM, name


def test_a_bomb_is_refused_or_decoded_as_the_small_picture_that_it_is(tmp_path: Path) -> None:
    found = seen(tmp_path, SMALL)
    assert found.keys() == SMALL.keys()
    for name, told in found.items():
        print(f"{name}: {told['took'] / MEBI:.0f} MiB, {told['cpu_s']:.2f} s, {told['said']}")
        assert told["said"] == [1, 1] or isinstance(told["said"], str), name
        assert told["took"] < MOST_OF_SMALL, name
        assert told["cpu_s"] < 20, f"{name}: of processor time; a bomb that goes off takes minutes or hours"
    for name, why in WHY.items():
        assert why in found[name]["said"], name
