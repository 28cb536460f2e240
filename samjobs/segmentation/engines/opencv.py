"""The engine without a model: masks by colour, for demos, load tests and machines without a GPU.

find_all takes the colour word of a phrase ("red" of "red car": the car is not understood) or the main colour of the
exemplar boxes, and gives each connected region of it. inside_box runs GrabCut in the box. point takes the region of
like colour under the click. It does not recognise anything, and says so in `info.note`, which is in every result.

GrabCut: Rother, Kolmogorov, Blake, "GrabCut", SIGGRAPH 2004, as OpenCV implements it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from samjobs.errors import DeviceFault, OutOfMemory, PromptError
from samjobs.segmentation.engines import colours
from samjobs.segmentation.engines.base import (
    Candidates,
    Crop,
    EngineInfo,
    Float32,
    LongSide,
    Query,
    Selection,
    UInt8Image,
)
from samjobs.segmentation.engines.regions import components, grown_region, in_box
from samjobs.spec import Mode

ALGORITHM_VERSION = "1"  # goes up with every change that may change a mask
LONG_SIDE = 2048
MAX_INSTANCES = 200
NOTE = (
    "No model was used: masks are regions of like colour (OpenCV). Of a phrase only its colour word is understood, "
    "and a score is how well the pixels fit the colour, not a probability that the object is there."
)

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Encoded:
    """One image, and its colours in L*a*b*."""

    rgb: UInt8Image
    lab: Float32


class OpenCVEngine:
    """The Engine protocol by colour."""

    def __init__(self) -> None:
        self._info = EngineInfo(
            name="opencv",
            model="none",
            revision="",
            fingerprint=f"samjobs-opencv-{ALGORITHM_VERSION}+cv2-{cv2.__version__}",
            device="cpu",
            dtype="float32",
            modes=frozenset(Mode),
            input_size=LongSide(LONG_SIDE),
            batch=1,
            max_instances=MAX_INSTANCES,
            versions={"opencv": cv2.__version__, "numpy": np.__version__},
            note=NOTE,
        )

    @property
    def info(self) -> EngineInfo:
        return self._info

    def warm_up(self) -> None:
        """Find a drawn red square.

        Raises:
            DeviceFault: it is not found where it was drawn.
        """
        image = np.full((64, 64, 3), 255, np.uint8)
        image[16:48, 16:48] = (220, 20, 30)
        [[found]] = self.segment(self.encode([image]), Mode.FIND_ALL, [[Query(text="red")]], Selection(0.5, 0.5))
        if len(found) != 1 or not np.allclose(found.boxes[0], 0.25 + 0.5 * np.array([0, 0, 1, 1]), atol=0.05):
            raise DeviceFault("the opencv engine does not find a drawn red square: reinstall opencv-python-headless")

    def check(self, mode: Mode, query: Query) -> None:
        """Refuse a phrase without a colour, and exemplars that are all negative.

        Raises:
            PromptError: naming the known colours, or what is missing.
        """
        if mode is not Mode.FIND_ALL:
            return
        if query.text is not None:
            colours.named_in(query.text)
        elif not any(query.positives):
            raise PromptError("find_all needs a colour name or a positive exemplar box")

    def encode(self, images: Sequence[UInt8Image]) -> list[Encoded]:
        """The images in L*a*b*."""
        return [Encoded(image, colours.to_lab(image)) for image in images]

    def segment(
        self, encoded: list[Encoded], mode: Mode, queries: Sequence[Sequence[Query]], selection: Selection
    ) -> list[list[Candidates]]:
        """Answer each image's queries.

        Raises:
            PromptError: a phrase names no colour.
            OutOfMemory: this machine's memory is not enough.
            DeviceFault: OpenCV fails.
        """
        try:
            return [
                [self._answer(image, mode, query, selection) for query in asked]
                for image, asked in zip(encoded, queries, strict=True)
            ]
        except MemoryError as error:
            raise OutOfMemory("the opencv engine ran out of memory") from error
        except cv2.error as error:
            if error.code == cv2.Error.StsNoMem:
                raise OutOfMemory(f"the opencv engine ran out of memory: {error.err}") from error
            raise DeviceFault(f"OpenCV failed in {error.func}: {error.err}") from error

    def close(self) -> None:
        """Nothing is held."""

    def _answer(self, image: Encoded, mode: Mode, query: Query, selection: Selection) -> Candidates:
        self.check(mode, query)
        size = image.lab.shape[:2]
        if mode is Mode.FIND_ALL:
            found = components(_fit(image.lab, query))
        elif mode is Mode.INSIDE_BOX:
            found = in_box(image.rgb, _pixels(query.boxes[0], size))
        else:
            clicks = [(int(x * size[1]), int(y * size[0])) for x, y in query.points]
            found = grown_region(image.lab, clicks, query.positives)
        return _candidates([item for item in found if item[0] >= selection.score], size)


def load() -> OpenCVEngine:
    """The engine, ready to use: there are no weights to load."""
    return OpenCVEngine()


def _fit(lab: Float32, query: Query) -> Float32:
    """How well each pixel fits the phrase or a positive exemplar, and not a negative one."""
    fit = np.zeros(lab.shape[:2], np.float32)
    if query.text is not None:
        fit = colours.fit_name(lab, colours.named_in(query.text))
    near = np.full(lab.shape[:2], np.inf, np.float32)
    exemplars = [(_exemplar(lab, box), yes) for box, yes in zip(query.boxes, query.positives, strict=True)]
    for colour, _ in (item for item in exemplars if item[1]):
        near = np.minimum(near, colours.distance_to(lab, colour))
    if any(query.positives):
        fit = np.maximum(fit, colours.fit_distance(near))
    for colour, _ in (item for item in exemplars if not item[1]):
        away = colours.distance_to(lab, colour)
        fit = np.where((away < colours.SIMILAR_DISTANCE) & (away < near), 0, fit).astype(np.float32)
    return fit


def _exemplar(lab: Float32, box: tuple[float, float, float, float]) -> Float32:
    """The main colour of the ellipse in a box (its corners are seldom the object's), against the ring around it."""
    height, width = lab.shape[:2]
    x0, y0, x1, y1 = _pixels(box, (height, width))
    across, down = np.linspace(-1, 1, x1 - x0), np.linspace(-1, 1, y1 - y0)[:, None]
    inside = across**2 + down**2 <= 1 if min(x1 - x0, y1 - y0) > 4 else np.ones((y1 - y0, x1 - x0), np.bool_)
    margin_x, margin_y = (x1 - x0) // 4 + 2, (y1 - y0) // 4 + 2
    ring = np.zeros((height, width), np.bool_)
    ring[max(0, y0 - margin_y) : y1 + margin_y, max(0, x0 - margin_x) : x1 + margin_x] = True
    ring[y0:y1, x0:x1] = False
    return colours.dominant(lab[y0:y1, x0:x1][inside], lab[ring])


def _pixels(box: tuple[float, float, float, float], size: tuple[int, ...]) -> tuple[int, int, int, int]:
    """A box in whole pixels inside the image, at least one pixel large."""
    height, width = size[:2]
    x0 = min(max(round(box[0] * width), 0), width - 1)
    y0 = min(max(round(box[1] * height), 0), height - 1)
    return x0, y0, min(max(round(box[2] * width), x0 + 1), width), min(max(round(box[3] * height), y0 + 1), height)


def _candidates(found: list[tuple[float, Crop]], size: tuple[int, ...]) -> Candidates:
    """Best first; equal scores in the order of size, then of place."""
    height, width = size[:2]
    found = sorted(found, key=lambda item: (-round(item[0], 4), -int(item[1].mask.sum()), item[1].y, item[1].x))
    kept = found[:MAX_INSTANCES]
    boxes = [
        (crop.x / width, crop.y / height, (crop.x + crop.mask.shape[1]) / width, (crop.y + crop.mask.shape[0]) / height)
        for _, crop in kept
    ]
    return Candidates(
        scores=np.array([score for score, _ in kept], np.float32),
        boxes=np.array(boxes, np.float32).reshape(-1, 4),
        crops=[crop for _, crop in kept],
        crop_size=(height, width),
        truncated=len(found) > MAX_INSTANCES,
    )
