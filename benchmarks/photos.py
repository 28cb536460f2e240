"""Made photographs for benchmarks: as hard to decode as real ones, different from each other, always the same."""

from pathlib import Path

import cv2
import numpy as np

from samjobs.segmentation.engines.base import UInt8Image


def photo(width: int, height: int, seed: int) -> UInt8Image:
    """An RGB picture with large shapes, texture and sensor noise."""
    random = np.random.default_rng(seed)
    picture = np.zeros((height, width, 3), np.float32)
    for cell, strength in ((400, 90), (60, 40), (9, 18)):  # large shapes, structure, texture
        small = random.normal(0, strength, (height // cell + 2, width // cell + 2, 3)).astype(np.float32)
        picture += cv2.resize(small, (width, height), interpolation=cv2.INTER_CUBIC)
    grain = random.normal(0, 5, (256, 256, 3)).astype(np.float32)
    picture += np.tile(grain, (height // 256 + 1, width // 256 + 1, 1))[:height, :width]
    return np.clip(picture + 120, 0, 255).astype(np.uint8)


def write_photos(folder: Path, count: int, width: int, height: int) -> list[Path]:
    """`count` JPEGs of quality 90. A few are drawn, the others are theirs with another comment: other bytes, the same
    work to decode."""
    folder.mkdir(parents=True)
    drawn = []
    for seed in range(min(count, 4)):
        pixels = cv2.cvtColor(photo(width, height, seed), cv2.COLOR_RGB2BGR)
        drawn.append(cv2.imencode(".jpg", pixels, [cv2.IMWRITE_JPEG_QUALITY, 90])[1].tobytes())
    paths = []
    for number in range(count):
        data = drawn[number % len(drawn)]
        comment = f"{number:06}".encode()
        marker = b"\xff\xfe" + (len(comment) + 2).to_bytes(2, "big") + comment
        path = folder / f"{number:05}.jpg"
        path.write_bytes(data[:2] + marker + data[2:])
        paths.append(path)
    return paths
