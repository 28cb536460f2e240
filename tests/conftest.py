"""Real servers for the tests, started once per session; and an environment that holds no setting of samjobs.

A test that asks for `postgres_url`, or for `store` in its Postgres half, gets an empty, migrated database of its own:
a clone of a template, which takes some tens of milliseconds. The server keeps nothing safe (fsync off) and listens
on the loopback address only, on a port of its own.
"""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from samjobs.store import Store, connect, migrate

INSTALL_POSTGRES = "install PostgreSQL's server (Debian, Ubuntu: apt-get install postgresql), or put initdb on PATH"


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("SAMJOBS_") and name != "SAMJOBS_SAM3_PATH"]:
        monkeypatch.delenv(name)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what a test needs from the fixtures that it asks for."""
    for item in items:
        names = set(getattr(item, "fixturenames", ()))
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        if "postgres_url" in names or parameters.get("store_url") == "postgres":
            item.add_marker(pytest.mark.needs_postgres)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The address of a PostgreSQL server, with a migrated database `template` in it."""
    programs = _postgres_programs()
    if programs is None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"PostgreSQL is missing: {INSTALL_POSTGRES}")
        pytest.skip(f"PostgreSQL is missing: {INSTALL_POSTGRES}")
    # Not below pytest's own folder, which an unprivileged server could not enter.
    with tempfile.TemporaryDirectory(prefix="samjobs-pg-", ignore_cleanup_errors=True) as folder:
        yield from _serve(programs, Path(folder))


def _postgres_programs() -> Path | None:
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    found = str(installed[-1]) if installed else shutil.which("initdb")
    return Path(found).parent if found else None


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


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """The address of an empty, migrated database, gone after the test."""
    name = f"test_{uuid4().hex}"
    with psycopg.connect(f"{postgres_server}/postgres", autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name} TEMPLATE template".encode())
        yield f"{postgres_server}/{name}"
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """The address of a SQLite file that does not exist yet."""
    return f"sqlite:///{tmp_path / 'jobs.db'}"


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest) -> str:
    """Each of the two databases in turn."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    """A migrated, empty store, on each of the two databases in turn."""
    opened = connect(store_url)
    migrate(opened)
    yield opened
    opened.close()
