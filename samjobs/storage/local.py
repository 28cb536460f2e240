"""Files of this machine, by `os`: folders read lazily, files replaced whole.

A file is written under a hidden name in its own folder and then renamed, so a reader sees the old bytes or the new
ones; a process that is killed may leave `.samjobs-*.part` behind, which listings pass over. Two processes that write
the same file: the last one wins.
"""

import contextlib
import os
import shutil
import stat
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from samjobs.errors import ImageError, InvalidInput
from samjobs.storage.backend import Entry, Kind, Stamp, over_limit
from samjobs.storage.faults import reading, writing
from samjobs.storage.paths import decode_path, encode_path

_COPY_BYTES = 1 << 20


class LocalFiles:
    """The Backend of plain paths."""

    def kind(self, uri: str) -> Kind | None:
        with reading(uri):
            try:
                return _kind(self._path(uri).stat().st_mode)
            except (FileNotFoundError, NotADirectoryError):
                return None

    def children(self, uri: str) -> list[Entry]:
        base = uri.rstrip("/")
        with reading(uri), os.scandir(self._path(uri)) as found:
            return [_entry(base, item) for item in found]

    def stamp(self, uri: str) -> Stamp:
        with reading(uri):
            status = self._path(uri).stat()
            return Stamp(status.st_size, str(status.st_mtime_ns))

    def read(self, uri: str, limit: int) -> bytes:
        with self.open(uri) as file, reading(uri):
            size = os.fstat(file.fileno()).st_size
            if size > limit:
                raise over_limit(uri, limit, size)
            data = file.read(limit + 1)  # the file may still be growing
            if len(data) > limit:
                raise over_limit(uri, limit)
            return data

    def ranges(self, uri: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        with self.open(uri) as file, reading(uri):
            return [os.pread(file.fileno(), end - start, start) for start, end in ranges]

    def open(self, uri: str) -> IO[bytes]:
        path = self._path(uri)
        with reading(uri):
            # O_NONBLOCK: opening a pipe would otherwise wait for a writer for ever
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                os.close(descriptor)
                raise ImageError(f"{uri} is not a regular file")
            return os.fdopen(descriptor, "rb")

    def put(self, uri: str, data: bytes) -> None:
        self._replace(uri, len(data), lambda file: file.write(data))

    def put_file(self, uri: str, path: Path) -> None:
        with reading(encode_path(path)):
            source = path.open("rb")
        with source:
            size = os.fstat(source.fileno()).st_size
            self._replace(uri, size, lambda file: shutil.copyfileobj(source, file, _COPY_BYTES))

    def size(self, uri: str) -> int | None:
        with reading(uri):
            try:
                return self._path(uri).stat().st_size
            except (FileNotFoundError, NotADirectoryError):
                return None

    def delete(self, uri: str) -> None:
        path = self._path(uri)
        with writing(uri, 0, lambda: _free_bytes(path)):
            path.unlink(missing_ok=True)

    def free_bytes(self, uri: str) -> int | None:
        return _free_bytes(self._path(uri))

    def close(self) -> None:
        """Nothing is kept open."""

    def _replace(self, uri: str, size: int, fill: Callable[[IO[bytes]], object]) -> None:
        path = self._path(uri)
        temporary = path.with_name(f".samjobs-{uuid.uuid4().hex}.part")
        with writing(uri, size, lambda: _free_bytes(path)):
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                with temporary.open("xb") as file:
                    fill(file)
                temporary.replace(path)
            except BaseException:
                with contextlib.suppress(OSError):
                    temporary.unlink()
                raise

    def _path(self, uri: str) -> Path:
        """The path of a stored uri."""
        text = decode_path(uri)
        if "\x00" in text:
            raise InvalidInput(f"{uri} holds a NUL, which no file name can")
        return Path(text)


def _kind(mode: int) -> Kind:
    if stat.S_ISREG(mode):
        return Kind.FILE
    return Kind.FOLDER if stat.S_ISDIR(mode) else Kind.OTHER


def _entry(base: str, item: os.DirEntry[str]) -> Entry:
    name = encode_path(item.name)
    uri = f"{base}/{name}"
    try:
        kind = _kind(item.stat().st_mode)
    except OSError:
        # a broken symlink: listed, so that it fails as an image and is not silently left out
        return Entry(name, uri, Kind.FILE)
    if kind is Kind.FOLDER and item.is_symlink():
        kind = Kind.LINKED_FOLDER
    return Entry(name, uri, kind)


def _free_bytes(path: Path) -> int | None:
    for folder in (path, *path.parents):
        with contextlib.suppress(OSError):
            return shutil.disk_usage(folder).free
    return None
