"""The real `samjobs` command on small drawn pictures: run it, start it, and read what it said and left."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

from samjobs.store import connect, jobs, shards
from samjobs.store.rows import Job, Shard

WITNESS = Path(__file__).parent / "witness"
PATIENCE_S = 120
RED_DISC = ("--prompt", "red disc")


def draw(path: Path, number: int = 0, colour: str = "red") -> Path:
    """A picture with one disc on grey; pictures of different numbers differ."""
    image = Image.new("RGB", (64, 48), (128, 128, 128))
    left = 6 + number % 20
    ImageDraw.Draw(image).ellipse((left, 10, left + 24, 34), fill={"red": (220, 20, 30), "blue": (20, 30, 220)}[colour])
    image.putpixel((0, 0), (100 + number // 100, 100 + number % 100, 128))
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path)
    return path


def draw_many(folder: Path, count: int) -> list[Path]:
    return [draw(folder / f"{number:03}.png", number) for number in range(count)]


@dataclass(frozen=True)
class Said:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Standard output as `--json` promises it: nothing but an object a line."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def summary(self) -> dict[str, Any]:
        assert self.lines[-1]["type"] == "summary", self.out
        return self.lines[-1]

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """processed, unchanged, failed, skipped."""
        told = self.summary
        return told["processed"], told["unchanged"], told["failed"], told["skipped"]

    @property
    def last(self) -> str:
        """The last line on standard error: where an error is told."""
        return self.err.splitlines()[-1] if self.err else ""


@dataclass
class Samjobs:
    """The command in a folder of its own, with a queue of its own."""

    root: Path
    photos: Path = field(init=False)
    out: Path = field(init=False)
    database: Path = field(init=False)
    environment: dict[str, str] = field(default_factory=dict)
    prefix: tuple[str, ...] = ()  # what starts the command: in another mount namespace, say
    view: Path = Path("/")  # where the command's file system is seen from here

    def __post_init__(self) -> None:
        self.photos, self.out, self.database = self.root / "photos", self.root / "out", self.root / "queue.db"

    # Running it.

    def run(self, *arguments: str | Path, code: int | None = 0) -> Said:
        """Run the command to its end; `code` is the exit code that it must have (None: any)."""
        return self.finish(self.start(*arguments), code)

    def start(self, *arguments: str | Path) -> "subprocess.Popen[str]":
        queue = () if arguments[0] in ("engines", "--help", "--version") else ("--db", self.database)
        return subprocess.Popen(
            [*self.prefix, sys.executable, "-m", "samjobs.cli", *arguments, *queue],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="surrogateescape",
            env=os.environ | {"PYTHONPATH": str(WITNESS), "WITNESS_FILE": str(self.witness)} | self.environment,
            cwd=self.root,
        )

    def finish(self, process: "subprocess.Popen[str]", code: int | None = 0) -> Said:
        out, err = process.communicate(timeout=PATIENCE_S)
        assert code in (None, process.returncode), f"exit code {process.returncode}, not {code}\n{out}\n{err}"
        return Said(process.returncode, out, err)

    def asked(self, *more: str | Path, prompt: tuple[str, ...] = RED_DISC) -> tuple[str | Path, ...]:
        """The main job over this folder's photos."""
        return ("process", "--input", self.photos, "--output", self.out, "--engine", "opencv", "--json", *prompt, *more)

    def process(self, *more: str | Path, code: int | None = 0, prompt: tuple[str, ...] = RED_DISC) -> Said:
        return self.run(*self.asked(*more, prompt=prompt), code=code)

    def status(self) -> list[dict[str, Any]]:
        return self.run("queue", "status", "--json").lines

    # What it left.

    def jobs(self) -> list[Job]:
        """The queue's jobs, newest first."""
        if not self.database.exists():  # refused before it was opened
            return []
        store = connect(f"sqlite:///{self.database}")
        try:
            with store.read() as conn:
                return jobs.list_jobs(conn)
        finally:
            store.close()

    def shards(self) -> list[Shard]:
        """All shards of the newest job."""
        store = connect(f"sqlite:///{self.database}")
        try:
            with store.read() as conn:
                return shards.of_job(conn, jobs.list_jobs(conn)[0].id)
        finally:
            store.close()

    @property
    def left(self) -> Path:
        """The output folder, to look into."""
        return self.view / self.out.relative_to("/")

    @property
    def witness(self) -> Path:
        return self.root / "witness.txt"

    def work(self) -> Counter[str]:
        """How often each picture was given to the engine, by all runs so far."""
        lines = self.witness.read_text().splitlines() if self.witness.exists() else []
        return Counter(line.split()[1] for line in lines)

    def workers(self) -> set[int]:
        """The processes that gave pictures to an engine."""
        lines = self.witness.read_text().splitlines() if self.witness.exists() else []
        return {int(line.split()[0]) for line in lines}

    def record(self, key: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.left / "records" / f"{key}.json").read_bytes())
        return found

    def records(self) -> list[str]:
        """The keys of all records, sorted."""
        folder = self.left / "records"
        return sorted(str(path.relative_to(folder))[: -len(".json")] for path in folder.rglob("*.json"))

    def results(self, name: str = "results.jsonl") -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.left / name).read_bytes().splitlines()]

    def left_over(self) -> list[Path]:
        """Temporary files below the output folder."""
        return [path for path in self.left.rglob("*") if path.name.startswith(".samjobs-")]

    # Holding it in the middle.

    def hold_after(self, pictures: int) -> Path:
        """From now on a process waits in the engine with its n-th picture, until `let_go`."""
        gate = self.root / "gate"
        os.mkfifo(gate)
        self.environment |= {"WITNESS_HOLD_AFTER": str(pictures), "WITNESS_GATE": str(gate)}
        return gate

    def let_go(self, gate: Path) -> None:
        """Let those go on that wait, and hold nobody any more."""
        del self.environment["WITNESS_HOLD_AFTER"]
        with gate.open("wb"):
            gate.unlink()


def read_until(process: "subprocess.Popen[str]", text: str) -> None:
    """Read standard error up to the line that holds `text`."""
    assert process.stderr is not None
    for line in process.stderr:
        if text in line:
            return
    raise AssertionError(f"the command ended without saying {text!r}")


def kill(process: "subprocess.Popen[str]") -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()
