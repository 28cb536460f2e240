"""Are the values of a body of the kinds that its schema says?

Pydantic would take "5" for a number and 1 for true, and its strict mode would refuse lists where a short form is
expanded to a tuple. So kinds are compared here, with the very schema that the API shows; all else is pydantic's.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_KINDS: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "null": (type(None),),
    "array": (list,),
    "object": (dict,),
    "number": (int, float),
    "integer": (int,),
}


@dataclass(frozen=True)
class Misfit:
    """A value of another kind than its schema says."""

    path: tuple[str, ...]
    kind: str  # what it should be
    value: object


def misfit(value: object, schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> Misfit | None:
    """The first value of a wrong kind; None: there is none.

    Args:
        schemas: what `$ref` refers to, by the last part of its path.

    >>> misfit({"n": "5"}, {"type": "object", "properties": {"n": {"type": "integer"}}}, {})
    Misfit(path=('n',), kind='integer', value='5')
    """
    return _misfit((), value, schema, schemas)


def _misfit(
    path: tuple[str, ...], value: object, schema: Mapping[str, Any], schemas: Mapping[str, Any]
) -> Misfit | None:
    if "$ref" in schema:
        return _misfit(path, value, schemas[schema["$ref"].rpartition("/")[2]], schemas)
    if "anyOf" in schema:
        found = [_misfit(path, value, one, schemas) for one in schema["anyOf"]]
        if None in found:
            return None
        known = [one for one in found if one is not None]
        deepest = max(known, key=lambda one: len(one.path))
        if len(deepest.path) > len(path):
            return deepest
        return Misfit(path, " or ".join(one.kind for one in known), value)
    kind = schema.get("type")
    if kind is not None and not _is(value, kind):
        return Misfit(path, kind, value)
    if isinstance(value, dict):
        parts = [(name, part, schema.get("properties", {}).get(name)) for name, part in value.items()]
    elif isinstance(value, list):
        first = schema.get("prefixItems", [])
        rest = [schema.get("items")] * (len(value) - len(first))
        parts = [(str(n), part, one) for n, (part, one) in enumerate(zip(value, [*first, *rest], strict=False))]
    else:
        return None
    inside = (_misfit((*path, name), part, one, schemas) for name, part, one in parts if isinstance(one, dict))
    return next((one for one in inside if one is not None), None)


def _is(value: object, kind: str) -> bool:
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _KINDS[kind]) and (kind == "boolean" or not isinstance(value, bool))
