"""Jobs for the API's tests: with a photo and a result that really lie somewhere, and in every state."""

import io
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
from PIL import Image

from samjobs.errors import ErrorClass
from samjobs.inputs import NewImage
from samjobs.segmentation import records
from samjobs.segmentation.records import EngineFacts, Exif, Record, SourceFacts
from samjobs.spec import Mode, Prompts, TextPrompt, Thresholds
from samjobs.states import ImageState
from samjobs.store import Store, jobs, shards
from tests.store.builders import DEAD, outcomes, running, spec

SPEC: dict[str, Any] = {
    "images": {"prefix": "s3://photos/trip"},
    "prompts": {"text": ["red car"]},
    "output": {"uri": "s3://masks/trip"},
}
# As a camera held upright writes it: stored lying on its side.
UPRIGHT = (30, 40)


def photo(path: Path, size: tuple[int, int] = UPRIGHT, kind: str = "JPEG") -> Path:
    """A photo of this size once it is upright, and stored turned by 90°: red above, blue below."""
    width, height = size
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[: height // 2] = (250, 0, 0)
    pixels[height // 2 :] = (0, 0, 250)
    turned = Image.fromarray(pixels).transpose(Image.Transpose.ROTATE_90)
    exif = Image.Exif()
    exif[0x0112] = 6
    written = io.BytesIO()
    turned.save(written, kind, exif=exif, quality=95)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(written.getvalue())
    return path


def record(uri: str) -> bytes:
    """A record without instances."""
    width, height = UPRIGHT
    return records.dump(
        Record(
            uri=uri,
            key="a.jpg",
            width=width,
            height=height,
            exif=Exif(orientation=6),
            format="JPEG",
            source_mode="RGB",
            source=SourceFacts(size=1, token="t", quick_hash="q", content_hash="c"),
            config_hash="h",
            mode=Mode.FIND_ALL,
            prompts=Prompts(text=(TextPrompt(text="red circle"),)),
            thresholds=Thresholds(),
            engine=EngineFacts(name="opencv", model="m", revision="", fingerprint="f", device="cpu", dtype="uint8"),
            versions={},
            instances=(),
            truncated=False,
            timings_s={},
        )
    )


def submitted(
    store: Store, places: list[str], *, tenant: str = "default", name: str | None = None, **spec_: Any
) -> UUID:
    """A job over images at these places, complete and queued."""
    with store.begin() as conn:
        job_id = jobs.submit(conn, spec(**spec_), tenant=tenant, name=name).job_id
        jobs.add_images(conn, job_id, [NewImage(f"{n:04}.jpg", uri) for n, uri in enumerate(places)])
        jobs.mark_expanded(conn, job_id)
    return job_id


def finished(store: Store, folder: Path, *, tenant: str = "default", name: str | None = None) -> UUID:
    """A job of two images that has succeeded: a photo with its result, and one that is gone, and failed."""
    here = photo(folder / "photos/a.jpg")
    result = folder / "masks/records/a.json"
    result.parent.mkdir(parents=True, exist_ok=True)
    result.write_bytes(record(str(here)))
    job_id = submitted(store, [str(here), str(folder / "photos/gone.jpg")], tenant=tenant, name=name, shard_size=1)
    for state, more in (
        (ImageState.DONE, {"output_uri": str(result), "width": 30, "height": 40, "instances": 0}),
        (ImageState.FAILED, {"error": "it does not exist"}),
    ):
        shard = running(store, job_id)
        with store.begin() as conn:
            assert shards.record(conn, shard.id, shard.attempt, outcomes(shard, state, **more))
            assert shards.finish(conn, shard.id, shard.attempt)
    return job_id


def dead(store: Store, *, tenant: str = "default", count: int = 1, **spec_: Any) -> UUID:
    """A job whose shards, an image each, were all given up."""
    job_id = submitted(store, [f"/photos/{n}.jpg" for n in range(count)], tenant=tenant, shard_size=1, **spec_)
    for _ in range(count):
        shard = running(store, job_id)
        with store.begin() as conn:
            shards.fail(
                conn, shard.id, shard.attempt, DEAD, error_class=ErrorClass.TRANSIENT, error="the bucket is away"
            )
    return job_id
