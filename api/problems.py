"""What an answer that is no success looks like: a problem detail (RFC 9457), which names the field that is at fault.

    400   the request is not as its schema says: no JSON, a wrong type, an unknown field or parameter
    401   no token, or none of ours          403   no right to this
    404   not there, or not for this caller to see: the two cannot be told apart
    409   the job is not in a state in which this can be done
    422   as the schema says, but against a rule: a relative path, prompts that do not fit the mode
    503   a server behind this one is away; Retry-After says when to ask again

A 500 is a fault of the code: its answer tells nothing, and the log all.
"""

import logging
import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, NoReturn

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from api.access.caller import Forbidden, Unauthenticated
from samjobs.errors import (
    AccessDenied,
    DatabaseUnavailable,
    InvalidInput,
    KeyReused,
    KubernetesUnavailable,
    ObjectMissing,
    OutputUnwritable,
    QueueUnavailable,
    SamjobsError,
    SchemaMismatch,
    StorageUnavailable,
    describe,
    storable,
)
from samjobs.storage import redact

log = logging.getLogger("api")

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 5
_LONGEST_VALUE = 200
_TITLES = {413: "Content Too Large", 422: "Unprocessable Content"}  # older Pythons have other words
_AWAY = (DatabaseUnavailable, KubernetesUnavailable, QueueUnavailable, StorageUnavailable)
_UNABLE = (OutputUnwritable, SchemaMismatch)  # somebody has to see to it
# How a message that names a field begins; `samjobs.spec.explain` and `samjobs.places` write them so.
_NAMED = re.compile(r"(?:spec: )?(?P<field>[a-z]\w*(?:\.\w+)*): (?P<detail>.*)", re.DOTALL)


class FieldError(BaseModel):
    """What is wrong with one field."""

    field: str = Field(description="Its path in the body, or the name of a parameter or header.")
    detail: str = Field(description="What is wrong, and what would be right.")
    value: Any = Field(None, description="What was given; left out where it is long, or may be a secret.")


