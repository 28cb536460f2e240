"""An engine whose behaviour a test can set: a double at the one seam that the design has for it.

It really segments: an image's bright pixels are its one instance, given as low-resolution logits like SAM 3's.
"""

import threading
from collections.abc import Callable, Sequence

import cv2
import numpy as np

from samjobs.errors import PromptError
from samjobs.segmentation.engines.base import Candidates, EngineInfo, Query, Selection, Square, UInt8Image
from samjobs.spec import Mode

SIDE, LOGITS = 64, 32
FORBIDDEN = "unspeakable"


class BrightEngine:
    """Finds what is bright.

    Args:
        batch: images per call.
        device: as told in EngineInfo; "cpu" or not decides how far the pipeline runs ahead.
        before: called with the images of each segment() call, before it answers; may raise.
    """

    def __init__(
        self,
        *,
        batch: int = 1,
        device: str = "cpu",
        before: Callable[[list[UInt8Image]], None] = lambda images: None,
        fingerprint: str = "bright-1",
    ) -> None:
        self.info = EngineInfo(
            name="opencv",
            model="none",
            revision="",
            fingerprint=fingerprint,
            device=device,
            dtype="float32",
            modes=frozenset(Mode),
            input_size=Square(SIDE),
            batch=batch,
            max_instances=None,
        )
        self.batches: list[int] = []  # size of each call
        self.threads: set[str] = set()
        self._before = before

    @property
    def images(self) -> int:
        """How many images were segmented."""
        return sum(self.batches)

    def warm_up(self) -> None:
        pass

    def check(self, mode: Mode, query: Query) -> None:
        if query.text == FORBIDDEN:
            raise PromptError(f"{FORBIDDEN} cannot be asked")

    def encode(self, images: Sequence[UInt8Image]) -> list[UInt8Image]:
        assert len(images) <= self.info.batch
        assert all(image.shape == (SIDE, SIDE, 3) for image in images)
        return list(images)

    def segment(
        self, encoded: list[UInt8Image], mode: Mode, queries: Sequence[Sequence[Query]], selection: Selection
    ) -> list[list[Candidates]]:
        self.threads.add(threading.current_thread().name)
        self._before(encoded)
        self.batches.append(len(encoded))
        return [[_bright(image) for _ in asked] for image, asked in zip(encoded, queries, strict=True)]

    def close(self) -> None:
        pass


def _bright(image: UInt8Image) -> Candidates:
    grey = cv2.resize(image, (LOGITS, LOGITS), interpolation=cv2.INTER_AREA).mean(axis=2)
    logits = ((grey - 128) / 16).astype(np.float16)[None]
    return Candidates(scores=np.array([0.9], np.float32), boxes=np.array([[0, 0, 1, 1]], np.float32), logits=logits)
