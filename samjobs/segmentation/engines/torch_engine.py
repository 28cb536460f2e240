"""The engine protocol on top of a SAM 3 network: batching, grouping, chunking, checking.

Both implementations of SAM 3 (transformers' and Meta's) are networks behind this one engine, so that they batch,
select and fail alike. A network answers chunks of (image, query) pairs; this module decides which pairs go together:
only pairs for which the network runs the same computation whatever their neighbours are, so that a result does not
depend on the batch that it was computed in (but for rounding).

An engine is used by one thread. Nothing here computes gradients or leaves a torch context entered.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from samjobs.errors import DeviceFault
from samjobs.segmentation.engines.base import Candidates, EngineInfo, Query, Selection, Square, UInt8Image
from samjobs.segmentation.engines.sam3_prompts import check_query
from samjobs.segmentation.engines.selection import Found, keep_all_matching, keep_best
from samjobs.segmentation.engines.torch_device import Chunks, device_errors, release
from samjobs.spec import Mode

MODES = frozenset(Mode)


class Network(Protocol):
    """What the two implementations of SAM 3 differ in. `images` index the batch that `features` came from."""

    side: int  # the network works on side × side pixels
    slots: int  # instances per query and image at most
    token_limit: int  # longest phrase, with its start and end mark
    mean: tuple[float, float, float]  # of the normalised photo, 0…1
    std: tuple[float, float, float]

    def count_tokens(self, phrase: str) -> int: ...

    def vision(self, pixels: Tensor) -> Any:
        """Features of normalised `pixels` (batch, 3, side, side), float32 on the device."""

    def find(self, features: Any, images: Tensor, queries: Sequence[Query]) -> Found:
        """Every instance; the queries either all have exemplar boxes or none has."""

    def trace(self, features: Any, images: Tensor, mode: Mode, queries: Sequence[Query]) -> Found:
        """One object per query: the candidates for it, scored; clicks are equally many in each query."""


@dataclass(frozen=True)
class Batch:
    """Encoded images: usually one part; more where memory was short. `start` is the part's first image."""

    count: int
    parts: list[tuple[int, Any]]

    def locate(self, image: int) -> tuple[int, int]:
        """Which part holds `image`, and where in it."""
        part = max(i for i, (start, _) in enumerate(self.parts) if start <= image)
        return part, image - self.parts[part][0]


@dataclass(frozen=True)
class _Pair:
    image: int  # in the batch
    number: int  # of the query among the image's queries
    query: Query


