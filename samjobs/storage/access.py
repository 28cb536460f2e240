"""What storage may be reached and how patiently: the values that every part of this package is given.

It holds no credentials of its own: those are in the environment or in `options`, which is never printed.
"""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from samjobs.settings import Settings
from samjobs.storage.fence import Fence, fence_for


@dataclass(frozen=True)
class Access:
    """The limits of a Storage.

    Public http(s) addresses are open; private, link-local, metadata and other special ones only for `hosts` and
    `networks`. Local files and object stores are open as far as this process's own rights go.
    """

    hosts: tuple[str, ...] = ()  # host names (or literal addresses) that may resolve to anything
    networks: tuple[str, ...] = ()  # CIDRs that any host may resolve to, e.g. "10.1.0.0/16"
    denied: tuple[str, ...] = ()  # CIDRs that are inside although their addresses are public ones
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)  # fsspec's, by scheme
    connect_timeout_s: float = 10.0
    read_timeout_s: float = 60.0  # longest silence of a server
    total_timeout_s: float = 600.0  # longest whole download
    retries: int = 3  # tries after the first one
    backoff_s: float = 0.5  # before the first of them, doubled each time
    fence: Fence | None = None  # at which places a tenant's files may lie; see `Storage.within`


def access_for(settings: Settings) -> Access:
    """Which hosts and networks may be fetched from although they are private."""
    networks = tuple(entry for entry in settings.allowed_hosts if _is_network(entry))
    hosts = tuple(entry for entry in settings.allowed_hosts if entry not in networks)
    return Access(hosts=hosts, networks=networks, denied=settings.denied_networks)


def access_of_server(settings: Settings) -> Access:
    """`access_for` a process that works for others, each of whom has places.

    Raises:
        InvalidInput: SAMJOBS_TENANT_PLACES is wrong.
    """
    return replace(access_for(settings), fence=fence_for(settings))


def _is_network(entry: str) -> bool:
    try:
        ipaddress.ip_network(entry, strict=False)
    except ValueError:
        return False
    return True
