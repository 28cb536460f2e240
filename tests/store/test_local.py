"""SQLite's settings hold in every connection, and its file may not lie on another machine."""

import sqlite3
from pathlib import Path
from uuid import uuid4

import pytest

from samjobs.errors import InvalidInput
from samjobs.store import connect, migrate, workers
from samjobs.store.local import refuse_network_file_system

MOUNTS = r"""
/dev/sda1 / ext4 rw 0 0
nas:/home /home nfs4 rw 0 0
/dev/sdb1 /home/me/fast xfs rw 0 0
//box/photos /mnt/my\040photos cifs rw 0 0
me@box: /mnt/box fuse.sshfs rw 0 0
/dev/sdc1 /mnt/over ext4 rw 0 0
nas:/over /mnt/over nfs rw 0 0
"""


@pytest.fixture
def mounts(tmp_path: Path) -> Path:
    path = tmp_path / "mounts"
    path.write_text(MOUNTS.lstrip())
    return path


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/me/jobs.db", "nfs4"),
        ("/mnt/my photos/album/jobs.db", "cifs"),
        ("/mnt/box/jobs.db", "fuse.sshfs"),
        ("/mnt/over/jobs.db", "nfs"),
    ],
)
def test_a_network_file_system_is_refused_with_path_kind_and_remedy(mounts: Path, path: str, kind: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        refuse_network_file_system(Path(path), mounts)
    for part in (path, f"({kind})", "--db", "local disk"):
        assert part in str(refused.value)


@pytest.mark.parametrize("path", ["/jobs.db", "/home/me/fast/jobs.db", "/mnt/boxer/jobs.db"])
def test_a_local_disk_is_accepted_also_below_a_network_mount(mounts: Path, path: str) -> None:
    refuse_network_file_system(Path(path), mounts)


def test_where_mounts_are_unknown_nothing_is_refused(tmp_path: Path) -> None:
    refuse_network_file_system(Path("/home/jobs.db"), tmp_path / "absent")


def test_every_connection_has_the_settings_and_the_file_is_wal(sqlite_url: str) -> None:
    store = connect(sqlite_url)
    migrate(store)
    wanted = {"journal_mode": "wal", "synchronous": 1, "foreign_keys": 1, "busy_timeout": 60_000}
    # Two at once are two connections.
    with store.begin() as one, store.read() as other:
        for conn in (one, other):
            found = {name: conn.exec_driver_sql(f"PRAGMA {name}").scalar_one() for name in wanted}
            assert found == wanted
    store.close()


def test_a_write_transaction_holds_the_lock_from_its_first_moment(sqlite_url: str) -> None:
    store = connect(sqlite_url)
    migrate(store)
    with store.begin(), sqlite3.connect(store.name, timeout=0) as intruder:
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            intruder.execute("BEGIN IMMEDIATE")
        assert intruder.execute("SELECT count(*) FROM jobs").fetchone() == (0,)
    intruder.close()
    store.close()


def test_a_reader_sees_one_snapshot_while_others_write(sqlite_url: str) -> None:
    store = connect(sqlite_url)
    migrate(store)
    count = "SELECT count(*) FROM workers"
    with store.read() as reader:
        assert reader.exec_driver_sql(count).scalar_one() == 0
        with store.begin() as writer:
            workers.register(writer, uuid4(), pool="local", region="eu", node="laptop", pid=1)
        assert reader.exec_driver_sql(count).scalar_one() == 0
    with store.read() as reader:
        assert reader.exec_driver_sql(count).scalar_one() == 1
    store.close()
