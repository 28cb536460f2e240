"""How does a pydantic model become the schema that Kubernetes takes?

An API server takes *structural* schemas alone: no references, one type per value, no null beside a type, and closed
words for what JSON Schema leaves open. Bounds, patterns, enumerations and descriptions come over as they are; what only
Python can say is said again in CEL, by `rules.py` and `jobrules.py`. Only scalar defaults come over: a default of a
list or an object would stay in an object from which a later version of its manifest has left a part out.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from controller.kube.cel import Rule
from controller.kube.rules import FIELD_RULES, LIST_KEYS, MODEL_RULES, OBJECT_BOUNDS, WORDS
from samjobs.pool import QUANTITY

Schema = dict[str, Any]

_KEPT = (
    "type", "enum", "minimum", "maximum", "minLength", "maxLength", "pattern",
    "minItems", "maxItems", "minProperties", "maxProperties", "required",
)  # fmt: skip
_FORMATS = ("date-time",)  # those that an API server judges as pydantic does


def structural(model: type[BaseModel], description: str) -> Schema:
    """The schema of `model` with its CEL rules.

    Raises:
        KeyError: a rule or a word in `rules.py` names a model or a field that is not there.
    """
    whole = model.model_json_schema(by_alias=True)
    definitions: Mapping[str, Schema] = {**whole.pop("$defs", {}), model.__name__: whole}
    known = {(name, field) for name, one in definitions.items() for field in one.get("properties", ())}
    for name, field in (*FIELD_RULES, *WORDS, *LIST_KEYS, *OBJECT_BOUNDS):
        if name in definitions and (name, field) not in known:
            raise KeyError(f"rules.py names {name}.{field}, which is no field")
    return {**_object(model.__name__, definitions), "description": description}


def _object(name: str, definitions: Mapping[str, Schema]) -> Schema:
    """The schema of a model, without a description of its own: the field that holds it has one."""
    given = definitions[name]
    fields = {field: _field(name, field, node, definitions) for field, node in given["properties"].items()}
    made: Schema = {"type": "object", "properties": fields}
    if required := given.get("required"):
        made["required"] = required
    return made | _validations(MODEL_RULES.get(name, ()))


def _field(model: str, field: str, node: Schema, definitions: Mapping[str, Schema]) -> Schema:
    # pydantic leaves out the description of a field that is the model's own.
    description = node.get("description") or definitions[_name(node)]["description"]
    made = {"description": WORDS.get((model, field), description), **_value(node, definitions)}
    made |= OBJECT_BOUNDS.get((model, field), {})
    if key := LIST_KEYS.get((model, field)):
        made |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}
    default = node.get("default")
    if isinstance(default, bool | int | float | str):
        made["default"] = default
    rules = _validations(FIELD_RULES.get((model, field), ()))
    if made.get("type") == "array":  # of a list they judge each of its values
        made["items"] |= rules
    else:
        made |= rules
    return made


def _value(node: Schema, definitions: Mapping[str, Schema]) -> Schema:
    if "anyOf" in node:
        (node,) = (one for one in node["anyOf"] if one.get("type") != "null")
    if "$ref" in node:
        name = _name(node)
        if "properties" in definitions[name]:
            return _object(name, definitions)
        node = definitions[name]
    made = {key: node[key] for key in _KEPT if key in node}
    if node.get("format") in _FORMATS:
        made["format"] = node["format"]
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if exclusive in node:
            made |= {bound: node[exclusive], exclusive: True}
    if made.get("type") == "array":
        items = node["prefixItems"][0] if "prefixItems" in node else node["items"]
        made["items"] = _value(items, definitions)
    elif made.get("type") == "object":
        made |= _map(node, definitions)
    if made.get("pattern") == QUANTITY:
        del made["type"]
        made |= {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
    return made


def _name(node: Schema) -> str:
    name: str = node["$ref"].rpartition("/")[2]
    return name


def _map(node: Schema, definitions: Mapping[str, Schema]) -> Schema:
    values = node["additionalProperties"]
    if values is True:
        return {"x-kubernetes-preserve-unknown-fields": True}
    return {"additionalProperties": _value(values, definitions)}


def _validations(rules: tuple[Rule, ...]) -> Schema:
    made = [rule.as_validation() for rule in rules]
    return {"x-kubernetes-validations": made} if made else {}
