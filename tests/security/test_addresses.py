"""No URL of a job reaches what lies inside, by whatever spelling, redirect or name: photo, manifest or callback.

Which addresses are inside is tested in tests/storage/test_guard.py.
"""

import gzip
import json
import os
import shutil
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from samjobs.errors import AccessDenied, ImageError, InvalidInput, SamjobsError, StorageUnavailable
from samjobs.inputs import expand
from samjobs.listing import images_of
from samjobs.settings import Settings
from samjobs.spec import Images, JobSpec, Mode, parse
from samjobs.storage import Access, Storage, access_for, access_of_server
from samjobs.storage.guard import refusal
from tests.conftest import missing
from tests.controller.receiver import Receiver
from tests.controller.test_webhooks import post
from tests.security.names import names, told_by
from tests.storage.test_web import Server, reply

# Other ways to write 127.0.0.1, and names for it.
SPELLINGS = [
    "127.1",
    "127.0.0.1.",
    "2130706433",
    "017700000001",
    "0x7f000001",
    "0x7f.0.0.0x1",
    "0177.0.0.01",
    "0",
    "0.0.0.0",
    "localhost",
    "LOCALHOST.",
    "%6c%6f%63%61%6c%68%6f%73%74",
    "①②⑦.⓪.⓪.①",
    "127。0。0。1",
    "[::1]",
    "[::]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[0:0:0:0:0:ffff:7f00:0001]",
    "[::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[::ffff:0:7f00:1]",
    "[2002:7f00:1::]",
    "[::1%25lo]",
    "[fe80::1%25lo]",
]


@pytest.fixture
def server() -> Iterator[Server]:
    """Something inside, which nobody may reach."""
    inside = Server()
    inside.answers["/a.jpg"] = reply(200, b"inside")
    inside.answers["/m.jsonl"] = reply(200, b'{"image": "a.jpg"}\n')
    yield inside
    inside.close()


@pytest.fixture
def outsider() -> Iterator[Storage]:
    with Storage(access_of_server(Settings())) as storage:
        yield storage.within("zoo")


REFUSED = (AccessDenied, InvalidInput, StorageUnavailable)


@pytest.mark.parametrize("host", SPELLINGS)
def test_no_spelling_of_an_address_inside_is_reached_for_a_photo_or_manifest(server: Server, host: str) -> None:
    with Storage(Access(retries=0, connect_timeout_s=5)) as storage:
        with pytest.raises(REFUSED):
            storage.read(server.url("/a.jpg", host), 100)
        with pytest.raises(REFUSED):
            list(expand(Images(manifest=server.url("/m.jsonl", host)), Mode.FIND_ALL, storage))
    assert server.seen == []


@pytest.mark.parametrize("host", SPELLINGS)
def test_nor_for_a_callback(receiver: Receiver, host: str) -> None:
    assert post(receiver.url(host=host), access=Access()).status is None
    assert receiver.heard == []


@pytest.mark.parametrize(
    "url",
    [
        "http://public.example@{inside}/a.jpg",
        "http://user:hunter2@{inside}/a.jpg",
        "http://{inside}\\@public.example/a.jpg",
        "http://{inside}#@public.example/a.jpg",
        "http:{inside}/a.jpg",
        "http:///{inside}/a.jpg",
        "http://{inside}\t/a.jpg",
        " http://{inside}/a.jpg",
        "gopher://{inside}/a.jpg",
        "ftp://{inside}/a.jpg",
        "file://{inside}/etc/hostname",
        "jar:http://{inside}!/a.jpg",
    ],
)
def test_no_url_hides_where_it_goes(server: Server, outsider: Storage, url: str) -> None:
    place = url.format(inside=f"127.0.0.1:{server.port}")

    def read() -> None:
        given = parse(Images, {"list": [{"image": place}]}, "images")
        for image in expand(given, Mode.FIND_ALL, outsider):
            outsider.read(image.uri, 100)

    with pytest.raises(SamjobsError) as refused:
        read()
    assert "hunter2" not in str(refused.value)
    assert server.seen == []


def test_a_line_of_a_manifest_reaches_nothing_inside(server: Server, outsider: Storage, tmp_path: Path) -> None:
    manifest = tmp_path / "m.jsonl"
    manifest.write_text(json.dumps({"image": server.url("/a.jpg")}) + "\n")
    (image,) = expand(Images(manifest=str(manifest)), Mode.FIND_ALL, outsider)
    with pytest.raises(AccessDenied, match="a loopback address"):
        outsider.read(image.uri, 100)
    assert server.seen == []


def test_a_page_of_links_reaches_nothing_beside_it(server: Server) -> None:
    server.answers["/set/"] = reply(
        200, b'<a href="/a.jpg">up</a><a href="//127.0.0.2/b.jpg">other</a><a href="c.jpg">own</a>'
    )
    with Storage(Access(hosts=("127.0.0.1",), retries=0)) as storage:
        assert [found.key for found in storage.list(server.url("/set/"))] == ["c.jpg"]


