"""Several worker processes for one run, each a `samjobs queue process --json` of its own.

What they print is read here, counted and told once. They are sessions of their own, so that Ctrl-C on the terminal
reaches this process alone, which hands it on. When this process is killed, their next line finds no reader and they
stop as on Ctrl-C. One that is killed is replaced, and its shard charged a failure. With a limit it is not replaced:
nobody knows how much of its share it has used.
"""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TextIO

from samjobs.cli.context import database_file
from samjobs.cli.exits import Exit
from samjobs.cli.run import Run
from samjobs.cli.stop import STOPPING
from samjobs.errors import ErrorClass, SamjobsError

REPLACED_PER_MEMBER = 3
_POLL_S = 0.1


class CrewFailed(SamjobsError):
    """A worker process could not go on; its own words."""

    error_class = ErrorClass.WORKER


class _Member:
    """One process and the threads that read what it says."""

    def __init__(self, command: list[str], on_line: Callable[[str], None], on_remark: Callable[[str], None]) -> None:
        self.last_remark = ""
        self._on_remark = on_remark
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="backslashreplace",
            start_new_session=True,
        )
        assert self.process.stdout is not None, "asked for a pipe"
        assert self.process.stderr is not None, "asked for a pipe"
        self._readers = [
            threading.Thread(target=_each_line, args=(self.process.stdout, on_line), daemon=True),
            threading.Thread(target=_each_line, args=(self.process.stderr, self._remark), daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def _remark(self, text: str) -> None:
        self.last_remark = text.removeprefix("samjobs: ")
        self._on_remark(self.last_remark)

    @property
    def died(self) -> bool:
        """Killed by a signal."""
        return self.process.poll() is not None and self.process.returncode < 0

    @property
    def ended(self) -> bool:
        """Ended by itself."""
        return self.process.poll() is not None and self.process.returncode >= 0

    def join(self) -> None:
        """Wait until it has ended and all that it said was heard."""
        self.process.wait()
        for reader in self._readers:
            reader.join()


class Crew:
    """The processes of one run."""

    def __init__(self, run: Run, processes: int) -> None:
        self._run = run
        self._limit = run.allowance.left()
        self._size = processes if self._limit is None else min(processes, self._limit)
        self._replaced = 0
        self._lock = threading.Lock()
        self._said = {STOPPING}  # this process says that itself
        self._members: list[_Member] = []

    def work(self) -> None:
        """Until all have ended.

        Raises:
            CrewFailed: one could not go on, or they die again and again.
        """
        try:
            for index in range(self._size):
                self._members.append(self._start(self._share(index)))
            self._watch()
        finally:
            self._stop()
            for member in self._members:
                member.join()
        for member in self._members:
            if Exit.SOME_FAILED < member.process.returncode < Exit.BY_SIGNAL:
                raise CrewFailed(member.last_remark or f"a worker process ended with code {member.process.returncode}")

    def _watch(self) -> None:
        while self._run.allowance.left() != 0:
            for member in [one for one in self._members if one.died]:
                self._members.remove(member)
                self._replace(member)
            if all(member.ended for member in self._members):
                return
            time.sleep(_POLL_S)

    def _replace(self, dead: _Member) -> None:
        dead.join()
        self._run.worker.put_back_orphans()
        how = f"worker process {dead.process.pid} died by signal {-dead.process.returncode}"
        self._replaced += 1
        if self._replaced > REPLACED_PER_MEMBER * self._size:
            raise CrewFailed(f"{how}, the {self._replaced}th one: see the system's log, e.g. for lack of memory")
        if self._limit is None:
            self._run.report.say(f"{how}; starting another")
            self._members.append(self._start())
        elif self._members:
            self._run.report.say(f"{how}; the others do their share of the limit")
        else:
            raise CrewFailed(f"{how}, and no other is left")

    def _stop(self) -> None:
        """Ask those that still run to stop after the image in hand."""
        for member in self._members:
            if member.process.poll() is None:
                with suppress(ProcessLookupError):
                    member.process.terminate()

    def _share(self, index: int) -> int | None:
        """Of the limit, what the member of this number may use."""
        return None if self._limit is None else self._limit // self._size + (index < self._limit % self._size)

    def _start(self, limit: int | None = None) -> _Member:
        run = self._run
        command = [sys.executable, "-m", "samjobs.cli", "queue", "process", "--json"]
        command += [f"--db={database_file(run.settings)}"]
        command += [f"--job={run.only}"] if run.only is not None else []
        command += [f"--limit={limit}"] if limit is not None else []
        return _Member(command, self._line, self._remark)

    def _line(self, text: str) -> None:
        try:
            line = json.loads(text)
        except ValueError:  # a library that prints
            self._remark(text)
            return
        if line["type"] == "image":
            with self._lock:
                self._run.line(line)

    def _remark(self, text: str) -> None:
        """Tell what a member said, once: all of them meet the same full disk."""
        with self._lock:
            if text not in self._said:
                self._said.add(text)
                self._run.report.say(text)


def _each_line(stream: TextIO, tell: Callable[[str], None]) -> None:
    for line in stream:
        if line.endswith("\n"):  # the last one of a process that was killed may be cut
            tell(line.rstrip("\n"))
