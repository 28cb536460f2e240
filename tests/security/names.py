"""A name server of a test's own, and a process that asks it and nobody else.

The process has a mount namespace in which /etc/resolv.conf names this server: it resolves by the system's resolver, as
in production. Needs root and `unshare`.
"""

import ipaddress
import json
import random
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

A, AAAA = 1, 28
Answers = dict[str, list[list[str]]]  # name → what each question after another is told; the last one stays


class Names:
    """Answers questions for A and AAAA from `answers`; anything else does not exist."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self.asked: list[str] = []
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.address = f"127.{random.randint(1, 254)}.{random.randint(1, 254)}.53"
        self._socket.bind((self.address, 53))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._socket.sendto(b"", (self.address, 53))
        self._thread.join(10)
        self._socket.close()

    def _serve(self) -> None:
        while True:
            question, sender = self._socket.recvfrom(4096)
            if not question:
                return
            self._socket.sendto(self._answer(question), sender)

    def _answer(self, packet: bytes) -> bytes:
        at, labels = 12, []
        while packet[at]:
            labels.append(packet[at + 1 : at + 1 + packet[at]].decode())
            at += packet[at] + 1
        name, kind = ".".join(labels).lower(), int.from_bytes(packet[at + 1 : at + 3], "big")
        question = packet[12 : at + 5]
        told = self._told(name, kind)
        records = b"".join(
            b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 0, len(address.packed)) + address.packed for address in told
        )
        code = 0x8180 if name in self._answers else 0x8183
        return packet[:2] + struct.pack(">HHHHH", code, 1, len(told), 0, 0) + question + records

    def _told(self, name: str, kind: int) -> list[Any]:
        turns = self._answers.get(name, [[]])
        addresses = [ipaddress.ip_address(one) for one in turns[0]]
        if kind == AAAA:
            # The resolver asks for both kinds at once: the turn is over with the second question.
            return [one for one in addresses if one.version == 6]
        self.asked.append(name)
        if len(turns) > 1:
            turns.pop(0)
        return [one for one in addresses if one.version == 4]


@contextmanager
def names(answers: Answers) -> Iterator[Names]:
    """A name server, for as long as the block goes on."""
    server = Names(answers)
    try:
        yield server
    finally:
        server.close()


def told_by(code: str, server: Names, folder: Path, *arguments: str) -> Any:
    """What a Python process that asks this name server prints, as JSON."""
    resolver = folder / "resolv.conf"
    resolver.write_text(f"nameserver {server.address}\noptions attempts:1 timeout:5 single-request\n")
    mounted = f'mount --bind {resolver} /etc/resolv.conf && exec "$@"'
    command = ["unshare", "--mount", "sh", "-c", mounted, "sh", sys.executable, "-W", "error", "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def free_port() -> int:
    """A port of this machine that nobody listens on now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port
