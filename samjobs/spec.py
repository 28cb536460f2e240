"""What a person asks for: the one JobSpec from which the CLI, the tables, the API and the CRD derive.

Written in camelCase outside (`maxInstances`), snake_case inside; both are accepted on input. Unknown fields are
refused, so that a typing error never runs a job with defaults.

Coordinates are pixels of the **upright** photo (after its EXIF rotation), x to the right, y down, boxes as
x0, y0, x1, y1.
"""

import hashlib
import json
import re
import unicodedata
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    HttpUrl,
    StringConstraints,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_camel

from samjobs.errors import InvalidInput, redact
from samjobs.names import DEFAULT_REGION


def _on_one_line(value: str) -> str:
    """Class names are written one a line, and labels into pictures and tables."""
    control = next((char for char in value if unicodedata.category(char) in ("Cc", "Zl", "Zp")), None)
    if control is not None:
        raise ValueError(f"{_clip(value)} holds {control!r}: leave out line breaks and other control characters")
    return value


Finite = Annotated[float, Field(allow_inf_nan=False)]
Fraction = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Name = Annotated[
    str,
    StringConstraints(min_length=1, max_length=253, pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$"),
]


def _without_secret(value: str) -> str:
    """Specs are stored and shown; and no file system and no web knows a NUL."""
    if "\x00" in value:
        raise ValueError("the address holds a NUL character: leave it out")
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://[^/@]*:[^/@]*@", value):
        raise ValueError("the address holds a user and a password: leave them out, and set them where the work is done")
    return value


Uri = Annotated[str, StringConstraints(min_length=1, max_length=4096), AfterValidator(_without_secret)]
Phrase = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200), AfterValidator(_on_one_line)
]
Revision = Annotated[str, StringConstraints(max_length=128, pattern=r"^[A-Za-z0-9._/-]*$")]

MOST_PIXELS = 10**12
MOST_IMAGES = 10**9
LONGEST_S = 315_360_000  # ten years


