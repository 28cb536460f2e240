"""pgbouncer in transaction mode before a PostgreSQL server: nothing is kept in a session."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.postgres import unprivileged_user
from tests.waiting import until

INSTALL = "install pgbouncer (Debian, Ubuntu: apt-get install pgbouncer)"
CONFIG = """
[databases]
* = host=127.0.0.1 port={port} user=samjobs
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 20
max_client_conn = 200
server_connect_timeout = 2
server_login_retry = 1
logfile = {folder}/log
pidfile = {folder}/pid
"""


def program() -> str | None:
    """Where pgbouncer is, or None."""
    return shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


@contextmanager
def before(program: str, postgres_port: int) -> Iterator[str]:
    """A running pgbouncer; the address under which it answers, without a database."""
    user = unprivileged_user()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        listen = free.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="samjobs-pgbouncer-") as place:
        folder = Path(place)
        config = folder / "pgbouncer.ini"
        config.write_text(CONFIG.format(port=postgres_port, listen=listen, folder=folder))
        if user is not None:
            owner = pwd.getpwnam(user)
            for path in (folder, config):
                os.chown(path, owner.pw_uid, owner.pw_gid)
        process = subprocess.Popen(
            [program, "-q", str(config)], user=user, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/"
        )
        try:
            until(lambda: _answers(listen), f"pgbouncer answers; its log is {folder}/log")
            yield f"postgresql://samjobs@127.0.0.1:{listen}"
        finally:
            process.terminate()
            process.wait()


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
