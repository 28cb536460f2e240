"""Which files below a prefix are images, in which order, and what was passed over.

Folders are read one at a time, as the caller goes on, so memory holds one folder's names per level and not the tree.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from samjobs.names import OUTPUT_MARK
from samjobs.storage.backend import Entry, Kind
from samjobs.storage.paths import ignored_because, is_image_name, is_unread_picture, suffix_of


@dataclass(frozen=True)
class Listed:
    """One image: its stored uri and its path below the prefix (the key)."""

    uri: str
    key: str


def walk(
    prefix: str,
    children: Callable[[str], list[Entry]],
    is_output: Callable[[str], bool],
    ignored: Counter[str],
) -> Iterator[Listed]:
    """Depth first; in each folder files and folders together, in the order of their names' characters.

    `ignored` counts what was passed over, by reason, as the walk goes on: `hidden`, `junk`, `not an image`,
    `unsupported picture (.heic)` (or another suffix), `symlinked folder`, `not a file`, `output`. A folder that is
    passed over counts once, whatever lies in it.
    """
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
            below = children(entry.uri)
            if any(one.name == OUTPUT_MARK for one in below):  # of an earlier job: its overlays are no photos
                ignored["output"] += 1
            else:
                levels.append((f"{path}{entry.name}/", _sorted(below)))
        else:
            yield Listed(entry.uri, path + entry.name)


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
    if is_image_name(entry.name):
        return None
    return f"unsupported picture ({suffix_of(entry.name)})" if is_unread_picture(entry.name) else "not an image"
