"""What words has the status of a SamJob and of a SamWorkerPool?

Filled by `samjobs/decisions/jobstatus.py` and `poolstatus.py`. Counts and sentences, never lists of images or shards.
"""

from controller.kube.structural import Schema


def _value(kind: str, description: str, **more: object) -> Schema:
    return {"type": kind, "description": description, **more}


def _object(description: str, **fields: Schema) -> Schema:
    return _value("object", description, properties=fields)


def _count(description: str) -> Schema:
    return _value("integer", description, minimum=0)


def _time(description: str) -> Schema:
    return _value("string", description, format="date-time")


def _conditions(types: str) -> Schema:
    """As metav1.Condition."""
    condition = {
        "type": "object",
        "required": ["type", "status", "reason", "message", "lastTransitionTime"],
        "properties": {
            "type": _value("string", types, maxLength=316),
            "status": _value("string", "Whether it holds.", enum=["True", "False", "Unknown"]),
            "reason": _value("string", "Why, in one word.", minLength=1, maxLength=1024),
            "message": _value("string", "Why, in words.", maxLength=32768),
            "lastTransitionTime": _time("Since when the status is so."),
            "observedGeneration": _count("Generation of the spec that it tells of."),
        },
    }
    return _value(
        "array",
        "What holds of it, and why.",
        items=condition,
        **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )


_GENERATION = _count("Generation of the spec that the status tells of.")

JOB = _object(
    "How the job stands, as the job table says. Written by the controller; nothing is decided from it.",
    phase=_value(
        "string",
        "Queued, Running, Suspended, Succeeded, Failed, Cancelled, or Invalid. Follows from the conditions, which are "
        "what to wait for.",
    ),
    message=_value("string", "The state in words, and what the job waits for."),
    progress=_value("string", "Images that are finished, of all that are known, e.g. 120/1920."),
    images=_object(
        "Counts of images.",
        total=_count("Known so far; all of them once they have been listed."),
        done=_count("Processed."),
        failed=_count("Could not be processed; failures.jsonl tells why."),
        skipped=_count("Not done again, since their results still hold."),
    ),
    shards=_object(
        "Counts of shards.",
        total=_count("Made so far."),
        succeeded=_count("Finished."),
        dead=_count("Given up after too many failures; `samjobs dead` shows them."),
    ),
    startTime=_time("When its first shard was started."),
    completionTime=_time("When it ended, either way."),
    outputUri=_value("string", "Where the results are."),
    jobId=_value("string", "Its id in the job table and for the command line."),
    observedGeneration=_GENERATION,
    conditions=_conditions(
        "Complete, Failed, Finished (either way), Suspended, or Stalled (it can never run as it is)."
    ),
)

POOL = _object(
    "What became of the pool. Written by the controller; nothing is decided from it.",
    replicas=_count("Workers that there are, ready or not."),
    readyReplicas=_count("Workers that could take work."),
    busyReplicas=_count("Workers that are at work."),
    desiredReplicas=_count("Workers that are wanted."),
    selector=_value("string", "Labels by which its pods are found."),
    reason=_value("string", "Why there are as many, or what keeps them from working, in one word."),
    message=_value("string", "The same in words."),
    observedGeneration=_GENERATION,
    conditions=_conditions(
        "Ready (nothing keeps workers from working; also at zero), Available (work could be taken now), "
        "ScalingLimited, ModelUnavailable, Unschedulable, or Stalled (the spec is not followed)."
    ),
)
