"""Names that more than one part of the system says: written once here, imported everywhere else.

Environment variables carry the prefix `SAMJOBS_` and are fields of `samjobs.settings`.
"""

import re
from enum import StrEnum
from uuid import UUID


class Reason(StrEnum):
    """Why something happened. The same word goes to the event row, the log, the CLI and the metric."""

    # a job
    SUBMITTED = "Submitted"
    STARTED = "Started"
    COMPLETED = "Completed"
    ALL_IMAGES_FAILED = "AllImagesFailed"
    MAX_FAILED_IMAGES = "MaxFailedImages"
    SHARDS_DEAD = "ShardsDead"
    CANCELLED_BY_USER = "CancelledByUser"
    SUPERSEDED = "Superseded"
    INVALID_INPUT = "InvalidInput"
    SUSPENDED_BY_USER = "SuspendedByUser"
    RESUMED_BY_USER = "ResumedByUser"
    RETRIED_BY_USER = "RetriedByUser"
    PURGED_BY_USER = "PurgedByUser"
    OBJECT_DELETED = "ObjectDeleted"
    SPEC_CHANGED = "SpecChanged"
    TTL_EXPIRED = "TtlExpired"
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    NO_PROGRESS = "NoProgress"
    # a shard
    CLAIMED = "Claimed"
    FINISHED = "Finished"
    DRAINED = "Drained"
    LEASE_LOST = "LeaseLost"
    WORKER_GONE = "WorkerGone"
    TRANSIENT_ERROR = "TransientError"
    PERMANENT_ERROR = "PermanentError"
    WORKER_FAULT = "WorkerFault"
    CRITICAL_ERROR = "CriticalError"
    FAILURES_EXHAUSTED = "FailuresExhausted"
    MESSAGE_LOST = "MessageLost"
    ENGINE_UNFIT = "EngineUnfit"
    # on which queue
    FIRST_TRY = "FirstTry"
    FIRST_RETRY = "FirstRetry"
    LATER_RETRY = "LaterRetry"
    FAILOVER = "Failover"
    # why it waits
    LISTING = "Listing"
    NOT_BEFORE = "NotBefore"
    BACKOFF = "Backoff"
    PARALLELISM = "Parallelism"
    NO_WORKER = "NoWorker"
    REGION_CAP = "RegionCap"
    TENANT_CAP = "TenantCap"
    RATE_LIMITED = "RateLimited"
    WINDOW_FULL = "WindowFull"
    NEXT_IN_LINE = "NextInLine"
    # an image
    PROCESSED = "Processed"
    UNCHANGED = "Unchanged"
    NEW = "New"
    CONTENT_CHANGED = "ContentChanged"
    CONFIG_CHANGED = "ConfigChanged"
    MODEL_CHANGED = "ModelChanged"
    OUTPUT_MISSING = "OutputMissing"
    FORCED = "Forced"
    FAILED_BEFORE = "FailedBefore"
    IMAGE_ERROR = "ImageError"
    # how many workers a pool has
    BY_HAND = "ByHand"
    UNKNOWN_DEMAND = "UnknownDemand"
    ABOVE_MAXIMUM = "AboveMaximum"
    SCALED_UP = "ScaledUp"
    BELOW_MINIMUM = "BelowMinimum"
    FIRST_WORKER = "FirstWorker"
    UP_COOLDOWN = "UpCooldown"
    DOWN_COOLDOWN = "DownCooldown"
    SCALED_DOWN = "ScaledDown"
    BUSY_WORKERS = "BusyWorkers"
    AT_MAXIMUM = "AtMaximum"
    AT_MINIMUM = "AtMinimum"
    STEADY = "Steady"
    REGION_TAKEN = "RegionTaken"
    # the workers of a pool
    AS_ASKED = "AsAsked"
    NONE_WANTED = "NoneWanted"
    WORKERS_READY = "WorkersReady"
    WORKERS_LOADING = "WorkersLoading"
    MODEL_UNAVAILABLE = "ModelUnavailable"
    WORKER_UNSTARTED = "WorkerUnstarted"
    WORKER_FAILS = "WorkerFails"
    PODS_REFUSED = "PodsRefused"
    UNSCHEDULABLE = "Unschedulable"
    INVALID_SPEC = "InvalidSpec"
    PUT_BACK = "PutBack"


