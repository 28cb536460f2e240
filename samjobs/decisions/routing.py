"""On which queue does my shard wait for a worker?

A worker empties the global retry queue first, then its region's retry queue, then its region's queue
(`names.listened_queues`). So a first retry stays in its region but goes before new work; what failed twice is taken by
whoever is free first, anywhere, lest one region's trouble kills it; and so is the work of a region that has lost its
workers, if another region has some.
"""

from dataclasses import dataclass

from samjobs.names import GLOBAL_RETRY_QUEUE, Reason, queue_of, retry_queue_of

MORE = 2  # failures from which on their number changes nothing


@dataclass(frozen=True)
class Route:
    """A queue, and why that one."""

    queue: str
    reason: Reason
    message: str


@dataclass(frozen=True)
class Standing:
    """How a region is served."""

    region: str
    ready: int  # workers of it that take shards
    silent_for_s: float | None  # since one of them was last heard of; None: never
    others_ready: int  # workers of all other regions that take shards
    failover_after_s: float  # without a worker for so long, others take over


def route(failures: int, where: Standing, *, waited_s: float) -> Route:
    """The queue for a shard.

    Args:
        failures: failures charged to it so far.
        where: its region.
        waited_s: seconds since it came due.

    >>> calm = Standing("us", ready=1, silent_for_s=0, others_ready=1, failover_after_s=60)
    >>> [route(failures, calm, waited_s=0).queue for failures in (0, 1, 2)]
    ['samjobs:region:us', 'samjobs:retry:us', 'samjobs:retry']
    >>> from dataclasses import replace
    >>> route(0, replace(calm, ready=0, silent_for_s=61), waited_s=60).message
    'region us has had no worker for 61 s: the workers of other regions take over'
    """
    if failures >= MORE:
        return Route(
            GLOBAL_RETRY_QUEUE, Reason.LATER_RETRY, f"failed {failures} times: whoever is free first, anywhere"
        )
    region, silent_for_s = where.region, where.silent_for_s
    silent = where.ready == 0 and (silent_for_s is None or silent_for_s >= where.failover_after_s)
    if silent and waited_s >= where.failover_after_s and where.others_ready > 0:
        since = "never had a worker" if silent_for_s is None else f"has had no worker for {silent_for_s:.0f} s"
        told = f"region {region} {since}: the workers of other regions take over"
        return Route(GLOBAL_RETRY_QUEUE, Reason.FAILOVER, told)
    if failures == 1:
        return Route(retry_queue_of(region), Reason.FIRST_RETRY, f"failed once: before new work of region {region}")
    return Route(queue_of(region), Reason.FIRST_TRY, f"first try in region {region}")


@dataclass(frozen=True)
class Queues:
    """All queues to which shards of one region go now, so that the database can choose for many at once.

    Each list is by failures: none, one, MORE.
    """

    soon: tuple[str, ...]
    late: tuple[str, ...]  # of a shard that has been due for `late_after_s`
    late_after_s: float

    def of(self, failures: int, waited_s: float) -> str:
        """The queue of one shard, as `route` says.

        >>> Queues(("a", "b", "c"), ("d", "e", "f"), 60).of(7, 61)
        'f'
        """
        return (self.late if waited_s >= self.late_after_s else self.soon)[min(failures, MORE)]


def queues(where: Standing) -> Queues:
    """What `route` says of every shard of a region."""
    late_s = where.failover_after_s
    soon, late = (
        tuple(route(failures, where, waited_s=waited_s).queue for failures in range(MORE + 1))
        for waited_s in (0.0, late_s)
    )
    return Queues(soon, late, late_s)
