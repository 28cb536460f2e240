"""Reading from a real web server on the loopback address, with and without leave to do so."""

import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from samjobs.errors import AccessDenied, ImageError, InvalidInput, ObjectMissing, SamjobsError, StorageUnavailable
from samjobs.storage import Access, Storage, quick_hash

BODY = bytes(range(256)) * 500
PAGE = b"""<html><a href="a.jpg">a</a> <a href='b%20c.PNG?x'>query</a> <a href="b%20c.PNG">b</a>
<a href="sub/">sub</a>
<a href="../up.jpg">up</a>
<a href="http://other.example/x.jpg">other</a> <a href="notes.txt">n</a> <a>none</a></html>"""


class Server:
    """A web server whose answers a test decides: path → (status, headers, body), or a callable that gives one."""

    def __init__(self) -> None:
        self.answers: dict[str, Callable[[BaseHTTPRequestHandler], None]] = {}
        self.seen: list[tuple[str, str]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                server.seen.append((self.command, self.path))
                answer = server.answers.get(self.path.partition("?")[0])
                if answer is None:
                    reply(404)(self)
                else:
                    answer(self)

            do_HEAD = do_GET

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.port = self._server.server_address[1]

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def reply(status: int, body: bytes = b"", **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        if handler.command != "HEAD":
            handler.wfile.write(body)

    return answer


def ranged(body: bytes, etag: str) -> Callable[[BaseHTTPRequestHandler], None]:
    """A server that knows ranges."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        asked = handler.headers.get("Range")
        if asked is None:
            reply(200, body, ETag=etag)(handler)
            return
        start, end = (int(number) for number in asked.removeprefix("bytes=").split("-"))
        part = body[start : end + 1]
        reply(206, part, ETag=etag, Content_Range=f"bytes {start}-{start + len(part) - 1}/{len(body)}")(handler)

    return answer


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    server.answers["/a.jpg"] = ranged(BODY, '"v1"')
    yield server
    server.close()


@pytest.fixture
def storage() -> Iterator[Storage]:
    with Storage(Access(hosts=("127.0.0.1", "localhost"), retries=2, backoff_s=0)) as storage:
        yield storage


@pytest.fixture
def outsider() -> Iterator[Storage]:
    with Storage(Access(retries=0)) as storage:
        yield storage


class TestReading:
    def test_a_file_is_read(self, server: Server, storage: Storage) -> None:
        assert storage.read(server.url("/a.jpg"), len(BODY)) == BODY

    def test_a_length_over_the_limit_is_refused(self, server: Server, storage: Storage) -> None:
        with pytest.raises(ImageError, match=r"128,000 bytes, over the limit of 1,000 bytes"):
            storage.read(server.url("/a.jpg"), 1000)

    def test_a_body_that_hides_its_length_is_cut_off_at_the_limit(self, server: Server, storage: Storage) -> None:
        def endless(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(200)
            handler.send_header("Connection", "close")
            handler.end_headers()
            try:
                while True:
                    handler.wfile.write(bytes(65536))
            except OSError:
                handler.close_connection = True

        server.answers["/endless.jpg"] = endless
        with pytest.raises(ImageError, match="over the limit of 1,000,000"):
            storage.read(server.url("/endless.jpg"), 1_000_000)

    def test_compressed_bytes_are_not_unpacked(self, server: Server, storage: Storage) -> None:
        server.answers["/z.jpg"] = reply(200, b"\x1f\x8b not really gzip", Content_Encoding="gzip")
        assert storage.read(server.url("/z.jpg"), 100) == b"\x1f\x8b not really gzip"

    def test_a_stamp_has_size_and_etag_without_reading(self, server: Server, storage: Storage) -> None:
        stamp = storage.stamp(server.url("/a.jpg"))
        assert (stamp.size, stamp.token) == (len(BODY), '"v1"')
        assert [method for method, _ in server.seen] == ["HEAD"]

    def test_a_server_without_head_is_asked_for_one_byte(self, server: Server, storage: Storage) -> None:
        whole = server.answers["/a.jpg"]
        server.answers["/a.jpg"] = lambda handler: (reply(405) if handler.command == "HEAD" else whole)(handler)
        assert storage.stamp(server.url("/a.jpg")).size == len(BODY)

    def test_last_modified_stands_in_for_an_etag(self, server: Server, storage: Storage) -> None:
        server.answers["/b.jpg"] = reply(200, b"x", Last_Modified="Sat, 28 Nov 2026 00:00:00 GMT")
        assert storage.stamp(server.url("/b.jpg")).token == "Sat, 28 Nov 2026 00:00:00 GMT"

    def test_the_quick_hash_is_the_same_with_and_without_ranges(self, server: Server, storage: Storage) -> None:
        server.answers["/plain.jpg"] = reply(200, BODY)
        assert storage.quick_hash(server.url("/a.jpg")) == quick_hash(BODY)
        assert storage.quick_hash(server.url("/plain.jpg")) == quick_hash(BODY)

    def test_a_long_file_is_opened_as_a_stream(self, server: Server, storage: Storage) -> None:
        server.answers["/m.jsonl"] = reply(200, b"one\ntwo\n")
        with storage.open(server.url("/m.jsonl")) as file:
            assert file.readlines() == [b"one\n", b"two\n"]

    def test_many_threads_may_read_at_once(self, server: Server, storage: Storage) -> None:
        bodies: list[bytes] = []
        threads = [
            threading.Thread(target=lambda: bodies.append(storage.read(server.url("/a.jpg"), len(BODY))))
            for _ in range(16)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert bodies == [BODY] * 16

    def test_writing_is_refused(self, server: Server, storage: Storage) -> None:
        with pytest.raises(InvalidInput, match="read only"):
            storage.put(server.url("/new.jpg"), b"x")


class TestFailing:
    @pytest.mark.parametrize(
        ("status", "error"),
        [
            (404, ObjectMissing),
            (410, ObjectMissing),
            (400, ObjectMissing),
            (401, AccessDenied),
            (403, AccessDenied),
            (429, StorageUnavailable),
            (503, StorageUnavailable),
        ],
    )
    def test_each_status_has_its_meaning(
        self, server: Server, storage: Storage, status: int, error: type[SamjobsError]
    ) -> None:
        server.answers["/x.jpg"] = reply(status)
        with pytest.raises(error, match=str(status)):
            storage.read(server.url("/x.jpg"), 10)

    def test_what_may_pass_is_tried_again(self, server: Server, storage: Storage) -> None:
        failures = [503, 500]
        whole = server.answers["/a.jpg"]
        server.answers["/a.jpg"] = lambda handler: (reply(failures.pop()) if failures else whole)(handler)
        assert storage.read(server.url("/a.jpg"), len(BODY)) == BODY
        assert len(server.seen) == 3

    def test_what_will_not_pass_is_asked_once(self, server: Server, storage: Storage) -> None:
        with pytest.raises(ObjectMissing):
            storage.read(server.url("/none.jpg"), 10)
        assert len(server.seen) == 1

    def test_a_body_that_breaks_off_is_transient(self, server: Server, storage: Storage) -> None:
        def broken(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(200)
            handler.send_header("Content-Length", "100")
            handler.end_headers()
            handler.wfile.write(b"half")
            handler.close_connection = True

        server.answers["/x.jpg"] = broken
        with pytest.raises(StorageUnavailable):
            storage.read(server.url("/x.jpg"), 1000)

    def test_a_server_that_falls_silent_is_transient(self, server: Server) -> None:
        gone = threading.Event()
        server.answers["/x.jpg"] = lambda _: gone.wait(30) and None
        patience = Access(hosts=("127.0.0.1",), read_timeout_s=0.2, retries=0)
        with Storage(patience) as storage, pytest.raises(StorageUnavailable):
            storage.read(server.url("/x.jpg"), 10)
        gone.set()

    def test_a_port_where_nobody_listens_is_transient(self, storage: Storage) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        with pytest.raises(StorageUnavailable, match="did not answer"):
            storage.read(f"http://127.0.0.1:{port}/a.jpg", 10)

    def test_a_name_that_does_not_exist_is_transient(self, storage: Storage) -> None:
        with pytest.raises(StorageUnavailable):
            storage.read("http://no-such-host.invalid/a.jpg", 10)

    def test_secrets_of_a_url_are_not_in_the_message(self, server: Server, storage: Storage) -> None:
        with pytest.raises(ObjectMissing) as caught:
            storage.read(server.url("/none.jpg?X-Amz-Signature=SECRET"), 10)
        assert "SECRET" not in str(caught.value)


class TestGuard:
    def test_loopback_is_refused_by_its_address(self, server: Server, outsider: Storage) -> None:
        with pytest.raises(AccessDenied, match=r"127\.0\.0\.1 is a loopback address"):
            outsider.read(server.url("/a.jpg"), 10**6)
        assert server.seen == []

    @pytest.mark.parametrize("host", ["localhost", "2130706433", "0x7f.1", "0.0.0.0"])
    def test_loopback_is_refused_by_its_other_names(self, server: Server, outsider: Storage, host: str) -> None:
        with pytest.raises((AccessDenied, InvalidInput, StorageUnavailable)):
            outsider.read(server.url("/a.jpg", host), 10**6)
        assert server.seen == []

    def test_localhost_resolves_to_the_inside_and_is_refused_as_such(self, server: Server, outsider: Storage) -> None:
        with pytest.raises(AccessDenied, match="a loopback address"):
            outsider.read(server.url("/a.jpg", "localhost"), 10**6)

    def test_a_redirect_to_the_inside_is_refused(self, server: Server) -> None:
        server.answers["/go.jpg"] = reply(302, Location=server.url("/a.jpg", "127.0.0.1"))
        refused = pytest.raises(AccessDenied, match=r"127\.0\.0\.1 is a loopback address")
        with Storage(Access(hosts=("localhost",), retries=0)) as storage, refused:
            storage.read(server.url("/go.jpg", "localhost"), 10**6)
        assert [path for _, path in server.seen] == ["/go.jpg"]

    def test_a_redirect_to_an_allowed_host_is_followed(self, server: Server, storage: Storage) -> None:
        server.answers["/go.jpg"] = reply(302, Location="/a.jpg")
        assert storage.read(server.url("/go.jpg"), len(BODY)) == BODY

    @pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://127.0.0.1/x", "http://u:p@127.0.0.1/x"])
    def test_a_redirect_to_another_kind_of_url_is_refused(self, server: Server, storage: Storage, target: str) -> None:
        server.answers["/go.jpg"] = reply(302, Location=target)
        with pytest.raises(AccessDenied):
            storage.read(server.url("/go.jpg"), 10)

    @pytest.mark.parametrize(("hops", "allowed"), [(3, True), (4, False)])
    def test_three_redirects_are_followed_and_no_more(
        self, server: Server, storage: Storage, hops: int, allowed: bool
    ) -> None:
        for hop in range(hops):
            target = f"/{hop + 1}.jpg" if hop + 1 < hops else "/a.jpg"
            server.answers[f"/{hop}.jpg"] = reply(307, Location=target)
        if allowed:
            assert storage.read(server.url("/0.jpg"), len(BODY)) == BODY
        else:
            with pytest.raises(AccessDenied, match="more than 3 redirects"):
                storage.read(server.url("/0.jpg"), len(BODY))

    def test_an_allowed_network_opens_the_address(self, server: Server) -> None:
        with Storage(Access(networks=("127.0.0.0/8",), retries=0)) as storage:
            assert storage.read(server.url("/a.jpg"), len(BODY)) == BODY

    def test_a_proxy_in_the_environment_is_not_used(
        self, server: Server, storage: Storage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
        assert storage.read(server.url("/a.jpg"), len(BODY)) == BODY


class TestListing:
    def test_a_page_of_links_is_a_folder(self, server: Server, storage: Storage) -> None:
        server.answers["/set/"] = reply(200, PAGE)
        server.answers["/set/sub/"] = reply(200, b'<a href="/set/sub/d.webp">d</a><a href="/set/">up</a>')
        ignored: Counter[str] = Counter()
        listing = storage.list(server.url("/set"), ignored=ignored)
        assert [(item.key, item.uri) for item in listing] == [
            ("a.jpg", server.url("/set/a.jpg")),
            ("b c.PNG", server.url("/set/b%20c.PNG")),
            ("sub/d.webp", server.url("/set/sub/d.webp")),
        ]
        assert ignored == {"not an image": 1}

    def test_a_url_of_an_image_is_that_image(self, server: Server, storage: Storage) -> None:
        [item] = storage.list(server.url("/a.jpg?v=1"))
        assert storage.read(item.uri, len(BODY)) == BODY

    def test_a_missing_page_is_a_missing_prefix(self, server: Server, storage: Storage) -> None:
        with pytest.raises(ObjectMissing, match="none"):
            storage.list(server.url("/none/"))
