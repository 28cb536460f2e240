"""A PostgreSQL server of the tests' own, and databases on it: clones of a migrated template.

The server keeps nothing safe (fsync off) and listens on the loopback address only, on a port of its own.
"""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psycopg

from samjobs.store import connect, migrate

INSTALL = "install PostgreSQL's server (Debian, Ubuntu: apt-get install postgresql), or put initdb on PATH"


def programs() -> Path | None:
    """The folder of initdb and pg_ctl, or None."""
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    found = str(installed[-1]) if installed else shutil.which("initdb")
    return Path(found).parent if found else None


class Server:
    """A PostgreSQL server with a migrated database `template` in it. It can be stopped and started again."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs, self._data, self._user = programs, folder / "data", unprivileged_user()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.url = f"postgresql://samjobs@127.0.0.1:{self.port}"
        folder.chmod(0o755)
        self._data.mkdir(mode=0o700)
        if self._user is not None:
            os.chown(self._data, pwd.getpwnam(self._user).pw_uid, pwd.getpwnam(self._user).pw_gid)
        run = [str(programs / "initdb"), "-D", str(self._data), "-U", "samjobs", "-A", "trust", "-E", "UTF8"]
        subprocess.run([*run, "--no-sync", "--locale=C"], user=self._user, check=True, capture_output=True, cwd="/")

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options = (
            f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off"
            " -c full_page_writes=off -c synchronous_commit=off -c max_connections=60 -c shared_buffers=64MB"
            " -c autovacuum=off"
        )
        # The log is a file: a pipe would stay open in the server and never end.
        self._control("-l", str(self._data / "log"), "-o", options, "start")

    def stop(self) -> None:
        """Stop it as a crash would."""
        self._control("-m", "immediate", "stop")

    def _control(self, *arguments: str) -> None:
        control = [str(self._programs / "pg_ctl"), "-D", str(self._data), "-w", "-t", "60"]
        subprocess.run([*control, *arguments], user=self._user, check=True, stdout=subprocess.DEVNULL, cwd="/")

    def make_template(self) -> None:
        with psycopg.connect(f"{self.url}/postgres", autocommit=True) as admin:
            admin.execute("CREATE DATABASE template")
        template = connect(f"{self.url}/template")
        migrate(template)
        template.close()


@contextmanager
def server(programs: Path) -> Iterator[Server]:
    """A running server."""
    # Not below pytest's own folder, which an unprivileged server could not enter.
    with tempfile.TemporaryDirectory(prefix="samjobs-pg-", ignore_cleanup_errors=True) as folder:
        made = Server(programs, Path(folder))
        made.start()
        try:
            made.make_template()
            yield made
        finally:
            made.stop()


def unprivileged_user() -> str | None:
    """Who runs a server that refuses to run as root; None when that is nobody's concern."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


@contextmanager
def database(server: str) -> Iterator[str]:
    """The address of an empty, migrated database, which is dropped in the end."""
    name = f"test_{uuid4().hex}"
    with psycopg.connect(f"{server}/postgres", autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name} TEMPLATE template".encode())
    yield f"{server}/{name}"
    # Another connection: the test may have restarted the server.
    with psycopg.connect(f"{server}/postgres", autocommit=True) as admin:
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
