"""The one door to files: every read and write of samjobs goes through a Storage.

It picks the backend by the uri's scheme, retries what may pass, and gives nothing but `samjobs.errors`. Any number of
threads may use one Storage at once.
"""

import copy
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Self, TypeVar

from samjobs.errors import InvalidInput, ObjectMissing, StorageUnavailable
from samjobs.storage import hashes, paths
from samjobs.storage.access import Access
from samjobs.storage.backend import Backend, Kind, Stamp
from samjobs.storage.faults import reading
from samjobs.storage.guard import check_access
from samjobs.storage.listing import Listed, walk
from samjobs.storage.local import LocalFiles

Result = TypeVar("Result")


class Storage:
    """Files by stored uri (`paths.to_uri` makes one from what a person writes).

    Every method may raise, beside what it names itself:
        ObjectMissing: nothing lies at the uri.
        AccessDenied: the storage, or `access`, refuses it.
        StorageUnavailable: no answer, after `access.retries` more tries.
        InvalidInput: the scheme is unknown, or its library is not installed.
    """

    def __init__(self, access: Access | None = None) -> None:
        self.access = access or Access()
        check_access(self.access)
        self._lock = threading.Lock()
        self._backends: dict[str, Backend] = {}
        self._tenant: str | None = None

    def within(self, tenant: str) -> Self:
        """The same storage for a tenant's files: what may not be theirs is refused before it is asked for.

        Of a storage without `access.fence` it is the same to everybody: that of a person's own machine.

        Raises (every method of it):
            AccessDenied: the place is not the tenant's.
        """
        if self.access.fence is None:
            return self
        fenced = copy.copy(self)  # with the same connections
        fenced._tenant = tenant
        return fenced

    def check(self, uri: str) -> None:
        """Refuse a place that may not be the tenant's.

        Raises:
            AccessDenied: naming it and the remedy.
        """
        if self.access.fence is not None and self._tenant is not None:
            self.access.fence.check(uri, self._tenant)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connections. A Storage that is used again opens new ones."""
        with self._lock:
            for backend in self._backends.values():
                backend.close()
            self._backends.clear()

    def list(self, prefix: str, *, exclude: str | None = None, ignored: Counter[str] | None = None) -> Iterator[Listed]:
        """The images below `prefix`, lazily, in a stable order: depth first, each folder by name.

        The rules: a file is an image by its extension (`paths.IMAGE_SUFFIXES`, in any case). Names with a leading dot
        and junk (Thumbs.db, .DS_Store, desktop.ini, ._*, __MACOSX, @eaDir) are passed over, folders with all that is in
        them. Symlinks to files are followed, symlinks to folders are not (no loops, nothing twice); a broken symlink is
        listed, and fails later as an image. A prefix that names one file lists that file, whatever its name.

        Args:
            exclude: uri of the output folder, passed over when it lies below the prefix.
            ignored: counts what is passed over, by the reasons of `listing.walk`, as the caller goes on.

        Raises:
            ObjectMissing: the prefix does not exist.
            InvalidInput: the output folder is the prefix itself, so that overlays would become inputs.
        """
        kind = self._retrying(lambda: self._at(prefix).kind(prefix))
        if kind is None:
            raise ObjectMissing(f"{paths.redact(prefix)} does not exist")
        if kind is not Kind.FOLDER:
            return iter([Listed(prefix, paths.own_key(prefix).rpartition("/")[2])])
        output = None if exclude is None else _identity(exclude)
        if output is not None and output == _identity(prefix):
            raise InvalidInput(
                f"{paths.redact(prefix)} is both input and output: results would be taken for images; "
                "choose another output folder"
            )
        backend = self._at(prefix)
        return walk(
            prefix.rstrip("/") or "/",
            lambda folder: self._retrying(lambda: backend.children(folder)),
            lambda folder: output is not None and _identity(folder) == output,
            Counter() if ignored is None else ignored,
        )

    def stamp(self, uri: str) -> Stamp:
        """Size and change token of a file, without reading it."""
        return self._retrying(lambda: self._at(uri).stamp(uri))

    def read(self, uri: str, limit_bytes: int) -> bytes:
        """All bytes of a file.

        Raises:
            ImageError: there are more than `limit_bytes`, or it is no regular file.
        """
        return self._retrying(lambda: self._at(uri).read(uri, limit_bytes))

    def open(self, uri: str) -> IO[bytes]:
        """A binary stream for reading a long file bit by bit; a web file is first loaded to a temporary one."""
        return self._retrying(lambda: self._at(uri).open(uri))

    def read_line(self, uri: str, file: IO[bytes], limit_bytes: int) -> bytes:
        """The next line of an opened file with its line end, cut at `limit_bytes`; empty at the end."""
        with reading(uri):
            return file.readline(limit_bytes)

    def quick_hash(self, uri: str) -> str:
        """`hashes.quick_hash` of a file, reading at most 20 KiB of it."""
        backend = self._at(uri)

        def ask() -> str:
            size = backend.stamp(uri).size
            if size is None:
                raise StorageUnavailable(f"{paths.redact(uri)}: the server does not tell its size")
            return hashes.hash_samples(size, backend.ranges(uri, hashes.sample_ranges(size)))

        return self._retrying(ask)

    def put(self, uri: str, data: bytes) -> None:
        """Write a file whole or not at all, over what was there; folders are made as needed.

        Raises:
            OutputUnwritable: disk full, read-only, over quota, or not permitted.
        """
        self._retrying(lambda: self._at(uri).put(uri, data))

    def put_file(self, uri: str, path: Path) -> None:
        """`put` from a local file, without holding it in memory."""
        self._retrying(lambda: self._at(uri).put_file(uri, path))

    def size(self, uri: str) -> int | None:
        """Bytes of a file; None when it does not exist."""
        return self._retrying(lambda: self._at(uri).size(uri))

    def delete(self, uri: str) -> None:
        """Remove a file, if it is there."""
        self._retrying(lambda: self._at(uri).delete(uri))

    def free_bytes(self, uri: str) -> int | None:
        """What the disk below `uri` (which need not exist yet) still takes; None for anything but local disks."""
        return self._at(uri).free_bytes(uri)

    def _at(self, uri: str) -> Backend:
        self.check(uri)
        scheme = paths.scheme_of(uri)
        with self._lock:
            name = "web" if scheme in paths.WEB_SCHEMES else scheme or ""
            if name not in self._backends:
                self._backends[name] = self._make(scheme, uri)
            return self._backends[name]

    def _make(self, scheme: str | None, uri: str) -> Backend:
        if scheme is None:
            return LocalFiles()
        # Imported here: aiohttp and fsspec take a fifth of a second, which every command would pay.
        if scheme in paths.WEB_SCHEMES:
            from samjobs.storage.web import WebFiles

            return WebFiles(self.access)
        if scheme in paths.OBJECT_SCHEMES:
            from samjobs.storage.objects import Objects

            return Objects(scheme, self.access)
        raise InvalidInput(f"{paths.redact(uri)}: scheme {scheme} is not known here")

    def _retrying(self, ask: Callable[[], Result]) -> Result:
        for pause in self._pauses():
            try:
                return ask()
            except StorageUnavailable:
                time.sleep(pause)
        return ask()

    def _pauses(self) -> Iterator[float]:
        return (self.access.backoff_s * 2**number for number in range(self.access.retries))


def _identity(folder: str) -> str:
    """One spelling per folder: locally where it really lies."""
    if paths.scheme_of(folder) is None:
        return os.path.realpath(paths.decode_path(folder))
    return folder.rstrip("/")
