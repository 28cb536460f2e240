"""One COCO file over all images of a job, written in bounded memory.

Records come one at a time; their annotations go straight to the file, the list of images waits in a temporary file
until the end. The result is what `pycocotools.coco.COCO` loads: RLE masks, `score` on each annotation, `iscrowd` 0.
"""

import json
import tempfile
from types import TracebackType
from typing import Any, Self, TextIO

from samjobs import __version__
from samjobs.segmentation.records import Record

SPOOL_BYTES = 4 * 1024 * 1024


class CocoWriter:
    """A context manager; the file is whole only when it ended without an error.

    Args:
        file: opened for writing text in UTF-8; stays open.

    Category ids count from 1 in the order in which labels are met.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._images = tempfile.SpooledTemporaryFile(SPOOL_BYTES, "w+", encoding="utf-8")  # noqa: SIM115  closed by __exit__
        self._categories: dict[str, int] = {}
        self._image_count = self._annotation_count = 0

    def __enter__(self) -> Self:
        info = _json({"description": "samjobs results", "version": __version__})
        self._file.write('{"info":' + info + ',"annotations":[')
        return self

    def add(self, record: Record) -> None:
        """Append an image with its instances."""
        self._image_count += 1
        image = {"id": self._image_count, "file_name": record.key, "width": record.width, "height": record.height}
        self._images.write((",\n" if self._image_count > 1 else "\n") + _json(image))
        for instance in record.instances:
            self._annotation_count += 1
            annotation = {
                "id": self._annotation_count,
                "image_id": self._image_count,
                "category_id": self._category(instance.label),
                "segmentation": {"size": list(instance.segmentation.size), "counts": instance.segmentation.counts},
                "bbox": list(instance.bbox),
                "area": instance.area,
                "score": instance.score,
                "iscrowd": 0,
            }
            self._file.write((",\n" if self._annotation_count > 1 else "\n") + _json(annotation))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._images:
            if kind is None:
                self._finish()

    def _finish(self) -> None:
        self._file.write('],"images":[')
        self._images.seek(0)
        while block := self._images.read(SPOOL_BYTES):
            self._file.write(block)
        categories = [{"id": number, "name": label} for label, number in self._categories.items()]
        self._file.write('],"categories":' + _json(categories) + "}\n")

    def _category(self, label: str) -> int:
        return self._categories.setdefault(label, len(self._categories) + 1)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
