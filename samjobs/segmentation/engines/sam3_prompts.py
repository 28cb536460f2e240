"""What SAM 3 accepts as a prompt, and prompts as tensors in its two conventions.

Answers whether a query fits a mode, and lays out boxes and clicks of several (image, query) pairs as tensors.
Coordinates come in as fractions of the photo, as `base.Query` has them; the photo is squashed to a square, so the
same fractions hold there. Pixels of the photo are not known here.
"""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from samjobs.errors import PromptError
from samjobs.segmentation.engines.base import Query
from samjobs.spec import Mode

# The phrase that SAM 3 was trained to read as "only the exemplar boxes count".
ONLY_BOXES = "visual"


def check_query(mode: Mode, query: Query, count_tokens: Callable[[str], int], limit: int) -> None:
    """Refuse a query that SAM 3 cannot take; `count_tokens` gives a phrase's length, `limit` the longest.

    Raises:
        PromptError: naming what is wrong, the value and the remedy.
    """
    _check_numbers(query)
    {Mode.FIND_ALL: _check_find_all, Mode.INSIDE_BOX: _check_inside_box, Mode.POINT: _check_point}[mode](query)
    if query.text is not None and (count := count_tokens(query.text)) > limit:
        raise PromptError(
            f"the phrase {_clip(query.text)!r} is {count} tokens long with its start and end mark; "
            f"the model reads at most {limit}. Use a short noun phrase"
        )


def _check_find_all(query: Query) -> None:
    if query.points:
        raise PromptError("find_all takes a phrase and exemplar boxes, no points: use mode point")
    if len(query.positives) != len(query.boxes):
        raise PromptError(f"find_all: {len(query.boxes)} boxes come with {len(query.positives)} positive flags")
    if query.text is None and not any(query.positives):
        raise PromptError("find_all needs a phrase or at least one positive exemplar box")
    if query.text is not None and not query.text.strip():
        raise PromptError("find_all: the phrase is empty. Give a noun phrase, e.g. red car")


def _check_inside_box(query: Query) -> None:
    if query.text is not None or query.points or len(query.boxes) != 1:
        raise PromptError(f"inside_box takes exactly one box and nothing else, not {len(query.boxes)} boxes")
    if not all(query.positives):
        raise PromptError("inside_box: a negative box means something only in find_all")


def _check_point(query: Query) -> None:
    if query.text is not None or query.boxes:
        raise PromptError("point takes clicks and nothing else")
    if len(query.positives) != len(query.points):
        raise PromptError(f"point: {len(query.points)} clicks come with {len(query.positives)} positive flags")
    if not any(query.positives):
        raise PromptError("point needs at least one positive click, one that lies on the object")


def _check_numbers(query: Query) -> None:
    numbers = [*(n for box in query.boxes for n in box), *(n for point in query.points for n in point)]
    for number in numbers:
        if not (math.isfinite(number) and 0 <= number <= 1):
            raise PromptError(f"coordinate {number} is outside the photo: fractions of its sides lie in 0…1")


def _clip(text: str) -> str:
    return text if len(text) <= 60 else text[:59] + "…"


def exemplar_tensors(queries: Sequence[Query], dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Boxes (n, m, 4) as centre x, centre y, width, height; positives (n, m) bool; valid (n, m) bool.

    Queries with fewer than m boxes are filled up with boxes that are not valid.
    """
    most = max(len(query.boxes) for query in queries)
    boxes = torch.zeros(len(queries), most, 4, dtype=torch.float32)
    positives = torch.zeros(len(queries), most, dtype=torch.bool)
    valid = torch.zeros(len(queries), most, dtype=torch.bool)
    for row, query in enumerate(queries):
        for column, ((x0, y0, x1, y1), positive) in enumerate(zip(query.boxes, query.positives, strict=True)):
            boxes[row, column] = torch.tensor([(x0 + x1) / 2, (y0 + y1) / 2, x1 - x0, y1 - y0])
            positives[row, column] = positive
            valid[row, column] = True
    return boxes.to(dtype), positives, valid


def click_tensors(queries: Sequence[Query], side: int) -> tuple[Tensor, Tensor]:
    """Points (n, p, 2) x, y in pixels of the side × side square; labels (n, p): 1 on the object, 0 beside it.

    Every query must have p points: the tracker reads a filler as one more token, so that the result of one query
    would depend on the others beside it.
    """
    points = torch.tensor([query.points for query in queries], dtype=torch.float32) * side
    labels = torch.tensor([query.positives for query in queries], dtype=torch.int64)
    return points, labels


def box_tensor(queries: Sequence[Query], side: int) -> Tensor:
    """The one box of each query, (n, 4) x0, y0, x1, y1 in pixels of the side × side square."""
    return torch.tensor([query.boxes[0] for query in queries], dtype=torch.float32) * side
