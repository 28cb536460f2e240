"""Jobs over drawn pictures, and processes of this machine that can be killed."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

from PIL import Image, ImageDraw

from samjobs.inputs import NewImage
from samjobs.segmentation.engines.opencv import OpenCVEngine
from samjobs.settings import Settings
from samjobs.spec import Images, JobSpec, Output, Prompts, TextPrompt
from samjobs.store import Store, images, jobs
from samjobs.store.rows import Image as ImageRow

PATIENCE_S = 60


def draw(path: Path) -> Path:
    """A red disc on grey."""
    image = Image.new("RGB", (64, 48), (128, 128, 128))
    ImageDraw.Draw(image).ellipse((10, 10, 34, 34), fill=(220, 20, 30))
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path)
    return path


def spec(root: Path, **changes: Any) -> JobSpec:
    """Red discs in root/photos, results to root/out."""
    defaults = {
        "images": Images(prefix=str(root / "photos")),
        "prompts": Prompts(text=(TextPrompt(text="red disc"),)),
        "output": Output(uri=str(root / "out")),
        "engine": "opencv",
        "shard_size": 4,
    }
    return JobSpec(**(defaults | changes))


def job(store: Store, root: Path, count: int, **changes: Any) -> UUID:
    """A job over `count` drawn pictures, complete."""
    items = [NewImage(f"{n:02}.png", str(draw(root / "photos" / f"{n:02}.png"))) for n in range(count)]
    return job_of(store, spec(root, **changes), items)


def job_of(store: Store, wanted: JobSpec, items: list[NewImage]) -> UUID:
    with store.begin() as conn:
        job_id = jobs.submit(conn, wanted, name="job").job_id
        jobs.add_images(conn, job_id, items)
        jobs.mark_expanded(conn, job_id)
    return job_id


def settings(**changes: Any) -> Settings:
    return Settings(**({"decode_threads": 1, "progress_seconds": 1e-6} | changes))


def image_rows(store: Store, job_id: UUID) -> list[ImageRow]:
    with store.read() as conn:
        return images.iterate(conn, job_id)


def states(store: Store, job_id: UUID) -> list[str]:
    return [image.state.value for image in image_rows(store, job_id)]


def events(store: Store, job_id: UUID) -> list[str]:
    """Why things happened to a job, in order."""
    with store.read() as conn:
        return [event.reason.value for event in jobs.events(conn, job_id)]


class Interrupted(OpenCVEngine):
    """The opencv engine, with something that happens just before its n-th picture is segmented."""

    def __init__(self, at: int, happens: Callable[[], object]) -> None:
        super().__init__()
        self._left, self._happens = at, happens

    def segment(self, *arguments: Any) -> Any:
        self._left -= 1
        if self._left == 0:
            self._happens()
        return super().segment(*arguments)


HOLDER = """
import sys
from pathlib import Path
from samjobs.execution.local import LocalWorker
from samjobs.settings import Settings
from samjobs.storage import Storage
from samjobs.store import connect

store = connect(sys.argv[1])
with LocalWorker(store, Storage(), Settings(), None, Path(sys.argv[2])) as worker:
    claimed = worker._claim(None) if sys.argv[3] == "claim" else None
    print(worker.incarnation, flush=True)
    sys.stdin.read()
"""


class Other:
    """Another process at work on the same database: it holds a shard, if asked to, until it is ended."""

    def __init__(self, url: str, locks: Path, *, claim: bool = True) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, url, str(locks), "claim" if claim else "no"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.incarnation = UUID(self.process.stdout.readline().strip())

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def end(self) -> None:
        """In order."""
        self.process.communicate()
