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

    orientation: int = Field(1, ge=1, le=8)  # as found in the file
    policy: Literal["applied"] = "applied"  # everything in the record is in the upright frame


class SourceFacts(Model):
    """The file as it was read: what tells later whether it has changed."""

    size: NonNegativeInt  # bytes
    token: Text  # modification stamp of the storage: etag, version or mtime
    quick_hash: str  # BLAKE2b of the size and five samples of 4 KiB
    content_hash: str  # BLAKE2b, 160 bit, of all bytes


class EngineFacts(Model):
    """What segmented."""

    name: str  # as in a job
    model: Text  # path or hub id of the weights
    revision: str  # commit of a hub model
    fingerprint: str  # checksum of the weights, or version of the algorithm
    device: str  # where it ran
    dtype: str  # of its numbers
    note: str = ""  # what a reader must know, e.g. that no model was used


class Segmentation(Model):
    """A mask as COCO's compressed run lengths."""

    size: tuple[PositiveInt, PositiveInt]  # height, width
    counts: str  # as pycocotools.mask.decode takes them

    @property
    def rle(self) -> Rle:
        return Rle(self.size[0], self.size[1], self.counts)


class InstanceRecord(Model):
    """One object found."""

    id: PositiveInt  # 1…n in the order of the record, best score first; the pixel value in a label PNG
    prompt: Text  # what was asked
    label: Text  # class name
    score: Fraction  # the engine's confidence
    bbox: tuple[NonNegativeInt, NonNegativeInt, PositiveInt, PositiveInt]  # x, y, width, height of the mask, in pixels
    pred_box: tuple[Finite, Finite, Finite, Finite]  # the engine's own x0, y0, x1, y1, in pixels
    area: PositiveInt  # pixels of the mask
    segmentation: Segmentation  # the mask, lossless


class OutputFile(Model):
    """A file made from this record."""

    format: Format  # which of the formats of a job
    path: Text  # below the output root
    bytes: NonNegativeInt  # its size
    hash: str  # BLAKE2b, 160 bit
    lossy: bool  # whether it holds less than the record


class Record(Model):
    """An image that was processed."""

    schema_version: Literal[1] = 1  # of these fields
    status: Literal["done"] = "done"  # tells it from a failure
    uri: Text  # where the photo was read
    key: Text  # path below the input, mirrored below the output
    width: PositiveInt  # of the upright photo
    height: PositiveInt  # of the upright photo
    exif: Exif  # its rotation
    format: str  # JPEG, PNG, …
    source_mode: str  # of its pixels, as Pillow names it
    notes: tuple[Text, ...] = ()  # what was done to it before it was seen, e.g. 16 bits stretched to 8
    source: SourceFacts  # the file
    config_hash: str  # of mode, prompts, thresholds, engine and formats
    mode: Mode  # what the prompts mean
    prompts: Prompts  # as given
    thresholds: Thresholds  # as given
    engine: EngineFacts  # what segmented
    versions: Annotated[dict[str, str], AfterValidator(_by_name)]  # libraries that shape the result
    instances: tuple[InstanceRecord, ...]  # best score first
    truncated: bool  # there may be more instances than are listed
    timings_s: Annotated[dict[str, Seconds], AfterValidator(_by_name)]  # seconds by stage
    outputs: tuple[OutputFile, ...] = ()  # files made from it

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

    schema_version: Literal[1] = 1  # of these fields
    status: Literal["failed"] = "failed"  # tells it from a result
    uri: Text  # where the photo should be
    key: Text  # path below the input
    source: SourceFacts | None = None  # None where not even the file could be read
    error_class: ErrorClass  # permanent, or transient after the last try
    error: Text  # why, for people
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