@pytest.mark.parametrize(
    "variable", ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]
)
def test_no_proxy_of_the_environment_is_used_since_it_would_reach_anything(
    server: Server, receiver: Receiver, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = Server()
    monkeypatch.setenv(variable, proxy.url(""))
    try:
        with Storage(Access(hosts=("127.0.0.1",), retries=0)) as storage:
            assert storage.read(server.url("/a.jpg"), 100) == b"inside"
        assert post(receiver.url()).status == 200
        assert proxy.seen == []
    finally:
        proxy.close()


def test_networks_that_are_inside_although_public_are_named_by_the_installation() -> None:
    access = access_for(Settings(denied_networks="11.0.0.0/8, 2600:1f00::/24", allowed_hosts="11.1.2.0/24"))
    assert refusal("11.0.0.1", access) == "an address of SAMJOBS_DENIED_NETWORKS"
    assert refusal("::ffff:11.0.0.1", access) == "an address of SAMJOBS_DENIED_NETWORKS"
    assert refusal("2600:1f00::1", access) == "an address of SAMJOBS_DENIED_NETWORKS"
    assert refusal("11.1.2.3", access) is None
    assert refusal("12.0.0.1", access) is None
    with pytest.raises(InvalidInput, match="denied network 'pods'"):
        Storage(access_for(Settings(denied_networks="pods")))


def test_a_body_is_taken_as_it_was_sent_and_not_as_what_it_would_grow_to(server: Server) -> None:
    bomb = gzip.compress(bytes(64 << 20))
    server.answers["/z.jpg"] = reply(200, bomb, Content_Encoding="gzip")
    server.answers["/z.jsonl"] = reply(200, bomb, Content_Encoding="gzip")
    with Storage(Access(hosts=("127.0.0.1",), retries=0)) as storage:
        assert storage.read(server.url("/z.jpg"), len(bomb)) == bomb
        with pytest.raises(ImageError, match="over the limit"):
            storage.read(server.url("/z.jpg"), len(bomb) - 1)
        with pytest.raises(InvalidInput, match="line 1"):
            list(expand(Images(manifest=server.url("/z.jsonl")), Mode.FIND_ALL, storage))


def test_of_a_receivers_answer_only_what_was_sent_is_looked_at(receiver: Receiver) -> None:
    bomb = gzip.compress(bytes(64 << 20))
    receiver.answer = lambda number: (500, {"Content-Encoding": "gzip"}, bomb)
    answer = post(receiver.url())
    assert answer.status == 500
    assert len(answer.error or "") < 300


def test_a_redirect_of_a_callback_is_an_answer_and_nothing_more(receiver: Receiver, server: Server) -> None:
    receiver.answer = lambda number: (307, {"Location": server.url("/a.jpg")}, b"")
    assert post(receiver.url()).status == 307
    assert server.seen == []


def test_a_job_whose_manifest_lies_inside_names_no_images(server: Server, outsider: Storage) -> None:
    spec = JobSpec.model_validate(
        {"images": {"manifest": server.url("/m.jsonl")}, "prompts": {"text": ["car"]}, "output": {"uri": "/out"}}
    )
    with pytest.raises(AccessDenied, match="a loopback address: refused"):
        list(images_of(spec, outsider, Counter()))
    assert server.seen == []


RESOLVING = """
import json, sys
import fsspec.asyn
from datetime import datetime, timezone
from controller.webhooks import Message, Sender
from samjobs.errors import SamjobsError
from samjobs.storage import Access, Storage

port, access = sys.argv[1], Access(networks=("127.0.0.2/32",), retries=0, connect_timeout_s=5)

def read(host):
    with Storage(access) as storage:
        try:
            return storage.read(f"http://{host}:{port}/a.jpg", 100).decode()
        except SamjobsError as error:
            return str(error)

async def told(host):
    async with Sender(access) as sender:
        return await sender.send(Message("id", f"https://{host}:{port}/", {}), [], datetime.now(timezone.utc))

def callback(host):
    return fsspec.asyn.sync(fsspec.asyn.get_loop(), lambda: told(host)).error

print(json.dumps({
    "rebound": [read("rebound.test"), read("rebound.test"), callback("rebound.test")],
    "open first": read("open-first.test"),
    "inside first": read("inside-first.test"),
    "mapped": read("mapped.test"),
    "redirected": read("redirecting.test"),
    "callback": callback("inside.test"),
}))
"""


class Site:
    """Two servers on one port: a place outside on 127.0.0.2, and one inside on 127.0.0.1."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                where = "inside" if self.server.server_address[0] == "127.0.0.1" else "outside"
                site.seen.append(where)
                redirected = self.headers["Host"].startswith("redirecting")
                self.send_response(302 if redirected else 200)
                if redirected:
                    self.send_header("Location", f"http://inside.test:{site.port}/a.jpg")
                self.end_headers()
                self.wfile.write(where.encode())

            def log_message(self, *_: object) -> None:
                pass

        inside = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = inside.server_address[1]
        self._servers = [inside, ThreadingHTTPServer(("127.0.0.2", self.port), Handler)]
        for one in self._servers:
            threading.Thread(target=one.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def close(self) -> None:
        for one in self._servers:
            one.shutdown()
            one.server_close()


def test_a_name_is_judged_by_the_address_that_is_connected_to_whatever_it_was_before(tmp_path: Path) -> None:
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        missing("a name server of the test's own needs root and unshare (util-linux)")
    site = Site()
    inside, outside = "127.0.0.1", "127.0.0.2"
    answers = {
        "rebound.test": [[outside], [inside]],
        "open-first.test": [["127.0.0.3", inside]],
        "inside-first.test": [[inside, outside]],
        "mapped.test": [["::ffff:127.0.0.1"]],
        "redirecting.test": [[outside]],
        "inside.test": [[inside]],
    }
    try:
        with names(answers) as server:
            told = told_by(RESOLVING, server, tmp_path, str(site.port))
            assert {"rebound.test", "inside.test"} <= set(server.asked)
    finally:
        site.close()
    first, *later = told["rebound"]
    assert first == "outside"
    refused = [*later, *(told[name] for name in ("open first", "inside first", "mapped", "redirected", "callback"))]
    for said in refused:
        assert "a loopback address: refused" in said, told
    assert "inside" not in site.seen
