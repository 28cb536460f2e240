"""`python -m tools.chart`: what of the chart is made from its values.yaml. `tests/charts` fails when it is stale.

charts/samjobs/README.md            a table of the values, with the comment above each
charts/samjobs/values.schema.json   by which helm refuses a value that does not exist, or has the wrong type

A value's type is that of its default. Its comment may add a line `@schema {…}` with more of JSON Schema, or
`@schema NAME` for one that is made here: `settings`, `pools`, `pullSecrets`. A map that is "as in a pod" is free; a
list that is so holds maps. Labels and annotations are texts.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from controller.kube.installation import DefaultPool
from samjobs.pool import QUANTITY
from samjobs.settings import Settings

ROOT = Path(__file__).resolve().parent.parent
CHART = ROOT / "charts" / "samjobs"
Json = dict[str, Any]

# Settings that the chart makes from other values, or that belong to a pool.
OWN_VALUE = frozenset(
    {
        *("database_url", "redis_url", "kubernetes_config", "health_port", "health_host"),
        *("api_host", "api_port", "api_access", "api_tokens_file", "api_audience"),
        *("webhook_secret", "webhook_secrets_dir", "region", "pool", "pod_name", "engine"),
        *("sam3_model", "sam3_revision", "sam3_meta_checkpoint", "model_sha256"),
    }
)
_FREE = "As in a "  # a map whose comment begins so is taken over as it stands
_TEXTS = re.compile("labels$|annotations$|^nodeSelector$", re.IGNORECASE)  # names of maps that hold nothing but texts
_NAME: Json = {"type": "string", "minLength": 1}
_PULL_SECRETS: Json = {
    "items": {
        "anyOf": [
            _NAME,
            {"type": "object", "additionalProperties": False, "required": ["name"], "properties": {"name": _NAME}},
        ]
    }
}
_MADE = "<!-- Made by `python -m tools.chart` from values.yaml. -->\n\n"
_HEAD = """\
# The samjobs chart

Installs the controller, the SamJob and SamWorkerPool kinds with their roles, and on request a small Postgres and Redis
for trials, monitors, alerts, a dashboard and network policies. Helm ≥ 3.18 or 4, Kubernetes ≥ 1.31.

    helm install samjobs charts/samjobs --namespace samjobs --create-namespace --set embedded.enabled=true

docs/kubernetes.md goes on from there: the first job, production, pools, upgrades.

