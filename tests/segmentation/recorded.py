"""Records with real masks, for the tests of what is written."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from samjobs.segmentation import rle
from samjobs.segmentation.masks import Instance
from samjobs.segmentation.records import EngineFacts, Exif, InstanceRecord, Record, SourceFacts, instance_records
from samjobs.spec import Mode, Prompts, Thresholds

Mask = npt.NDArray[np.bool_]


def instances_of(masks: Sequence[Mask], labels: Sequence[str] | None = None) -> tuple[InstanceRecord, ...]:
    """One instance per mask, best first, each of a query of its own."""
    names = list(labels or [f"thing {i}" for i in range(len(masks))])
    found = []
    for query, mask in enumerate(masks):
        written = rle.encode(mask)
        frame = rle.bbox(rle.to_runs(written), mask.shape[0])
        box = (float(frame[0]), float(frame[1]), float(frame[0] + frame[2]), float(frame[1] + frame[3]))
        found.append(Instance(query, 0.95 - 0.01 * query, box, frame, int(mask.sum()), written))
    return instance_records(found, names, names)


def record_of(key: str, masks: Sequence[Mask], labels: Sequence[str] | None = None) -> Record:
    """A whole record of an image with these masks."""
    height, width = masks[0].shape if masks else (10, 20)
    return Record(
        uri=f"file:///photos/{key}",
        key=key,
        width=width,
        height=height,
        exif=Exif(orientation=6),
        format="JPEG",
        source_mode="RGB",
        source=SourceFacts(size=1234, token="17-1234", quick_hash="aa", content_hash="bb"),
        config_hash="cc",
        mode=Mode.FIND_ALL,
        prompts=Prompts.model_validate({"text": ["thing"]}),
        thresholds=Thresholds(),
        engine=EngineFacts(name="opencv", model="none", revision="", fingerprint="1", device="cpu", dtype="uint8"),
        versions={"opencv": "4", "numpy": "2"},
        instances=instances_of(masks, labels),
        truncated=False,
        timings_s={"segment": 0.25, "decode": 0.5},
    )


def disc(height: int, width: int, x: float, y: float, radius: float) -> Mask:
    """A filled circle."""
    rows, columns = np.ogrid[:height, :width]
    return (rows - y) ** 2 + (columns - x) ** 2 <= radius**2
