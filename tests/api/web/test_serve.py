"""The page's files: to be had without a token, with a policy that lets a browser run nothing else."""

from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import httpx
import pytest

from api.web.serve import STATIC

FILES = sorted(path.name for path in STATIC.iterdir())


@pytest.fixture(scope="module")
def client(files: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=files) as client:
        yield client


@pytest.mark.parametrize("path", ["/", *(f"/static/{name}" for name in FILES)])
def test_every_file_comes_with_the_policy_and_is_asked_for_again(client: httpx.Client, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 200
    policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-cache"
    assert "set-cookie" not in answer.headers
    again = client.get(path, headers={"If-None-Match": answer.headers["etag"]})
    assert again.status_code in (200, 304)


def test_scripts_and_styles_are_of_the_types_that_a_browser_takes_under_nosniff(client: httpx.Client) -> None:
    for name in FILES:
        kind = client.get(f"/static/{name}").headers["content-type"].split(";")[0]
        expected = {"js": "javascript", "css": "text/css", "svg": "image/svg+xml", "html": "text/html"}
        assert kind.endswith(expected[name.rsplit(".", 1)[1]]), f"{name} is served as {kind}"


@pytest.mark.parametrize("path", ["/static/../serve.py", "/static/%2e%2e/serve.py", "/static/", "/static/none.js"])
def test_nothing_but_the_page_s_files_is_served(files: str, path: str) -> None:
    connection = HTTPConnection(files.removeprefix("http://"))  # takes a path as it is
    try:
        connection.request("GET", path)
        assert connection.getresponse().status == 404
    finally:
        connection.close()


def test_nothing_in_the_files_names_another_host_or_builds_markup_from_text() -> None:
    for name in FILES:
        text = Path(STATIC / name).read_text()
        for word in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            'style="',
            ' onclick="',
        ):
            assert word not in text, f"{name} has {word}"
        hosts = {line for line in text.split() if "://" in line and "http://www.w3.org/" not in line}
        assert hosts == set(), f"{name} names {hosts}"
