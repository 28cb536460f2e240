"""Names that more than one part of the system says: written once here, imported everywhere else.

Environment variables carry the prefix `SAMJOBS_` and are fields of `samjobs.settings`.
"""

from enum import StrEnum


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