class TorchEngine:
    """`base.Engine` for a SAM 3 network that is already on its device."""

    def __init__(self, network: Network, info: EngineInfo, device: torch.device, pairs: int) -> None:
        """`pairs`: (image, query) pairs answered at once."""
        self.info = info
        self._network: Network | None = network
        self._device = device
        self._images = Chunks(info.batch, device, "encoding images")
        self._pairs = Chunks(pairs, device, "segmenting")

    @property
    def network(self) -> Network:
        """The loaded network.

        Raises:
            RuntimeError: after `close`.
        """
        if self._network is None:
            raise RuntimeError("this engine was closed: load another")
        return self._network

    def warm_up(self) -> None:
        """See `base.Engine`: a drawn disc goes through every head, and all outputs must be finite."""
        picture = _drawn_disc(self.network.side)
        encoded = self.encode([picture] * self.info.batch)
        everything = Selection(score=0.0, mask=0.5)
        for mode, query in (
            (Mode.FIND_ALL, Query(text="circle")),
            (Mode.FIND_ALL, Query(boxes=((0.25, 0.25, 0.75, 0.75),), positives=(True,))),
            (Mode.INSIDE_BOX, Query(boxes=((0.25, 0.25, 0.75, 0.75),), positives=(True,))),
            (Mode.POINT, Query(points=((0.5, 0.5),), positives=(True,))),
        ):
            for answer in self.segment(encoded, mode, [[query]] * self.info.batch, everything):
                _demand_finite(answer[0], mode)

    def check(self, mode: Mode, query: Query) -> None:
        """See `base.Engine`."""
        check_query(mode, query, self.network.count_tokens, self.network.token_limit)

    def encode(self, images: Sequence[UInt8Image]) -> Batch:
        """See `base.Engine`. The batch is filled up to its fixed size, so that shapes on the device never change.

        Raises:
            ValueError: too many images, or one that is not side × side × 3.
            OutOfMemory: even one image at a time.
            DeviceFault: the process must be restarted.
        """
        side = self.network.side
        if not 0 < len(images) <= self.info.batch:
            raise ValueError(f"encode takes 1…{self.info.batch} images, not {len(images)}")
        for image in images:
            if image.shape != (side, side, 3) or image.dtype != np.uint8:
                raise ValueError(f"encode takes uint8 images of {(side, side, 3)}, not {image.dtype} of {image.shape}")

        def work(start: int, stop: int) -> tuple[int, Any]:
            return start, self.network.vision(self._pixels(images[start:stop], self._images.size))

        with torch.inference_mode():
            return Batch(len(images), self._images.run(len(images), work))

    def _pixels(self, images: Sequence[UInt8Image], size: int) -> Tensor:
        """Normalised (size, 3, side, side) on the device; uint8 travels, a quarter of float32's bytes."""
        filled = [*images, *[images[-1]] * (size - len(images))]
        host = torch.from_numpy(np.stack(filled))
        if self._device.type == "cuda":
            # Pinned memory lets the copy overlap; torch keeps it until the copy has ended.
            host = host.pin_memory()
        pixels = host.to(self._device, non_blocking=True).permute(0, 3, 1, 2).float().div_(255)
        mean, std = (
            torch.tensor(value, device=self._device).view(1, 3, 1, 1) for value in (self.network.mean, self.network.std)
        )
        return pixels.sub_(mean).div_(std).contiguous()

    def segment(
        self, encoded: Batch, mode: Mode, queries: Sequence[Sequence[Query]], selection: Selection
    ) -> list[list[Candidates]]:
        """See `base.Engine`. In inside_box and point each query gets one candidate, whatever its score."""
        if len(queries) != encoded.count:
            raise ValueError(f"{encoded.count} images were encoded, but queries came for {len(queries)}")
        pairs = [_Pair(i, j, query) for i, own in enumerate(queries) for j, query in enumerate(own)]
        for pair in pairs:
            self.check(mode, pair.query)
        answers: dict[tuple[int, int], Candidates] = {}
        with torch.inference_mode():
            for group in _grouped(pairs, lambda pair: (encoded.locate(pair.image)[0], *_kind(mode, pair.query))):
                found = self._answer(encoded, mode, group, selection)
                answers.update(zip(((pair.image, pair.number) for pair in group), found, strict=True))
        return [[answers[i, j] for j in range(len(own))] for i, own in enumerate(queries)]

    def _answer(self, encoded: Batch, mode: Mode, group: list[_Pair], selection: Selection) -> list[Candidates]:
        """The candidates of pairs that run the same computation."""
        _, features = encoded.parts[encoded.locate(group[0].image)[0]]

        def work(start: int, stop: int) -> list[Candidates]:
            chunk = [pair.query for pair in group[start:stop]]
            images = torch.tensor([encoded.locate(pair.image)[1] for pair in group[start:stop]], device=self._device)
            if mode is Mode.FIND_ALL:
                return keep_all_matching(self.network.find(features, images, chunk), selection)
            return keep_best(self.network.trace(features, images, mode, chunk), selection)

        return [candidates for part in self._pairs.run(len(group), work) for candidates in part]

    def close(self) -> None:
        """See `base.Engine`."""
        self._network = None
        with device_errors("giving memory back"):
            release(self._device)


def _kind(mode: Mode, query: Query) -> tuple[Hashable, ...]:
    """Queries of equal kind share a chunk: fillers for missing boxes or clicks would change a result."""
    if mode is Mode.FIND_ALL:
        return (bool(query.boxes),)
    return (len(query.points),)


def _grouped(pairs: Sequence[_Pair], key: Callable[[_Pair], Hashable]) -> list[list[_Pair]]:
    """`pairs` by `key`, in the order in which each key was first seen."""
    groups: dict[Hashable, list[_Pair]] = {}
    for pair in pairs:
        groups.setdefault(key(pair), []).append(pair)
    return list(groups.values())


def _drawn_disc(side: int) -> UInt8Image:
    """A red disc in the middle of a grey square."""
    y, x = np.mgrid[0:side, 0:side] / side - 0.5
    picture = np.full((side, side, 3), 128, dtype=np.uint8)
    picture[x**2 + y**2 < 0.2**2] = (215, 40, 40)
    return picture


def _demand_finite(candidates: Candidates, mode: Mode) -> None:
    arrays = (candidates.scores, candidates.boxes, candidates.logits)
    if len(candidates) == 0 or not all(array is not None and np.isfinite(array).all() for array in arrays):
        raise DeviceFault(
            f"the first forward pass ({mode.value}) gave numbers that are not finite: broken weights or a broken "
            "device. Check the weights' checksum and the device, then restart this process"
        )


def info_of(network: Network, **facts: Any) -> EngineInfo:
    """`EngineInfo` with what the network itself decides filled in."""
    return EngineInfo(modes=MODES, input_size=Square(network.side), max_instances=network.slots, **facts)
