"""`make generate`: reference pages whose one source is the code. `tests/docs` fails when they are stale.

docs/reference/settings.md   samjobs/settings.py
docs/reference/states.md     samjobs/states.py
docs/reference/metrics.md    samjobs/metrics.py, samjobs/alerts.py, the rules of the chart
docs/reference/job.md        samjobs/spec.py
docs/reference/samjob.md     controller/kube/crd.py
docs/reference/pool.md       controller/kube/crd.py
docs/reference/openapi.json  api/

And what `make crds` writes.
"""

import enum
import inspect
import json
import re
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from api.app import create_app
from samjobs import spec, states
from samjobs.names import JOB_PLURAL, POOL_PLURAL
from samjobs.segmentation import records
from samjobs.settings import PROFILES, Settings
from tools import crds, dashboard, objects, observed

ROOT = Path(__file__).resolve().parent.parent
HEADER = "<!-- Made by `make generate` from {source}: change it there. -->\n\n"


def pages() -> dict[str, str]:
    """Path below the project → text."""
    return {
        "docs/reference/settings.md": _settings(),
        "docs/reference/states.md": _states(),
        "docs/reference/metrics.md": HEADER.format(source="samjobs/metrics.py") + observed.page(),
        dashboard.PATH: dashboard.text(),
        "docs/reference/job.md": _job(),
        "docs/reference/record.md": _record(),
        "docs/reference/samjob.md": HEADER.format(source="controller/kube/crd.py") + objects.page(JOB_PLURAL),
        "docs/reference/pool.md": HEADER.format(source="controller/kube/crd.py") + objects.page(POOL_PLURAL),
        "docs/reference/openapi.json": json.dumps(create_app(None).openapi(), indent=1, ensure_ascii=False) + "\n",
    }


def _settings() -> str:
    lines = [
        "# Settings",
        "",
        "Environment variables of every samjobs process. Where two defaults stand, `SAMJOBS_PROFILE` chooses.",
        "",
        "| variable | default | what it does |",
        "|---|---|---|",
    ]
    for name, field in Settings.model_fields.items():
        lines.append(f"| `SAMJOBS_{name.upper()}` | {_setting_default(name, field)} | {field.description} |")
    return HEADER.format(source="samjobs/settings.py") + "\n".join(lines) + "\n"


def _setting_default(name: str, field: FieldInfo) -> str:
    if field.is_required():
        return ", ".join(f"{profile} `{values[name]}`" for profile, values in PROFILES.items())
    return f"`{field.default}`" if field.default not in (None, "", (), PydanticUndefined) else "–"


def _states() -> str:
    text = HEADER.format(source="samjobs/states.py") + "# States\n\n"
    for title, table in (("Shard", states.SHARD_TRANSITIONS), ("Image", states.IMAGE_TRANSITIONS)):
        text += f"## {title}\n\n```mermaid\nstateDiagram-v2\n{_diagram(table)}```\n\n"
    active = ", ".join(state.value for state in states.JobState if state in states.JOB_ACTIVE)
    ended = ", ".join(state.value for state in states.JobState if state in states.JOB_TERMINAL)
    return text + f"## Job\n\nFollows from its shards. Active: {active}. Ended: {ended}.\n"


def _diagram(table: Mapping[Any, frozenset[Any]]) -> str:
    """Lines of a state diagram, in the order of the states."""
    lines = [f"    {old.value} --> {new.value}\n" for old in table for new in type(old) if new in table[old]]
    return "".join(lines)


def _job() -> str:
    parts = [HEADER.format(source="samjobs/spec.py") + "# A job\n"]
    seen: set[type[BaseModel]] = set()
    waiting: list[type[BaseModel]] = [spec.JobSpec]
    while waiting:
        model = waiting.pop(0)
        if model in seen:
            continue
        seen.add(model)
        parts.append(f"## {model.__name__}\n\n{inspect.cleandoc(model.__doc__ or '')}\n")
        rows = [_field_row(field.alias or name, field) for name, field in model.model_fields.items()]
        parts.append("| field | type | default | meaning |\n|---|---|---|---|\n" + "\n".join(rows) + "\n")
        waiting += [inner for field in model.model_fields.values() for inner in _models_in(field.annotation)]
    return "\n".join(parts)


def _field_row(name: str, field: FieldInfo) -> str:
    return f"| `{name}` | {_type(field.annotation)} | {_default(field)} | {field.description or ''} |"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "needed"
    value = field.default
    if value is None or value == () or isinstance(value, BaseModel):
        return "–"
    return f"`{json.dumps(value.value if isinstance(value, enum.Enum) else value)}`"


def _type(annotation: Any) -> str:
    """A type in words: `list of Name`, `one of a, b`, `number`."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _type(arguments[0])
    if origin in (types.UnionType, typing.Union):
        return " or ".join(_type(argument) for argument in arguments if argument is not type(None))
    if origin is tuple:
        many = arguments[-1] is Ellipsis
        return f"list of {_type(arguments[0])}" if many else f"{len(arguments)} × {_type(arguments[0])}"
    if origin is typing.Literal:
        return "one of " + ", ".join(f"`{argument}`" for argument in arguments)
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return "one of " + ", ".join(f"`{member.value}`" for member in annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return f"[{annotation.__name__}](#{annotation.__name__.lower()})"
    names = {str: "text", int: "whole number", float: "number", bool: "true or false"}
    return names.get(
        annotation,
        {"AwareDatetime": "time with zone", "HttpUrl": "URL"}.get(getattr(annotation, "__name__", ""), "value"),
    )


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for argument in typing.get_args(annotation) for model in _models_in(argument)]


def _record() -> str:
    models = (
        records.Record,
        records.SourceFacts,
        records.Exif,
        records.EngineFacts,
        records.InstanceRecord,
        records.Segmentation,
        records.OutputFile,
        records.FailureRecord,
    )
    parts = [HEADER.format(source="samjobs/segmentation/records.py") + "# A record\n"]
    parts.append("One JSON object: a file below `records/`, and a line of `results.jsonl` or `failures.jsonl`.\n")
    for model in models:
        comments = dict(re.findall(r"^    (\w+): .*?  # (.+)$", inspect.getsource(model), re.MULTILINE))
        rows = [f"| `{name}` | {comments.get(name, '')} |" for name in model.model_fields]
        parts.append(f"## {model.__name__}\n\n{inspect.cleandoc(model.__doc__ or '')}\n")
        parts.append("| field | meaning |\n|---|---|\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)


def main() -> None:
    """Write every page and every CRD."""
    for name, text in {**pages(), **crds.files()}.items():
        path = ROOT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        print(name)


if __name__ == "__main__":
    main()
