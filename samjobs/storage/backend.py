"""What every kind of storage can do, and the values that pass between it and the rest of this package.

Backends speak stored uris, raise `samjobs.errors` only, retry nothing and judge no file names.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO, Protocol

from samjobs.errors import ImageError
from samjobs.storage.paths import redact


class Kind(StrEnum):
    """What a name in a folder stands for."""

    FILE = "file"
    FOLDER = "folder"
    LINKED_FOLDER = "symlinked folder"
    OTHER = "not a file"  # a socket, a pipe, a device


@dataclass(frozen=True)
class Entry:
    """One name in a folder, written as `encode_path` does."""

    name: str
    uri: str
    kind: Kind


@dataclass(frozen=True)
class Stamp:
    """What is known of a file without reading it; equal stamps mean that it is very likely unchanged."""

    size: int | None  # bytes
    token: str  # etag or version of an object, mtime in ns of a local file; "" where the storage tells nothing


class Backend(Protocol):
    """One kind of storage."""

    def kind(self, uri: str) -> Kind | None:
        """What lies at `uri`; None for nothing. A symlink is what it points to."""

    def children(self, uri: str) -> list[Entry]:
        """The members of one folder, in any order."""

    def stamp(self, uri: str) -> Stamp:
        """Size and change token of a file."""

    def read(self, uri: str, limit: int) -> bytes:
        """All bytes of a file; ImageError when there are more than `limit`, without holding much more."""

    def ranges(self, uri: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """The bytes of each (start, end)."""

    def open(self, uri: str) -> IO[bytes]:
        """A binary stream from the start, buffered; the caller closes it."""

    def put(self, uri: str, data: bytes) -> None:
        """Write a file whole or not at all, over what was there."""

    def put_file(self, uri: str, path: Path) -> None:
        """The same from a local file."""

    def size(self, uri: str) -> int | None:
        """Bytes of a file; None when it does not exist."""

    def delete(self, uri: str) -> None:
        """Remove a file; nothing happens when there is none."""

    def free_bytes(self, uri: str) -> int | None:
        """What may still be written there; None where nobody can tell."""

    def close(self) -> None:
        """End connections."""


def over_limit(uri: str, limit: int, size: int | None = None) -> ImageError:
    """The error of a file that is too large to be read into memory."""
    has = f"has {size:,} bytes" if size is not None else "has more bytes"
    return ImageError(f"{redact(uri)} {has}, over the limit of {limit:,} bytes; raise the limit or make it smaller")
