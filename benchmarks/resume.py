"""What does a second run cost when nothing has changed, and how does that grow with the number of photos?

samjobs runs whole, as `samjobs process` does: listing, queue, a look at every photo and its record, the gathered files.
Beside it what a user would write: hash every file in full and compare, or only look whether an output is there, which
sees no change at all. The photos lie in the page cache for all of them.
"""

import hashlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.photos import write_photos
from benchmarks.report import Section, main


def process(folder: Path, work: Path) -> None:
    """The main job, with the engine that needs no weights."""
    command = [sys.executable, "-m", "samjobs.cli", "process", "--engine", "opencv", "--prompt", "pink", "--json"]
    places = ["--input", str(folder), "--output", str(work / "out"), "--db", str(work / "queue.db")]
    subprocess.run([*command, *places], check=True, stdout=subprocess.DEVNULL)


def hash_all(paths: Sequence[Path]) -> None:
    """Read every byte of every file."""
    for path in paths:
        hashlib.blake2b(path.read_bytes()).hexdigest()


def look_for_outputs(paths: Sequence[Path], output: Path) -> None:
    """Is there a file of that name?"""
    for path in paths:
        assert (output / "records" / f"{path.name}.json").exists()


def _timed(action: Callable[..., None], *arguments: Any) -> float:
    started = time.perf_counter()
    action(*arguments)
    return time.perf_counter() - started


def measure(quick: bool) -> list[Section]:
    """One table."""
    rows: list[dict[str, Any]] = []
    for count in (50, 200) if quick else (100, 400, 1600):
        with tempfile.TemporaryDirectory(prefix="samjobs-bench-") as root:
            folder, work = Path(root) / "in", Path(root)
            paths = write_photos(folder, count, 1200, 800)
            first = _timed(process, folder, work)
            again = _timed(process, folder, work)
            hashed = _timed(hash_all, paths)
            looked = _timed(look_for_outputs, paths, work / "out")
        rows.append(
            {
                "photos": count,
                "first run s": first,
                "second run s": again,
                "hash all s": hashed,
                "output there? s": looked,
                "second run ms/photo": 1000 * again / count,
            }
        )
    start = "A run's start, about a second, is in it; the last column falls towards the cost per photo."
    return [Section("A second run over unchanged photos (1200 × 800 JPEGs)", rows, start)]


if __name__ == "__main__":
    main(__doc__ or "", measure)
