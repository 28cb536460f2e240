"""The API's own description (OpenAPI 3.1): what FastAPI finds in the routes, and what it cannot know.

That is: bodies, which are read by `api.bodies`; the short forms that a job's prompts may have; and that every refusal
is a problem. `tools/generate.py` writes it to docs/reference/openapi.json.
"""

import copy
import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel

from api.problems import MEDIA_TYPE, Problem
from samjobs import __version__

Schema = dict[str, Any]

_REF = "#/components/schemas/"
_GIVEN = "Given"  # before the names of what is part of a body: answers have models of the same names
_METHODS = ("get", "put", "post", "delete", "patch")
_TOLD = {
    400: "The request is not as described here.",
    401: "No token, or none of ours.",
    403: "No right to this.",
    404: "Not there, or not yours to see.",
    408: "The body did not come in time.",
    409: "The job is not in a state in which this can be done.",
    413: "The body is too large.",
    415: "The body is not application/json.",
    422: "As described here, but against a rule.",
    503: "A server behind this one is away: Retry-After says when to ask again.",
}
# Plain forms that stand for an object, as samjobs.spec takes them.
_NUMBERS: Schema = {"type": "array", "items": {"type": "number"}}
_CLICK: Schema = {"type": "array", "minItems": 2, "maxItems": 2, "items": {"type": "number"}}
_SHORT: Mapping[str, Sequence[Schema]] = {
    "TextPrompt": [{"type": "string", "minLength": 1, "maxLength": 200}],
    "BoxPrompt": [_NUMBERS | {"minItems": 4, "maxItems": 4}],
    "Click": [_CLICK],
    "ClickPrompt": [_CLICK],
}


def body_schema(model: type[BaseModel], *, required: bool = True) -> Schema:
    """For `openapi_extra`: the body of a route that reads it itself."""
    schema: Schema = {"$ref": f"{_REF}{_GIVEN}{model.__name__}"}
    content: Schema = {"schema": schema}
    if isinstance(examples := model.model_config.get("json_schema_extra"), dict):
        listed = examples["examples"]
        assert isinstance(listed, list)
        content["examples"] = {f"example {number}": {"value": one} for number, one in enumerate(listed, start=1)}
    return {"requestBody": {"required": required, "content": {"application/json": content}}}


def document(app: FastAPI, bodies: Sequence[type[BaseModel]]) -> Schema:
    """The description of `app`, whose own bodies are these."""
    made = get_openapi(
        title="samjobs",
        version=__version__,
        summary="Segmentation of many photos by SAM 3, as jobs.",
        description="See docs/api.md. Times are UTC. A list goes on from its `nextCursor`.",
        routes=app.routes,
    )
    schemas: dict[str, Schema] = made["components"]["schemas"]
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    problem = Problem.model_json_schema(ref_template=_REF + "{model}")
    schemas |= problem.pop("$defs") | {"Problem": problem}
    for model in bodies:
        given = given_schemas(model)
        schemas |= {f"{_GIVEN}{name}": part for name, part in given.items() if not name.startswith(_GIVEN)}
    made["components"]["responses"] = {f"Problem{status}": _problem(status) for status in _TOLD}
    for path, operations in made["paths"].items():
        for method, operation in operations.items():
            if method in _METHODS:
                _describe_refusals(path, operation)
    return made


@functools.cache
def given_schemas(model: type[BaseModel]) -> Mapping[str, Schema]:
    """The schemas of a body by name, with the short forms; references are by name, too."""
    schema = model.model_json_schema(mode="validation", ref_template=f"{_REF}{_GIVEN}{{model}}")
    parts: dict[str, Schema] = schema.pop("$defs", {})
    for name, short in _SHORT.items():
        if name in parts:
            parts[name] = {"anyOf": [parts[name], *copy.deepcopy(list(short))]}
    return {**parts, model.__name__: schema, **{f"{_GIVEN}{name}": part for name, part in parts.items()}}


def _problem(status: int) -> Schema:
    content = {MEDIA_TYPE: {"schema": {"$ref": f"{_REF}Problem"}}}
    made: Schema = {"description": _TOLD[status], "content": content}
    if status == 503:
        made["headers"] = {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer"}}}
    if status == 401:
        made["headers"] = {"WWW-Authenticate": {"schema": {"type": "string"}}}
    return made


def _describe_refusals(path: str, operation: Schema) -> None:
    answers: Schema = operation["responses"]
    if "HTTPValidationError" in json.dumps(answers.get("422", {})):
        del answers["422"]
    expected = {400}
    if "security" in operation:
        expected |= {401, 403, 503}
    if "{jobId}" in path:
        expected.add(404)
    if path.endswith(("/photo", "/result")):
        expected.add(422)
    if "cursor" in [parameter["name"] for parameter in operation.get("parameters", ())]:
        expected.add(422)
    if "requestBody" in operation:
        expected |= {404, 408, 413, 415, 422}
    if path.endswith("/retry"):
        expected.add(409)
    for status in sorted(expected):
        answers.setdefault(str(status), {"$ref": f"#/components/responses/Problem{status}"})
