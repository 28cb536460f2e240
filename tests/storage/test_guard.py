"""Which addresses are refused, before anything is sent to them."""

import socket

import pytest

from samjobs.errors import AccessDenied, InvalidInput
from samjobs.storage.access import Access
from samjobs.storage.client import Storage
from samjobs.storage.guard import check_url, is_named, refusal, socket_factory


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.8.8.8",
        "0.0.0.0",
        "10.0.0.1",
        "172.16.5.5",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "224.0.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "fe80::1%eth0",
        "fc00::1",
        "fd00:ec2::254",
        "fec0::1",
        "ff02::1",
        "::ffff:10.0.0.1",
        "::ffff:169.254.169.254",
        "::10.0.0.1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::1",
        "2002:a9fe:a9fe::1",
        "2001::1",
    ],
)
def test_addresses_of_the_inside_are_refused(address: str) -> None:
    assert refusal(address, Access()) is not None


@pytest.mark.parametrize("address", ["93.184.215.14", "8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8"])
def test_public_addresses_are_open(address: str) -> None:
    assert refusal(address, Access()) is None


def test_an_allowed_network_opens_its_addresses_alone_also_when_written_as_ipv6() -> None:
    access = Access(networks=("10.1.0.0/16", "fd00::/8"))
    assert refusal("10.1.2.3", access) is None
    assert refusal("::ffff:10.1.2.3", access) is None
    assert refusal("fd00::5", access) is None
    assert refusal("10.2.2.3", access) is not None


def test_the_socket_is_never_made_for_a_refused_address() -> None:
    make = socket_factory(Access())
    with pytest.raises(AccessDenied, match=r"169\.254\.169\.254 is a link-local address"):
        make((socket.AF_INET, socket.SOCK_STREAM, 0, "", ("169.254.169.254", 80)))


@pytest.mark.parametrize(
    ("url", "previous", "message"),
    [
        ("https://user:pw@host/a", None, "user and password"),
        ("http://host/a", "https://host/b", "https to http"),
        ("file:///etc/passwd", "https://host/b", "only http and https"),
        ("gopher://host/", None, "only http and https"),
    ],
)
def test_urls_that_are_never_followed(url: str, previous: str | None, message: str) -> None:
    with pytest.raises(AccessDenied, match=message) as caught:
        check_url(url, previous)
    assert "pw" not in str(caught.value)


@pytest.mark.parametrize("url", ["https:///a.jpg", "https://host:99999/a.jpg"])
def test_a_url_without_a_real_host_and_port_is_invalid(url: str) -> None:
    with pytest.raises(InvalidInput, match="no host and port"):
        check_url(url)


def test_a_host_is_allowed_by_its_whole_name() -> None:
    access = Access(hosts=("Images.Internal",))
    assert is_named(check_url("https://images.internal:8443/a"), access)
    assert is_named(check_url("https://IMAGES.internal./a"), access)
    assert not is_named(check_url("https://images.internal.evil.example/a"), access)


def test_a_network_that_is_none_is_refused_at_the_start() -> None:
    with pytest.raises(InvalidInput, match=r"10\.1\.0\.1/16.*host bits"):
        Storage(Access(networks=("10.1.0.1/16",)))
