"""The values that pass between the stages of the pipeline."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from samjobs.errors import SamjobsError
from samjobs.names import RECORDS_DIR, Reason
from samjobs.segmentation.engines.base import EngineInfo
from samjobs.segmentation.images import Limits, Photo
from samjobs.segmentation.prompts import Asked
from samjobs.segmentation.records import Earlier
from samjobs.spec import JobSpec, Prompts
from samjobs.states import ImageState
from samjobs.storage import Stamp, Storage, join, mirrored

RECORD_LIMIT_BYTES = 1 << 30  # what is taken for a record when it is read back


def record_path(key: str) -> str:
    """Where the record of the image `key` lies, below the output place."""
    return f"{RECORDS_DIR}/{mirrored(key)}.json"


@dataclass(frozen=True)
class Task:
    """One image to be seen to."""

    index: int  # its place in the job
    key: str  # its path below the input
    uri: str
    prompts: Prompts | None  # its own, where it has some


@dataclass(frozen=True)
class Work:
    """What is the same for all images of a run."""

    spec: JobSpec
    info: EngineInfo
    storage: Storage
    limits: Limits
    force: bool  # do images whose results still hold, too
    last_attempt: bool  # a transient error of an image fails it, since there is no next time
    may_publish: Callable[[], bool]  # False once the lease is lost: nothing more may be written

    def record_uri(self, key: str) -> str:
        """Where the record of an image lies.

        Raises:
            InvalidInput, AccessDenied: see `join`.
        """
        return join(self.spec.output.uri, record_path(key))


@dataclass(frozen=True)
class Source:
    """What is known of an image's file."""

    stamp: Stamp
    size: int  # bytes
    quick_hash: str
    content_hash: str


@dataclass
class Prepared:
    """An image decoded and ready for the device."""

    task: Task
    reason: Reason  # why it is done
    source: Source
    photo: Photo
    asked: list[Asked]
    config_hash: str
    earlier: Earlier  # what an earlier run left
    seconds: dict[str, float] = field(default_factory=dict)  # stage → time spent


@dataclass(frozen=True)
class Outcome:
    """What became of an image. `pending` means: not now, for the transient `error`."""

    task: Task
    state: ImageState
    reason: Reason
    source: Source | None = None
    width: int | None = None
    height: int | None = None
    instances: int | None = None
    truncated: bool = False
    output_uri: str | None = None
    output_hash: str | None = None
    error: SamjobsError | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)  # stage → time spent, of one that was done
