"""Which servers do the queues of `queue.py` run against? One Postgres and one Redis of the benchmark's own.

Postgres keeps what it commits, as a server in use does: fsync, full pages and synchronous commits are on, autovacuum
runs. Redis has its own defaults. Both listen on the loopback address only, on free ports.
"""

import os
import pwd
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from samjobs.store import connect, migrate
from tests import postgres, redis_server

POSTGRES = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "shared_buffers": "512MB",
    "max_wal_size": "4GB",
    "max_connections": "100",
}


@dataclass(frozen=True)
class Servers:
    """Their addresses."""

    postgres: str  # without a database
    redis: str  # without a number

    def ours(self) -> AbstractContextManager[str]:
        """The address of a database with our tables, until the end of the block."""
        return postgres.database(self.postgres)

    def database(self, name: str) -> str:
        """The address of a new, empty database."""
        with psycopg.connect(f"{self.postgres}/postgres", autocommit=True) as admin:
            admin.execute(f'CREATE DATABASE "{name}"'.encode())
        return f"{self.postgres}/{name}"


@contextmanager
def servers() -> Iterator[Servers]:
    """Both, running and empty.

    Raises:
        SystemExit: one is not installed; says how to install it.
    """
    programs, redis_program = postgres.programs(), redis_server.programs()
    if programs is None or redis_program is None:
        raise SystemExit(f"benchmarks.queue: {postgres.INSTALL if programs is None else redis_server.INSTALL}")
    with _postgres(programs) as address, redis_server.server(redis_program, "--appendonly", "no") as redis:
        yield Servers(address, redis.url.rpartition("/")[0])


@contextmanager
def _postgres(programs: Path) -> Iterator[str]:
    user = postgres.unprivileged_user()
    with tempfile.TemporaryDirectory(prefix="samjobs-bench-pg-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        data = Path(folder) / "data"
        data.mkdir(mode=0o700)
        if user is not None:
            os.chown(data, pwd.getpwnam(user).pw_uid, pwd.getpwnam(user).pw_gid)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        options = " ".join(f"-c {name}={value}" for name, value in {"port": port, **POSTGRES}.items())
        control = [str(programs / "pg_ctl"), "-D", str(data), "-w", "-t", "60"]
        for command in (
            [str(programs / "initdb"), "-D", str(data), "-U", "samjobs", "-A", "trust", "-E", "UTF8", "--locale=C"],
            [*control, "-l", str(data / "log"), "-o", options, "start"],
        ):
            subprocess.run(command, user=user, check=True, stdout=subprocess.DEVNULL, cwd="/")
        address = f"postgresql://samjobs@127.0.0.1:{port}"
        try:
            _make_template(address)
            yield address
        finally:
            stop = [*control, "-m", "immediate", "stop"]
            subprocess.run(stop, user=user, check=True, stdout=subprocess.DEVNULL, cwd="/")


def _make_template(address: str) -> None:
    """What `tests.postgres.database` makes its databases of."""
    with psycopg.connect(f"{address}/postgres", autocommit=True) as admin:
        admin.execute("CREATE DATABASE template")
    store = connect(f"{address}/template")
    migrate(store)
    store.close()
