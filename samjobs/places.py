"""Which places can a job name at all? Asked before anything is written, and without opening any of them.

A place is where images, prompts or results lie. What is read or written later, and by another machine, is asked there:
symlinks too, and whether what a manifest names is the tenant's.
"""

import errno
from collections.abc import Iterator
from pathlib import Path

from samjobs.decisions import places as rules
from samjobs.errors import InvalidInput
from samjobs.spec import JobSpec
from samjobs.storage import redact, to_uri
from samjobs.storage.fence import Fence
from samjobs.storage.paths import WEB_SCHEMES, decode_path, encode_path, scheme_of


def settled(spec: JobSpec) -> JobSpec:
    """`spec`, whose places mean the same to every machine that reads it; its output place as a stored uri.

    Raises:
        InvalidInput: a relative path, an unknown scheme, or an output place where nothing can ever be written; naming
            the field, the value and the remedy.
    """
    uris = dict(_named(spec))
    output = uris["output.uri"]
    refuse_output(output)
    return spec.model_copy(update={"output": spec.output.model_copy(update={"uri": output})})


def admitted(spec: JobSpec, tenant: str, fence: Fence) -> JobSpec:
    """`settled`, for a job of a tenant that others work on.

    Raises:
        InvalidInput: as `settled`; or a place is not the tenant's.
    """
    found = settled(spec)
    allowed = rules.allowed(fence.places, tenant)
    for field, uri in _named(found):
        if (why := rules.refusal(uri, tenant, allowed, fence.private)) is not None:
            raise InvalidInput(f"{field}: {redact(uri)} {why}")
    return found


def _named(spec: JobSpec) -> Iterator[tuple[str, str]]:
    """Each place that the spec names: its field, its stored uri."""
    given = spec.images
    for name in ("prefix", "manifest", "boxes", "points"):
        if (place := getattr(given, name)) is not None:
            yield f"images.{name}", _uri(f"images.{name}", place)
    for index, item in enumerate(given.list or ()):
        yield f"images.list.{index}.image", _uri(f"images.list.{index}.image", item.image)
    yield "output.uri", _uri("output.uri", spec.output.uri)


def _uri(field: str, place: str) -> str:
    if scheme_of(place) is None and not place.startswith("/"):
        raise InvalidInput(
            f"{field}: {redact(place)!r} is a relative path, and the machine that does the work has another working"
            " folder: give an absolute path that all machines share, or a URL"
        )
    try:
        return to_uri(place)
    except InvalidInput as error:
        raise InvalidInput(f"{field}: {error}") from None


def refuse_output(uri: str) -> None:
    """Refuse an output place where nothing can ever be written.

    Args:
        uri: stored uri of the output folder.

    Raises:
        InvalidInput: a web address, or a local path on which a file lies, or with a name that no file system takes.
    """
    if scheme_of(uri) in WEB_SCHEMES:
        raise InvalidInput(
            f"output {redact(uri)}: http and https can only be read; give a folder, or a URL of s3://, gs://, az:// or"
            " abfs://"
        )
    if scheme_of(uri) is None and (file := _file_in_the_way(Path(decode_path(uri)))) is not None:
        raise InvalidInput(f"output {uri}: {encode_path(file)} is a file; give a folder, which need not exist yet")


def _file_in_the_way(path: Path) -> Path | None:
    for place in (path, *path.parents):
        try:
            if place.exists():
                return None if place.is_dir() else place
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                told = f"output {encode_path(path)}: {error.strerror}: give a folder of shorter names"
                raise InvalidInput(told) from None
            # What cannot be looked at now is told when it is written to.
    return None
