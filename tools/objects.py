"""The reference pages of SamJob and SamWorkerPool, from their CRDs: what an API server takes, refuses and shows."""

import json
from collections.abc import Iterator
from typing import Any

from controller.kube.crd import crds
from controller.kube.structural import Schema

_PLAIN = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false"}
_SIZES = (("Length", "characters"), ("Items", "values"), ("Properties", "entries"))


def page(plural: str) -> str:
    """The page of one kind, in Markdown."""
    crd = crds()[plural]
    names, version = crd["spec"]["names"], crd["spec"]["versions"][0]
    whole = version["schema"]["openAPIV3Schema"]
    parts = [
        f"# {names['kind']}\n",
        f"{whole['description']} `{crd['spec']['group']}/{version['name']}`; `kubectl get {names['shortNames'][0]}`, "
        f"and `kubectl explain {names['singular']}.spec`.\n",
    ]
    written: dict[str, str] = {}
    for part in ("spec", "status"):
        parts += _sections(part, whole["properties"][part], written)
    if refusals := _refusals("spec", whole["properties"]["spec"]):
        rows = [f"| {', '.join(f'`{path}`' for path in paths)} | {message} |" for message, paths in refusals.items()]
        parts.append("## Refused texts\n\n| in | refused |\n|---|---|\n" + "\n".join(rows) + "\n")
    columns = [f"| {one['name'].upper()} | {_column(one)} |" for one in version["additionalPrinterColumns"]]
    parts.append("## Columns\n\n| column | what it shows |\n|---|---|\n" + "\n".join(columns) + "\n")
    return "\n".join(parts)


def _sections(path: str, schema: Schema, written: dict[str, str]) -> Iterator[str]:
    """The section of an object and then those of the objects in it; each object once, by its fields."""
    written.setdefault(_content(schema), path)
    rows, inner = [], []
    for field, node in schema["properties"].items():
        held = node.get("items", node)
        below = f"{path}.{field}" + ("[]" if held is not node else "")
        if "properties" in held and written.setdefault(_content(held), below) == below:
            inner.append((below, held))
        rows.append(f"| `{field}` | {_type(node, written)} | {_default(field, node, schema)} | {node['description']} |")
    text = f"## {path}\n\n"
    text += f"{schema['description']}\n\n" if "description" in schema else ""
    text += "| field | type | default | meaning |\n|---|---|---|---|\n" + "\n".join(rows) + "\n"
    rules = _rules(schema)
    yield text + ("\nRefused:\n\n" + "\n".join(f"- {rule}" for rule in rules) + "\n" if rules else "")
    for below, held in inner:
        yield from _sections(below, held, written)


def _content(schema: Schema) -> str:
    return json.dumps({key: schema.get(key) for key in ("properties", "x-kubernetes-validations")}, sort_keys=True)


def _rules(schema: Schema) -> list[str]:
    """What the rules of an object say; those that no field may change, in one line."""
    rules = schema.get("x-kubernetes-validations", [])
    settled = [one["fieldPath"].removeprefix(".") for one in rules if "oldSelf" in one["rule"]]
    told = list(dict.fromkeys(one["message"] for one in rules if "oldSelf" not in one["rule"]))
    return told + ([f"a change of {', '.join(f'`{one}`' for one in settled)}"] if settled else [])


def _type(node: Schema, written: dict[str, str]) -> str:
    if "properties" in node:
        where = written[_content(node)]
        anchor = where.lower().replace(".", "").replace("[]", "")
        text = f"[{where}](#{anchor})"
    elif "items" in node:
        text = f"list of {_type(node['items'], written)}"
    elif "additionalProperties" in node:
        text = f"names with {_type(node['additionalProperties'], written)}"
    elif "enum" in node:
        text = "one of " + ", ".join(f"`{one}`" for one in node["enum"])
    elif node.get("format") == "date-time":
        text = "time with zone"
    elif "x-kubernetes-int-or-string" in node:
        text = "quantity"
    elif node["type"] == "object":
        text = "object"
    else:
        text = _PLAIN[node["type"]]
    return ", ".join([text, *_bounds(node)])


def _bounds(node: Schema) -> Iterator[str]:
    if "pattern" in node:
        yield f"as `{node['pattern']}`".replace("|", "\\|")
    low, high = node.get("minimum"), node.get("maximum")
    if low is not None:
        yield f"{'above' if node.get('exclusiveMinimum') else 'at least'} {low:,}"
    if high is not None:
        yield f"{'below' if node.get('exclusiveMaximum') else 'at most'} {high:,}"
    for size, unit in _SIZES:
        low, high = node.get(f"min{size}", 0), node.get(f"max{size}")
        if high is not None:
            yield f"{high:,} {unit}" if low == high else f"at most {high:,} {unit}"


def _default(field: str, node: Schema, owner: Schema) -> str:
    if field in owner.get("required", ()):
        return "needed" if "default" not in node else f"`{json.dumps(node['default'])}`"
    return f"`{json.dumps(node['default'])}`" if "default" in node else "–"


def _refusals(path: str, schema: Schema) -> dict[str, list[str]]:
    """What the rules of single values say → the fields that they are about. Prompts of one image are as the job's."""
    found: dict[str, list[str]] = {}
    for field, node in schema["properties"].items():
        below, held = f"{path}.{field}", node.get("items", node)
        if below == "spec.images.list[].prompts":
            continue
        if "properties" in held:
            for message, paths in _refusals(below + ("[]" if held is not node else ""), held).items():
                found.setdefault(message, []).extend(paths)
        else:
            for message in _rules(held):
                found.setdefault(message, []).append(below)
    return found


def _column(column: dict[str, Any]) -> str:
    wide = " (`-o wide`)" if column.get("priority") else ""
    return f"{column['description']}{wide}"
