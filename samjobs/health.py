"""Is this process alive, is it ready, and what has it done: one small HTTP port that says so.

    /livez     200, or 503 with the reason: restart it
    /readyz    200, or 503 with the reason: it takes no work (now)
    /metrics   for Prometheus

Answers come from a thread of their own and ask nothing outside the process, so that neither a busy device nor an outage
of somebody else's service makes a healthy process look dead.
"""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from samjobs.errors import InvalidInput

CLIENT_TIMEOUT_S = 10.0
_TEXT = "text/plain; charset=utf-8"

# None: all is well; else why not, for a person.
Verdict = Callable[[], str | None]


class HealthPort(ThreadingHTTPServer):
    """The port, answering while in the `with` block."""

    daemon_threads = True

    def __init__(self, host: str, port: int, registry: CollectorRegistry, *, alive: Verdict, ready: Verdict) -> None:
        """Take the port, from which nobody is answered yet.

        Args:
            host: address to listen on; "" for all of them.
            port: 0 for any free one; `server_port` tells which.

        Raises:
            InvalidInput: the address or the port cannot be had.
        """
        self.address_family = _family(host)
        self._pages: dict[str, Callable[[], tuple[int, str, bytes]]] = {
            "/livez": lambda: _judged(alive()),
            "/readyz": lambda: _judged(ready()),
            "/metrics": lambda: (200, CONTENT_TYPE_LATEST, generate_latest(registry)),
        }
        try:
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError) as error:
            where = f"{host or 'any address'}, port {port}"
            raise InvalidInput(
                f"SAMJOBS_HEALTH_PORT: cannot listen on {where} ({error}): give a free port, or 0 for any"
            ) from None
        self._thread = threading.Thread(target=self.serve_forever, args=(0.1,), name="health", daemon=True)

    def server_bind(self) -> None:
        """Listen on IPv4 and IPv6 alike where the address allows it."""
        with suppress(OSError, AttributeError):
            if self.address_family == socket.AF_INET6:
                self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()

    def page(self, path: str) -> tuple[int, str, bytes]:
        """Status, content type and body of a page."""
        page = self._pages.get(path)
        return page() if page else (404, _TEXT, f"not here: {', '.join(self._pages)}\n".encode())

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away in the middle is no event."""


def _family(host: str) -> socket.AddressFamily:
    everywhere_v6 = host == "" and socket.has_dualstack_ipv6()
    return socket.AF_INET6 if everywhere_v6 or ":" in host else socket.AF_INET


def _judged(why_not: str | None) -> tuple[int, str, bytes]:
    return (200, _TEXT, b"ok\n") if why_not is None else (503, _TEXT, f"{why_not}\n".encode())


class _Handler(BaseHTTPRequestHandler):
    server: HealthPort
    timeout = CLIENT_TIMEOUT_S  # a client that sends nothing holds a thread no longer
    server_version, sys_version = "samjobs", ""

    def do_GET(self) -> None:
        status, kind, body = self.server.page(self.path.partition("?")[0])
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """A probe every few seconds is no news."""
