"""A record is one whole line of JSON, or it is refused."""

import json

import pytest
from pydantic import ValidationError

from samjobs.errors import ErrorClass, InvalidInput, StorageUnavailable
from samjobs.segmentation import records
from samjobs.segmentation.records import FailureRecord, Record
from tests.segmentation.recorded import disc, record_of

RECORD = record_of("a/Größe 日本.jpg", [disc(40, 60, 20, 20, 9), disc(40, 60, 45, 12, 5)], ["red circle", "dot"])


def changed(**fields: object) -> bytes:
    return json.dumps(json.loads(records.dump(RECORD)) | fields).encode()


def test_a_record_is_read_back_as_it_was_written():
    assert records.load(records.dump(RECORD)) == RECORD


def test_a_record_is_one_line_of_utf8_with_its_newline():
    line = records.dump(RECORD.model_copy(update={"notes": ("one\ntwo",)}))
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert "Größe 日本".encode() in line


def test_equal_records_give_equal_bytes_whatever_the_order_of_their_mappings():
    turned = Record.model_validate(
        RECORD.model_dump() | {"versions": {"numpy": "2", "opencv": "4"}, "timings_s": {"decode": 0.5, "segment": 0.25}}
    )
    assert records.dump(turned) == records.dump(RECORD)


def test_the_instances_stand_in_it_as_coco_names_them():
    first = json.loads(records.dump(RECORD))["instances"][0]
    assert list(first) == ["id", "prompt", "label", "score", "bbox", "pred_box", "area", "segmentation"]
    assert first["id"] == 1
    assert first["label"] == "red circle"
    assert first["segmentation"]["size"] == [40, 60]
    assert first["bbox"] == [11, 11, 19, 19]


def test_file_names_that_json_cannot_hold_are_written_as_escapes():
    record = record_of("bad\udcff\x00name.jpg", [])
    assert record.key == "bad\\udcff\\x00name.jpg"
    assert records.load(records.dump(record)) == record


def test_a_failure_says_why_and_of_what_class():
    failure = FailureRecord.of("s3://b/x.jpg", "x.jpg", StorageUnavailable("the bucket did not answer"))
    assert (failure.error_class, failure.error) == (ErrorClass.TRANSIENT, "the bucket did not answer")
    assert records.load(records.dump(failure)) == failure


@pytest.mark.parametrize("part", [0.0, 0.3, 0.9, 0.999])
def test_half_a_record_is_refused(part: float):
    line = records.dump(RECORD).strip()
    with pytest.raises(InvalidInput, match="record: "):
        records.load(line[: int(len(line) * part)])


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"[]", "record: "),
        (b'{"status":"done"}', "uri"),
        (b'{"status":"perhaps"}', "status"),
        (b"\xff\xfe", "record: "),
        (changed(schema_version=2), "schema_version"),
        (changed(width=61), "image of 61 x 40"),
        (changed(extra=1), "extra"),
        (changed(timings_s={"decode": float("nan")}), "timings_s"),
        (changed(instances=json.loads(records.dump(RECORD))["instances"][1:]), "ids count from 1"),
        (records.dump(RECORD) * 2, "record: "),
    ],
)
def test_what_is_no_record_of_this_schema_is_refused_naming_the_field(data: bytes, said: str):
    with pytest.raises(InvalidInput) as caught:
        records.load(data)
    assert said in str(caught.value)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_numbers_that_are_not_finite_cannot_get_in(number: float):
    plain = RECORD.model_dump()
    for place, key in (("timings_s", "decode"), ("instances", "score")):
        data = (
            {**plain, place: {key: number}}
            if place == "timings_s"
            else plain | {"instances": [plain["instances"][0] | {key: number}]}
        )
        with pytest.raises(ValidationError):
            Record.model_validate(data)
