"""How places are written down: local paths as reversible text, URLs, and the rules for output paths.

Answers what a stored uri means, which names below a prefix are images, and where the output of a key goes. It opens
nothing; `join` alone asks the file system, about symlinks.

A **stored uri** is either a URL with a known scheme, or an absolute local path in which only `%`, control characters
and bytes that are no UTF-8 are percent-encoded, so that "café photo.jpg" stays readable and every file name of Linux
comes back byte by byte. `s3://` and the other object stores are written the same way; http(s) URLs stay as they are.
"""

import hashlib
import os
import re
from pathlib import Path, PurePosixPath
from urllib.parse import SplitResult, unquote_to_bytes, urlsplit

from samjobs.errors import AccessDenied, InvalidInput
from samjobs.errors import redact as redact


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


IMAGE_SUFFIXES = _words(".jpg .jpeg .jpe .jfif .png .tif .tiff .webp .avif .bmp .gif .mpo")
# Pictures of kinds that are not read: whoever has them wants to be told, not to find them among notes and sidecars.
UNREAD_SUFFIXES = _words(
    ".heic .heif .hif .jp2 .j2k .jpx .jxl .dng .cr2 .cr3 .nef .nrw .arw .raf .orf .rw2 .pef .srw .psd .svg .exr .tga"
    " .ppm .pgm"
)
OUTPUT_SUFFIXES = _words(".json .png .txt .jpg")  # of the files made for an image, behind its name
JUNK_NAMES = _words("thumbs.db .ds_store desktop.ini __macosx @eadir")
WEB_SCHEMES = frozenset({"http", "https"})
OBJECT_SCHEMES = frozenset({"s3", "gs", "az", "abfs", "memory"})

MAX_NAME_BYTES = 255  # NAME_MAX of Linux's file systems
_MAX_SUFFIX_BYTES = 32

_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*)://")
# C0, DEL, C1, and the two separators at which str.splitlines also breaks a line
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
# and what no UTF-8 is, as surrogateescape holds it
_TO_ESCAPE = re.compile(r"[%\x00-\x1f\x7f-\x9f\u2028\u2029\udc80-\udcff]")
# only what encode_path itself writes, so that a plain "100% wool%20.jpg" means itself
_ESCAPED = re.compile(r"%(?:25|[01][0-9A-F]|7F|[89A-F][0-9A-F])")


def encode_path(path: str | bytes | os.PathLike[str]) -> str:
    """A local path as text that any database, log and JSON file can hold; `decode_path` gives the path back.

    >>> encode_path("café photo.jpg"), encode_path(b"50%\\n\\xff.jpg")
    ('café photo.jpg', '50%25%0A%FF.jpg')
    """
    try:
        raw = os.fsencode(path)
    except UnicodeEncodeError:
        raise InvalidInput(f"{path!r} holds half a surrogate pair, which no file name can") from None
    return _TO_ESCAPE.sub(_escape, raw.decode("utf-8", "surrogateescape"))


def decode_path(text: str) -> str:
    """The path that `encode_path` wrote down, as `os` takes it. A `%` that it would not have written means itself.

    >>> decode_path("50%25%0A.jpg"), decode_path("100% wool%20.jpg")
    ('50%\\n.jpg', '100% wool%20.jpg')
    """
    raw = _ESCAPED.sub(lambda match: unquote_to_bytes(match[0]).decode("latin-1"), _as_latin(text))
    return os.fsdecode(raw.encode("latin-1"))


