"""What CocoWriter writes is what COCO's own tools load, evaluate and decode."""

import contextlib
import io
import json
from pathlib import Path

import numpy as np
import pytest
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from samjobs.segmentation.coco import SPOOL_BYTES, CocoWriter
from samjobs.segmentation.records import Record
from tests.segmentation.recorded import disc, record_of

MASKS = [disc(40, 60, 20, 20, 9), disc(40, 60, 45, 12, 5), disc(40, 60, 40, 12, 9)]


def written(folder: Path, *records: Record) -> Path:
    path = folder / "annotations.coco.json"
    with path.open("w", encoding="utf-8") as file, CocoWriter(file) as writer:
        for record in records:
            writer.add(record)
    return path


def loaded(path: Path) -> COCO:
    with contextlib.redirect_stdout(io.StringIO()):
        return COCO(path)


@pytest.mark.filterwarnings("ignore:__array__ implementation")  # pycocotools' own decoder under numpy 2
def test_pycocotools_loads_it_and_decodes_the_same_masks(tmp_path: Path):
    second = record_of("b/ü\n.jpg", MASKS[:1], ["dot"])
    coco = loaded(written(tmp_path, record_of("a.jpg", MASKS, ["dot", "ring", "dot"]), second))
    assert [image["file_name"] for image in coco.loadImgs(coco.getImgIds())] == ["a.jpg", "b/ü\n.jpg"]
    annotations = coco.loadAnns(coco.getAnnIds(imgIds=[1]))
    assert [a["category_id"] for a in annotations] == [1, 2, 1]
    for annotation, mask in zip(annotations, MASKS, strict=True):
        assert np.array_equal(coco.annToMask(annotation), mask)
        assert annotation["area"] == mask.sum()
    assert len(coco.getAnnIds(imgIds=[2])) == 1


def test_cocos_evaluation_of_the_results_against_themselves_is_perfect(tmp_path: Path):
    truth = loaded(written(tmp_path, record_of("a.jpg", MASKS, ["dot", "ring", "dot"])))
    with contextlib.redirect_stdout(io.StringIO()):
        found = truth.loadRes(list(truth.anns.values()))
        for kind in ("segm", "bbox"):
            judged = COCOeval(truth, found, kind)
            judged.evaluate()
            judged.accumulate()
            judged.summarize()
            assert judged.stats[0] == pytest.approx(1.0)


def test_categories_count_in_the_order_in_which_they_appear(tmp_path: Path):
    records = [record_of("a.jpg", MASKS[:2], ["ring", "dot"]), record_of("b.jpg", MASKS[:2], ["dot", "new"])]
    data = json.loads(written(tmp_path, *records).read_text(encoding="utf-8"))
    assert data["categories"] == [{"id": 1, "name": "ring"}, {"id": 2, "name": "dot"}, {"id": 3, "name": "new"}]
    assert [a["category_id"] for a in data["annotations"]] == [1, 2, 2, 3]


def test_images_without_instances_and_no_images_at_all_are_a_valid_file(tmp_path: Path):
    coco = loaded(written(tmp_path, record_of("empty.jpg", [])))
    assert coco.getImgIds() == [1]
    assert not coco.getAnnIds()
    assert loaded(written(tmp_path)).getImgIds() == []


def test_more_images_than_the_memory_for_them_are_still_all_there(tmp_path: Path):
    record = record_of("x" * 4000 + ".jpg", [])
    count = SPOOL_BYTES // 4000 + 10
    assert len(loaded(written(tmp_path, *[record] * count)).getImgIds()) == count


def test_after_an_error_the_file_is_not_closed_as_if_it_were_whole(tmp_path: Path):
    path = tmp_path / "broken.json"
    with pytest.raises(RuntimeError), path.open("w") as file, CocoWriter(file):
        raise RuntimeError
    with pytest.raises(json.JSONDecodeError):
        json.loads(path.read_text())
