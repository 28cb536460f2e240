"""The real `samjobs` command on the job table of a database: Postgres or a SQLite file."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from samjobs.store import Store, workers
from samjobs.store.rows import WorkerState
from tests.cli.command import PATIENCE_S, Said
from tests.store.builders import ME


@dataclass
class JobTable:
    """The command with a database set as a person sets it."""

    url: str
    root: Path
    store: Store
    environment: dict[str, str] = field(default_factory=dict)

    def run(self, *arguments: str | Path | UUID, code: int | None = 0, given: str | None = None) -> Said:
        """Run the command to its end; `code` is the exit code that it must have, `given` is its standard input."""
        process = self.start(*arguments)
        out, err = process.communicate(given, timeout=PATIENCE_S)
        assert code in (None, process.returncode), f"exit code {process.returncode}, not {code}\n{out}\n{err}"
        return Said(process.returncode, out, err)

    def start(self, *arguments: str | Path | UUID) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "samjobs.cli", *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"SAMJOBS_DATABASE_URL": self.url} | self.environment,
            cwd=self.root,
        )

    def register_worker(self, *, pool: str = "a100", region: str = "default", incarnation: UUID = ME) -> None:
        """A worker process that is ready."""
        with self.store.begin() as conn:
            workers.register(conn, incarnation, pool=pool, region=region, node="gpu-7", pid=4711)
            workers.set_model(conn, incarnation, device="cuda", model="facebook/sam3", revision="")
            workers.set_state(conn, incarnation, WorkerState.READY)


def fields(text: str) -> dict[str, str]:
    """The lines `Title:  value` of `describe`."""
    return dict(re.findall(r"^([A-Z][A-Za-z ]*): +(.*)$", text, re.MULTILINE))


def cells(text: str) -> list[list[str]]:
    """The rows of a table, each as its cells, with the header first."""
    return [re.split(r" {3,}", line) for line in text.splitlines()]