class Model(BaseModel):
    """Base: immutable, camelCase aliases, no unknown fields."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        populate_by_name=True,
        hide_input_in_errors=True,  # in a traceback it may be a secret; `explain` shows what can be shown
    )


AnyModel = TypeVar("AnyModel", bound=Model)


UNNAMED = "object"  # label of what was found by a box or a click that has none


class Mode(StrEnum):
    """What a prompt means."""

    FIND_ALL = "find_all"  # every instance that matches a phrase and/or exemplar boxes
    INSIDE_BOX = "inside_box"  # one object per box
    POINT = "point"  # one object per set of clicks


class Format(StrEnum):
    """What is written per image beside its record. RLE in the record is lossless and always written."""

    LABEL_PNG = "label-png"  # one 16-bit PNG, pixel = instance id
    INSTANCE_PNG = "instance-png"  # one 1-bit PNG per instance
    POLYGONS = "polygons"  # JSON; lossy: outlines are simplified to contours
    YOLO_SEG = "yolo-seg"  # text; lossy: no holes, one part per line
    OVERLAY = "overlay"  # JPEG for people


LOSSY_FORMATS = frozenset({Format.POLYGONS, Format.YOLO_SEG, Format.OVERLAY})


class TextPrompt(Model):
    """A noun phrase. A plain string is accepted in its place."""

    text: Phrase = Field(description="Noun phrase of what to find, e.g. `red car`.")
    label: Phrase | None = Field(None, description="Class name in the results; the phrase when left out.")
    score_threshold: Fraction | None = Field(None, description="Overrides thresholds.score for this phrase.")

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        return {"text": value} if isinstance(value, str) else value


class BoxPrompt(Model):
    """A box. In find_all an exemplar (like this, or not like this); in inside_box the object's frame.

    A plain [x0, y0, x1, y1] is accepted in its place.
    """

    xyxy: tuple[Finite, Finite, Finite, Finite] = Field(description="x0, y0, x1, y1 in pixels of the upright photo.")
    positive: bool = Field(True, description="False: nothing like this. Only in find_all.")
    label: Phrase | None = Field(None, description="Class name in the results.")

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        return {"xyxy": value} if isinstance(value, list | tuple) else value

    @model_validator(mode="after")
    def _has_area(self) -> Self:
        x0, y0, x1, y1 = self.xyxy
        if not (x0 < x1 and y0 < y1):
            raise ValueError(f"xyxy {list(self.xyxy)} has no area: give x0 < x1 and y0 < y1")
        return self


class Click(Model):
    """A point on the object (positive) or beside it (negative).

    A plain [x, y] or [x, y, 0] is accepted in its place; 0 means negative.
    """

    x: Finite = Field(description="Pixels from the left edge of the upright photo.")
    y: Finite = Field(description="Pixels from its top edge.")
    positive: bool = Field(True, description="False: the object is not here.")

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        if isinstance(value, list | tuple) and len(value) in (2, 3):
            x, y, *positive = value
            return {"x": x, "y": y, "positive": all(positive)}
        return value


class ClickPrompt(Model):
    """The clicks that describe one object. A plain list of them, or one [x, y], is accepted in its place."""

    clicks: tuple[Click, ...] = Field(min_length=1, max_length=32, description="At least one of them positive.")
    label: Phrase | None = Field(None, description="Class name in the results.")

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        if not isinstance(value, list | tuple):
            return value
        one_click = len(value) > 0 and all(isinstance(number, int | float) for number in value)
        return {"clicks": [value] if one_click else value}

    @model_validator(mode="after")
    def _has_positive(self) -> Self:
        if not any(click.positive for click in self.clicks):
            raise ValueError("clicks has no positive click: add one that lies on the object")
        return self


class Prompts(Model):
    """What to look for in one image."""

    text: tuple[TextPrompt, ...] = Field((), max_length=64, description="Phrases, for find_all.")
    boxes: tuple[BoxPrompt, ...] = Field(
        (), max_length=256, description="Objects for inside_box, exemplars for find_all."
    )
    points: tuple[ClickPrompt, ...] = Field((), max_length=256, description="Clicks per object, for point.")

    @property
    def empty(self) -> bool:
        return not (self.text or self.boxes or self.points)

    def labels(self) -> tuple[str, ...]:
        """Class names that results of these prompts can have."""
        if self.text:
            return tuple(text.label or text.text for text in self.text)
        labels = [*(box.label for box in self.boxes), *(clicks.label for clicks in self.points)]
        return tuple(label or UNNAMED for label in labels)

    @field_validator("text")
    @classmethod
    def _each_once(cls, value: tuple[TextPrompt, ...]) -> tuple[TextPrompt, ...]:
        phrases = [one.text.casefold() for one in value]
        twice = [one.text for number, one in enumerate(value) if phrases[number] in phrases[:number]]
        if twice:
            raise ValueError(f"{twice[0]!r} is asked twice: every object would be found twice")
        return value


class ImageItem(Model):
    """One image by address, with prompts of its own if it needs them."""

    image: Uri = Field(description="Path or URL; relative to the manifest, or to the working folder.")
    prompts: Prompts | None = Field(None, description="Replaces the job's prompts for this image.")


class Images(Model):
    """Where the images come from: exactly one of prefix, list, manifest."""

    prefix: Uri | None = Field(None, description="Folder or URL prefix; every image below it.")
    list: tuple[ImageItem, ...] | None = Field(
        None, min_length=1, max_length=100, description="A short list; longer ones go into a manifest."
    )
    manifest: Uri | None = Field(None, description="JSON Lines file, one {image, prompts} a line.")
    boxes: Uri | None = Field(
        None, description="CSV or JSON file of boxes per image below the prefix; others are left out."
    )
    points: Uri | None = Field(None, description="CSV or JSON file of clicks per image below the prefix.")

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        given = [name for name in ("prefix", "list", "manifest") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"exactly one of prefix, list, manifest is needed, not {given or 'none'}")
        if self.prompts_file is not None and self.prefix is None:
            raise ValueError("boxes and points files go with a prefix; lists and manifests bring their own prompts")
        if self.boxes is not None and self.points is not None:
            raise ValueError("boxes and points are for different modes: give one of them")
        return self

    @property
    def prompts_file(self) -> str | None:
        """The file of boxes or points, where there is one."""
        return self.boxes or self.points


class Thresholds(Model):
    """Which instances are kept."""

    score: Fraction = Field(
        0.5, description="Least confidence of an instance in find_all; a box or click always gets its mask."
    )
    mask: Annotated[float, Field(gt=0, lt=1)] = Field(0.5, description="Least probability of a mask pixel.")
    nms_iou: Fraction | None = Field(
        None, description="Of two instances of one prompt that overlap more, keep the better."
    )
    nms_across_prompts: bool = Field(False, description="Apply nmsIou between prompts too.")
    min_area: int = Field(0, ge=0, le=MOST_PIXELS, description="Least area in pixels of the photo.")
    max_area: int | None = Field(None, gt=0, le=MOST_PIXELS, description="Largest area in pixels of the photo.")
    max_instances: int | None = Field(None, gt=0, le=10_000, description="Keep the best this many per image.")

    @model_validator(mode="after")
    def _areas_in_order(self) -> Self:
        if self.max_area is not None and self.max_area < self.min_area:
            raise ValueError(f"maxArea {self.max_area} is below minArea {self.min_area}")
        return self


class Output(Model):
    """Where results go."""

    uri: Uri = Field(description="Folder or URL prefix.")
    formats: tuple[Format, ...] = Field((), max_length=len(Format), description="Written beside the records.")
    classes: tuple[Phrase, ...] = Field(
        (), max_length=10_000, description="Class names in the order of yolo-seg's indices; the phrases otherwise."
    )

    @field_validator("formats")
    @classmethod
    def _sorted_once(cls, value: tuple[Format, ...]) -> tuple[Format, ...]:
        return tuple(sorted(set(value)))


class RetryPolicy(Model):
    """What happens after a failure of a shard."""

    max_attempts: int = Field(3, ge=1, le=100, description="Failures after which a shard is dead.")
    backoff: Literal["exponential", "quadratic"] = Field(
        "exponential", description="exponential: min(2^n, 60) s; quadratic: 10 n² s."
    )


class FailurePolicy(Model):
    """When failed images fail the job."""

    max_failed_images: int | None = Field(
        None, ge=0, le=MOST_IMAGES, description="The job fails above this. Left out: only when every image failed."
    )


class JobSpec(Model):
    """A batch of images with one mode, one prompt set and one output place."""

    mode: Mode = Field(Mode.FIND_ALL, description="What the prompts mean.")
    images: Images = Field(description="Where the images come from.")
    prompts: Prompts = Field(Prompts(), description="For every image that brings none of its own.")
    thresholds: Thresholds = Field(Thresholds(), description="Which instances are kept.")
    output: Output = Field(description="Where results go.")
    engine: Literal["sam3", "sam3-meta", "opencv"] = Field("sam3", description="What segments.")
    model: Uri | None = Field(None, description="Path or hub id of the weights; left out: the engine's own setting.")
    revision: Revision | None = Field(None, description="Revision of a hub model.")
    region: Name = Field(DEFAULT_REGION, description="Whose workers take it.")
    priority: int = Field(0, ge=-1000, le=1000, description="Higher goes first.")
    shard_size: int = Field(32, ge=1, le=10_000, description="Images per shard.")
    parallelism: int | None = Field(None, ge=1, le=1_000_000, description="Shards of this job that may run at once.")
    retry_policy: RetryPolicy = Field(RetryPolicy(), description="What happens after a failure of a shard.")
    failure_policy: FailurePolicy = Field(FailurePolicy(), description="When failed images fail the job.")
    suspend: bool = Field(False, description="Accepted but not started until this is false.")
    not_before: AwareDatetime | None = Field(None, description="Not started before this time (with its zone).")
    active_deadline_seconds: int | None = Field(
        None, ge=1, le=LONGEST_S, description="Failed when not finished by then, from creation."
    )
    ttl_seconds_after_finished: int | None = Field(
        None, ge=0, le=LONGEST_S, description="Forgotten this long after its end; results stay."
    )
    dedupe: bool = Field(True, description="An equal job that is still active is joined, not queued twice.")
    callback: HttpUrl | None = Field(None, description="https address told of the end.")
    resume: bool = Field(True, description="Keep results that still hold. False: do every image again.")

    @field_validator("not_before")
    @classmethod
    def _inside_the_calendar(cls, value: datetime | None) -> datetime | None:
        if value is not None and not 1 < value.year < 9999:  # so that it is a time in every zone, and an hour later
            raise ValueError(f"{value.isoformat()} is at an end of the calendar: give a year from 2 to 9998")
        return value

    @field_validator("callback")
    @classmethod
    def _https_only(cls, value: HttpUrl | None) -> HttpUrl | None:
        if value is not None and value.scheme != "https":
            raise ValueError("the callback is not https: results would be told in the clear")  # it may hold a token
        return value

    @model_validator(mode="after")
    def _prompts_fit(self) -> Self:
        own = [item.prompts for item in self.images.list or () if item.prompts is not None]
        for prompts in (self.prompts, *own):
            check_prompts(prompts, self.mode)
        if self.images.boxes is not None and self.mode is Mode.POINT:
            raise ValueError(f"images.boxes does not go with mode point, which needs {NEEDED[Mode.POINT]}")
        if self.images.points is not None and self.mode is not Mode.POINT:
            raise ValueError(f"images.points does not go with mode {self.mode.value}, which needs {NEEDED[self.mode]}")
        if self.images.manifest is None and self.images.prompts_file is None:
            without = self.images.prefix is not None or any(i.prompts is None for i in self.images.list or ())
            if without and self.prompts.empty:
                raise ValueError(f"prompts is empty: mode {self.mode.value} needs {NEEDED[self.mode]}")
        many = self.images.prefix is not None or self.images.manifest is not None or len(self.images.list or ()) > 1
        if many and (self.prompts.boxes or self.prompts.points):
            raise ValueError(
                "prompts.boxes and prompts.points belong to one image: give them per image in images.list or a manifest"
            )
        return self

    def dedupe_key(self) -> str:
        """Hash of the whole request. Equal keys ask for the same work at the same place."""
        how = {"resume", "dedupe", "suspend", "priority", "shard_size", "parallelism"}
        return _digest(self.model_dump(mode="json", exclude=how))

    def config_hash(self, own: Prompts | None = None) -> str:
        """Hash of what decides an image's results, besides its bytes and the model's: `own` are its own prompts."""
        included = {"mode", "thresholds", "engine"}
        data = self.model_dump(mode="json", include=included)
        prompts = self.prompts_for(own).model_dump(mode="json")
        classes = self.classes() if Format.YOLO_SEG in self.output.formats else ()
        return _digest(data | {"prompts": prompts, "formats": list(self.output.formats), "classes": classes})

    def classes(self) -> tuple[str, ...]:
        """Class names in the order of yolo-seg's indices."""
        return self.output.classes or tuple(dict.fromkeys(self.prompts.labels())) or (UNNAMED,)

    def prompts_for(self, own: Prompts | None) -> Prompts:
        """The prompts of one image: its own, or the job's."""
        return own if own is not None else self.prompts