# Where results lie below a job's output place; the files of each format are in a folder of its name.
OUTPUT_MARK = ".samjobs"  # an empty file by which a listing knows an output folder
RECORDS_DIR = "records"
RESULTS_FILE = "results.jsonl"
FAILURES_FILE = "failures.jsonl"
COCO_FILE = "annotations.coco.json"
CLASSES_FILE = "classes.txt"  # not in yolo-seg/: a photo may be called classes
SUMMARY_FILE = "summary.json"

DEFAULT_TENANT = "default"
DEFAULT_REGION = "default"

# The database's channel by which a change wakes the controllers.
CHANNEL = "samjobs"

# Redis. A message is an id and nothing else; RQ wants ids and queue names without dots and spaces.
_QUEUE = "samjobs:"
GLOBAL_RETRY_QUEUE = f"{_QUEUE}retry"
# The number is one that its column holds.
_MESSAGE = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-([1-9][0-9]{0,8})")


def queue_of(region: str) -> str:
    """Where first tries of a region wait for its workers."""
    return f"{_QUEUE}region:{region}"


def retry_queue_of(region: str) -> str:
    """Where first retries of a region wait for its workers."""
    return f"{_QUEUE}retry:{region}"


def listened_queues(region: str) -> tuple[str, str, str]:
    """The queues of a region's worker, in the order in which it empties them."""
    return GLOBAL_RETRY_QUEUE, retry_queue_of(region), queue_of(region)


def message_id(shard_id: UUID, attempt: int) -> str:
    """What tells a worker of one attempt of a shard.

    >>> message_id(UUID(int=7), 2)
    '00000000-0000-0000-0000-000000000007-2'
    """
    return f"{shard_id}-{attempt}"


def parse_message_id(text: str) -> tuple[UUID, int] | None:
    """The shard and attempt of a message; None for anything that `message_id` did not make.

    >>> parse_message_id("00000000-0000-0000-0000-000000000007-2")
    (UUID('00000000-0000-0000-0000-000000000007'), 2)
    >>> parse_message_id("os.system") is None
    True
    """
    found = _MESSAGE.fullmatch(text)
    return None if found is None else (UUID(found[1]), int(found[2]))


# Kubernetes. The plural names are those of the CRDs; the field manager owns what the controller writes.
GROUP = "samjobs.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
JOB_KIND, JOB_PLURAL = "SamJob", "samjobs"
POOL_KIND, POOL_PLURAL = "SamWorkerPool", "samworkerpools"
FIELD_MANAGER = "samjobs"
POOL_LABEL = f"{GROUP}/pool"  # on a pool's Deployment and pods: the pool's name
SCHEMA_VERSION_ANNOTATION = f"{GROUP}/schema-version"  # on a CRD: a hash of its schema
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
GPU_RESOURCE = "nvidia.com/gpu"
WEIGHTLESS_EXIT = 5  # of a worker process whose model cannot be had


class Condition(StrEnum):
    """Types of the conditions in the status of a SamJob and of a SamWorkerPool."""

    # a SamJob, as batch/v1 names them
    SUSPENDED = "Suspended"
    COMPLETE = "Complete"
    FAILED = "Failed"
    FINISHED = "Finished"  # either way: `kubectl wait` cannot wait for one of two
    STALLED = "Stalled"  # it can never run as it is
    # a SamWorkerPool
    READY = "Ready"  # the Deployment is as the pool asks; also at zero replicas
    AVAILABLE = "Available"  # a worker is ready, or none is wanted
    SCALING_LIMITED = "ScalingLimited"  # more or fewer are wanted than may be
    MODEL_UNAVAILABLE = "ModelUnavailable"
    UNSCHEDULABLE = "Unschedulable"
