"""What an exception of a file system, fsspec, aiohttp or a cloud's client means for the work.

The one place where they become `samjobs.errors`. Clients are told apart by status and by class name, so that none of
them needs to be installed, or to be imported before it is used. Every message is free of the secrets that URLs carry.
"""

import asyncio
import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from samjobs.errors import (
    AccessDenied,
    InvalidInput,
    ObjectMissing,
    OutputUnwritable,
    SamjobsError,
    StorageUnavailable,
)
from samjobs.storage.paths import redact

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG})
_BAD_NAME = frozenset({errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL})
_PASSING = frozenset({408, 409, 423, 425, 429})  # statuses below 500 that another try may not meet
# RuntimeError: how aiohttp says that a connection was closed
_TRANSIENT = (OSError, TimeoutError, asyncio.TimeoutError, RuntimeError)
_CLIENTS = frozenset({"aiohttp", "botocore", "aiobotocore", "s3fs", "azure", "adlfs", "google", "gcsfs", "fsspec"})
_NO_CREDENTIALS = frozenset(
    {
        "NoCredentialsError",
        "PartialCredentialsError",
        "TokenRetrievalError",
        "UnauthorizedSSOTokenError",
        "DefaultCredentialsError",
        "RefreshError",
        "ClientAuthenticationError",
        "NoAuthenticationError",
    }
)
_INSTALL = {"s3": "s3", "gs": "gcs", "az": "azure", "abfs": "azure"}


@contextmanager
def reading(uri: str) -> Iterator[None]:
    """Translate what a read of `uri` raises.

    Raises:
        ObjectMissing, AccessDenied, StorageUnavailable, InvalidInput: see `translate`.
    """
    try:
        yield
    except SamjobsError:
        raise
    except Exception as error:
        known = translate(error, uri)
        if known is error:
            raise
        raise known from error


@contextmanager
def writing(uri: str, size: int, free: Callable[[], int | None]) -> Iterator[None]:
    """Translate what a write of `size` bytes to `uri` raises.

    `free` is asked after a failure: the bytes that the disk has left, or None.

    Raises:
        OutputUnwritable: full, read-only, over quota, or not permitted: every image would fail alike.
        StorageUnavailable, InvalidInput: see `translate`.
    """
    try:
        yield
    except SamjobsError:
        raise
    except Exception as error:
        if isinstance(error, FileExistsError | NotADirectoryError | IsADirectoryError):
            words = "a file stands where a folder is needed, or a folder where the file goes"
            raise InvalidInput(f"cannot write {redact(uri)}: {words}; choose another output") from error
        known = translate(error, uri)
        full = isinstance(error, OSError) and error.errno in _FULL
        if full or isinstance(known, AccessDenied | ObjectMissing):
            left = free()
            room = "" if left is None else f", {left:,} bytes are free"
            raise OutputUnwritable(
                f"cannot write {redact(uri)} ({size:,} bytes wanted{room}): {_words(error)}; "
                "make room or choose another output, then run again"
            ) from error
        if known is error:
            raise
        raise known from error


def translate(error: Exception, uri: str) -> Exception:
    """The error of samjobs that says what `error`, met at `uri`, means; `error` itself when it is a fault of code."""
    place, words = redact(uri), _words(error)
    if type(error).__name__ in _NO_CREDENTIALS:
        return AccessDenied(f"{place}: no valid credentials: {words}; set them in the environment")
    if isinstance(error, ImportError):
        scheme = uri.partition("://")[0]
        return InvalidInput(f"{place}: {scheme}:// needs `pip install samjobs[{_INSTALL.get(scheme, scheme)}]`")
    status = _status(error)
    if status is not None and (known := for_status(status, uri, words)) is not None:
        return known
    if isinstance(error, FileNotFoundError | NotADirectoryError | IsADirectoryError):
        return ObjectMissing(f"{place} does not exist, or is a folder")
    if isinstance(error, PermissionError) or type(error).__name__ == "ClientConnectorCertificateError":
        return AccessDenied(f"{place}: permission denied: {words}")
    if isinstance(error, ValueError) or (isinstance(error, OSError) and error.errno in _BAD_NAME):
        return InvalidInput(f"{place}: {words}")
    if isinstance(error, _TRANSIENT) or _library(error) in _CLIENTS or status is not None:
        return StorageUnavailable(f"{place} did not answer as it should: {words}")
    return error


def for_status(status: int, url: str, said: str = "") -> SamjobsError | None:
    """The error that an HTTP status means; None for one of success. `said`: the server's own words, free of secrets."""
    answer = f"the server answers {status}" + (f": {said}" if said else "")
    if status < 400:
        return None
    if status in (404, 410):
        return ObjectMissing(f"{redact(url)} does not exist: {answer}")
    if status in (401, 403, 407):
        return AccessDenied(f"{redact(url)}: permission denied: {answer}")
    if status >= 500 or status in _PASSING:
        return StorageUnavailable(f"{redact(url)} did not answer as it should: {answer}")
    return ObjectMissing(f"{redact(url)}: {answer}")


def _status(error: BaseException) -> int | None:
    """The HTTP status inside an exception of botocore, azure or gcsfs, looked for along its causes too.

    Not of aiohttp: there it is 400 when an answer breaks off.
    """
    seen: BaseException | None = error
    while seen is not None and _library(seen) != "aiohttp":
        response = getattr(seen, "response", None)
        if isinstance(response, dict):
            found = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        else:
            found = getattr(seen, "status", None) or getattr(seen, "status_code", None) or getattr(seen, "code", None)
        if isinstance(found, int | str) and str(found).isdigit():
            return int(found)
        seen = seen.__cause__
    return None


def _library(error: BaseException) -> str:
    return type(error).__module__.partition(".")[0]


def _words(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return redact(error.strerror)
    return redact(str(error)) or type(error).__name__
