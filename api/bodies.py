"""A request's body: read up to its limit and no further, within a time, and taken as strictly as its schema says.

Strictly: "5" is no number and 1 no truth; unknown fields and snake_case are refused. A body that is larger than allowed
is refused as soon as that is known, whatever its headers said.
"""

import asyncio
from typing import Annotated, TypeVar

from fastapi import Depends, Request
from pydantic import BaseModel, ValidationError
from pydantic_core import from_json
from starlette.requests import ClientDisconnect

from api.context import Asking, Here
from api.openapi import given_schemas
from api.problems import Refused, malformed, of_pydantic
from api.shapes import misfit

PATIENCE_S = 30.0
JSON = "application/json"
AnyBody = TypeVar("AnyBody", bound=BaseModel)


async def body_of(request: Request, context: Here, caller: Asking) -> bytes:
    """The whole body, of a caller who is known: nothing is read of strangers.

    Raises:
        Refused: it is no JSON by its headers, too large, or did not come, or not in time.
    """
    limit = context.settings.api_max_body_bytes
    kind = request.headers.get("content-type")
    if kind is not None and kind.partition(";")[0].strip().lower() != JSON:
        raise _no_json()
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Refused(415, "media-type", "the body is compressed: send it as it is")
    told = request.headers.get("content-length", "")
    if told.isdecimal() and int(told[:20]) > limit:
        raise _too_large(limit)
    read = bytearray()
    try:
        async with asyncio.timeout(PATIENCE_S):
            async for chunk in request.stream():
                read += chunk
                if len(read) > limit:
                    raise _too_large(limit)
    except TimeoutError:
        raise Refused(408, "timeout", f"the body did not come within {PATIENCE_S:.0f} s") from None
    except ClientDisconnect:
        raise malformed("body", "the connection ended before it") from None  # for the metrics: nobody reads it
    if kind is None and read:
        raise _no_json()
    return bytes(read)


Body = Annotated[bytes, Depends(body_of)]


def parsed(kind: type[AnyBody], body: bytes) -> AnyBody:
    """The body as what it should be; an empty one as {}.

    Raises:
        Refused: naming each field that is not so.
    """
    try:
        data = from_json(body or b"{}", allow_inf_nan=False)
    except ValueError as error:
        raise malformed("body", f"no JSON: {error}") from None
    schemas = given_schemas(kind)
    if (wrong := misfit(data, schemas[kind.__name__], schemas)) is not None:
        raise malformed(".".join(wrong.path) or "body", f"it should be of kind {wrong.kind}", wrong.value)
    try:
        return kind.model_validate(data, by_alias=True, by_name=False)
    except ValidationError as error:
        raise of_pydantic(error.errors(include_url=False, include_context=False)) from None


def _no_json() -> Refused:
    return Refused(415, "media-type", f"the body is not {JSON} by its Content-Type: send it as that")


def _too_large(limit: int) -> Refused:
    # The rest of the body is not read, so the connection cannot go on.
    return Refused(
        413,
        "too-large",
        f"the body has more than {limit:,} bytes (SAMJOBS_API_MAX_BODY_BYTES): put images and prompts into a manifest",
        headers={"Connection": "close"},
    )