def _escape(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8", "surrogateescape"))


def _as_latin(text: str) -> str:
    """`text`'s UTF-8 bytes, one character each, so that escapes can be replaced by single bytes."""
    return text.encode("utf-8", "surrogateescape").decode("latin-1")


def scheme_of(uri: str) -> str | None:
    """The scheme of a URL in lower case; None for a local path.

    >>> scheme_of("S3://bucket/a.jpg"), scheme_of("/photos/a.jpg"), scheme_of("photos: 2024/a.jpg")
    ('s3', None, None)
    """
    match = _SCHEME.match(uri)
    return match[1].lower() if match else None


def to_uri(place: str | os.PathLike[str], folder: str | None = None) -> str:
    """The stored uri of a place as a person writes it: a path, a file:// URL, or a URL of a known scheme.

    Args:
        folder: stored uri that a relative path is relative to; None is the working folder.

    Raises:
        InvalidInput: an unknown scheme, a URL that is none, control characters in one of http(s), or a `..` that cannot
            be followed.
    """
    text = os.fspath(place)
    scheme = scheme_of(text)
    if scheme is None:
        if folder is not None and scheme_of(folder) is not None and not text.startswith("/"):
            return _relative_url(folder, text)
        base = decode_path(folder) if folder is not None and scheme_of(folder) is None else None
        return encode_path(_absolute(text, base))
    if scheme == "file":
        return encode_path(_absolute(os.fsdecode(unquote_to_bytes(_split(text).path)), None))
    if scheme in WEB_SCHEMES:
        _split(text)
        if _CONTROL.search(text):
            raise InvalidInput(f"{redact(text)!r} holds control characters: percent-encode them")
        return text
    if scheme in OBJECT_SCHEMES:
        return f"{scheme}://{encode_path(text.partition('://')[2])}"
    known = ", ".join(sorted(WEB_SCHEMES | OBJECT_SCHEMES | {"file"}))
    raise InvalidInput(f"{redact(text)}: scheme {scheme} is not known; use a path or one of {known}")


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError as error:  # brackets that are no IPv6 address
        raise InvalidInput(f"{redact(url)!r}: {error}: write host and path plainly") from None


def _absolute(path: str, base: str | None) -> str:
    joined = Path(path).absolute() if base is None else Path(base) / path
    if ".." in joined.parts:
        # "link/../x" means the parent of the link's target: text alone cannot tell
        try:
            joined = joined.parent.resolve() / joined.name
        except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: links in a circle
            raise InvalidInput(f"{encode_path(path)}: cannot be followed ({error}): write it without ..") from None
    return os.path.normpath(joined)


def _relative_url(folder: str, text: str) -> str:
    scheme, _, rest = folder.partition("://")
    if scheme.lower() in WEB_SCHEMES:
        rest, encoded = rest.partition("?")[0], text  # what follows a URL in a manifest is a URL reference too
    else:
        encoded = encode_path(text)
    host, *parts = rest.rstrip("/").split("/")
    for part in encoded.split("/"):
        if part == ".." and not parts:
            raise InvalidInput(f"{text!r} leaves {redact(folder)}: give the whole URL")
        if part == "..":
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return f"{scheme}://{'/'.join([host, *parts])}"


def parent_of(uri: str) -> str:
    """The folder that a file's uri lies in, without a trailing slash and without the query of a URL."""
    if scheme_of(uri) in WEB_SCHEMES:
        uri = re.split(r"[?#]", uri, maxsplit=1)[0]
    return uri.rpartition("/")[0] or "/"


def own_key(uri: str) -> str:
    """The key of a file that is no part of a folder: host or bucket and path; for a local file its whole path.

    The query of a URL is not shown: it may hold secrets. A short hash of it stands in its place.

    >>> own_key("https://host/a/my%20cat.jpg?x=1"), own_key("/photos/a.jpg"), own_key("s3://bucket/a.jpg")
    ('host/a/my cat~75f556ab.jpg', 'photos/a.jpg', 'bucket/a.jpg')
    """
    if scheme_of(uri) not in WEB_SCHEMES:
        return "/".join(part for part in uri.partition("://")[2].split("/") if part) if scheme_of(uri) else uri[1:]
    url = urlsplit(uri)
    host = url.netloc.rpartition("@")[2].replace(":", "_")
    key = "/".join([host, *(web_part(part) for part in url.path.split("/") if part)])
    return with_mark(key, url.query) if url.query else key


def web_part(part: str) -> str:
    """One part of a URL's path as a part of a key: `%20` becomes a blank, but nothing becomes a `/` or `..`."""
    raw = unquote_to_bytes(part)
    safe = raw.replace(b"/", b"_").replace(b"\x00", b"_")
    return encode_path(b"_" * len(safe) if safe in (b".", b"..") else safe)


def with_mark(key: str, text: str) -> str:
    """`key` with a hash of `text` before its extension: the same for equal texts, another for others."""
    folder, slash, name = key.rpartition("/")
    stem, dot, suffix = name.rpartition(".")
    if not stem:
        stem, dot, suffix = name, "", ""
    mark = hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=4).hexdigest()
    return f"{folder}{slash}{stem}~{mark}{dot}{suffix}"


