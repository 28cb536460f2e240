"""The protocol that every engine keeps, and the values that pass through it.

The pipeline hands an engine photos already upright and already at the size that the engine works at
(`EngineInfo.input_size`), with prompts in normalised coordinates, and gets candidate instances back: scores, boxes
and either low-resolution mask logits or cropped masks. Turning those into full-size masks is `masks.py`'s work,
so no engine ever holds a mask per instance at the photo's size.

An engine is used by one thread only.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from samjobs.spec import Mode

UInt8Image = npt.NDArray[np.uint8]  # (H, W, 3), RGB, 0…255
Float32 = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Square:
    """The photo is squashed to side × side, whatever its aspect (SAM 3)."""

    side: int


@dataclass(frozen=True)
class LongSide:
    """The photo keeps its aspect; its long side is at most `pixels`, never enlarged (opencv)."""

    pixels: int


@dataclass(frozen=True)
class EngineInfo:
    """What an engine is, as written into every result."""

    name: str  # as in JobSpec.engine
    model: str  # path or hub id, or "none"
    revision: str  # commit, or "" where there is none
    fingerprint: str  # changes when results may change: checksum of the weights, or version of the algorithm
    device: str  # "cpu", "cuda:0 NVIDIA H100 …"
    dtype: str
    modes: frozenset[Mode]
    input_size: Square | LongSide
    batch: int  # images per encode(), fixed
    max_instances: int | None  # per query and image, None where unlimited
    versions: dict[str, str] = field(default_factory=dict)  # libraries that shape the result
    note: str = ""  # what a reader of the result must know, e.g. that no model was used


@dataclass(frozen=True)
class Query:
    """One question about one image. Coordinates are fractions of the upright photo's width and height, 0…1.

    find_all: `text` and/or `boxes` with `positives` (exemplars). inside_box: exactly one box. point: `points` with
    `positives`.
    """

    text: str | None = None
    boxes: tuple[tuple[float, float, float, float], ...] = ()  # x0, y0, x1, y1
    points: tuple[tuple[float, float], ...] = ()  # x, y
    positives: tuple[bool, ...] = ()  # one per box, or per point


@dataclass(frozen=True)
class Selection:
    """What the engine may drop before anything leaves the device."""

    score: float  # least score; the best per query and image is kept by the caller's rules
    mask: float  # probability at which a pixel belongs to the mask


@dataclass(frozen=True)
class Crop:
    """A mask inside its frame: `mask` (h, w) bool, its top left pixel at (x, y) of the working image."""

    x: int
    y: int
    mask: npt.NDArray[np.bool_]


@dataclass
class Candidates:
    """What one query found in one image, best first. Exactly one of `logits` and `crops` is set."""

    scores: Float32  # (n,) 0…1
    boxes: Float32  # (n, 4) x0, y0, x1, y1 as fractions of the upright photo
    logits: npt.NDArray[np.float16] | Float32 | None = None  # (n, h, w): the whole photo, probability = sigmoid
    crops: Sequence[Crop] | None = None
    crop_size: tuple[int, int] | None = None  # (height, width) of the working image of the crops
    truncated: bool = False  # the engine's own cap was reached: there may be more

    def __len__(self) -> int:
        return len(self.scores)


class Engine(Protocol):
    """A loaded engine. `load(name)` in `engines/__init__.py` gives one."""

    @property
    def info(self) -> EngineInfo: ...

    def warm_up(self) -> None:
        """Run one real forward pass and check that its result is sane.

        Raises:
            DeviceFault: the device gives nonsense.
        """

    def check(self, mode: Mode, query: Query) -> None:
        """Refuse a query that this engine cannot take.

        Raises:
            PromptError: naming the limit, e.g. the tokenizer's, and the value.
        """

    def encode(self, images: Sequence[UInt8Image]) -> Any:
        """The batch's features, 1…`info.batch` images at `info.input_size`; a value for `segment` alone."""

    def segment(
        self, encoded: Any, mode: Mode, queries: Sequence[Sequence[Query]], selection: Selection
    ) -> list[list[Candidates]]:
        """Answer each image's queries: `result[image][query]`.

        Raises:
            PromptError: a query this engine cannot take.
            OutOfMemory: even at the smallest batch.
            DeviceFault: the process must be restarted.
        """

    def close(self) -> None:
        """Give the device's memory back."""
