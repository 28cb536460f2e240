"""Peak memory is bounded by the settings, not by the photo's size times its instances: measured in child processes."""

import struct
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

MIB = 1024 * 1024
WATCH = """
import pathlib
def status(field):
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))
"""
SELECT = """
import numpy as np
from samjobs.segmentation.engines.base import Candidates
from samjobs.segmentation.masks import select
from samjobs.spec import Thresholds

rows, columns = np.mgrid[:288, :288].astype(np.float32)
logits = np.empty((200, 288, 288), np.float16)
for i in range(200):  # ragged outlines, each over nearly the whole photo
    logits[i] = 8 - np.maximum(abs(rows - 144), abs(columns - 144)) / 18 + np.sin(rows / 4 + i) + np.sin(columns / 6)
found = Candidates(np.linspace(1, 0.5, 200, dtype=np.float32), np.zeros((200, 4), np.float32), logits=logits)
before = status("VmRSS")
selected = select([found], [0.5], Thresholds(nms_iou=1.0), 12_000, 6_000)
assert len(selected.instances) == 200
assert min(i.bbox[2] for i in selected.instances) > 11_000
print(status("VmHWM"), before)
"""
DECODE = """
import sys
from samjobs.segmentation.engines.base import Square
from samjobs.segmentation.images import Limits, decode, decode_bytes

data = pathlib.Path(sys.argv[1]).read_bytes()
before = status("VmRSS")
promised = decode_bytes(data, Square(1008), Limits(), 1600)
photo = decode(data, Square(1008), Limits(), preview=1600)
assert (photo.width, photo.height) == (20_000, 20_000)
assert photo.preview.shape == (1600, 1600, 3)
assert (photo.pixels == 255).all()
print(status("VmHWM"), before, promised)
"""


def measured(code: str, *arguments: str) -> list[int]:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", WATCH + code, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return [int(number) for number in done.stdout.split()]


def white_png(path: Path, side: int, colour_type: int, depth: int, line: bytes) -> Path:
    """A flat PNG of side × side pixels, written line by line."""
    packer = zlib.compressobj(1)
    body = b"".join(packer.compress(b"\0" + line) for _ in range(side)) + packer.flush()
    header = struct.pack(">IIBBBBB", side, side, depth, colour_type, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", body), (b"IEND", b""))
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n"
        + b"".join(struct.pack(">I", len(b)) + k + b + struct.pack(">I", zlib.crc32(k + b)) for k, b in chunks)
    )
    return path


def test_200_masks_over_the_whole_of_12000_x_6000_pixels_stay_far_below_2_gb():
    peak, before = measured(SELECT)
    print(f"peak {peak / MIB:.0f} MiB, {(peak - before) / MIB:.0f} MiB above the process with its candidates")
    assert peak < 2000 * MIB
    assert peak - before < 150 * MIB  # all 200 as full-size booleans would be 13.4 GiB


@pytest.mark.parametrize(
    ("colour_type", "depth", "line", "bound"),
    [(0, 1, b"\xff" * 2_500, 800 * MIB), (2, 8, b"\xff" * 60_000, 1_900 * MIB)],
    ids=["1 bit", "RGB"],
)
def test_20000_x_20000_pixels_are_decoded_within_little_more_than_pillows_own_copy(
    tmp_path: Path, colour_type: int, depth: int, line: bytes, bound: int
):
    path = white_png(tmp_path / "large.png", 20_000, colour_type, depth, line)
    peak, before, promised = measured(DECODE, str(path))
    print(f"peak {peak / MIB:.0f} MiB, {(peak - before) / MIB:.0f} MiB for decoding, {promised / MIB:.0f} MiB promised")
    assert peak < bound
    assert peak - before < promised + 50 * MIB  # the estimate does not count the working image and the preview
