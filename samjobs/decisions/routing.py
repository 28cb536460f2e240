"""On which queue does my shard wait for a worker?

A worker empties the global retry queue first, then its region's retry queue, then its region's queue
(`names.listened_queues`). So a first retry stays in its region but goes before new work; what failed twice is taken by
whoever is free first, anywhere, lest one region's trouble kills it; and so is the work of a region that has lost its
workers, if another region has some.
"""

from dataclasses import dataclass

from samjobs.names import GLOBAL_RETRY_QUEUE, Reason, queue_of, retry_queue_of


@dataclass(frozen=True)
class Route:
    """A queue, and why that one."""

    queue: str
    reason: Reason
    message: str


def route(
    failures: int,
    region: str,
    *,
    region_ready: int,
    silent_for_s: float | None,
    waited_s: float,
    failover_after_s: float,
    others_ready: int,
) -> Route:
    """The queue for a shard.

    Args:
        failures: failures charged to it so far.
        region_ready: workers of its region that take shards.
        silent_for_s: seconds since a worker of its region was last heard of; None: never.
        waited_s: seconds since the shard came due.
        others_ready: workers of all other regions that take shards.

    >>> calm = dict(region_ready=1, silent_for_s=0, waited_s=0, failover_after_s=60, others_ready=1)
    >>> [route(failures, "us", **calm).queue for failures in (0, 1, 2)]
    ['samjobs:region:us', 'samjobs:retry:us', 'samjobs:retry']
    >>> route(0, "us", **calm | {"region_ready": 0, "silent_for_s": 61, "waited_s": 60}).message
    'region us has had no worker for 61 s: the workers of other regions take over'
    """
    if failures >= 2:
        return Route(
            GLOBAL_RETRY_QUEUE, Reason.LATER_RETRY, f"failed {failures} times: whoever is free first, anywhere"
        )
    silent = region_ready == 0 and (silent_for_s is None or silent_for_s >= failover_after_s)
    if silent and waited_s >= failover_after_s and others_ready > 0:
        since = "never had a worker" if silent_for_s is None else f"has had no worker for {silent_for_s:.0f} s"
        told = f"region {region} {since}: the workers of other regions take over"
        return Route(GLOBAL_RETRY_QUEUE, Reason.FAILOVER, told)
    if failures == 1:
        return Route(retry_queue_of(region), Reason.FIRST_RETRY, f"failed once: before new work of region {region}")
    return Route(queue_of(region), Reason.FIRST_TRY, f"first try in region {region}")
