"""Boxes and points from a file of their own, and which of the listed images they belong to.

The file is CSV with a header, JSON Lines, or one JSON object from image to boxes or points. It is held in memory
whole: it is written by a person or exported by a labelling tool. A manifest has no such limit.
"""

import csv
import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from samjobs import memory
from samjobs.errors import ImageError, InvalidInput
from samjobs.inputs import NewImage, json_object
from samjobs.spec import BoxPrompt, ClickPrompt, Model, Prompts, parse
from samjobs.storage import Storage, redact, to_uri

MAX_FILE_BYTES = 256 << 20
_GROWTH = 20  # bytes of memory for one of the file, at most
_TRUE = frozenset({"1", "true", "yes", "y", "+", ""})
_FALSE = frozenset({"0", "false", "no", "n", "-"})


@dataclass(frozen=True)
class Paired:
    """Images with the prompts of their entries, and how many listed images had none."""

    images: list[NewImage]
    left_out: int


class _BoxLine(Model):
    image: str
    boxes: tuple[Any, ...]


class _PointLine(Model):
    image: str
    points: tuple[Any, ...]


def read_boxes(path: str, storage: Storage) -> dict[str, Prompts]:
    """Boxes by image, as written in the file.

    CSV columns: image, x0, y0, x1, y1, and optionally label and positive (1/0, true/false). JSON Lines:
    {"image": …, "boxes": [[x0, y0, x1, y1], …]}. JSON: {image: [[x0, y0, x1, y1], …], …}. Pixels of the upright photo.

    Raises:
        InvalidInput: naming the file, its line or image, and the fault.
        ObjectMissing, AccessDenied, StorageUnavailable: as `Storage` raises them.
    """
    found: dict[str, list[Any]] = {}
    for where, image, value in _boxes(path, storage):
        found.setdefault(image, []).append(parse(BoxPrompt, value, where))
    return {image: _prompts(path, image, boxes=boxes) for image, boxes in found.items()}


def read_points(path: str, storage: Storage) -> dict[str, Prompts]:
    """Clicks by image, as written in the file.

    CSV columns: image, x, y, and optionally positive, object and label. Rows of one image with the same object are the
    clicks on one object; without that column every row is an object of its own. JSON Lines: {"image": …, "points":
    [[[x, y], [x, y, 0]], …]}, one list of clicks per object. JSON: {image: [[[x, y], …], …], …}.

    Raises:
        InvalidInput: naming the file, its line or image, and the fault.
        ObjectMissing, AccessDenied, StorageUnavailable: as `Storage` raises them.
    """
    name, text = redact(path), _text(path, storage)
    rows = _csv_rows(name, text, ("image", "x", "y"), ("positive", "object", "label"))
    objects = _clicked(rows) if rows is not None else _from_json(name, text, "points", _PointLine)
    found: dict[str, list[ClickPrompt]] = {}
    for where, image, value in objects:
        found.setdefault(image, []).append(parse(ClickPrompt, value, where))
    return {image: _prompts(path, image, points=points) for image, points in found.items()}


def pair(images: Iterable[NewImage], prompts: dict[str, Prompts]) -> Paired:
    """Give each entry to the listed image that it names: by key or path, or else by a file name that one image has.

    The images come in the order of the entries.

    Raises:
        InvalidInput: an entry names no listed image, or a file name that several have, or two entries name one image.
    """
    by_uri = {to_uri(entry): entry for entry in prompts}
    exact: dict[str, NewImage] = {}
    named: dict[str, list[NewImage]] = {}
    total = 0
    for image in images:
        total += 1
        name = image.key.rpartition("/")[2]
        entry = image.key if image.key in prompts else by_uri.get(image.uri)
        if entry is not None:
            exact[entry] = image
        elif name in prompts and len(named.setdefault(name, [])) < 2:  # two are enough to say that it is ambiguous
            named[name].append(image)
    found = [_settled(entry, exact.get(entry), named.get(entry, [])) for entry in prompts]
    return Paired(
        [NewImage(image.key, image.uri, prompts[entry]) for entry, image in zip(prompts, found, strict=True)],
        total - len(found),
    )


def _settled(entry: str, exact: NewImage | None, named: list[NewImage]) -> NewImage:
    """The image that an entry means: the one of that key or path before those of that file name."""
    if exact is not None:
        return exact
    if len(named) > 1:
        raise InvalidInput(
            f"{entry} fits {named[0].key} and {named[1].key}: write the path below the input folder in its place"
        )
    if not named:
        raise InvalidInput(f"{entry} is not among the images, or named twice: write its path below the input folder")
    return named[0]


def _boxes(path: str, storage: Storage) -> Iterator[tuple[str, str, Any]]:
    name, text = redact(path), _text(path, storage)
    rows = _csv_rows(name, text, ("image", "x0", "y0", "x1", "y1"), ("label", "positive"))
    if rows is None:
        yield from _from_json(name, text, "boxes", _BoxLine)
        return
    for where, row in rows:
        corners = [_number(row, column, where) for column in ("x0", "y0", "x1", "y1")]
        data = {"xyxy": corners, "positive": _flag(row, where), "label": row.get("label") or None}
        yield where, row["image"], data


