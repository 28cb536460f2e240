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


@contextmanager
def server(programs: Path) -> Iterator[str]:
    """A running server with a migrated database `template` in it; its address."""
    # Not below pytest's own folder, which an unprivileged server could not enter.
    with tempfile.TemporaryDirectory(prefix="samjobs-pg-", ignore_cleanup_errors=True) as folder:
        yield from _serve(programs, Path(folder))


def _serve(programs: Path, folder: Path) -> Iterator[str]:
    user = _unprivileged_user()
    folder.chmod(0o755)
    data = folder / "data"
    data.mkdir(mode=0o700)
    if user is not None:
        os.chown(data, pwd.getpwnam(user).pw_uid, pwd.getpwnam(user).pw_gid)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    run = [str(programs / "initdb"), "-D", str(data), "-U", "samjobs", "-A", "trust", "-E", "UTF8", "--no-sync"]
    subprocess.run([*run, "--locale=C"], user=user, check=True, capture_output=True, cwd="/")
    options = (
        f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off -c full_page_writes=off"
        " -c synchronous_commit=off -c max_connections=60 -c shared_buffers=64MB -c autovacuum=off"
    )
    control = [str(programs / "pg_ctl"), "-D", str(data), "-w", "-t", "60"]
    # The log is a file: a pipe would stay open in the server and never end.
    subprocess.run(
        [*control, "-l", str(data / "log"), "-o", options, "start"],
        user=user,
        check=True,
        stdout=subprocess.DEVNULL,
        cwd="/",
    )
    try:
        server = f"postgresql://samjobs@127.0.0.1:{port}"
        with psycopg.connect(f"{server}/postgres", autocommit=True) as admin:
            admin.execute("CREATE DATABASE template")
        template = connect(f"{server}/template")
        migrate(template)
        template.close()
        yield server
    finally:
        subprocess.run([*control, "-m", "immediate", "stop"], user=user, check=True, stdout=subprocess.DEVNULL, cwd="/")


def _unprivileged_user() -> str | None:
    """PostgreSQL refuses to run as root."""
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
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
