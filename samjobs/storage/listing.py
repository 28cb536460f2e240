"""Which files below a prefix are images, in which order, and what was passed over.

Folders are read one at a time, as the caller goes on, so memory holds one folder's names per level and not the tree.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Self

from samjobs.storage.backend import Entry, Kind
from samjobs.storage.paths import ignored_because, is_image_name


@dataclass(frozen=True)
class Listed:
    """One image: its stored uri, its path below the prefix (the key), and its bytes where the storage tells."""

    uri: str
    key: str
    size: int | None


class Listing:
    """The images below a prefix, as an iterator; `ignored` counts what was passed over, by reason, as it goes.

    Reasons: `hidden`, `junk`, `not an image`, `symlinked folder`, `not a file`, `output`. A folder that is passed over
    counts once, whatever lies in it.
    """

    def __init__(self, images: Iterator[Listed], ignored: Counter[str]) -> None:
        self._images = images
        self.ignored = ignored

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Listed:
        return next(self._images)


def walk(
    prefix: str,
    children: Callable[[str], list[Entry]],
    is_output: Callable[[str], bool],
    ignored: Counter[str],
) -> Iterator[Listed]:
    """Depth first; in each folder files and folders together, in the order of their names' characters."""
    levels = [("", _sorted(children(prefix)))]
    while levels:
        path, entries = levels[-1]
        entry = next(entries, None)
        if entry is None:
            levels.pop()
            continue
        reason = _passed_over(entry, is_output)
        if reason is not None:
            ignored[reason] += 1
        elif entry.kind is Kind.FOLDER:
            levels.append((f"{path}{entry.name}/", _sorted(children(entry.uri))))
        else:
            yield Listed(entry.uri, path + entry.name, entry.size)


def _sorted(entries: list[Entry]) -> Iterator[Entry]:
    return iter(sorted(entries, key=lambda entry: (entry.name, entry.kind)))


def _passed_over(entry: Entry, is_output: Callable[[str], bool]) -> str | None:
    reason = ignored_because(entry.name)
    if reason is not None:
        return reason
    if entry.kind is Kind.FOLDER:
        return "output" if is_output(entry.uri) else None
    if entry.kind is not Kind.FILE:
        return entry.kind.value
    return None if is_image_name(entry.name) else "not an image"
