"""The options by which a person says what a job is: the same words for `process` and `submit`."""

from typing import Annotated, Any

import typer

from samjobs.errors import InvalidInput
from samjobs.spec import Format, Mode

Source = Annotated[
    str | None, typer.Option("--input", "-i", metavar="DIR_OR_URL", help="Folder or URL prefix of the images.")
]
Manifest = Annotated[
    str | None, typer.Option(metavar="FILE", help="JSON Lines instead: an image a line, with prompts of its own.")
]
Phrases = Annotated[
    list[str] | None, typer.Option("--prompt", "-p", metavar="TEXT", help="Noun phrase to find; may be repeated.")
]
Boxes = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Boxes per image: CSV image,x0,y0,x1,y1[,label][,positive] or JSON."),
]
Points = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Clicks per image: CSV image,x,y[,positive][,object][,label] or JSON."),
]
Meaning = Annotated[
    Mode | None,
    typer.Option(
        help="What prompts mean; left out: point with --points, inside_box with --boxes alone, else find_all."
    ),
]
EngineName = Annotated[str, typer.Option(help="sam3, sam3-meta or opencv; see `samjobs engines`.")]
Weights = Annotated[str | None, typer.Option(metavar="PATH_OR_ID", help="Weights; the engine's setting otherwise.")]
Revision = Annotated[str | None, typer.Option(help="Commit of a hub model.")]
Classes = Annotated[
    list[str] | None,
    typer.Option("--class", metavar="NAME", help="Class names in yolo-seg's order; the prompts otherwise."),
]
Score = Annotated[float, typer.Option(metavar="0…1", help="Least confidence of an instance in find_all.")]
NmsIou = Annotated[float | None, typer.Option(metavar="0…1", help="Drop instances that overlap a better one more.")]
MinArea = Annotated[int, typer.Option(help="Least area of an instance in pixels.")]
MaxArea = Annotated[int | None, typer.Option(help="Largest area of an instance in pixels.")]
MaxInstances = Annotated[int | None, typer.Option(help="Keep the best this many per image.")]
Resume = Annotated[
    bool,
    typer.Option("--resume/--force", help="Only what is new, changed or failed (default); or everything again."),
]
DEFAULT_ENGINE = "sam3"
DEFAULT_SCORE = 0.5


def asked(
    *,
    source: str | None,
    manifest: str | None,
    prompt: list[str] | None,
    boxes: str | None,
    points: str | None,
    mode: Mode | None,
    engine: str,
    model: str | None,
    revision: str | None,
    output: str | None,
    formats: list[Format] | None,
    classes: list[str] | None,
    score: float,
    nms_iou: float | None,
    min_area: int,
    max_area: int | None,
    max_instances: int | None,
    resume: bool,
) -> dict[str, Any]:
    """What these options say, as the fields of a JobSpec."""
    return {
        "images": {"prefix": source, "manifest": manifest, "boxes": boxes, "points": points},
        "mode": mode or _mode(prompt, boxes, points),
        "prompts": {"text": prompt or []},
        "thresholds": {
            "score": score,
            "nmsIou": nms_iou,
            "minArea": min_area,
            "maxArea": max_area,
            "maxInstances": max_instances,
        },
        "output": {"uri": output, "formats": formats or [], "classes": classes or []},
        "engine": engine,
        "model": model,
        "revision": revision,
        "resume": resume,
    }


def _mode(prompt: list[str] | None, boxes: str | None, points: str | None) -> Mode:
    if points is not None:
        return Mode.POINT
    return Mode.INSIDE_BOX if boxes is not None and not prompt else Mode.FIND_ALL


def not_empty(option: str, text: str | None) -> str | None:
    """`text`, unless it holds nothing: the unset variable of a script, which as a path would be the working folder.

    Raises:
        InvalidInput: naming the option.
    """
    if text is not None and not text.strip():
        raise InvalidInput(f"{option} {text!r} is empty: give a path or a URL")
    return text
