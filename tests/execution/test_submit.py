"""A request becomes a job with its images; or joins, supersedes or withdraws one."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from samjobs.errors import InvalidInput
from samjobs.execution.local import LocalWorker
from samjobs.execution.submit import Submission, submit
from samjobs.segmentation.engines.opencv import OpenCVEngine
from samjobs.spec import Format, Images, JobSpec, Mode, Output, Prompts
from samjobs.storage import Storage
from samjobs.store import Store
from tests.execution.builders import draw, image_rows, settings, spec
from tests.store.builders import read


@pytest.fixture
def worker(store: Store, tmp_path: Path) -> Iterator[LocalWorker]:
    with _worker(store, tmp_path) as entered:
        yield entered


def test_the_images_below_the_prefix_are_queued_in_order(store: Store, tmp_path: Path, worker: LocalWorker) -> None:
    _draw(tmp_path, "b.png", "a/c.png")
    (tmp_path / "photos" / "notes.txt").write_text("x")

    submission = _submit(store, spec(tmp_path), worker)

    assert (submission.joined, submission.images) == (False, 2)
    assert submission.ignored == {"not an image": 1}
    assert [image.key for image in image_rows(store, submission.job_id)] == ["a/c.png", "b.png"]
    job = read(store, submission.job_id)
    assert (job.name, job.images_total, job.expanded_at is not None) == ("mine", 2, True)


def test_an_equal_request_joins_a_live_process(store: Store, tmp_path: Path, worker: LocalWorker) -> None:
    _draw(tmp_path, "a.png")
    first = _submit(store, spec(tmp_path), worker)
    with _worker(store, tmp_path) as second:
        joined = _submit(store, spec(tmp_path), second)

    assert joined.joined
    assert joined.job_id == first.job_id
    assert joined.images == 1


def test_a_job_that_nobody_works_on_is_superseded_over_the_input_of_now(
    store: Store, tmp_path: Path, worker: LocalWorker
) -> None:
    _draw(tmp_path, "a.png")
    with _worker(store, tmp_path) as gone:
        first = _submit(store, spec(tmp_path), gone)
    _draw(tmp_path, "b.png")

    second = _submit(store, spec(tmp_path), worker)

    assert not second.joined
    assert second.images == 2
    old = read(store, first.job_id)
    assert (old.state.value, old.reason.value) == ("cancelled", "Superseded")


def test_an_empty_folder_withdraws_the_job(store: Store, tmp_path: Path, worker: LocalWorker) -> None:
    (tmp_path / "photos").mkdir()
    told: list[int] = []

    with pytest.raises(InvalidInput, match=r"no images in .*photos"):
        _submit(store, spec(tmp_path), worker, told)

    assert told == []
    _draw(tmp_path, "a.png")
    assert not _submit(store, spec(tmp_path), worker).joined


def test_a_manifest_with_a_wrong_line_withdraws_the_job(store: Store, tmp_path: Path, worker: LocalWorker) -> None:
    manifest = tmp_path / "list.jsonl"
    manifest.write_text(json.dumps({"image": "a.png"}) + "\n{broken\n")
    wanted = spec(tmp_path, images=Images(manifest=str(manifest)))

    with pytest.raises(InvalidInput, match=r"list\.jsonl, line 2"):
        _submit(store, wanted, worker)

    manifest.write_text(json.dumps({"image": "a.png"}) + "\n")
    assert _submit(store, wanted, worker).images == 1


def test_a_line_without_prompts_is_refused_when_the_job_has_none(
    store: Store, tmp_path: Path, worker: LocalWorker
) -> None:
    manifest = tmp_path / "list.jsonl"
    manifest.write_text(json.dumps({"image": "a.png", "text": ["red"]}) + "\n" + json.dumps({"image": "b.png"}) + "\n")
    with pytest.raises(InvalidInput, match=r"b\.png has no prompts"):
        _submit(store, spec(tmp_path, images=Images(manifest=str(manifest)), prompts=Prompts()), worker)


def test_a_listing_that_somebody_stops_withdraws_the_job(store: Store, tmp_path: Path, worker: LocalWorker) -> None:
    _draw(tmp_path, "a.png")

    class Stopped(Exception):
        pass

    def stop(count: int) -> None:
        raise Stopped

    with pytest.raises(Stopped), Storage() as storage:
        submit(store, storage, spec(tmp_path), worker, name="mine", listed=stop)

    again = _submit(store, spec(tmp_path), worker)
    assert not again.joined


def test_images_without_a_box_are_left_out_and_counted(store: Store, tmp_path: Path, worker: LocalWorker) -> None:
    _draw(tmp_path, "a.png", "b.png")
    boxes = tmp_path / "boxes.csv"
    boxes.write_text("image,x0,y0,x1,y1\nb.png,1,2,30,40\n")
    wanted = spec(
        tmp_path,
        mode=Mode.INSIDE_BOX,
        prompts=Prompts(),
        images=Images(prefix=str(tmp_path / "photos"), boxes=str(boxes)),
    )

    submission = _submit(store, wanted, worker)

    (image,) = image_rows(store, submission.job_id)
    assert image.key == "b.png"
    assert image.prompts is not None
    assert list(image.prompts.boxes[0].xyxy) == [1, 2, 30, 40]
    assert submission.ignored == {"without an entry in the file": 1}


def test_stems_that_would_share_a_yolo_file_are_refused(store: Store, tmp_path: Path, worker: LocalWorker) -> None:
    _draw(tmp_path, "a.png", "a.bmp")
    wanted = spec(tmp_path, output=Output(uri=str(tmp_path / "out"), formats=(Format.YOLO_SEG,)))

    with pytest.raises(InvalidInput, match="would share one yolo-seg file"):
        _submit(store, wanted, worker)


def _draw(root: Path, *names: str) -> None:
    for name in names:
        draw(root / "photos" / name)


def _worker(store: Store, root: Path) -> LocalWorker:
    return LocalWorker(store, Storage(), settings(), lambda spec: OpenCVEngine(), root / "locks")


def _submit(store: Store, wanted: JobSpec, worker: LocalWorker, told: list[int] | None = None) -> Submission:
    with Storage() as storage:
        return submit(
            store, storage, wanted, worker, name="mine", listed=(lambda count: None) if told is None else told.append
        )