def suffix_of(name: str) -> str:
    """A file name's extension with its dot, in lower case."""
    return PurePosixPath(name).suffix.lower()


def is_image_name(name: str) -> bool:
    """Whether a file name's extension is one of an image, in any case."""
    return suffix_of(name) in IMAGE_SUFFIXES


def is_unread_picture(name: str) -> bool:
    """Whether a file name's extension is one of a picture of a kind that samjobs does not read."""
    return suffix_of(name) in UNREAD_SUFFIXES


def ignored_because(name: str) -> str | None:
    """Why a file or folder of this name is passed over; None when it is not.

    >>> ignored_because("Thumbs.db"), ignored_because(".cache"), ignored_because("a.jpg")
    ('junk', 'hidden', None)
    """
    if name.lower() in JUNK_NAMES or name.startswith("._"):
        return "junk"
    return "hidden" if name.startswith(".") else None


def mirrored(key: str) -> str:
    """`key` as it stands in the paths of an image's outputs: each folder in it that is named like an image or like an
    output gets a `~`.

    Otherwise the record of `a.jpg` and the folder `a.jpg.json` would want one name. Different keys stay different.

    >>> mirrored("day 1/a.jpg"), mirrored("a.jpg.json/b.jpg"), mirrored("a.jpg~/b.jpg")
    ('day 1/a.jpg', 'a.jpg.json~/b.jpg', 'a.jpg~~/b.jpg')
    """
    *folders, name = key.split("/")
    reserved = IMAGE_SUFFIXES | OUTPUT_SUFFIXES
    return "/".join([*(f"{part}~" if suffix_of(part.rstrip("~")) in reserved else part for part in folders), name])


def join(root: str, key: str) -> str:
    """The uri of `key` below the folder `root`: the one rule for output paths.

    Args:
        root: stored uri of a folder.
        key: relative path in the text of `encode_path`, with `/` between its parts.

    A part over 255 bytes is cut and given a hash of the whole part; its extension stays, so equal keys give equal
    paths and different keys different ones.

    Raises:
        InvalidInput: the key is empty, absolute, has an empty part, `.`, `..`, or a NUL.
        AccessDenied: locally, a symlink on the way would lead out of `root`.
    """
    parts = key.split("/")
    if "" in parts or "." in parts or ".." in parts or "\x00" in decode_path(key):
        raise InvalidInput(f"{key!r} is not a path below the output folder: no leading /, no empty part, no . or ..")
    base = root.rstrip("/")
    uri = "/".join([base, *map(_shortened, parts)])
    if scheme_of(root) is None:
        _refuse_escape(decode_path(root), decode_path(uri))
    return uri


def _shortened(part: str) -> str:
    raw = os.fsencode(decode_path(part))
    if len(raw) <= MAX_NAME_BYTES:
        return part
    stem, dot, suffix = raw.rpartition(b".")
    if not dot or len(suffix) > _MAX_SUFFIX_BYTES:
        stem, dot, suffix = raw, b"", b""
    tail = b"~" + hashlib.blake2b(raw, digest_size=8).hexdigest().encode() + dot + suffix
    head = stem[: MAX_NAME_BYTES - len(tail)].decode("utf-8", "ignore").encode()  # never half a character
    return encode_path(head + tail)


def _refuse_escape(root: str, path: str) -> None:
    real_root = os.path.realpath(root)
    folder = os.path.realpath(Path(path).parent)
    if folder != real_root and not folder.startswith(real_root.rstrip("/") + "/"):
        raise AccessDenied(
            f"{encode_path(path)}: a symlink leads to {encode_path(folder)}, outside the output folder; remove it"
        )
