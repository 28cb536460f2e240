"""Which web addresses may be reached: the wall against server-side request forgery.

A URL in a job comes from whoever wrote the job, and this process may stand where that person does not: beside a
cloud's metadata service, in a cluster's network. So the address itself is judged when the socket is made, which
covers names, literals, redirects and names that change their address in between. It does not judge object stores:
their endpoint is set by whoever runs samjobs.
"""

import ipaddress
import socket
from collections.abc import Callable
from typing import Any
from urllib.parse import SplitResult, urlsplit

from samjobs.errors import AccessDenied, InvalidInput
from samjobs.storage.access import Access
from samjobs.storage.paths import WEB_SCHEMES, redact

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# All of IPv6 that is given to the public. Outside of it lie, beside what `is_global` knows, addresses of IPv4 in
# disguise (NAT64, IPv4-compatible, IPv4-translated) and what some networks route inside (SRv6, site-local).
_PUBLIC_IPV6 = ipaddress.ip_network("2000::/3")
# `is_global` alone lets these through on some Python versions
_DENIED = [
    ipaddress.ip_network(network)
    for network in (
        "2002::/16",  # 6to4: an IPv4 address in disguise
        "2001::/32",  # Teredo: another
        "3fff::/20",  # documentation
        "192.88.99.0/24",  # relays of 6to4
        "168.63.129.16/32",  # Azure's host
        "192.0.0.0/24",  # IETF protocol assignments, with some clouds' metadata
    )
]


def check_url(url: str, previous: str | None = None) -> SplitResult:
    """The parts of a URL that may be asked for; `previous` is the one that redirected here.

    Raises:
        InvalidInput: no host, or no valid port.
        AccessDenied: another scheme than http(s), user and password in it, or a redirect from https to http.
    """
    parts = urlsplit(url)
    if parts.scheme.lower() not in WEB_SCHEMES:
        raise AccessDenied(f"{redact(url)}: only http and https are followed")
    if "@" in parts.netloc:
        raise AccessDenied(f"{redact(url)}: user and password in a URL are refused, they end up in logs")
    if previous is not None and urlsplit(previous).scheme.lower() == "https" and parts.scheme.lower() == "http":
        raise AccessDenied(f"{redact(previous)} redirects from https to http, to {redact(url)}: refused")
    try:
        named = bool(parts.hostname) and parts.port != 0
    except ValueError:
        named = False
    if not named:
        raise InvalidInput(f"{redact(url)} names no host and port to ask")
    return parts


def is_named(parts: SplitResult, access: Access) -> bool:
    """Whether the URL's host is allowed by name, whatever its address."""
    host = (parts.hostname or "").rstrip(".")
    return host in {name.lower().rstrip(".") for name in access.hosts}


def refusal(address: str, access: Access) -> str | None:
    """Why an IP address may not be reached; None when it may.

    >>> refusal("169.254.169.254", Access())
    'a link-local address'
    >>> refusal("10.0.0.5", Access(networks=("10.0.0.0/8",))) is None
    True
    """
    try:
        ip: Address = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return "no IP address"
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is not None:
        ip = ip.ipv4_mapped
    if any(ip in ipaddress.ip_network(network) for network in access.networks):
        return None
    if ip.is_loopback:
        return "a loopback address"
    if ip.is_link_local:
        return "a link-local address"
    if ip.is_private:
        return "a private address"
    if isinstance(ip, ipaddress.IPv6Address) and ip not in _PUBLIC_IPV6:
        return "a special-purpose address"
    if ip.is_multicast or not ip.is_global or any(ip in network for network in _DENIED):
        return "a special-purpose address"
    if any(ip in ipaddress.ip_network(network) for network in access.denied):
        return "an address of SAMJOBS_DENIED_NETWORKS"
    return None


def socket_factory(access: Access) -> Callable[[tuple[Any, ...]], socket.socket]:
    """What aiohttp's TCPConnector calls with the final address, just before it connects.

    The socket it gives raises nothing itself; a refused address raises AccessDenied in the caller's request.
    """

    def make(info: tuple[Any, ...]) -> socket.socket:
        family, kind, protocol, _, target = info
        reason = refusal(str(target[0]), access)
        if reason is not None:
            raise AccessDenied(
                f"{target[0]} is {reason}: refused, since a job's URL could reach inside; "
                "name its host or network in SAMJOBS_ALLOWED_HOSTS if this is meant"
            )
        return socket.socket(family, kind, protocol)

    return make


def check_access(access: Access) -> None:
    """Refuse networks that are none.

    Raises:
        InvalidInput: naming the value.
    """
    for kind, networks in (("allowed", access.networks), ("denied", access.denied)):
        for network in networks:
            try:
                ipaddress.ip_network(network)
            except ValueError as error:
                raise InvalidInput(f"{kind} network {network!r}: {error}; write it like 10.1.0.0/16") from None
