"""A Redis server of the tests' own, which can be stopped, killed and started again at the same address.

It listens on the loopback address only, on a port of its own, and keeps what it was told in a folder that goes with it.
"""

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

INSTALL = "install Redis' server (Debian, Ubuntu: apt-get install redis-server), or put redis-server on PATH"
_PATIENCE_S = 60


def programs() -> Path | None:
    """redis-server, or None."""
    found = shutil.which("redis-server")
    return Path(found) if found else None


class Server:
    """One Redis at one address, whether it runs or not."""

    def __init__(self, program: Path, folder: Path, options: tuple[str, ...]) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.folder = folder
        # Whatever is told is appended to a file before it is answered, so that a killed server has it all.
        self._command = [str(program), "--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(folder)]
        self._command += ["--appendonly", "yes", "--appendfsync", "no", "--save", "", *options]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Of the running server, to send it signals."""
        assert self._process is not None, "the server does not run"
        return self._process.pid

    def start(self, *, empty: bool = False, options: tuple[str, ...] = (), ready: bool = True) -> None:
        """Start it with all that it had, or `empty`; return when it answers, or, without `ready`, when it listens."""
        assert self._process is None, "the server runs"
        if empty:
            shutil.rmtree(self.folder / "appendonlydir", ignore_errors=True)
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen([*self._command, *options], stdout=log, stderr=log)
        until = time.monotonic() + _PATIENCE_S
        while not self._answers(ready):
            if self._process.poll() is not None or time.monotonic() > until:
                raise AssertionError(f"redis-server did not start:\n{(self.folder / 'log').read_text()}")
            time.sleep(0.005)

    def _answers(self, ready: bool) -> bool:
        try:
            with redis.Redis(port=self.port, retry=Retry(NoBackoff(), 0)) as client:
                return bool(client.ping())
        except redis.BusyLoadingError:
            return not ready
        except redis.AuthenticationError:
            return True
        except (redis.ConnectionError, redis.TimeoutError):
            return False

    def stop(self) -> None:
        """As an operator stops it."""
        self._end("terminate")

    def kill(self) -> None:
        """As the kernel kills it."""
        self._end("kill")

    def _end(self, how: str) -> None:
        assert self._process is not None, "the server does not run"
        getattr(self._process, how)()
        self._process.wait(_PATIENCE_S)
        self._process = None

    def forget(self) -> None:
        """Drop all keys of all databases."""
        with redis.Redis(port=self.port) as client:
            client.flushall()

    def close(self) -> None:
        """End it, if it runs."""
        if self._process is not None:
            self.kill()


@contextmanager
def server(program: Path, *options: str) -> Iterator[Server]:
    """A running, empty server.

    Args:
        options: further arguments of redis-server, as "--maxmemory", "10mb".
    """
    with tempfile.TemporaryDirectory(prefix="samjobs-redis-", ignore_cleanup_errors=True) as folder:
        one = Server(program, Path(folder), options)
        try:
            one.start()
            yield one
        finally:
            one.close()
