"""What every step of the pass is given."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from controller.background import Background
from controller.lister import Lister
from controller.metrics import Metrics
from controller.outages import REDIS, Outages
from samjobs.decisions.dispatch import Limits
from samjobs.queue import RedisQueue
from samjobs.settings import Settings
from samjobs.store import Store
from samjobs.store.lanes import Heads
from samjobs.store.views import limits_of

# What a step did, in words of its own: for the log and the metrics.
Counts = Mapping[str, int]

# Rows that one step changes in one pass, so that none keeps the others waiting; the next pass then follows at once.
MOST_CHANGES = 500
PAGE = 500


def _nothing() -> None:
    """Nobody is to be told."""


@dataclass
class Context:
    """The servers and settings of a controller, and what its passes remember."""

    settings: Settings
    store: Store
    queue: RedisQueue
    outages: Outages
    metrics: Metrics
    lister: Lister
    listing: Background  # the lister's thread
    sending: Background  # sends webhooks
    changed: Callable[[], None] = _nothing  # tells the thread for Kubernetes, where there is one, of a change
    tick: Callable[[], None] = _nothing  # and that time goes on
    heads: Heads = field(default_factory=Heads)  # of the dispatch's looks at the table
    more: bool = False  # a step left work that a whole pass should go on with at once
    unsafe_policy: str | None = None  # of Redis' eviction, once it was warned of
    ended_until: datetime | None = None  # jobs that ended before are counted

    @property
    def limits(self) -> Limits:
        """What is set for the dispatch."""
        return limits_of(self.settings)

    def look_in_full(self) -> None:
        """Let the next dispatch see what went back to an old place in the line, before where its last look began."""
        self.heads = Heads()

    def redis_answers(self) -> bool:
        """Whether Redis may be asked now: not while an outage is on, which ends by a ping from here.

        Raises:
            QueueUnavailable: it still is away.
        """
        if not self.outages.away(REDIS):
            return True
        if self.outages.pause_s(REDIS) > 0:
            return False
        self.queue.ping()
        self.outages.fine(REDIS)
        return True
