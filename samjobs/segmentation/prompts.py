"""How does what a person wrote become what an engine is asked?

The only place that changes coordinate frames: pixels of the upright photo on one side, fractions of its width and
height on the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from samjobs.errors import PromptError
from samjobs.segmentation.engines.base import Query
from samjobs.spec import UNNAMED, BoxPrompt, Mode, Prompts


@dataclass(frozen=True)
class Asked:
    """One query with what the results call it."""

    query: Query
    label: str  # class name
    prompt: str  # for people: the phrase, or which box or clicks
    score_threshold: float | None  # the prompt's own, where it has one


def ask(prompts: Prompts, mode: Mode, width: int, height: int) -> list[Asked]:
    """The queries of one upright photo of `width` × `height` pixels.

    Raises:
        PromptError: a box or click that lies outside the photo, or nothing to ask.
    """
    frame = _Frame(width, height)
    asked = {Mode.FIND_ALL: _find_all, Mode.INSIDE_BOX: _inside_box, Mode.POINT: _point}[mode](prompts, frame)
    if not asked:
        raise PromptError(f"no prompt for this image: mode {mode.value} needs one in the job or in the manifest's line")
    return asked


def least_scores(asked: Sequence[Asked], mode: Mode, general: float) -> list[float]:
    """The score below which each query's instances are dropped.

    A box or a click always gets its one mask, however unsure the engine is: its score is in the results.
    """
    if mode is not Mode.FIND_ALL:
        return [0.0] * len(asked)
    return [general if one.score_threshold is None else one.score_threshold for one in asked]


def _find_all(prompts: Prompts, frame: "_Frame") -> list[Asked]:
    """A phrase is asked together with all exemplars; without phrases, exemplars of one label are one question."""
    if prompts.text:
        boxes, positives = frame.boxes(prompts.boxes)
        return [
            Asked(Query(text=t.text, boxes=boxes, positives=positives), t.label or t.text, t.text, t.score_threshold)
            for t in prompts.text
        ]
    labels = dict.fromkeys(box.label or UNNAMED for box in prompts.boxes if box.positive)
    asked = []
    for label in labels:
        group = [b for b in prompts.boxes if not b.positive or (b.label or UNNAMED) == label]
        boxes, positives = frame.boxes(group)
        asked.append(Asked(Query(boxes=boxes, positives=positives), label, f"like {sum(positives)} boxes", None))
    return asked


def _inside_box(prompts: Prompts, frame: "_Frame") -> list[Asked]:
    asked = []
    for box in prompts.boxes:
        boxes, positives = frame.boxes([box])
        asked.append(
            Asked(Query(boxes=boxes, positives=positives), box.label or UNNAMED, f"box {_numbers(box.xyxy)}", None)
        )
    return asked


def _point(prompts: Prompts, frame: "_Frame") -> list[Asked]:
    asked = []
    for prompt in prompts.points:
        points = tuple(frame.point(click.x, click.y) for click in prompt.clicks)
        positives = tuple(click.positive for click in prompt.clicks)
        first = next(click for click in prompt.clicks if click.positive)
        text = f"click {_numbers((first.x, first.y))}" + (f" and {len(points) - 1} more" if len(points) > 1 else "")
        asked.append(Asked(Query(points=points, positives=positives), prompt.label or UNNAMED, text, None))
    return asked


@dataclass(frozen=True)
class _Frame:
    """The upright photo, in pixels."""

    width: int
    height: int

    def boxes(
        self, prompts: Sequence[BoxPrompt]
    ) -> tuple[tuple[tuple[float, float, float, float], ...], tuple[bool, ...]]:
        return tuple(self._box(box) for box in prompts), tuple(box.positive for box in prompts)

    def _box(self, box: BoxPrompt) -> tuple[float, float, float, float]:
        """The part of a box that lies in the photo: annotation tools round over the edge by a pixel or two."""
        x0, y0, x1, y1 = box.xyxy
        left, top, right, bottom = max(x0, 0), max(y0, 0), min(x1, self.width), min(y1, self.height)
        if left >= right or top >= bottom:
            raise PromptError(f"box {_numbers(box.xyxy)} lies outside the photo of {self._size()}: {self._remedy()}")
        return left / self.width, top / self.height, right / self.width, bottom / self.height

    def point(self, x: float, y: float) -> tuple[float, float]:
        if not (0 <= x <= self.width and 0 <= y <= self.height):
            raise PromptError(f"click {_numbers((x, y))} lies outside the photo of {self._size()}: {self._remedy()}")
        return x / self.width, y / self.height

    def _size(self) -> str:
        return f"{self.width} × {self.height} pixels"

    def _remedy(self) -> str:
        return "coordinates are pixels of the upright photo, after its EXIF rotation"


def _numbers(values: Sequence[float]) -> str:
    return "(" + ", ".join(f"{value:g}" for value in values) + ")"
