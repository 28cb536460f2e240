"""A Hugging Face hub on the loopback address: the few requests that a download makes, answered as the hub does."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

COMMIT = "3c879f39826c281e95690f02c7821c4de09afae7"


class _Hub(BaseHTTPRequestHandler):
    """`facebook/sam3` with the files of a folder; refuses file downloads with `refusal`, (status, error code)."""

    folder: Path
    refusal: tuple[int, str] | None

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def _answer(self, *, body: bool) -> None:
        path = self.path.partition("?")[0]
        if path.startswith("/api/models/facebook/sam3/revision/"):
            self._repository(path.rpartition("/")[2])
        elif path == f"/api/models/facebook/sam3/tree/{COMMIT}":
            self._json([self._entry(file) for file in self.folder.iterdir()])
        elif path.startswith("/facebook/sam3/resolve/"):
            self._file(self.folder / path.rpartition("/")[2], body=body)
        else:
            self._send(404, b"{}", {"X-Error-Code": "RepoNotFound"})

    def _repository(self, revision: str) -> None:
        if revision not in {"main", COMMIT}:
            self._send(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
            return
        files = [{"rfilename": path.name} for path in self.folder.iterdir()]
        self._json({"id": "facebook/sam3", "modelId": "facebook/sam3", "sha": COMMIT, "siblings": files, "tags": []})

    def _entry(self, file: Path) -> dict[str, object]:
        oid = hashlib.sha1(file.read_bytes()).hexdigest()
        return {"type": "file", "path": file.name, "size": file.stat().st_size, "oid": oid}

    def _json(self, value: object) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _file(self, path: Path, *, body: bool) -> None:
        if self.refusal is not None:
            status, code = self.refusal
            self._send(status, b"", {"X-Error-Code": code, "X-Error-Message": "Access to this model is restricted"})
            return
        content = path.read_bytes()
        tag = hashlib.sha256(content).hexdigest()
        headers = {"ETag": f'"{tag}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        self._send(200, content, headers, body=body)

    def _send(self, status: int, content: bytes, headers: dict[str, str], *, body: bool = True) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if body and self.command == "GET":
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nothing: the tests' output is not a server's log."""


@contextmanager
def serve(folder: Path, refusal: tuple[int, str] | None = None) -> Iterator[str]:
    """The address of a hub that has `folder` as facebook/sam3."""
    handler = type("Hub", (_Hub,), {"folder": folder, "refusal": refusal})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