NEEDED = {
    Mode.FIND_ALL: "text and/or exemplar boxes",
    Mode.INSIDE_BOX: "boxes",
    Mode.POINT: "points",
}
UNFIT = {
    Mode.FIND_ALL: ("points",),
    Mode.INSIDE_BOX: ("text", "points"),
    Mode.POINT: ("text", "boxes"),
}


def check_prompts(prompts: Prompts, mode: Mode) -> None:
    """Refuse prompts that `mode` cannot use.

    Raises:
        ValueError: naming the field and what belongs there.
    """
    for field in UNFIT[mode]:
        if getattr(prompts, field):
            raise ValueError(f"prompts.{field} does not go with mode {mode.value}, which needs {NEEDED[mode]}")
    if mode is Mode.INSIDE_BOX and not all(box.positive for box in prompts.boxes):
        raise ValueError("prompts.boxes: a negative box only means something in find_all; leave out positive: false")
    if mode is Mode.FIND_ALL and prompts.boxes and not prompts.text and not any(b.positive for b in prompts.boxes):
        raise ValueError("prompts.boxes are all negative: add text or a positive exemplar box")


def parse(model: type[AnyModel], data: Any, where: str) -> AnyModel:
    """Validate `data` as `model`; `where` names the source in the error.

    Raises:
        InvalidInput: one line per problem: the field, what is wrong with it, and the value.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise InvalidInput(explain(error, where)) from None


_SECRET = re.compile("token|secret|password", re.IGNORECASE)  # in the name of a field


def explain(error: ValidationError, where: str) -> str:
    """Pydantic's errors as one line per problem, each naming field, fault and value. A URL is left out: it may hold a
    secret."""
    lines = []
    for item in error.errors():
        field = ".".join(str(part) for part in item["loc"]) or "the whole"
        message = item["msg"].removeprefix("Value error, ")
        hidden = item["type"] in {"missing", "value_error"} or item["type"].startswith("url_") or _SECRET.search(field)
        value = "" if hidden else f" (got {_clip(item['input'])})"
        lines.append(f"{where}: {field}: {message}{value}")
    return "\n".join(lines)


def _clip(value: Any) -> str:
    text = redact(repr(value))
    return text if len(text) <= 80 else text[:79] + "…"


def _digest(data: Any) -> str:
    canonical = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.blake2b(canonical.encode(), digest_size=20).hexdigest()
