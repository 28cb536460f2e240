"""Values of a wrong kind are found where they stand; what pydantic judges better is left to it."""

import pytest

from api.models import Submission
from api.openapi import given_schemas
from api.shapes import Misfit, misfit
from tests.api.world import SPEC

SCHEMAS = given_schemas(Submission)


def found(spec: dict[str, object]) -> Misfit | None:
    return misfit({"spec": SPEC | spec}, SCHEMAS["Submission"], SCHEMAS)


@pytest.mark.parametrize(
    ("spec", "path", "kind"),
    [
        ({"shardSize": "5"}, "shardSize", "integer"),
        ({"shardSize": True}, "shardSize", "integer"),
        ({"shardSize": 1.5}, "shardSize", "integer"),
        ({"parallelism": "5"}, "parallelism", "integer or null"),
        ({"suspend": 0}, "suspend", "boolean"),
        ({"thresholds": {"score": "0.5"}}, "thresholds.score", "number"),
        ({"thresholds": []}, "thresholds", "object"),
        ({"prompts": {"text": "red"}}, "prompts.text", "array"),
        ({"prompts": {"text": [5]}}, "prompts.text.0", "object or string"),
        ({"prompts": {"text": [{"text": 5}]}}, "prompts.text.0.text", "string"),
        ({"images": {"list": [{"image": "a"}, {"image": None}]}}, "images.list.1.image", "string"),
    ],
)
def test_a_value_of_a_wrong_kind_is_found(spec: dict[str, object], path: str, kind: str) -> None:
    misfits = found(spec)
    assert misfits is not None
    assert (".".join(misfits.path), misfits.kind) == (f"spec.{path}", kind)


@pytest.mark.parametrize(
    "spec",
    [
        {"shardSize": 5.0},
        {"parallelism": None},
        {"prompts": {"text": ["red", {"text": "blue"}]}},
        {"prompts": {"points": [[1, 2], {"clicks": [[1, 2], {"x": 1, "y": 2.5}]}]}},
        {"prompts": {"boxes": [[1, 2, 3, 4], {"xyxy": [1, 2, 3, 4.5]}]}},
        {"unknown": object()},
    ],
)
def test_what_fits_or_is_unknown_is_left_to_pydantic(spec: dict[str, object]) -> None:
    assert found(spec) is None