class Problem(BaseModel):
    """RFC 9457."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "type": "urn:samjobs:problem:rule",
                "title": "Unprocessable Content",
                "status": 422,
                "detail": "output.uri: 'masks' is a relative path: give an absolute path, or a URL",
                "instance": "/api/v1/jobs",
                "errors": [{"field": "spec.output.uri", "detail": "'masks' is a relative path"}],
            }
        }
    )

    type: str = Field(description="A word for programs: urn:samjobs:problem:…")
    title: str = Field(description="The status in words.")
    status: int
    detail: str = Field(description="What happened and what helps, for a person.")
    instance: str = Field(description="The path that was asked for.")
    errors: list[FieldError] | None = Field(None, description="Which fields are at fault, where some are.")


class Refused(Exception):
    """Answer with this problem."""

    def __init__(
        self,
        status: int,
        kind: str,
        detail: str,
        errors: Sequence[FieldError] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status, self.kind, self.detail = status, kind, detail
        self.errors, self.headers = list(errors), dict(headers or {})


def malformed(field: str, detail: str, value: object = None) -> Refused:
    """The request is not as its schema says, in this field."""
    return Refused(400, "malformed", f"{field}: {detail}", [_field(field, detail, value)])


def against_rule(message: str, where: str = "") -> Refused:
    """Each field of the request is as its schema says, and still it cannot be done.

    Args:
        message: lines of `field: detail`, or one for a person.
        where: what the fields are part of, with a dot at its end.
    """
    errors = []
    for line in message.splitlines():
        if (named := _NAMED.fullmatch(line)) is not None:
            field = named["field"]
            errors.append(_field(field if field in ("tenant", "name") else f"{where}{field}", named["detail"]))
    return Refused(422, "rule", message, errors)


def not_there(what: str) -> NoReturn:
    """Answer that there is no such thing: also to who may not see it.

    Raises:
        Refused: always.
    """
    raise Refused(404, "not-found", f"there is no {what}, or it is not yours to see")


def _field(field: str, detail: str, value: object = None) -> FieldError:
    known = value if isinstance(value, int | float | bool | str) else None
    if isinstance(known, str):
        known = redact(storable(known))[:_LONGEST_VALUE]
    if isinstance(known, float) and known - known != 0:  # JSON has no word for it
        known = str(known)
    return FieldError(field=storable(field)[:_LONGEST_VALUE], detail=storable(detail), value=known)


def of_pydantic(errors: Sequence[Mapping[str, Any]], where: str = "") -> Refused:
    """What pydantic found, as one problem: 422 when only rules were broken, else 400."""
    found: list[FieldError] = []
    # A list that is too short because some of its items are wrong is no fault of its own.
    places = [item["loc"] for item in errors if item["type"] != "too_short"]
    errors = [item for item in errors if item["type"] != "too_short" or not _holds(item["loc"], places)]
    for item in errors:
        path = [str(part) for part in item["loc"] if part not in ("body", "query", "path", "header")]
        message = str(item["msg"]).removeprefix("Value error, ")
        # A whole object that breaks a rule says it in words; a missing field has no value of its own; a URL may hold a
        # token.
        secret = item["type"] in ("missing", "value_error") or str(item["type"]).startswith("url_")
        one = _field(where + ".".join(path) or "body", message, None if secret else item.get("input"))
        if one not in found:  # a parameter that is asked for in two places is still one
            found.append(one)
    detail = "; ".join(f"{one.field}: {one.detail}" for one in found[:5])
    if all(item["type"] == "value_error" for item in errors):
        return Refused(422, "rule", detail, found)
    return Refused(400, "malformed", detail, found)


def _holds(place: Sequence[Any], others: Sequence[Sequence[Any]]) -> bool:
    return any(len(other) > len(place) and tuple(other[: len(place)]) == tuple(place) for other in others)


def answer(request: Request, refused: Refused) -> JSONResponse:
    """The problem as a response."""
    problem = Problem(
        type=f"urn:samjobs:problem:{refused.kind}",
        title=_TITLES.get(refused.status) or HTTPStatus(refused.status).phrase,
        status=refused.status,
        detail=storable(refused.detail),
        instance=storable(request.url.path),
        errors=refused.errors or None,
    )
    body = problem.model_dump(mode="json", exclude_none=True)
    return JSONResponse(body, refused.status, refused.headers, media_type=MEDIA_TYPE)


def of_error(error: SamjobsError) -> Refused:
    """What an error of the library means to who asked."""
    match error:
        case Unauthenticated():
            return Refused(401, "unauthenticated", str(error), headers={"WWW-Authenticate": 'Bearer realm="samjobs"'})
        case Forbidden():
            return Refused(403, "forbidden", str(error))
        case KeyReused():
            return Refused(422, "key-reused", str(error), [_field("Idempotency-Key", str(error))])
        case InvalidInput():
            return against_rule(str(error), "spec.")
        case AccessDenied():
            return Refused(403, "denied", str(error))
        case ObjectMissing():
            return Refused(404, "not-found", str(error))
    if isinstance(error, _AWAY):
        told = "a server that this answer needs is away for now: ask again"
        return Refused(503, "unavailable", told, headers={"Retry-After": str(RETRY_AFTER_S)})
    if isinstance(error, _UNABLE):
        told = "the database cannot be used as it is: whoever runs samjobs finds the reason in the API's log"
        return Refused(503, "unavailable", told, headers={"Retry-After": str(RETRY_AFTER_S)})
    return Refused(500, "fault", "an unexpected error: whoever runs samjobs finds it in the API's log")


def _allowed(app: FastAPI, request: Request) -> str:
    """The methods of a path: Starlette tells those of one route only, and a path may have several."""
    path = getattr(request.scope.get("route"), "path", None)
    return ", ".join(method.upper() for method in app.openapi()["paths"].get(path, {}))


def install(app: FastAPI) -> None:
    """Let every error of `app` be answered by a problem."""

    def refused(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, Refused)
        return answer(request, error)

    def of_samjobs(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, SamjobsError)
        told = of_error(error)
        if told.status >= 500:
            log.warning("%s %s: %s", request.method, request.url.path, describe(error, 500))
        return answer(request, told)

    def of_request(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        return answer(request, of_pydantic(error.errors()))

    def of_http(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        kind, detail = "http", str(error.detail)
        if error.status_code == 404:
            kind, detail = "not-found", "nothing is at this path: /openapi.json lists what is"
        headers = dict(error.headers or {})
        if error.status_code == 405:
            kind, detail = "method", f"{request.method} is not for this path"
            headers["Allow"] = _allowed(app, request) or headers.get("Allow", "GET")
        return answer(request, Refused(error.status_code, kind, detail, headers=headers))

    def unexpected(request: Request, error: Exception) -> JSONResponse:
        log.error("%s %s failed: %s", request.method, request.url.path, describe(error, 500), exc_info=error)
        return answer(request, of_error(SamjobsError()))

    app.add_exception_handler(Refused, refused)
    app.add_exception_handler(SamjobsError, of_samjobs)
    app.add_exception_handler(RequestValidationError, of_request)
    app.add_exception_handler(HTTPException, of_http)
    app.add_exception_handler(Exception, unexpected)
