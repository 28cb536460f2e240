"""An API server seen through a proxy that says of some answers that they have become too old (HTTP 410)."""

import http.client
import json
import re
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from tests.cluster.client import Client
from tests.cluster.control_plane import ControlPlane

_GONE = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410}
_PASSED_ON = ("accept", "content-type", "user-agent")


@contextmanager
def proxy(client: Client, folder: Path, is_stale: Callable[[str], bool]) -> Iterator[Path]:
    """A KUBECONFIG of the proxy, where a LIST has two objects on a page.

    Args:
        is_stale: whether the request for this path is answered by 410.
    """
    plane = ControlPlane(client.kubeconfig.parent)
    keys = plane.folder / "pki"
    trust = ssl.create_default_context(cafile=keys / "ca.crt")
    trust.load_cert_chain(keys / "admin.crt", keys / "admin.key")
    port = urlsplit(plane.server).port

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.close_connection = True
            path = re.sub(r"limit=\d+", "limit=2", self.path)
            if is_stale(path):
                self._say(410, json.dumps(_GONE).encode())
                return
            server = http.client.HTTPSConnection("127.0.0.1", port, context=trust)
            try:
                passed_on = {name: told for name, told in self.headers.items() if name.lower() in _PASSED_ON}
                server.request("GET", path, headers=passed_on)
                answer = server.getresponse()
                self._say(answer.status)
                while chunk := answer.read1(65536):
                    self.wfile.write(chunk)
                    self.wfile.flush()
            except OSError:
                pass  # whoever watched has gone
            finally:
                server.close()

        def _say(self, status: int, body: bytes = b"") -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Not to the test's output."""

    served = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served.daemon_threads = True
    thread = threading.Thread(target=served.serve_forever, daemon=True)
    thread.start()
    try:
        yield _kubeconfig(folder / "proxy.kubeconfig", f"http://127.0.0.1:{served.server_port}")
    finally:
        served.shutdown()
        thread.join()
        served.server_close()


def _kubeconfig(path: Path, server: str) -> Path:
    made = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "proxy",
        "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "proxy"}}],
        "clusters": [{"name": "proxy", "cluster": {"server": server}}],
        "users": [{"name": "proxy", "user": {"token": "none"}}],
    }
    path.write_text(yaml.safe_dump(made))
    return path