def _clicked(rows: Iterable[tuple[str, dict[str, str]]]) -> Iterator[tuple[str, str, Any]]:
    """One value per object: rows that share image and object are its clicks, in the file's order."""
    objects: dict[tuple[str, str], tuple[str, str, dict[str, Any]]] = {}
    for number, (where, row) in enumerate(rows):
        click = {"x": _number(row, "x", where), "y": _number(row, "y", where), "positive": _flag(row, where)}
        key = (row["image"], f"object {row['object']}" if row.get("object") else f"row {number}")
        _, _, data = objects.setdefault(key, (where, row["image"], {"clicks": [], "label": None}))
        data["clicks"].append(click)
        data["label"] = data["label"] or row.get("label") or None
    yield from objects.values()


def _text(path: str, storage: Storage) -> str:
    room = memory.room()
    limit = MAX_FILE_BYTES if room is None else min(MAX_FILE_BYTES, room // _GROWTH)
    try:
        raw = storage.read(to_uri(path), limit)
    except ImageError as error:  # larger, or no regular file
        raise InvalidInput(f"{error}: give a manifest, which is read line by line") from None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{redact(path)}: not UTF-8 at byte {error.start}: save the file as UTF-8") from None


def _csv_rows(
    name: str, text: str, needed: tuple[str, ...], optional: tuple[str, ...]
) -> Iterator[tuple[str, dict[str, str]]] | None:
    """The rows with their places; None when the file is JSON."""
    if text.lstrip()[:1] in ("{", "["):
        return None
    reader = csv.DictReader(io.StringIO(text, newline=""), skipinitialspace=True)
    header = [column.strip() for column in reader.fieldnames or ()]
    missing = [column for column in needed if column not in header]
    unknown = [column for column in header if column not in needed + optional]
    if missing or unknown:
        fault = f"lacks {', '.join(missing)}" if missing else f"has unknown columns {', '.join(unknown)}"
        raise InvalidInput(f"{name}, line 1: the header {fault}; it is {','.join(needed)}[,{'][,'.join(optional)}]")
    reader.fieldnames = header
    return _rows(name, reader)


def _rows(name: str, reader: "csv.DictReader[str]") -> Iterator[tuple[str, dict[str, str]]]:
    try:
        for row in reader:
            yield _row(f"{name}, line {reader.line_num}", row)
    except csv.Error as error:
        raise InvalidInput(f"{name}, line {reader.line_num + 1}: {error}; a quote may lack its other end") from None


def _row(where: str, row: "dict[str | Any, str | Any]") -> tuple[str, dict[str, str]]:
    if None in row:
        raise InvalidInput(f"{where}: more values than columns; put a name with commas in quotes")
    values = {column: (value or "").strip() for column, value in row.items() if column != "image"}
    image = row.get("image") or ""
    if not image:
        raise InvalidInput(f"{where}: image is empty")
    return where, values | {"image": image}


def _number(row: dict[str, str], column: str, where: str) -> float:
    try:
        return float(row[column])
    except ValueError:
        raise InvalidInput(f"{where}: {column} is {row[column]!r}, not a number") from None


def _flag(row: dict[str, str], where: str) -> bool:
    value = row.get("positive", "").lower()
    if value not in _TRUE | _FALSE:
        raise InvalidInput(f"{where}: positive is {value!r}; write 1 or 0")
    return value in _TRUE


def _from_json(name: str, text: str, field: str, line: type[Model]) -> Iterator[tuple[str, str, Any]]:
    for where, image, values in _json_entries(name, text, field, line):
        if not isinstance(values, list | tuple):
            raise InvalidInput(f"{where}: a list of {field} is needed, not {type(values).__name__}")
        for index, value in enumerate(values):
            yield f"{where}: {field}[{index}]", image, value


def _json_entries(name: str, text: str, field: str, line: type[Model]) -> Iterator[tuple[str, str, Any]]:
    lines = [(number, part) for number, part in enumerate(text.split("\n"), 1) if part.strip()]
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError) as error:
        if len(lines) == 1 or not _is_object(lines[0][1]):
            raise InvalidInput(f"{name}: no JSON: {error}") from None
        whole = None
    if isinstance(whole, dict) and not ("image" in whole and field in whole):
        yield from ((f"{name}, {image}", image, values) for image, values in whole.items())
    elif isinstance(whole, list):
        raise InvalidInput(f"{name}: one object {{image: {field}}} or JSON Lines is needed, not a list")
    else:
        for number, part in lines:
            where = f"{name}, line {number}"
            entry = parse(line, json_object(part.encode(), where), where)
            yield where, entry.image, getattr(entry, field)  # type: ignore[attr-defined]


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _prompts(path: str, image: str, **fields: list[Any]) -> Prompts:
    return parse(Prompts, {name: tuple(values) for name, values in fields.items()}, f"{redact(path)}, {image}")
