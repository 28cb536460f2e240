"""At which places a tenant's files may lie."""

import posixpath
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samjobs.decisions.places import allowed, refusal

ZOO = ("s3://photos/zoo", "/data/zoo", "https://photos.example/zoo", "gs://")


@pytest.mark.parametrize(
    "uri",
    [
        "s3://photos/zoo",
        "s3://photos/zoo/day 1/a.jpg",
        "s3://photos/zoo//a.jpg",
        "S3://photos/zoo/a.jpg",
        "/data/zoo",
        "/data/zoo/a..b/...jpg",
        "https://photos.example/zoo/a%20b.jpg?sig=x",
        "https://PHOTOS.example.:443/zoo/a.jpg",
        "gs://any/thing",
    ],
)
def test_a_place_means_itself_and_all_below_it(uri: str) -> None:
    assert refusal(uri, "zoo", ZOO) is None


@pytest.mark.parametrize(
    "uri",
    [
        "s3://photos/zoology/a.jpg",
        "s3://photos",
        "s3://photos/",
        "s3://photos/farm/a.jpg",
        "s3://other/photos/zoo/a.jpg",
        "s3://photos/zoo/../farm/a.jpg",
        "s3://photos/zoo/./a.jpg",
        "az://photos/zoo/a.jpg",
        "/data/zoology",
        "/data",
        "/",
        "/data/zoo/../farm",
        "data/zoo",
        "http://photos.example/zoo/a.jpg",
        "https://photos.example:8443/zoo/a.jpg",
        "https://photos.example/zoo/../farm/a.jpg",
        "https://photos.example/zoo/%2e%2e/farm/a.jpg",
        "https://photos.example/zoo/%252e%252e/farm/a.jpg",
        "https://photos.example/zoo/..%2ffarm/a.jpg",
        "https://photos.example/zoo/..%5cfarm/a.jpg",
        "https://photos.example\\@evil.example/zoo/a.jpg",
        "https://photos.example@evil.example/zoo/a.jpg",
        "https://photos.example.evil.example/zoo/a.jpg",
        "https://evil.example/?https://photos.example/zoo/a.jpg",
        "https://photos.example:99999/zoo/a.jpg",
        "https:///zoo/a.jpg",
        "memory://photos/zoo/a.jpg",
    ],
)
def test_what_only_looks_like_it_is_refused(uri: str) -> None:
    assert refusal(uri, "zoo", ZOO) is not None


def test_a_tenant_has_its_own_places_and_those_of_everybody() -> None:
    places = {"zoo": ("s3://photos/zoo",), "*": ("/shared",)}
    assert allowed(places, "zoo") == ("s3://photos/zoo", "/shared")
    assert allowed(places, "farm") == ("/shared",)
    assert allowed(places, "*") == ("/shared", "/shared"), "no tenant is called so: names have no asterisk"
    assert allowed({}, "farm") == ()
    assert allowed(None, "farm") is None


def test_the_refusal_says_what_would_be_right() -> None:
    assert refusal("/farm/a", "zoo", ("/data/zoo", "s3://zoo")) == (
        "is below none of tenant zoo's places (/data/zoo, s3://zoo): give one, or have it added to"
        " SAMJOBS_TENANT_PLACES"
    )
    assert "which has none" in (refusal("/farm/a", "zoo", ()) or "")


@pytest.mark.parametrize(
    "uri", ["/proc/self/environ", "/etc/passwd", "/run/secrets/x", "/", "/var", "/dev/stdin", "/sys"]
)
def test_what_belongs_to_the_machine_is_nobodys_list_or_no_list(uri: str) -> None:
    for listed in (None, ("/", "/etc", "/proc")):
        assert "belongs to the machine" in (refusal(uri, "zoo", listed) or "")


def test_without_a_list_all_else_is_open() -> None:
    for uri in ("/data/a.jpg", "/etcetera/a.jpg", "s3://any/a.jpg", "https://any.example/../a.jpg"):
        assert refusal(uri, "zoo", None) is None


PARTS = st.sampled_from(
    ["..", ".", "", "a", "zoo", "farm", "%2e%2e", "%2E.", "%2f", "%5c", "%252e%252e", "\\", "…", " "]
)


@given(st.sampled_from(["s3://photos/zoo", "/data/zoo", "https://photos.example/zoo"]), st.lists(PARTS, max_size=6))
def test_no_path_leaves_a_place_however_it_is_read(place: str, parts: list[str]) -> None:
    uri = "/".join([place, *parts])
    if refusal(uri, "zoo", (place,)) is None:
        scheme, path = ("", uri) if uri.startswith("/") else (urlsplit(uri).scheme, urlsplit(uri).path)
        within = place if not scheme else urlsplit(place).path
        readings = {path, unquote(path), unquote(unquote(path))} if scheme == "https" else {path}
        for reading in readings:
            normal = posixpath.normpath(reading.replace("\\", "/") if scheme == "https" else reading)
            assert normal == within or normal.startswith(f"{within}/"), f"{uri} is read as {normal}"
