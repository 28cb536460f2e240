"""Files of web servers, over http and https, each hop judged by `guard`.

Reading only. A folder is a page with links, as web servers make for folders without an index; only links that stay
below it are followed. Redirects are followed by hand, three at most, so that each address passes the guard. Nothing
is taken from the environment: a proxy would make the judgement of addresses moot.
"""

import asyncio
import html.parser
import tempfile
import threading
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, Any, TypeVar, cast
from urllib.parse import urldefrag, urljoin, urlsplit

import aiohttp
import fsspec.asyn
import yarl

from samjobs.errors import AccessDenied, InvalidInput, ObjectMissing
from samjobs.storage import guard
from samjobs.storage.access import Access
from samjobs.storage.backend import Entry, Kind, Stamp, over_limit
from samjobs.storage.faults import for_status, reading
from samjobs.storage.paths import is_image_name, redact, web_part

MAX_REDIRECTS = 3
MAX_PAGE_BYTES = 16 << 20  # of a folder's page
_CHUNK_BYTES = 1 << 18
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_NO_HEAD = frozenset({400, 403, 405, 501})  # of servers and signed URLs that know GET only

Result = TypeVar("Result")


class WebFiles:
    """The Backend of http and https. Its requests run on fsspec's loop, so any thread may call it."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._lock = threading.Lock()
        self._sessions: dict[bool, aiohttp.ClientSession] = {}
        self._end = weakref.finalize(self, _close_all, self._sessions)

    def kind(self, uri: str) -> Kind | None:
        if is_image_name(urlsplit(uri).path):
            return None if self.size(uri) is None else Kind.FILE
        try:
            self._page(uri)
        except ObjectMissing:
            return None
        return Kind.FOLDER

    def children(self, uri: str) -> list[Entry]:
        folder, page = self._page(uri)
        parser = _Links()
        parser.feed(page.decode("utf-8", "replace"))
        entries = {}
        for link in parser.links:
            target = urldefrag(urljoin(folder, link)).url
            rest = target[len(folder) :]
            name = rest.rstrip("/")
            if not target.startswith(folder) or not name or "/" in name or "?" in name or name in (".", ".."):
                continue
            kind = Kind.FOLDER if rest.endswith("/") else Kind.FILE
            entries[name] = Entry(web_part(name), folder + name, kind)
        return list(entries.values())

    def stamp(self, uri: str) -> Stamp:
        async def ask() -> Stamp:
            async with self._get(uri, {}, method="HEAD", accept=_NO_HEAD) as answer:
                if answer.status not in _NO_HEAD:
                    return _stamp(answer)
            async with self._get(uri, {"Range": "bytes=0-0"}) as answer:
                return _stamp(answer)

        return self._run(uri, ask)

    def read(self, uri: str, limit: int) -> bytes:
        async def ask() -> bytes:
            async with self._get(uri, {}) as answer:
                if answer.content_length is not None and answer.content_length > limit:
                    raise over_limit(uri, limit, answer.content_length)
                data = bytearray()
                async for chunk in answer.content.iter_chunked(_CHUNK_BYTES):
                    data += chunk
                    if len(data) > limit:
                        raise over_limit(uri, limit)
                return bytes(data)

        return self._run(uri, ask)

    def ranges(self, uri: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        async def ask() -> list[bytes]:
            return [await self._range(uri, start, end) for start, end in ranges]

        return self._run(uri, ask)

    def open(self, uri: str) -> IO[bytes]:
        async def fill(file: IO[bytes]) -> None:
            async with self._get(uri, {}) as answer:
                async for chunk in answer.content.iter_chunked(_CHUNK_BYTES):
                    file.write(chunk)

        file = cast(IO[bytes], tempfile.TemporaryFile())  # noqa: SIM115
        try:
            self._run(uri, lambda: fill(file))
        except BaseException:
            file.close()
            raise
        file.seek(0)
        return file

    def put(self, uri: str, data: bytes) -> None:
        raise _read_only(uri)

    def put_file(self, uri: str, path: Path) -> None:
        raise _read_only(uri)

    def size(self, uri: str) -> int | None:
        try:
            return self.stamp(uri).size or 0
        except ObjectMissing:
            return None

    def delete(self, uri: str) -> None:
        raise _read_only(uri)

    def free_bytes(self, uri: str) -> int | None:
        return None

    def close(self) -> None:
        self._end()

    def _page(self, uri: str) -> tuple[str, bytes]:
        """A folder's URL with its slash, and its page."""
        folder = uri if uri.endswith("/") else uri + "/"
        return folder, self.read(folder, MAX_PAGE_BYTES)

    async def _range(self, uri: str, start: int, end: int) -> bytes:
        if end <= start:
            return b""
        async with self._get(uri, {"Range": f"bytes={start}-{end - 1}"}) as answer:
            skip = 0 if answer.status == 206 else start  # a server that knows no ranges sends all of it
            data = bytearray()
            async for chunk in answer.content.iter_chunked(_CHUNK_BYTES):
                kept = chunk[skip:]
                skip = max(0, skip - len(chunk))
                data += kept
                if len(data) >= end - start:
                    break
            return bytes(data[: end - start])

    @asynccontextmanager
    async def _get(
        self, url: str, headers: dict[str, str], *, method: str = "GET", accept: frozenset[int] = frozenset()
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The answer to a request after its redirects; statuses in `accept` are no errors."""
        previous: str | None = None
        for _ in range(MAX_REDIRECTS + 1):
            parts = guard.check_url(url, previous)
            session = self._session(guard.is_named(parts, self._access))
            async with session.request(method, _as_written(url), headers=headers, allow_redirects=False) as answer:
                if answer.status not in _REDIRECTS or "Location" not in answer.headers:
                    error = for_status(answer.status, url)
                    if error is not None and answer.status not in accept:
                        raise error
                    yield answer
                    return
                previous, url = url, urljoin(url, answer.headers["Location"])
        raise AccessDenied(f"{redact(url)}: more than {MAX_REDIRECTS} redirects")

    def _session(self, named: bool) -> aiohttp.ClientSession:
        """One session for hosts that are allowed by name, one for all others. Called on the loop only."""
        if named not in self._sessions:
            access = self._access
            connector = aiohttp.TCPConnector(
                socket_factory=None if named else guard.socket_factory(access),
                happy_eyeballs_delay=None,  # one address after the other, so that a refusal ends the request
                limit=64,
            )
            self._sessions[named] = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,  # the size limit counts what is held
                headers={"Accept-Encoding": "identity", "User-Agent": "samjobs"},
                timeout=aiohttp.ClientTimeout(
                    total=access.total_timeout_s,
                    sock_connect=access.connect_timeout_s,
                    sock_read=access.read_timeout_s,
                ),
            )
        return self._sessions[named]

    def _run(self, uri: str, make: Callable[[], Awaitable[Result]]) -> Result:
        with reading(uri):
            return cast(Result, fsspec.asyn.sync(fsspec.asyn.get_loop(), make))


class _Links(html.parser.HTMLParser):
    """The href of each <a>."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.links += [value for name, value in attrs if name == "href" and value]


def _as_written(url: str) -> yarl.URL:
    """The URL unchanged when it is already encoded: re-encoding breaks signatures; else made valid."""
    try:
        url.encode("ascii")
    except UnicodeEncodeError:
        return yarl.URL(url)
    return yarl.URL(url, encoded=" " not in url)


def _stamp(answer: aiohttp.ClientResponse) -> Stamp:
    headers = answer.headers
    total = headers.get("Content-Range", "").rpartition("/")[2]
    if answer.status == 206 and total.isdigit():
        size: int | None = int(total)
    else:
        size = answer.content_length
    return Stamp(size, headers.get("ETag") or headers.get("Last-Modified") or "")


def _read_only(uri: str) -> InvalidInput:
    return InvalidInput(f"{redact(uri)}: http and https are read only; write to a folder or an object store")


def _close_all(sessions: dict[bool, aiohttp.ClientSession]) -> None:
    async def close() -> None:
        for session in sessions.values():
            await session.close()
        sessions.clear()

    loop: Any = fsspec.asyn.get_loop()
    if sessions and loop.is_running():
        asyncio.run_coroutine_threadsafe(close(), loop).result(timeout=5)
