"""The gathered files of an ended job say what its images' records say."""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pycocotools.coco import COCO

from samjobs.errors import OutputUnwritable
from samjobs.execution import merge as merge_module
from samjobs.execution.local import LocalWorker
from samjobs.execution.merge import merge
from samjobs.segmentation.engines.opencv import OpenCVEngine
from samjobs.segmentation.pipeline import Limit
from samjobs.spec import Format, Output
from samjobs.storage import Storage
from samjobs.store import Store, connect, images, migrate
from samjobs.store.rows import Image
from tests.execution.builders import job, settings
from tests.execution.test_local import Watched
from tests.store.builders import read

GATHERED = ("results.jsonl", "failures.jsonl", "annotations.coco.json", "summary.json")


@pytest.fixture
def store(sqlite_url: str) -> Iterator[Store]:
    opened = connect(sqlite_url)
    migrate(opened)
    yield opened
    opened.close()


@pytest.fixture
def ended(store: Store, tmp_path: Path) -> UUID:
    """A job over five pictures, of which the second is broken, in two shards."""
    output = Output(uri=str(tmp_path / "out"), formats=(Format.YOLO_SEG,))
    job_id = job(store, tmp_path, 5, shard_size=3, output=output)
    (tmp_path / "photos" / "01.png").write_text("not a photo")
    with Storage() as storage:
        worker = LocalWorker(store, storage, settings(), lambda spec: OpenCVEngine(), tmp_path / "locks")
        with worker:
            worker.run(Watched(), allowance=Limit())
    return job_id


def test_results_are_in_input_order_across_pages(
    store: Store, ended: UUID, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge_module, "PAGE_PER_THREAD", 1)

    _merge(store, ended)

    assert [line["key"] for line in _lines(tmp_path, "results.jsonl")] == ["00.png", "02.png", "03.png", "04.png"]
    assert [line["key"] for line in _lines(tmp_path, "failures.jsonl")] == ["01.png"]
    assert (tmp_path / "out" / "classes.txt").read_text() == "red disc\n"
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert [summary[name] for name in ("images", "processed", "unchanged", "failed")] == [5, 4, 0, 1]
    assert read(store, ended).published_at is not None


def test_each_line_is_the_record_byte_by_byte(store: Store, ended: UUID, tmp_path: Path) -> None:
    _merge(store, ended)

    lines = (tmp_path / "out" / "results.jsonl").read_bytes().splitlines(keepends=True)
    assert lines[0] == (tmp_path / "out" / "records" / "00.png.json").read_bytes()


def test_a_few_records_per_thread_are_in_memory_at_once_whatever_the_size_of_the_job(
    store: Store, ended: UUID, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = job(store, tmp_path, 20)
    with Storage() as storage:
        worker = LocalWorker(store, storage, settings(), lambda spec: OpenCVEngine(), tmp_path / "locks")
        with worker:
            worker.run(Watched(), allowance=Limit())
    pages: list[int] = []

    def noted(*arguments: Any, **named: Any) -> list[Image]:
        page = iterate(*arguments, **named)
        pages.append(len(page))
        return page

    iterate = images.iterate
    monkeypatch.setattr(images, "iterate", noted)

    _merge(store, job_id)

    assert max(pages) <= 2 * 4
    assert sum(pages) == 20


def test_doing_it_twice_gives_the_same_files(store: Store, ended: UUID, tmp_path: Path) -> None:
    _merge(store, ended)
    first = {name: (tmp_path / "out" / name).read_bytes() for name in GATHERED}
    published = read(store, ended).published_at

    _merge(store, ended)

    assert {name: (tmp_path / "out" / name).read_bytes() for name in GATHERED} == first
    assert read(store, ended).published_at == published


# pycocotools 2.0.11 hands its masks over in the way of numpy 1.
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
def test_pycocotools_loads_the_annotations(store: Store, ended: UUID, tmp_path: Path) -> None:
    _merge(store, ended)

    coco = COCO(str(tmp_path / "out" / "annotations.coco.json"))

    assert [image["file_name"] for image in coco.loadImgs(coco.getImgIds())] == ["00.png", "02.png", "03.png", "04.png"]
    annotation = coco.loadAnns(coco.getAnnIds())[0]
    assert int(coco.annToMask(annotation).sum()) == annotation["area"]


@pytest.mark.parametrize("content", [None, "{half a rec"])
def test_a_record_that_is_gone_or_damaged_is_told_as_a_failure(
    store: Store, ended: UUID, tmp_path: Path, content: str | None
) -> None:
    record = tmp_path / "out" / "records" / "02.png.json"
    record.unlink() if content is None else record.write_text(content)

    _merge(store, ended)

    assert [line["key"] for line in _lines(tmp_path, "failures.jsonl")] == ["01.png", "02.png"]
    assert len(_lines(tmp_path, "results.jsonl")) == 3


def test_a_failure_that_kept_the_earlier_record_is_told_by_the_table(store: Store, ended: UUID, tmp_path: Path) -> None:
    """The photo was not at fault, so its record of an earlier run stays, but this job has no result of it."""
    good = json.loads((tmp_path / "out" / "records" / "02.png.json").read_text())
    (tmp_path / "out" / "records" / "01.png.json").write_text(json.dumps(good | {"key": "01.png"}))

    _merge(store, ended)

    (failure,) = _lines(tmp_path, "failures.jsonl")
    assert (failure["key"], failure["error_class"]) == ("01.png", "permanent")
    assert "text, not an image" in failure["error"]
    assert len(_lines(tmp_path, "results.jsonl")) == 4


def test_no_room_for_temporary_files_is_told_with_the_remedy(
    store: Store, ended: UUID, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))

    with pytest.raises(OutputUnwritable, match=r"temporary files in .*gone.*TMPDIR"):
        _merge(store, ended)

    assert read(store, ended).published_at is None


def _merge(store: Store, job_id: UUID) -> None:
    with Storage() as storage:
        merge(store, storage, read(store, job_id), threads=2)


def _lines(root: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (root / "out" / name).read_bytes().splitlines()]
