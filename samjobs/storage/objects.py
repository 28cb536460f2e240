"""Object stores by fsspec: S3, Google Cloud Storage, Azure Blob, and the memory of this process.

Credentials and endpoints come from `Access.options` or from where each client looks by itself. An object is put in
one request (or one multipart upload), so it is whole or not there. A "folder" is read whole into memory, not page by
page: some 0.5 kB per object for as long as that folder is listed.
"""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, cast

import fsspec

from samjobs.errors import ObjectMissing
from samjobs.storage.access import Access
from samjobs.storage.backend import Entry, Kind, Stamp, over_limit
from samjobs.storage.faults import reading, writing
from samjobs.storage.paths import decode_path, encode_path, scheme_of

_TOKENS = ("ETag", "etag", "versionId", "generation", "mtime", "last_modified", "LastModified", "created")


class Objects:
    """The Backend of one scheme."""

    def __init__(self, scheme: str, access: Access) -> None:
        self._scheme = scheme
        self._access = access
        self._lock = threading.Lock()
        self._made: Any = None

    def kind(self, uri: str) -> Kind | None:
        with reading(uri):
            try:
                info = self._fs.info(self._path(uri))
            except FileNotFoundError:
                return None
            return Kind.FILE if info["type"] == "file" else Kind.FOLDER

    def children(self, uri: str) -> list[Entry]:
        path = self._path(uri).rstrip("/")
        with reading(uri):
            found = self._fs.ls(path, detail=True)
        entries = []
        for info in found:
            name = info["name"].rstrip("/").rpartition("/")[2]
            if info["name"].strip("/") == path.strip("/") or not name:
                continue  # the marker object of the folder itself
            kind = Kind.FOLDER if info["type"] == "directory" or info["name"].endswith("/") else Kind.FILE
            encoded = encode_path(name)
            entries.append(Entry(encoded, f"{uri.rstrip('/')}/{encoded}", kind))
        return entries

    def stamp(self, uri: str) -> Stamp:
        info = self._info(uri)
        token = next((str(info[name]) for name in _TOKENS if info.get(name)), "")
        return Stamp(info.get("size"), token)

    def read(self, uri: str, limit: int) -> bytes:
        size = self._info(uri).get("size")
        if size is not None and size > limit:
            raise over_limit(uri, limit, size)
        with reading(uri):
            data = cast(bytes, self._fs.cat_file(self._path(uri)))
        if len(data) > limit:
            raise over_limit(uri, limit, len(data))
        return data

    def ranges(self, uri: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        path = self._path(uri)
        wanted = [(start, end) for start, end in ranges if end > start]  # S3 refuses an empty range
        with reading(uri):
            starts, ends = [start for start, _ in wanted], [end for _, end in wanted]
            got = iter(self._fs.cat_ranges([path] * len(wanted), starts, ends, on_error="raise") if wanted else [])
        return [next(got) if end > start else b"" for start, end in ranges]

    def open(self, uri: str) -> IO[bytes]:
        with reading(uri):
            return cast(IO[bytes], self._fs.open(self._path(uri), "rb"))

    def put(self, uri: str, data: bytes) -> None:
        with writing(uri, len(data), lambda: None):
            self._fs.pipe_file(self._path(uri), data)

    def put_file(self, uri: str, path: Path) -> None:
        with reading(encode_path(path)):
            size = path.stat().st_size
        with writing(uri, size, lambda: None):
            self._fs.put_file(str(path), self._path(uri))

    def size(self, uri: str) -> int | None:
        try:
            return cast("int | None", self._info(uri).get("size"))
        except ObjectMissing:
            return None

    def delete(self, uri: str) -> None:
        with writing(uri, 0, lambda: None):
            try:
                self._fs.rm_file(self._path(uri))
            except FileNotFoundError:
                return

    def free_bytes(self, uri: str) -> int | None:
        return None

    def close(self) -> None:
        """fsspec ends its sessions itself."""

    def _info(self, uri: str) -> dict[str, Any]:
        with reading(uri):
            info = cast(dict[str, Any], self._fs.info(self._path(uri)))
        if info["type"] != "file":
            raise ObjectMissing(f"{uri} is a folder, not a file")
        return info

    @property
    def _fs(self) -> Any:
        with self._lock:
            if self._made is None:
                # a listing cache would hide what other processes write, and grow without a limit
                options = {"use_listings_cache": False} | _patience(self._scheme, self._access)
                options |= self._access.options.get(self._scheme, {})
                self._made = fsspec.filesystem(self._scheme, **options)
            return self._made

    def _path(self, uri: str) -> str:
        """bucket/key as fsspec's clients take it: characters, not escapes."""
        scheme = scheme_of(uri)
        return decode_path(uri[len(f"{scheme}://") :])


def _patience(scheme: str, access: Access) -> dict[str, Any]:
    """The time-outs in the words of the scheme's client."""
    if scheme == "s3":
        return {
            "config_kwargs": {
                "connect_timeout": access.connect_timeout_s,
                "read_timeout": access.read_timeout_s,
            }
        }
    if scheme == "gs":
        return {"timeout": access.total_timeout_s}
    if scheme in ("az", "abfs"):
        return {"connection_timeout": access.connect_timeout_s, "read_timeout": access.read_timeout_s}
    return {}
