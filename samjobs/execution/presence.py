"""Is the process that claimed a shard still alive, on this machine?

Each process holds a lock on a small file named after its incarnation, next to the SQLite file. The kernel drops the
lock however the process ends, so a killed run is known for dead at once and the next one need not wait for its lease
to run out. `alone` lets one process at a time do a thing. Not promised: anything about processes on other machines;
there the lease decides.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self
from uuid import UUID


def locks_folder(database: Path) -> Path:
    """Where the locks of the processes at work on a SQLite file lie: beside it."""
    return database.with_name(database.name + ".processes")


class Presence:
    """This process's lock, while in the `with` block, and a look at those of others."""

    def __init__(self, folder: Path, incarnation: UUID) -> None:
        self._folder, self._incarnation = folder, incarnation
        self._lock: int | None = None

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(self._path(self._incarnation), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._lock is not None
        self._path(self._incarnation).unlink(missing_ok=True)
        os.close(self._lock)

    def alive(self, incarnation: UUID) -> bool:
        """Whether the process of `incarnation` still runs."""
        if incarnation == self._incarnation:
            return True
        try:
            lock = os.open(self._path(incarnation), os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            # Shared: two who ask at the same time must not take each other for the owner.
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(lock)
        return False

    def forget(self, incarnation: UUID) -> None:
        """Remove what a dead process left."""
        self._path(incarnation).unlink(missing_ok=True)

    @contextmanager
    def alone(self, name: str) -> Iterator[None]:
        """Wait until no other process is in the block of the same name."""
        lock = os.open(self._folder / f"{name}.alone", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _path(self, incarnation: UUID) -> Path:
        return self._folder / f"{incarnation}.lock"
