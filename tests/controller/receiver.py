"""A receiver of webhooks over real TLS, with a certificate authority of the test's own."""

import base64
import datetime
import hashlib
import hmac
import ipaddress
import json
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

_NAME = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "receiver of a test")])


def certificate(folder: Path) -> Path:
    """A file with a key and a certificate for localhost and 127.0.0.1, which is its own authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    begins = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    made = (
        x509.CertificateBuilder()
        .subject_name(_NAME)
        .issuer_name(_NAME)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(begins + datetime.timedelta(days=36500))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / "receiver.pem"
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + made.public_bytes(serialization.Encoding.PEM)
    )
    return path


@dataclass(frozen=True)
class Heard:
    """A request that came."""

    path: str
    headers: Message
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Receiver:
    """An https server; `answer` says with which status, headers and body it answers the n-th request."""

    def __init__(self, folder: Path) -> None:
        self.authority = certificate(folder)
        self.heard: list[Heard] = []
        self.answer: Callable[[int], tuple[int, dict[str, str], bytes]] = lambda number: (200, {}, b"thanks")
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.heard.append(Heard(self.path, self.headers, body))
                status, headers, said = receiver.answer(len(receiver.heard))
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(said)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.authority)
        # The handshake is the handler thread's: a client that breaks it off ends nothing else.
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.port = self._server.server_address[1]

    def url(self, path: str = "/hook", host: str = "localhost") -> str:
        return f"https://{host}:{self.port}{path}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def verified(heard: Heard, secret: str) -> bool:
    """What a receiver does, by the words of the Standard Webhooks specification."""
    key = base64.b64decode(secret.split("_", 1)[1])
    content = f"{heard.headers['webhook-id']}.{heard.headers['webhook-timestamp']}.{heard.body.decode()}"
    expected = base64.b64encode(hmac.new(key, content.encode(), hashlib.sha256).digest()).decode()
    return f"v1,{expected}" in heard.headers["webhook-signature"].split(" ")
