"""Jobs from a file: YAML (several documents are several jobs), JSON, or JSON Lines (`.jsonl`)."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from samjobs.errors import InvalidInput
from samjobs.inputs import json_object
from samjobs.places import settled
from samjobs.spec import JobSpec, parse

MAX_BYTES = 16 << 20


def read(name: str) -> list[JobSpec]:
    """Every job of the file, each valid; `-` is standard input.

    Raises:
        InvalidInput: naming the file, the place in it and the fault.
    """
    raw = _bytes(name)
    specs = []
    for where, data in _lines(raw, name) if name.endswith(".jsonl") else _documents(raw, name):
        spec = parse(JobSpec, data, where)
        try:
            settled(spec)
        except InvalidInput as error:
            raise InvalidInput(f"{where}: {error}") from None
        specs.append(spec)
    if not specs:
        raise InvalidInput(f"{name}: no job in it; see docs/reference/job.md for what to write")
    return specs


def _bytes(name: str) -> bytes:
    try:
        if name == "-":
            raw = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with Path(name).open("rb") as file:
                raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InvalidInput(f"--file {name}: {error.strerror}; give a YAML or JSON file, or -") from None
    if len(raw) > MAX_BYTES:
        raise InvalidInput(f"--file {name}: larger than {MAX_BYTES:,} bytes; images go into a manifest")
    return raw


def _lines(raw: bytes, name: str) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(raw.splitlines(), 1):
        if line.strip():
            yield (where := f"{name}, line {number}"), json_object(line, where)


def _documents(raw: bytes, name: str) -> Iterator[tuple[str, Any]]:
    try:
        yield name, json.loads(raw)
        return
    except (ValueError, RecursionError):  # not JSON: tabs, which YAML refuses, are not the reason then
        pass
    import yaml  # here, because it takes a while and nothing else needs it

    try:
        documents = [document for document in yaml.safe_load_all(raw) if document is not None]
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{name}: neither JSON nor YAML: {' '.join(str(error).split())}") from None
    for number, document in enumerate(documents, 1):
        yield (name if len(documents) == 1 else f"{name}, document {number}"), document