## Values
"""


@dataclass(frozen=True)
class Value:
    """One key of values.yaml."""

    path: tuple[str, ...]
    default: Any
    told: str  # its comment, on one line
    extra: str  # what follows `@schema` in it
    inner: tuple["Value", ...]  # of a map that is not free

    @property
    def name(self) -> str:
        return ".".join(self.path)


def values() -> tuple[Value, ...]:
    """The keys of values.yaml in their order."""
    text = (CHART / "values.yaml").read_text(encoding="utf-8")
    top = yaml.compose(text, yaml.SafeLoader)
    assert isinstance(top, yaml.MappingNode), "values.yaml is a map"
    return tuple(_keys(top, (), text.splitlines(), yaml.safe_load(text)))


def _keys(node: yaml.MappingNode, path: tuple[str, ...], lines: list[str], data: Json) -> Iterator[Value]:
    for key, value in node.value:
        told, extra = _comment(lines, key.start_mark.line)
        here, default = (*path, key.value), data[key.value]
        free = extra or told.startswith(_FREE) or _TEXTS.search(key.value)
        fixed = isinstance(default, dict) and default and not free
        yield Value(here, default, told, extra, tuple(_keys(value, here, lines, default)) if fixed else ())


def _comment(lines: list[str], number: int) -> tuple[str, str]:
    """The comment right above a line, and what it says of the schema."""
    found: list[str] = []
    while number > 0 and lines[number - 1].lstrip().startswith("#"):
        number -= 1
        found.insert(0, lines[number].strip().removeprefix("#").strip())
    extra = [line.removeprefix("@schema").strip() for line in found if line.startswith("@schema")]
    return " ".join(line for line in found if not line.startswith("@schema")), "".join(extra)


def schema() -> Json:
    """The JSON schema of the values."""
    pool = _with_numbers(DefaultPool.model_json_schema(by_alias=True))
    named = {
        "settings": _settings(),
        "pools": {"items": {key: pool[key] for key in pool if key != "$defs"}},
        "pullSecrets": _PULL_SECRETS,
    }
    top = {value.path[0]: _typed(value, named) for value in values()}
    top["global"]["additionalProperties"] = True  # those of charts that this one is a part of
    top["enabled"] = {"description": "For charts that this one is a part of."}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Values of the samjobs chart",
        "type": "object",
        "additionalProperties": False,
        "properties": top,
        "$defs": pool["$defs"],
    }


def _with_numbers(part: Any) -> Any:
    """A quantity may be a plain number, `nvidia.com/gpu: 1`, as in a pod."""
    if isinstance(part, list):
        return [_with_numbers(one) for one in part]
    if not isinstance(part, dict):
        return part
    inner = {key: _with_numbers(one) for key, one in part.items()}
    return inner | {"type": ["string", "integer"]} if part.get("pattern") == QUANTITY else inner


def _typed(value: Value, named: Json) -> Json:
    told = {"description": value.told} if value.told else {}
    made = told | _of_default(value, named)
    if not value.extra:
        return made
    more: Json = named[value.extra] if value.extra in named else json.loads(value.extra)
    return made | more


def _of_default(value: Value, named: Json) -> Json:
    match value.default:
        case bool():
            return {"type": "boolean"}
        case int():
            return {"type": "integer"}
        case str():
            return {"type": "string"}
        case list() if _FREE.lower() in value.told.lower():
            return {"type": "array", "items": {"type": "object"}}
        case list():
            return {"type": "array"}
        case dict() if value.inner:
            inner = {one.path[-1]: _typed(one, named) for one in value.inner}
            return {"type": "object", "additionalProperties": False, "properties": inner}
        case dict() if _TEXTS.search(value.path[-1]):
            return {"type": "object", "additionalProperties": {"type": "string"}}
        case dict():
            return {"type": "object"}
        case _:
            return {}


def _settings() -> Json:
    """Settings by the name of their environment variable; helm turns the value into text, which the process judges."""
    return {
        "additionalProperties": False,
        "properties": {
            f"SAMJOBS_{name.upper()}": {"type": ["string", "number", "boolean"], "description": field.description}
            for name, field in Settings.model_fields.items()
            if name not in OWN_VALUE
        },
    }


def readme() -> str:
    """The chart's README."""
    parts = [_MADE + _HEAD]
    alone = [value for value in values() if not value.inner]
    parts.append(_table(alone))
    for value in values():
        if value.inner:
            parts.append(f"### {value.name}\n" + (f"\n{value.told}\n" if value.told else ""))
            parts.append(_table([leaf for one in value.inner for leaf in _leaves(one)]))
    return "\n".join(parts)


def _leaves(value: Value) -> Iterator[Value]:
    if value.inner and value.told:
        yield value
    yield from (leaf for one in value.inner for leaf in _leaves(one)) if value.inner else (value,)


def _table(rows: list[Value]) -> str:
    lines = ["| value | default | |", "|---|---|---|"]
    for row in rows:
        default = "" if row.inner else f"`{_short(row.default)}`"
        lines.append(f"| `{row.name}` | {default} | {row.told.replace('|', chr(92) + '|')} |")
    return "\n".join(lines) + "\n"


def _short(default: Any) -> str:
    text = json.dumps(default)
    return text if len(text) <= 60 else "see values.yaml"


def pages() -> dict[str, str]:
    """Path below the project → text."""
    folder = CHART.relative_to(ROOT).as_posix()
    return {
        f"{folder}/README.md": readme(),
        f"{folder}/values.schema.json": json.dumps(schema(), indent=2, ensure_ascii=False) + "\n",
    }


def main() -> None:
    """Write both."""
    for name, text in pages().items():
        (ROOT / name).write_text(text, encoding="utf-8")
        print(name)


if __name__ == "__main__":
    main()
