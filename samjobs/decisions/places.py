"""May this tenant's photos, manifests or results lie there?

Whoever runs samjobs lists the places of each tenant; a place means itself and all below it, and `s3://` or `https://`
alone means everything of that scheme. Where a list exists, what is not on it is refused. Without one every place is
open but those that belong to the machine itself: a job is written by somebody who cannot log in here, and must learn
nothing of this process's environment, secrets and devices.

Judged is text alone: whoever opens a local file resolves its symlinks before.
"""

from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import unquote, urlsplit

EVERYBODY = "*"
SETTING = "SAMJOBS_TENANT_PLACES"

# Of the machine: kernel, devices, configuration, mounted secrets, sockets.
PRIVATE = ("/boot", "/dev", "/etc", "/proc", "/run", "/sys", "/var/run")

_PORTS = {"http": 80, "https": 443}


def allowed(places: Mapping[str, Sequence[str]] | None, tenant: str) -> tuple[str, ...] | None:
    """The places of a tenant and of everybody; None: there is no list, so that all are open.

    >>> allowed({"zoo": ["s3://photos/zoo"], "*": ["https://"]}, "zoo")
    ('s3://photos/zoo', 'https://')
    >>> allowed({"zoo": ["s3://photos/zoo"]}, "farm")
    ()
    """
    if places is None:
        return None
    return (*places.get(tenant, ()), *places.get(EVERYBODY, ()))


def refusal(uri: str, tenant: str, allowed: Sequence[str] | None, private: Iterable[str] = PRIVATE) -> str | None:
    """Why a tenant's file may not lie at `uri`, as the end of a sentence that begins with it; None when it may.

    Args:
        uri: stored uri of a file or folder.
        allowed: see there.
        private: local folders that are never open, nor what they lie in.

    >>> refusal("s3://photos/zoo/a.jpg", "zoo", ("s3://photos/zoo",)) is None
    True
    >>> refusal("/proc/self/environ", "zoo", None)
    'belongs to the machine (/proc): give another place'
    """
    if is_local(uri):
        of_the_machine = next((one for one in private if _contains(one, uri) or _contains(uri, one)), None)
        if of_the_machine is not None:
            return f"belongs to the machine ({of_the_machine}): give another place"
    if allowed is None:
        return None
    if (doubt := _doubtful(uri)) is not None:
        return f"{doubt}: write it plainly"
    if any(_below(uri, place) for place in allowed):
        return None
    if not allowed:
        return f"is none of tenant {tenant}'s places, which has none: have them added to {SETTING}"
    return f"is below none of tenant {tenant}'s places ({', '.join(allowed)}): give one, or have it added to {SETTING}"


def is_local(uri: str) -> bool:
    """Whether a stored uri is a path: those begin with a slash, and URLs with their scheme."""
    return uri.startswith("/")


def _doubtful(uri: str) -> str | None:
    """Why a uri may mean another place to whoever opens it than it says here."""
    if is_local(uri):
        path = uri
    else:
        scheme, _, rest = uri.partition("://")
        path = rest.partition("/")[2]
        if scheme in _PORTS:
            # Servers decode a path once, and some of them twice.
            path = unquote(unquote(urlsplit(uri).path))
            if path.count("/") != urlsplit(uri).path.count("/") or "\\" in uri or "\\" in path:
                return "has an encoded slash or a backslash in its path"
    return "has a part . or .. in its path" if {".", ".."} & set(path.split("/")) else None


def _below(uri: str, place: str) -> bool:
    if is_local(uri) or is_local(place):
        return is_local(uri) and is_local(place) and _contains(place, uri)
    (scheme, _, rest), (wanted, _, inside) = uri.partition("://"), place.partition("://")
    if scheme.lower() != wanted.lower():
        return False
    if not inside:
        return True
    if wanted.lower() in _PORTS:
        return _site(uri) == _site(place) and _contains(_web_path(place), _web_path(uri))
    return _contains(inside, rest)


def _contains(folder: str, path: str) -> bool:
    """Whether `path` is `folder` or lies in it."""
    inside = folder.rstrip("/")
    return path.rstrip("/") == inside or path.startswith(f"{inside}/")


def _site(url: str) -> tuple[str, int | None] | None:
    """Host and port; None for none that can be asked."""
    parts = urlsplit(url)
    try:
        port = parts.port or _PORTS.get(parts.scheme.lower())
    except ValueError:
        return None
    return ((parts.hostname or "").rstrip("."), port) if parts.hostname else None


def _web_path(url: str) -> str:
    return unquote(urlsplit(url).path)
