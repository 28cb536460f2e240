"""Processes that outlive a command, each with a log, and ended by the process id that was written down.

A record holds the time when the process began, in the kernel's ticks, so that an id which the kernel gave to another
process meanwhile is never signalled. Each process is the leader of a session of its own: no Ctrl-C reaches it.
"""

import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.waiting import until

_PATIENCE_S = 15


@dataclass(frozen=True)
class Process:
    """One program of the cluster; `folder` keeps NAME.pid and NAME.log."""

    folder: Path
    name: str

    @property
    def log(self) -> Path:
        return self.folder / f"{self.name}.log"

    @property
    def _record(self) -> Path:
        return self.folder / f"{self.name}.pid"

    def start(self, command: Sequence[str | Path], env: Mapping[str, str] | None = None, bound: bool = False) -> None:
        """Start `command`, with `env` beside this process's own environment.

        Args:
            bound: the kernel kills it when the thread that called this ends, however that comes about.
        """
        words = [str(word) for word in command]
        if bound:
            words = ["setpriv", "--pdeathsig", "KILL", "--", *words]
        log = str(self.log)
        pid = os.posix_spawnp(
            words[0],
            words,
            {**os.environ, **(env or {})},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
        )
        self._record.write_text(f"{pid} {_began(pid)}")

    @property
    def pid(self) -> int | None:
        """Its id, while it runs."""
        try:
            pid, began = self._record.read_text().split()
        except (FileNotFoundError, ValueError):
            return None
        return int(pid) if _began(int(pid)) == began else None

    def stop(self, kind: signal.Signals = signal.SIGTERM) -> None:
        """End it, if need be by force. Nothing happens if it does not run."""
        pid = self.pid
        if pid is None:
            return
        os.kill(pid, kind)
        try:
            until(lambda: self.pid is None, f"{self.name} ends", _PATIENCE_S)
        except AssertionError:
            os.kill(pid, signal.SIGKILL)
            until(lambda: self.pid is None, f"{self.name} ends")

    def tail(self, lines: int = 50) -> str:
        """The end of its log."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])


def _began(pid: int) -> str | None:
    """When a process began; None when it has ended."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)  # a child that ended stays in the table until it is asked about
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if after_name[0] == "Z" else after_name[19]
