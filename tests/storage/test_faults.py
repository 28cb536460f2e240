"""What the exceptions of clouds' clients mean, also of those that are not installed here."""

import errno
import os

import pytest

from samjobs.errors import AccessDenied, InvalidInput, ObjectMissing, SamjobsError, StorageUnavailable
from samjobs.storage.faults import translate


class HttpError(Exception):
    """As gcsfs raises it: the status is `code`."""

    def __init__(self, code: int) -> None:
        super().__init__(f"https://host/o?access_token=SECRET answered {code}")
        self.code = code


class HttpResponseError(Exception):
    """As azure-core raises it."""

    def __init__(self, status_code: int) -> None:
        super().__init__("sig=SECRET")
        self.status_code = status_code


class DefaultCredentialsError(Exception):
    """As google-auth raises it."""


@pytest.mark.parametrize(
    ("error", "meaning"),
    [
        (HttpError(404), ObjectMissing),
        (HttpError(403), AccessDenied),
        (HttpError(503), StorageUnavailable),
        (HttpError(429), StorageUnavailable),
        (HttpResponseError(404), ObjectMissing),
        (HttpResponseError(401), AccessDenied),
        (HttpResponseError(500), StorageUnavailable),
        (DefaultCredentialsError("no account"), AccessDenied),
        (FileNotFoundError("x"), ObjectMissing),
        (PermissionError("x"), AccessDenied),
        (TimeoutError(), StorageUnavailable),
        (OSError(errno.EIO, os.strerror(errno.EIO)), StorageUnavailable),
        (OSError(errno.ELOOP, os.strerror(errno.ELOOP)), InvalidInput),
        (ImportError("gcsfs"), InvalidInput),
    ],
    ids=repr,
)
def test_each_exception_has_its_meaning_and_keeps_no_secret(error: Exception, meaning: type[SamjobsError]) -> None:
    known = translate(error, "gs://bucket/a.jpg")
    assert type(known) is meaning
    assert "gs://bucket/a.jpg" in str(known)
    assert "SECRET" not in str(known)


def test_a_missing_library_is_named_by_its_extra() -> None:
    assert "pip install samjobs[azure]" in str(translate(ImportError("adlfs"), "az://container/a.jpg"))


def test_a_status_is_found_behind_the_exception_that_hides_it() -> None:
    error = OSError("wrapped")
    error.__cause__ = HttpError(404)
    assert isinstance(translate(error, "gs://bucket/a"), ObjectMissing)


def test_a_fault_of_code_is_not_taken_for_one_of_storage() -> None:
    error = TypeError("wrong")
    assert translate(error, "s3://bucket/a") is error
