"""What is written down about one image: the one JSON object from which every other output can be made again.

A record is one line of UTF-8 JSON with its keys always in the same order, so that a folder of records can be joined to
`results.jsonl` as it is. It holds no time of day and nothing that is not finite. Field names are snake_case, as in
COCO's own format.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    NonNegativeInt,
    PositiveInt,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from samjobs.errors import ErrorClass, InvalidInput, classify, describe, storable
from samjobs.segmentation.masks import Instance
from samjobs.segmentation.rle import Rle
from samjobs.spec import Finite, Format, Fraction, Mode, Model, Prompts, Thresholds, explain

# File names may hold what JSON and databases cannot: it is written as escapes.
Text = Annotated[str, BeforeValidator(lambda value: storable(value) if isinstance(value, str) else value)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


def _by_name(value: Mapping[str, object]) -> Mapping[str, object]:
    return dict(sorted(value.items()))


class Exif(Model):
    """The orientation found in the file; everything in the record is in the upright frame."""

    orientation: int = Field(1, ge=1, le=8)
    policy: Literal["applied"] = "applied"


class SourceFacts(Model):
    """The file as it was read: what tells later whether it has changed."""

    size: NonNegativeInt  # bytes
    token: Text  # modification stamp of the storage: etag, version or mtime
    quick_hash: str
    content_hash: str


class EngineFacts(Model):
    """What segmented."""

    name: str
    model: Text
    revision: str
    fingerprint: str
    device: str
    dtype: str
    note: str = ""


class Segmentation(Model):
    """A mask as COCO's compressed run lengths."""

    size: tuple[PositiveInt, PositiveInt]  # height, width
    counts: str

    @property
    def rle(self) -> Rle:
        return Rle(self.size[0], self.size[1], self.counts)


class InstanceRecord(Model):
    """One object found."""

    id: PositiveInt  # 1…n in the order of the record, best score first; the pixel value in a label PNG
    prompt: Text
    label: Text
    score: Fraction
    bbox: tuple[NonNegativeInt, NonNegativeInt, PositiveInt, PositiveInt]  # x, y, width, height of the mask, in pixels
    pred_box: tuple[Finite, Finite, Finite, Finite]  # the engine's own x0, y0, x1, y1, in pixels
    area: PositiveInt
    segmentation: Segmentation


class OutputFile(Model):
    """A file made from this record."""

    format: Format
    path: Text  # below the output root
    bytes: NonNegativeInt
    hash: str
    lossy: bool


class Record(Model):
    """An image that was processed."""

    schema_version: Literal[1] = 1
    status: Literal["done"] = "done"
    uri: Text
    key: Text  # path below the input, mirrored below the output
    width: PositiveInt  # of the upright photo
    height: PositiveInt
    exif: Exif
    format: str
    source_mode: str
    notes: tuple[Text, ...] = ()
    source: SourceFacts
    config_hash: str  # of mode, prompts, thresholds, engine and formats
    mode: Mode
    prompts: Prompts
    thresholds: Thresholds
    engine: EngineFacts
    versions: Annotated[dict[str, str], AfterValidator(_by_name)]
    instances: tuple[InstanceRecord, ...]
    truncated: bool
    timings_s: Annotated[dict[str, Seconds], AfterValidator(_by_name)]
    outputs: tuple[OutputFile, ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for place, instance in enumerate(self.instances, 1):
            if instance.id != place:
                raise ValueError(f"instances have the id {instance.id} in place {place}: ids count from 1")
            if instance.segmentation.size != (self.height, self.width):
                raise ValueError(
                    f"instance {place} has a mask of {instance.segmentation.size[1]} x {instance.segmentation.size[0]} "
                    f"pixels in an image of {self.width} x {self.height}"
                )
        return self


class FailureRecord(Model):
    """An image that could not be processed, and why."""

    schema_version: Literal[1] = 1
    status: Literal["failed"] = "failed"
    uri: Text
    key: Text
    source: SourceFacts | None = None  # None where not even the file could be read
    error_class: ErrorClass
    error: Text
    outputs: tuple[Text, ...] = ()  # paths of files that may lie there although nothing vouches for them

    @classmethod
    def of(cls, uri: str, key: str, error: BaseException, source: SourceFacts | None = None) -> Self:
        """The failure of the image `key` by `error`."""
        return cls(uri=uri, key=key, source=source, error_class=classify(error), error=describe(error))


AnyRecord = Record | FailureRecord


@dataclass(frozen=True)
class Earlier:
    """What must be known of an image's record while the image is done again."""

    files: frozenset[str] = frozenset()  # paths below the output root that are its files
    result_of: str | None = None  # hash of the bytes that it has results of

    @classmethod
    def of(cls, record: AnyRecord | None) -> Self:
        """Of the record that an earlier run left, if any."""
        match record:
            case Record():
                return cls(frozenset(one.path for one in record.outputs), record.source.content_hash)
            case FailureRecord():
                return cls(frozenset(record.outputs))
            case None:
                return cls()


_ANY: TypeAdapter[AnyRecord] = TypeAdapter(Annotated[AnyRecord, Field(discriminator="status")])


def dump(record: AnyRecord) -> bytes:
    """The record as one line with its newline. Equal records give equal bytes."""
    return record.model_dump_json(by_alias=False).encode() + b"\n"


def load(data: bytes) -> AnyRecord:
    """Read a record back.

    Raises:
        InvalidInput: not one whole record of this schema.
    """
    try:
        return _ANY.validate_json(data)
    except ValidationError as error:
        raise InvalidInput(explain(error, "record")) from None


def instance_records(
    instances: Sequence[Instance], prompts: Sequence[str], labels: Sequence[str]
) -> tuple[InstanceRecord, ...]:
    """Instances as they are written, with the prompt and the label of each one's query."""
    return tuple(
        InstanceRecord(
            id=place,
            prompt=prompts[instance.query],
            label=labels[instance.query],
            score=min(1.0, max(0.0, instance.score)),
            bbox=instance.bbox,
            pred_box=instance.box,
            area=instance.area,
            segmentation=Segmentation(size=(instance.rle.height, instance.rle.width), counts=instance.rle.counts),
        )
        for place, instance in enumerate(instances, 1)
    )
