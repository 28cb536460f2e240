"""How much room does the rest of a run need, and how much is there?

An estimate from what this run has written so far: the next images are taken to be like the last ones. Files are
counted in whole blocks of 4 KiB, as disks store them.
"""

import threading
from pathlib import Path

from samjobs.names import RECORDS_DIR
from samjobs.storage import Access, Storage

BLOCK = 4096
GATHERED = 2  # results.jsonl and annotations.coco.json each hold every record once more


class MeteredStorage(Storage):
    """A Storage that counts what is written through it, in whole blocks."""

    def __init__(self, access: Access | None = None) -> None:
        super().__init__(access)
        self._counting = threading.Lock()
        self.written = 0
        self.written_records = 0

    def put(self, uri: str, data: bytes, *, fsync: bool = False) -> None:
        super().put(uri, data, fsync=fsync)
        self._count(uri, len(data))

    def put_file(self, uri: str, path: Path, *, fsync: bool = False) -> None:
        super().put_file(uri, path, fsync=fsync)
        self._count(uri, path.stat().st_size)

    def _count(self, uri: str, size: int) -> None:
        blocks = -(-size // BLOCK) * BLOCK
        with self._counting:
            self.written += blocks
            if f"/{RECORDS_DIR}/" in uri:
                self.written_records += blocks


def outlook(storage: MeteredStorage, output: str, *, finished: int, left: int) -> str:
    """What the `left` images still need, beside what is free at `output`; "" where nothing is known yet.

    Args:
        finished: images that this run wrote results of.
    """
    if not finished or not storage.written:
        return ""
    need = storage.written / finished * left
    need += GATHERED * storage.written_records / finished * (finished + left)
    free = storage.free_bytes(output)
    there = "" if free is None else f"; {in_words(free)} are free"
    return f"about {in_words(need)} are needed for the {left} images left and the gathered results{there}"


def in_words(size: float) -> str:
    """
    >>> in_words(900), in_words(1_234_567), in_words(98_765_432_100)
    ('900 B', '1.2 MB', '98.8 GB')
    """
    units = ["B", "kB", "MB", "GB", "TB"]
    while size >= 1000 and len(units) > 1:
        size /= 1000
        units.pop(0)
    return f"{size:.0f} B" if units[0] == "B" else f"{size:.1f} {units[0]}"
