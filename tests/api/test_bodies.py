"""A body that is wrong is refused by its field, one that is too large unread, and none becomes a fault of ours."""

import json
import re
import socket
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.api.server import Api
from tests.api.test_jobs import JOBS, body, fields, problem
from tests.waiting import until

LIMIT = 2 << 20


def changed(path: str, value: object) -> dict[str, Any]:
    """A submission with one value set, by its path."""
    made: dict[str, Any] = json.loads(json.dumps(body()))
    *way, last = path.split(".")
    place = made
    for name in way:
        place = place.setdefault(name, {})
    place[last] = value
    return made


@pytest.mark.parametrize(
    ("path", "value", "status"),
    [
        ("spec.shardSize", "5", 400),
        ("spec.shardSize", 0, 400),
        ("spec.shardSize", 10**400, 400),
        ("spec.shardSize", True, 400),
        ("spec.shardSize", 1.5, 400),
        ("spec.suspend", 1, 400),
        ("spec.suspend", "true", 400),
        ("spec.mode", "find", 400),
        ("spec.shard_size", 5, 400),
        ("spec.unknown", 5, 400),
        ("spec.prompts", [], 400),
        ("spec.prompts", "red", 400),
        ("spec.thresholds.score", 2, 400),
        ("spec.notBefore", "tomorrow", 400),
        ("spec.notBefore", "9999-12-31T23:59:59-01:00", 422),
        ("spec.notBefore", "0001-01-01T00:00:00+01:00", 422),
        ("spec.notBefore", "2026-01-01T00:00:00", 400),
        ("spec.notBefore", 0, 400),
        ("name", "a\x00b", 400),
        ("name", "", 400),
        ("name", 7, 400),
        ("tenant", "../other", 400),
        ("more", 1, 400),
        ("spec.region", "x" * 254, 400),
        ("spec.callback", "http://example.org", 422),
        ("spec.output.uri", "masks", 422),
        ("spec.output.uri", "s3://masks/a\x00b", 422),
        ("spec.output.uri", "s3://user:secret@masks/a", 422),
        ("spec.images.prefix", "photos", 422),
        ("spec.images.prefix", "gopher://photos", 422),
    ],
)
def test_the_field_that_is_wrong_is_named(root: httpx.Client, path: str, value: object, status: int) -> None:
    answer = root.post(JOBS, json=changed(path, value))
    assert fields(answer, status) == [path]
    assert "secret" not in answer.text


def test_prompts_that_do_not_fit_the_mode_are_against_a_rule(root: httpx.Client) -> None:
    told = problem(root.post(JOBS, json=changed("spec.mode", "point")), 422)
    assert "needs points" in told["detail"]


def test_every_wrong_field_is_named_at_once(root: httpx.Client) -> None:
    wrong = changed("spec.shardSize", 0) | {"name": ""}
    assert sorted(fields(root.post(JOBS, json=wrong), 400)) == ["name", "spec.shardSize"]


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b"5", b'"text"', b"\xff\xfe", b'{"spec": NaN}', b'{"name": "\\ud800"}', b"[" * 100_000],
    ids=lambda content: repr(content[:12]),
)
def test_what_is_no_object_of_json_is_refused(root: httpx.Client, content: bytes) -> None:
    problem(root.post(JOBS, content=content, headers={"Content-Type": "application/json"}), 400)


def test_an_integer_may_be_written_as_json_allows(root: httpx.Client) -> None:
    assert root.post(JOBS, json=changed("spec.shardSize", 5.0)).json()["spec"]["shardSize"] == 5


def test_prompts_may_be_short(root: httpx.Client) -> None:
    listed = {"list": [{"image": "s3://p/a.jpg", "prompts": {"points": [[1, 2], {"clicks": [[3, 4]]}]}}]}
    wanted = body(mode="point", images=listed, prompts={})
    assert root.post(JOBS, json=wanted).status_code == 201
    boxes = {"list": [{"image": "s3://p/a.jpg", "prompts": {"boxes": [[1, 2, 3, 4]]}}]}
    assert root.post(JOBS, json=body(mode="inside_box", images=boxes, prompts={})).status_code == 201


@pytest.mark.parametrize(
    "headers",
    [{"Content-Type": "text/plain"}, {}, {"Content-Type": "application/json", "Content-Encoding": "gzip"}],
    ids=["text", "untold", "compressed"],
)
def test_a_body_that_is_not_json_by_its_headers_is_refused(root: httpx.Client, headers: dict[str, str]) -> None:
    problem(root.post(JOBS, content=b"{}", headers=headers), 415)


def test_a_key_that_is_none_names_the_header(root: httpx.Client) -> None:
    for key in ("", "x" * 256, "a b"):
        assert fields(root.post(JOBS, json=body(), headers={"Idempotency-Key": key}), 400) == ["Idempotency-Key"]


def test_a_body_that_is_announced_too_large_is_refused_unread(api: Api) -> None:
    assert b" 413 " in said_to(api, b"Content-Length: %d\r\n\r\n" % (LIMIT + 1))


def test_a_body_that_grows_too_large_is_refused_while_it_comes(root: httpx.Client) -> None:
    sent = 0

    def endless() -> Iterator[bytes]:
        nonlocal sent
        while sent < 100 * LIMIT:
            sent += 1 << 16
            yield b" " * (1 << 16)

    try:
        answer = root.post(JOBS, content=endless(), headers={"Content-Type": "application/json"})
    except (httpx.WriteError, httpx.ReadError):
        pass  # the server closed the connection while this side was still writing
    else:
        problem(answer, 413)
    assert sent < 20 * LIMIT


def test_strangers_are_refused_before_their_body_is_read(api: Api) -> None:
    answer = said_to(api, b"Content-Length: 1000\r\n\r\n", token=b"nobody")
    assert b" 401 " in answer


def said_to(api: Api, rest: bytes, token: bytes = b"root") -> bytes:
    """The head of the answer to a submission of which nothing but headers is sent."""
    host, port = api.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as talk:
        head = b"POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n"
        talk.sendall(head % (JOBS.encode(), token) + rest)
        began, got = time.monotonic(), b""
        while b"\r\n\r\n" not in got and time.monotonic() - began < 10:
            got += talk.recv(4096)
        return got.partition(b"\r\n")[0]


def test_a_caller_who_leaves_in_the_middle_of_a_body_is_no_fault_of_ours(api: Api) -> None:
    told, before = len(api.said), refused_submissions(api)
    host, port = api.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as talk:
        talk.sendall(
            b"POST /api/v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer root\r\n"
            b"Content-Type: application/json\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n"
        )
        assert talk.recv(100).startswith(b"HTTP/1.1 100 ")  # it waits for the body now
        talk.sendall(b"{")
    until(lambda: refused_submissions(api) > before, "the submission is given up, by its caller's fault")
    assert "Traceback" not in api.said[told:]


def refused_submissions(api: Api) -> float:
    """How many there were."""
    line = rf'^samjobs_api_request_seconds_count{{method="POST",route="{JOBS}",status="4xx"}} (\S+)$'
    found = re.search(line, api.probe("/metrics").text, re.MULTILINE)
    return float(found[1]) if found else 0.0
