"""The exceptions of samjobs, each with the class that decides what happens to the work.

Every edge translates its library's exceptions into these where it calls that library: file systems and fsspec in
`storage/faults.py`, Pillow in `segmentation/imagefile.py`, torch and CUDA in
`segmentation/engines/`, SQLAlchemy in `store/faults.py`, the Kubernetes client in `controller/kube/connection.py`.
"""

import re
from enum import StrEnum


class ErrorClass(StrEnum):
    """What an error means for the work that met it."""

    PERMANENT = "permanent"  # bad input: no retry
    TRANSIENT = "transient"  # network, storage, 5xx: retry with backoff
    WORKER = "worker"  # this process is broken: release the shard, exit non-zero
    CRITICAL = "critical"  # nothing can be written: stop claiming, keep everything queued


class SamjobsError(Exception):
    """Base of all errors that samjobs raises on purpose. `str(error)` is for a person and names a remedy."""

    error_class: ErrorClass = ErrorClass.PERMANENT


class InvalidInput(SamjobsError):
    """A spec, a manifest or an option is wrong; the message names the field, the value and the remedy."""


class KeyReused(InvalidInput):
    """The key of a submission was given before, with another request."""


class ImageError(SamjobsError):
    """One image cannot be processed: corrupt, unsupported, over a limit, or missing."""


class PromptError(SamjobsError):
    """A prompt does not fit the mode, the image or the engine's limits."""


class ObjectMissing(SamjobsError):
    """The named file or object does not exist."""


class AccessDenied(SamjobsError):
    """The storage refuses these credentials, or samjobs refuses this address or path."""


class StorageUnavailable(SamjobsError):
    """The storage did not answer, or answered that it is overloaded."""

    error_class = ErrorClass.TRANSIENT


class OutOfMemory(SamjobsError):
    """The device ran out of memory after the engine shrank its batch as far as it can."""

    error_class = ErrorClass.TRANSIENT


class DatabaseUnavailable(SamjobsError):
    """The database did not answer, or the connection broke."""

    error_class = ErrorClass.TRANSIENT


class QueueUnavailable(SamjobsError):
    """Redis did not answer, refuses to write, or the connection broke."""

    error_class = ErrorClass.TRANSIENT


class KubernetesUnavailable(SamjobsError):
    """The Kubernetes API did not answer, is overloaded, or refuses this process's credentials."""

    error_class = ErrorClass.TRANSIENT


class EngineUnfit(SamjobsError):
    """A worker cannot give the engine or the weights that a job asks for, while its own engine is well."""

    error_class = ErrorClass.TRANSIENT


class ModelUnavailable(SamjobsError):
    """The engine cannot be loaded: weights gated, missing, corrupt or offline, or a library is not installed."""

    error_class = ErrorClass.WORKER


class DeviceFault(SamjobsError):
    """The device or the engine failed in a way that later calls in this process will repeat."""

    error_class = ErrorClass.WORKER


class OutputUnwritable(SamjobsError):
    """The output place is full or read-only: every image would fail alike."""

    error_class = ErrorClass.CRITICAL


class SchemaMismatch(SamjobsError):
    """The database's schema is not the revision that this code knows."""

    error_class = ErrorClass.CRITICAL


class LeaseLost(SamjobsError):
    """This process no longer owns the shard; it must write nothing more."""

    error_class = ErrorClass.WORKER


def classify(error: BaseException) -> ErrorClass:
    """The class of any exception. One that nobody translated is taken for a fault of this process.

    >>> classify(StorageUnavailable("the bucket did not answer"))
    <ErrorClass.TRANSIENT: 'transient'>
    >>> classify(KeyError("x"))
    <ErrorClass.WORKER: 'worker'>
    """
    return error.error_class if isinstance(error, SamjobsError) else ErrorClass.WORKER


def describe(error: BaseException, limit: int = 2000) -> str:
    """One line for people and for the table: never empty, clipped, free of what a database refuses and of secrets in
    URLs.

    NUL characters and lone surrogates are written as escapes, so that the failure path itself cannot fail.

    >>> describe(ImageError("bad\\x00name"))
    'bad\\\\x00name'
    >>> describe(ValueError())
    'ValueError'
    """
    said = storable(str(error))
    if not isinstance(error, SamjobsError):  # ours were written without secrets
        said = redact(said)
    text = " ".join(said.split()) or type(error).__name__
    if not isinstance(error, SamjobsError) and text != type(error).__name__:
        text = f"{type(error).__name__}: {text}"
    return text if len(text) <= limit else text[: limit - 1] + "…"


def redact(text: str) -> str:
    """`text` without the secrets that URLs carry: user and password, signatures, tokens.

    >>> redact("https://me:pw@host/a.jpg?sig=abc&x=1")
    'https://***@host/a.jpg?sig=***&x=1'
    """
    text = re.sub(r"(?<=://)[^/?#\s]*@", "***@", text)
    return re.sub(
        r"(?i)\b(sig|signature|x-(?:amz|goog)-(?:signature|credential|security-token)|awsaccesskeyid|token"
        r"|access_token|password|key|secret|se|sv|skoid)=[^&\s'\"]*",
        r"\1=***",
        text,
    )


def storable(text: str) -> str:
    """`text` with NUL characters and lone surrogates written as escapes: what Postgres can store.

    >>> storable("a\\x00b\\udcffc")
    'a\\\\x00b\\\\udcffc'
    """
    return text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")
