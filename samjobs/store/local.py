"""SQLite as a store for one machine: its settings per connection, and where it must not lie.

WAL lets readers go on while one process writes, by memory that the processes of one machine share. Over a network
file system that sharing is silently absent and the file is damaged, so such a place is refused.
"""

import re
import sqlite3
import time
from pathlib import Path

from samjobs.errors import InvalidInput

# File systems of other machines, and FUSE ones that put objects or remote files behind a path. 9p is among them
# because WSL and some containers mount the host's disk by it, without shared memory.
_NETWORK = """
    nfs nfs3 nfs4 cifs smb smb2 smb3 smbfs ncpfs afs coda 9p ceph glusterfs lustre beegfs gpfs ocfs2 gfs2 davfs
    fuse.sshfs fuse.s3fs fuse.rclone fuse.gcsfuse fuse.blobfuse fuse.blobfuse2 fuse.goofys fuse.mountpoint-s3
    fuse.ceph fuse.glusterfs fuse.davfs2 fuse.smbnetfs fuse.gvfsd-fuse fuse.juicefs fuse.seaweedfs
"""
NETWORK_FILE_SYSTEMS = frozenset(_NETWORK.split())
_MOUNTS = Path("/proc/self/mounts")
_OCTAL = re.compile(r"\\([0-7]{3})")
_WAL_RETRY_S = 0.01


def refuse_network_file_system(path: Path, mounts: Path = _MOUNTS) -> None:
    """Refuse to keep a SQLite database at `path` when that lies on another machine's disk.

    Args:
        mounts: the kernel's list of mounts (proc(5)); where there is none, nothing is known and nothing refused.

    Raises:
        InvalidInput: naming the path, the kind of file system and the remedy.
    """
    try:
        listed = mounts.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return
    kind = _file_system_of(path.resolve(), listed)
    if kind in NETWORK_FILE_SYSTEMS:
        raise InvalidInput(
            f"database {path} lies on a network file system ({kind}), where SQLite files get damaged:"
            " put it on a local disk by --db PATH, or use Postgres"
        )


def _file_system_of(path: Path, mounts: str) -> str | None:
    """The kind of the deepest mount that holds `path`; of several on one point, the last one covers the others."""
    best: tuple[int, str] | None = None
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = Path(_OCTAL.sub(lambda found: chr(int(found[1], 8)), fields[1]))
        if path.is_relative_to(point) and (best is None or len(point.parts) >= best[0]):
            best = (len(point.parts), fields[2])
    return best[1] if best else None


def set_up_sqlite(connection: sqlite3.Connection, busy_timeout_s: float) -> None:
    """Put a new connection's settings in place. They live in the connection, except WAL, which lives in the file."""
    for setting in (
        f"busy_timeout = {int(busy_timeout_s * 1000)}",
        "foreign_keys = ON",
        # With WAL, NORMAL loses no consistency by a crash; the last commits only by a power cut.
        "synchronous = NORMAL",
    ):
        connection.execute(f"PRAGMA {setting}")
    _use_wal(connection, busy_timeout_s)


def _use_wal(connection: sqlite3.Connection, patience_s: float) -> None:
    """Switch the file to WAL. The switch takes a lock without waiting for it, so processes that start together try
    again until one has done it."""
    deadline = time.monotonic() + patience_s
    while connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
            if not busy or time.monotonic() > deadline:
                raise
            time.sleep(_WAL_RETRY_S)
