"""What a JobSpec accepts, what it refuses and with which words, and what its hashes depend on."""

from typing import Any

import pytest

from samjobs.errors import InvalidInput
from samjobs.spec import JobSpec, Mode, Prompts, parse


def spec(**given: Any) -> JobSpec:
    """A valid spec, but for what is given."""
    return parse(JobSpec, valid(**given), "test")


def valid(**given: Any) -> dict[str, Any]:
    base = {
        "images": {"prefix": "photos"},
        "prompts": {"text": ["red car"]},
        "output": {"uri": "out"},
        "engine": "opencv",
    }
    return base | given


ONE = {"list": [{"image": "a.jpg"}]}

REFUSED = [
    ({"images": {}}, "exactly one of prefix, list, manifest"),
    ({"images": {"prefix": "a", "manifest": "b"}}, "exactly one of prefix, list, manifest"),
    ({"prompts": {}}, "mode find_all needs text and/or exemplar boxes"),
    ({"promts": {}}, "promts"),
    ({"prompts": {"boxes": [[0, 0, 9, 9]]}}, "belong to one image"),
    ({"images": ONE, "mode": "inside_box"}, "prompts.text does not go with mode inside_box"),
    (
        {"images": ONE, "mode": "point", "prompts": {"boxes": [[0, 0, 9, 9]]}},
        "prompts.boxes does not go with mode point",
    ),
    ({"images": ONE, "prompts": {"boxes": [[9, 9, 0, 0]]}}, "has no area"),
    ({"images": ONE, "prompts": {"boxes": [{"xyxy": [0, 0, 9, 9], "positive": False}]}}, "all negative"),
    (
        {"images": ONE, "mode": "inside_box", "prompts": {"boxes": [{"xyxy": [0, 0, 9, 9], "positive": False}]}},
        "negative box only means something in find_all",
    ),
    ({"images": ONE, "mode": "point", "prompts": {"points": [[[1, 1, 0]]]}}, "no positive click"),
    ({"thresholds": {"score": 1.5}}, "thresholds.score"),
    ({"thresholds": {"minArea": 10, "maxArea": 5}}, "maxArea 5 is below minArea 10"),
    ({"callback": "http://example.org/done"}, "is not https"),
    ({"prompts": {"text": ["red\ncar"]}}, "prompts.text.0.text: 'red\\ncar' holds '\\n': leave out line breaks"),
    ({"output": {"uri": "out", "classes": ["a\u2028b"]}}, "output.classes.0: 'a\\u2028b' holds"),
    (
        {"images": ONE, "mode": "point", "prompts": {"points": [{"clicks": [[1, 1]], "label": "a\x1b[0m"}]}},
        "holds '\\x1b'",
    ),
    ({"notBefore": "2027-01-01T00:00:00"}, "notBefore"),
    ({"notBefore": "9999-12-31T23:59:59-01:00"}, "is at an end of the calendar"),
    ({"notBefore": "0001-01-01T00:00:00+01:00"}, "is at an end of the calendar"),
    ({"engine": "sam4"}, "engine"),
    ({"output": {"uri": "s3://ada:secret@bucket/x"}}, "output.uri: the address holds a user and a password"),
    (
        {"images": {"prefix": "https://ada:secret@example.org/"}},
        "images.prefix: the address holds a user and a password",
    ),
    ({"output": {"uri": "out\x00"}}, "output.uri: the address holds a NUL character"),
    ({"output": {"uri": "out", "formats": ["png"]}}, "output.formats.0"),
    ({"prompts": {"text": ["x" * 201]}}, "prompts.text.0.text"),
    ({"images": {"list": [{"image": "a.jpg"}] * 101}}, "images.list"),
    ({"prompts": {"text": ["car", "bus", "Car"]}}, "'Car' is asked twice"),
]


@pytest.mark.parametrize(("change", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_bad_specs_are_refused_with_the_field_and_the_fault(change: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        spec(**change)
    assert words in str(caught.value)


@pytest.mark.parametrize("callback", ["http://host/?token=SECRET", "https//host/?token=SECRET"])
def test_a_callback_that_is_refused_is_not_shown(callback: str) -> None:
    with pytest.raises(InvalidInput, match="callback") as caught:
        spec(callback=callback)
    assert "SECRET" not in str(caught.value)


def test_an_account_in_an_address_is_no_secret() -> None:
    place = "abfs://masks@account.dfs.core.windows.net/trip"
    assert spec(output={"uri": place}).output.uri == place


def test_a_password_in_an_address_is_not_repeated() -> None:
    with pytest.raises(InvalidInput) as refused:
        spec(output={"uri": "s3://ada:secret@bucket/x"})
    assert "secret" not in str(refused.value)


def test_short_forms_mean_the_long_ones() -> None:
    short = Prompts.model_validate({"text": ["cat"], "boxes": [[0, 0, 2, 3]], "points": [[[1, 2], [3, 4, 0]], [5, 6]]})
    assert short.text[0].text == "cat"
    assert short.boxes[0].positive
    assert [click.positive for click in short.points[0].clicks] == [True, False]
    assert short.points[1].clicks[0].x == 5


def test_both_cases_of_names_are_read() -> None:
    assert spec(shardSize=8) == spec(shard_size=8)


def test_a_spec_survives_its_own_json() -> None:
    original = spec(images=ONE, mode="point", prompts={"points": [[[1, 2]]]}, priority=5)
    assert JobSpec.model_validate_json(original.model_dump_json(by_alias=True)) == original


@pytest.mark.parametrize(
    "change",
    [
        {"prompts": {"text": ["blue car"]}},
        {"thresholds": {"score": 0.6}},
        {"output": {"uri": "out", "formats": ["overlay"]}},
        {"mode": Mode.INSIDE_BOX, "prompts": {"boxes": [[0, 0, 1, 1]]}, "images": ONE},
        {"engine": "sam3"},
    ],
)
def test_what_changes_results_changes_the_config_hash(change: dict[str, Any]) -> None:
    assert spec(**change).config_hash() != spec().config_hash()


@pytest.mark.parametrize(
    "change", [{"priority": 9}, {"shardSize": 1}, {"output": {"uri": "elsewhere"}}, {"resume": False}]
)
def test_what_does_not_change_results_keeps_the_config_hash(change: dict[str, Any]) -> None:
    assert spec(**change).config_hash() == spec().config_hash()


def test_an_images_own_prompts_make_its_config_hash() -> None:
    own = Prompts.model_validate({"text": ["blue car"]})
    assert spec().config_hash(own) == spec(prompts={"text": ["blue car"]}).config_hash()


def test_equal_requests_have_equal_dedupe_keys() -> None:
    assert spec().dedupe_key() == spec(priority=3, suspend=True, shardSize=7).dedupe_key()
    assert spec().dedupe_key() != spec(output={"uri": "elsewhere"}).dedupe_key()


def test_formats_are_a_set() -> None:
    given = spec(output={"uri": "out", "formats": ["overlay", "label-png", "overlay"]})
    assert [one.value for one in given.output.formats] == ["label-png", "overlay"]
