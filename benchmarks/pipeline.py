"""Does the pipeline keep the device busy? samjobs against the loop that a user would write, with the same engine.

The engine takes a fixed 30 ms per image, in which the processor is free, as with a GPU; it answers with ten masks at
SAM 3's resolution. Both ways decode the same JPEGs upright, resize them to 1008 × 1008, and write lossless COCO RLE of
every mask at the photo's size. samjobs runs whole: queue in SQLite, leases, hashes, a record per image. The tables of
`rle.py` and `memory.py` follow.
"""

import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import cv2
import numpy as np
from PIL import Image, ImageOps
from pycocotools import mask as coco_mask

from benchmarks import memory, rle
from benchmarks.photos import write_photos
from benchmarks.report import Section, main
from samjobs.cli.process import ALONE
from samjobs.execution.local import LocalWorker
from samjobs.execution.merge import merge
from samjobs.execution.shard import End
from samjobs.execution.submit import submit
from samjobs.segmentation.engines.base import Candidates, EngineInfo, Query, Selection, Square, UInt8Image
from samjobs.segmentation.pipeline import Limit
from samjobs.segmentation.work import Outcome
from samjobs.settings import Settings
from samjobs.spec import JobSpec, Mode
from samjobs.storage import Storage
from samjobs.store import connect, jobs, migrate
from samjobs.store.rows import Job, Shard

SIDE, LOGITS, INSTANCES, SECONDS_PER_IMAGE = 1008, 288, 10, 0.030
SIZES = {"2 MP": (1920, 1080), "12 MP": (4000, 3000)}


class TimedEngine:
    """An engine that takes its time and nothing else."""

    def __init__(self, device: str) -> None:
        self.info = EngineInfo(
            name="opencv",
            model="none",
            revision="",
            fingerprint="timed",
            device=device,
            dtype="float16",
            modes=frozenset(Mode),
            input_size=Square(SIDE),
            batch=1,
            max_instances=None,
        )
        self.busy_s = 0.0
        self._found = _ten_masks()

    def warm_up(self) -> None:
        pass

    def check(self, mode: Mode, query: Query) -> None:
        pass

    def encode(self, images: Sequence[UInt8Image]) -> Sequence[UInt8Image]:
        return images

    def segment(
        self, encoded: Sequence[UInt8Image], mode: Mode, queries: Sequence[Sequence[Query]], selection: Selection
    ) -> list[list[Candidates]]:
        started = time.perf_counter()
        time.sleep(SECONDS_PER_IMAGE * len(encoded))
        self.busy_s += time.perf_counter() - started
        return [[self._found] for _ in encoded]

    def close(self) -> None:
        pass


def _ten_masks() -> Candidates:
    """Ten round objects, each a hundredth of the photo or so, as logits of 288 × 288."""
    random = np.random.default_rng(1)
    rows, columns = np.mgrid[0:LOGITS, 0:LOGITS]
    centres = random.uniform(30, LOGITS - 30, (INSTANCES, 2))
    distance = np.hypot(rows - centres[:, :1, None], columns - centres[:, 1:, None])
    return Candidates(
        scores=np.full(INSTANCES, 0.9, np.float32),
        boxes=np.tile(np.array([0, 0, 1, 1], np.float32), (INSTANCES, 1)),
        logits=((16 - distance) / 2).clip(-12, 12).astype(np.float16),
    )


def naive(paths: Sequence[Path], output: Path) -> dict[str, Any]:
    """One image after the other, masks upsampled whole and encoded by pycocotools."""
    engine = TimedEngine("cuda")
    output.mkdir()
    started = time.perf_counter()
    for path in paths:
        with Image.open(path) as opened:
            photo = ImageOps.exif_transpose(opened).convert("RGB")
        pixels = np.asarray(photo.resize((SIDE, SIDE), Image.Resampling.BILINEAR))
        (found,) = engine.segment(engine.encode([pixels]), Mode.FIND_ALL, [[Query(text="x")]], Selection(0.5, 0.5))[0]
        assert found.logits is not None
        instances = []
        for logits, score in zip(found.logits, found.scores, strict=True):
            mask = cv2.resize(logits.astype(np.float32), photo.size, interpolation=cv2.INTER_LINEAR) > 0
            runs = coco_mask.encode(np.asfortranarray(mask.astype(np.uint8)))
            instances.append({"score": float(score), "size": runs["size"], "counts": runs["counts"].decode()})
        (output / f"{path.name}.json").write_text(json.dumps(instances))
    return _row("naive loop", len(paths), time.perf_counter() - started, engine)


class _Silent:
    def image(self, job: Job, outcome: Outcome) -> None:
        pass

    def shard_ended(self, job: Job, shard: Shard, end: End) -> None:
        assert end is End.FINISHED


def samjobs(name: str, folder: Path, work: Path, device: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The same photos through samjobs: the row of the run, and that of the merge at its end."""
    engine = TimedEngine(device)
    settings = Settings(database_url=f"sqlite:///{work / 'queue.db'}")
    spec = JobSpec.model_validate(
        {
            "images": {"prefix": str(folder)},
            "prompts": {"text": ["x"]},
            "output": {"uri": str(work / "out")},
            "engine": "opencv",
            "shardSize": ALONE,
        }
    )
    store, storage = connect(settings.database_url), Storage()
    migrate(store)
    with LocalWorker(store, storage, settings, lambda _: engine, work / "locks") as worker:
        submission = submit(store, storage, spec, worker, name="bench")
        started = time.perf_counter()
        worker.run(_Silent(), allowance=Limit(), job_id=submission.job_id)
        row = _row(name, submission.images, time.perf_counter() - started, engine)
        merged = _merge(store, storage, submission.job_id)
    store.close()
    return row, merged


def _merge(store: Any, storage: Storage, job_id: UUID) -> dict[str, Any]:
    with store.read() as conn:
        job = jobs.get(conn, job_id)
    assert job is not None
    started = time.perf_counter()
    merge(store, storage, job, threads=4)
    seconds = time.perf_counter() - started
    return {"records": job.images_total, "seconds": seconds, "records/s": job.images_total / seconds}


def _row(way: str, images: int, seconds: float, engine: TimedEngine) -> dict[str, Any]:
    return {
        "way": way,
        "images": images,
        "images/s": images / seconds,
        "device busy %": 100 * engine.busy_s / seconds,
    }


def measure(quick: bool) -> list[Section]:
    """All tables."""
    sections, merges = [], []
    with tempfile.TemporaryDirectory(prefix="samjobs-bench-") as root:
        for size, (width, height) in SIZES.items():
            count = (64 if size == "2 MP" else 6) if quick else (384 if size == "2 MP" else 128)
            folder = Path(root) / size
            paths = write_photos(folder, count, width, height)
            rows = [naive(paths, Path(root) / f"naive {size}")]
            for name, device in (("samjobs, GPU rules", "cuda"), ("samjobs, CPU rules", "cpu")):
                work = Path(root) / f"{name} {size}"
                work.mkdir()
                row, merged = samjobs(name, folder, work, device)
                rows.append(row)
            merges.append({"photos": size} | merged)
            sections.append(Section(f"{size} JPEGs ({width} × {height}), {INSTANCES} masks, 30 ms engine", rows))
    rules = "GPU rules: results may be written while the device goes on. CPU rules: an image is committed first."
    gathering = Section("Gathering the records at the end of a job", merges, rules)
    return [*sections, gathering, *rle.measure(quick), *memory.measure(quick)]


if __name__ == "__main__":
    main(__doc__ or "", measure)
