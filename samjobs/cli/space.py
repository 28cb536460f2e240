"""How much room does the rest of a run need, and how much is there?

An estimate from what this run has written so far: the next images are taken to be like the last ones. Files are
counted in whole blocks of 4 KiB, as disks store them.
"""

import threading
from pathlib import Path

from rich.filesize import decimal

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

    def put(self, uri: str, data: bytes) -> None:
        super().put(uri, data)
        self._count(uri, len(data))

    def put_file(self, uri: str, path: Path) -> None:
        super().put_file(uri, path)
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
    there = "" if free is None else f"; {decimal(free)} are free"
    return f"about {decimal(round(need))} are needed for the {left} images left and the gathered results{there}"
