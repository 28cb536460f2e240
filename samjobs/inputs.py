"""From a spec's images to one (key, uri, prompts) per image, lazily.

A prefix is listed, a list is taken as it is, a manifest is read line by line, so a million lines need no more memory
than a note of which keys are taken: about 150 bytes a line. Nothing is opened here but the manifest: an image that does
not exist fails later, as that image. What `--boxes` and `--points` files hold is `prompt_files.py`'s matter.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from samjobs import spec
from samjobs.errors import InvalidInput
from samjobs.spec import Mode, Prompts
from samjobs.storage import Storage, redact, to_uri
from samjobs.storage.paths import WEB_SCHEMES, own_key, parent_of, scheme_of, web_part, with_mark

MAX_LINE_BYTES = 1 << 20
_SHORT = ("text", "boxes", "points")


@dataclass(frozen=True)
class NewImage:
    """One image of a job: where its results go below the output (`key`), where it lies, its own prompts."""

    key: str  # unique in its job
    uri: str
    prompts: Prompts | None = None  # None: the job's


def expand(
    images: spec.Images,
    mode: Mode,
    storage: Storage,
    exclude: str | None = None,
    *,
    ignored: Counter[str] | None = None,
) -> Iterator[NewImage]:
    """The images that a spec names, in a stable order.

    The key is the path below the prefix, below the manifest's folder, or below the working folder for a list; for an
    image elsewhere it is its host (or bucket) and path, for a local one its whole path without the leading slash.
    Two images that would share a key get a hash in their names.

    Args:
        exclude: stored uri of the output folder.
        ignored: counts what a prefix's listing passed over, by reason.

    Raises:
        InvalidInput: naming the manifest and its line, or the entry of the list; also for an image named twice.
        ObjectMissing: the prefix or the manifest does not exist.
        AccessDenied, StorageUnavailable: as `Storage` raises them.
    """
    if images.prefix is not None:
        for listed in storage.list(to_uri(images.prefix), exclude=exclude, ignored=ignored):
            yield NewImage(listed.key, listed.uri, None)
    elif images.manifest is not None:
        manifest = to_uri(images.manifest)
        yield from _keyed(_manifest_items(manifest, storage), parent_of(manifest), mode)
    else:
        items = ((f"images.list[{index}]", item) for index, item in enumerate(images.list or ()))
        yield from _keyed(items, to_uri("."), mode)


def check_stems(images: Iterable[NewImage]) -> Iterator[NewImage]:
    """The same images, when no two of one folder differ by their extension alone: YOLO names labels by the stem.

    Raises:
        InvalidInput: naming both.
    """
    suffixes: dict[int, str] = {}
    for image in images:
        path = PurePosixPath(image.key)
        earlier = suffixes.setdefault(_digest(str(path.with_suffix(""))), path.suffix)
        if earlier != path.suffix:
            raise InvalidInput(
                f"{path.with_suffix(earlier)} and {path} would share one yolo-seg file: "
                "rename one, or leave out the format yolo-seg"
            )
        yield image


def check_classes(images: Iterable[NewImage], job: spec.JobSpec) -> Iterator[NewImage]:
    """The same images, when every label of their own is a class of the job: YOLO's class numbers must mean the same in
    every image.

    Raises:
        InvalidInput: naming the image, the label and the remedy.
    """
    classes = set(job.classes())
    for image in images:
        own = image.prompts.labels() if image.prompts is not None else ()
        for label in own:
            if label not in classes:
                raise InvalidInput(
                    f"{image.key}: label {label!r} is no class of this job: yolo-seg needs all class names, in the "
                    "order of their numbers, as output.classes (--class on the command line)"
                )
        yield image


def _keyed(items: Iterable[tuple[str, spec.ImageItem]], base: str, mode: Mode) -> Iterator[NewImage]:
    taken: dict[int, int] = {}  # hash of key → hash of uri
    for where, item in items:
        if item.prompts is not None:
            _check(item.prompts, mode, where)
        try:
            uri = to_uri(item.image, base)
        except InvalidInput as error:
            raise InvalidInput(f"{where}: image: {error}") from None
        key, mark = _key(uri, base), _digest(uri)
        if taken.get(_digest(key), mark) != mark:
            key = with_mark(key, uri)
        if _digest(key) in taken:
            raise InvalidInput(
                f"{where}: image {redact(item.image)} was named before: give all its prompts in one entry"
            )
        taken[_digest(key)] = mark
        yield NewImage(key, uri, item.prompts)


def _check(prompts: Prompts, mode: Mode, where: str) -> None:
    if prompts.empty:
        raise InvalidInput(
            f"{where}: prompts is empty: mode {mode.value} needs {spec.NEEDED[mode]}; "
            "leave prompts out to use the job's"
        )
    try:
        spec.check_prompts(prompts, mode)
    except ValueError as error:
        raise InvalidInput(f"{where}: {error}") from None


def _key(uri: str, base: str) -> str:
    below = base.rstrip("/") + "/"
    if not uri.startswith(below) or "?" in uri[len(below) :]:
        return own_key(uri)
    rest = uri[len(below) :]
    if scheme_of(uri) in WEB_SCHEMES:
        return "/".join(web_part(part) for part in rest.split("/") if part)
    return rest


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8).digest(), "little")


def _manifest_items(manifest: str, storage: Storage) -> Iterator[tuple[str, spec.ImageItem]]:
    name = redact(manifest)
    for number, line in _lines(manifest, storage):
        where = f"{name}, line {number}"
        yield where, spec.parse(spec.ImageItem, _long_form(json_object(line, where), where), where)


def _lines(manifest: str, storage: Storage) -> Iterator[tuple[int, bytes]]:
    """Lines that hold something, with their numbers from 1; without a byte order mark and line ends."""
    with storage.open(manifest) as file:
        number = 0
        while line := storage.read_line(manifest, file, MAX_LINE_BYTES + 1):
            number += 1
            if len(line) > MAX_LINE_BYTES:
                raise InvalidInput(
                    f"{redact(manifest)}, line {number}: longer than {MAX_LINE_BYTES:,} bytes; "
                    "a manifest is JSON Lines, one image a line"
                )
            line = line.removeprefix(b"\xef\xbb\xbf").strip() if number == 1 else line.strip()
            if line:
                yield number, line


def json_object(line: bytes, where: str) -> dict[str, Any]:
    """One JSON object from its bytes.

    Raises:
        InvalidInput: naming `where` and the fault.
    """
    try:
        value = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{where}: not UTF-8 at byte {error.start}: save the file as UTF-8") from None
    except (ValueError, RecursionError) as error:  # ValueError: also a number of thousands of digits
        raise InvalidInput(f"{where}: no JSON: {error}") from None
    if not isinstance(value, dict):
        raise InvalidInput(f'{where}: a JSON object like {{"image": "a.jpg"}} is needed, not {type(value).__name__}')
    return value


def _long_form(data: dict[str, Any], where: str) -> dict[str, Any]:
    """{"image", "text", "boxes", "points"} as {"image", "prompts"}."""
    short = {name: data[name] for name in _SHORT if name in data}
    if not short:
        return data
    if "prompts" in data:
        raise InvalidInput(f"{where}: give either prompts or {', '.join(short)}, not both")
    return {name: value for name, value in data.items() if name not in _SHORT} | {"prompts": short}
