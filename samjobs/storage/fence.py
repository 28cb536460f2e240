"""Which places a tenant's files may lie at: read from the setting, and judged just before each of them is opened.

`decisions/places.py` judges; here symlinks are followed first, so that a link in a tenant's folder opens nothing
outside it. What a server writes or reads for a tenant goes through `Storage.within(tenant)`, which asks a Fence.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from samjobs.decisions import places
from samjobs.decisions.places import EVERYBODY, PRIVATE, SETTING
from samjobs.errors import AccessDenied, InvalidInput
from samjobs.settings import Settings
from samjobs.storage.faults import reading
from samjobs.storage.paths import OBJECT_SCHEMES, WEB_SCHEMES, decode_path, encode_path, redact, scheme_of, to_uri

Places = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Fence:
    """The places of all tenants, as a server keeps them."""

    places: Places | None = None  # None: no list
    private: tuple[str, ...] = PRIVATE

    def check(self, uri: str, tenant: str) -> None:
        """Refuse a file or folder that is about to be opened, by where it really lies.

        Raises:
            AccessDenied: naming the place and the remedy.
            InvalidInput, StorageUnavailable: where it lies cannot be found out.
        """
        allowed = places.allowed(self.places, tenant)
        real, private = uri, self.private
        if places.is_local(uri):
            with reading(uri):
                real, private = _real(uri), (*private, *map(_real, private))
                if allowed is not None:
                    allowed = tuple(_real(place) if places.is_local(place) else place for place in allowed)
        if (why := places.refusal(real, tenant, allowed, private)) is not None:
            link = "" if real == uri.rstrip("/") else f", which leads to {real},"
            raise AccessDenied(f"{redact(uri)}{link} {why}")


def fence_for(settings: Settings) -> Fence:
    """The fence of a server of this installation.

    Raises:
        InvalidInput: SAMJOBS_TENANT_PLACES, or the file that it names, is wrong.
    """
    cache = os.environ.get("HF_HOME")  # of weights, which no job is to change
    private = PRIVATE if not cache else (*PRIVATE, encode_path(os.path.normpath(cache)))
    return Fence(places_of(settings), private)


def places_of(settings: Settings) -> Places | None:
    """The places of each tenant; None when none are set. Raises as `fence_for`."""
    text = settings.tenant_places
    if text is None:
        return None
    source = SETTING
    if text.startswith("/"):
        source = text
        try:
            text = Path(text).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise InvalidInput(f"{SETTING}: {source} cannot be read ({type(error).__name__}): give a file") from None
    try:
        given = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise InvalidInput(f"{source}: no YAML or JSON: {' '.join(str(error).split())[:200]}") from None
    if not isinstance(given, dict):
        raise InvalidInput(f"{source}: give a map from tenant to a list of places, as {{zoo: [s3://bucket/zoo/]}}")
    return {_tenant(tenant, source): _places(listed, f"{source}: {tenant}") for tenant, listed in given.items()}


def _tenant(name: Any, source: str) -> str:
    if not isinstance(name, str) or not name:
        raise InvalidInput(f"{source}: {name!r} is no tenant: write its name in quotes, or {EVERYBODY!r} for all")
    return name


def _places(listed: Any, where: str) -> tuple[str, ...]:
    if not isinstance(listed, list) or not all(isinstance(place, str) and place for place in listed):
        raise InvalidInput(f"{where}: give a list of places, as [s3://bucket/folder/, /data/folder/]")
    return tuple(_place(place, where) for place in listed)


def _place(text: str, where: str) -> str:
    scheme, _, rest = text.partition("://")
    if scheme_of(text) is None and not text.startswith("/"):
        raise InvalidInput(f"{where}: {redact(text)!r} is a relative path: give an absolute one, or a URL")
    if not rest.strip("/") and scheme.lower() in WEB_SCHEMES | OBJECT_SCHEMES:
        return f"{scheme.lower()}://"
    try:
        uri = to_uri(text)
    except InvalidInput as error:
        raise InvalidInput(f"{where}: {error}") from None
    return uri.rstrip("/") or "/"


def _real(uri: str) -> str:
    return encode_path(os.path.realpath(decode_path(uri)))
