"""When does the controller look at the table, and what happens when a step of its pass fails?

A pass is a list of steps, one after the other, in one thread. A notification of the database wakes the quick steps at
once; every `poller_interval_seconds` all of them run, whether anything was heard or not. And the quick ones run every
second: nobody notifies when a backoff or a `notBefore` is over, and where no notification can be had at all
(`database_pooled`) a person who submits a job waits no longer than that.

A failing step never stops the loop. A database that is away ends the pass, since every step needs it; a Redis that is
away ends only what needs Redis. What nobody foresaw is logged with its traceback, counted, and followed by a rest.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from controller.context import Context, Counts
from controller.outages import DATABASE, DATABASE_FAULTS, REDIS
from controller.steps import admit, deliver, dispatch, expand, expire, failover, heal, measure, prune, reclaim
from samjobs.errors import QueueUnavailable
from samjobs.store import now
from samjobs.store.notify import Listener

log = logging.getLogger("controller")

# Longest time between two quick passes.
UNHEARD_S = 1.0
# After shards were sent: their workers start them now, and should not share the processor and the database with what
# nobody waits for.
_GIVE_WAY_S = 0.01
# After a fault of the code, so that no notification can make it a storm.
_REST_S = 1.0


@dataclass(frozen=True)
class Step:
    """One duty of the pass."""

    name: str
    run: Callable[[Context], Counts]
    level: int = logging.INFO  # at which the log tells what it did


_ADMIT = Step("admit", admit.run)
_DISPATCH = Step("dispatch", dispatch.run, logging.DEBUG)  # as many lines as shards would say nothing
_EXPAND = Step("expand", expand.run)
_DELIVER = Step("deliver", deliver.run)

# What follows a notification. Dispatch comes first: somebody waits for it, and a request that is admitted notifies
# again.
QUICK = (_DISPATCH, _ADMIT, _EXPAND, _DELIVER)
# First what frees shards, then what sends them out.
ALL = (
    Step("expire", expire.run),
    Step("reclaim", reclaim.run),
    Step("heal", heal.run),
    Step("failover", failover.run),
    _ADMIT,
    _DISPATCH,
    Step("prune", prune.run),
    _EXPAND,
    _DELIVER,
    Step("measure", measure.run),
)


class Loop:
    """Passes, until asked to stop.

    Args:
        listener: None where the database cannot notify.
        stop: once set, the loop ends after the step in hand; close the listener too, so that it waits no longer.
    """

    def __init__(self, ctx: Context, listener: Listener | None, stop: threading.Event) -> None:
        self._ctx = ctx
        self._listener = listener
        self._stop = stop
        self._poll_s = ctx.settings.poller_interval_seconds
        self._next_all = time.monotonic()
        self._next_quick = self._next_all
        self._alive_at = self._next_all
        self._passed = False
        self._faulty = False

    @property
    def silent_s(self) -> float:
        """Seconds since the last step ended: how a loop that hangs is known."""
        return time.monotonic() - self._alive_at

    @property
    def ready(self) -> bool:
        """Whether a pass has been done and the database answers."""
        return self._passed and not self._ctx.outages.away(DATABASE)

    def run(self) -> None:
        """Pass after pass."""
        while not self._stop.is_set():
            whole = time.monotonic() >= self._next_all
            if whole:
                self._next_all = time.monotonic() + self._poll_s
            self.one_pass(ALL if whole else QUICK)
            if self._faulty:
                self._stop.wait(_REST_S)
            self._ctx.tick()
            # Before the next pass, beside which the other thread works; where nothing is heard, something may be new.
            if self._wait() or self._ctx.more or self._listener is None:
                self._ctx.changed()

    def one_pass(self, steps: Sequence[Step]) -> None:
        """Run steps in order, as far as the database allows."""
        ctx = self._ctx
        away = {server: ctx.outages.away(server) for server in (DATABASE, REDIS)}
        ctx.more, self._faulty = False, False
        if self._database_answers() and self._ran_all(steps):
            self._passed = True
            ctx.metrics.passed()
            # Only now: a step that went well may have asked nobody, and a database that answers may refuse the next.
            ctx.outages.fine(DATABASE)
        for server, was_away in away.items():
            ctx.metrics.up(server, not ctx.outages.away(server))
            ctx.more |= was_away and not ctx.outages.away(server)
        if ctx.more:
            self._next_all = time.monotonic()
        self._next_quick = time.monotonic() + UNHEARD_S
        self._alive_at = time.monotonic()

    def _database_answers(self) -> bool:
        """Whether a pass has a chance; during an outage a short question tells."""
        ctx = self._ctx
        if not ctx.outages.away(DATABASE):
            return True
        try:
            with ctx.store.read() as conn:
                now(conn)
        except DATABASE_FAULTS as error:
            ctx.outages.failed(DATABASE, error)
            return False
        return True

    def _ran_all(self, steps: Sequence[Step]) -> bool:
        for step in steps:
            if self._stop.is_set() or not self._ran(step):
                return False
            self._alive_at = time.monotonic()
        return True

    def _ran(self, step: Step) -> bool:
        """Run one step; False when the database is away."""
        ctx, counts = self._ctx, {}
        started = time.monotonic()
        try:
            counts = dict(step.run(ctx))
        except DATABASE_FAULTS as error:
            ctx.outages.failed(DATABASE, error)
            return False
        except QueueUnavailable as error:
            ctx.outages.failed(REDIS, error)
        except Exception:
            log.exception("step=%s failed; the next pass goes on", step.name)
            ctx.metrics.unexpected(step.name)
            self._faulty = True
            return True
        spent_s = time.monotonic() - started
        if counts.get("sent"):
            self._stop.wait(_GIVE_WAY_S)
        ctx.metrics.did(step.name, spent_s, counts)
        if any(counts.values()) and log.isEnabledFor(step.level):
            did = " ".join(f"{what}={count}" for what, count in counts.items() if count)
            log.log(step.level, "step=%s %s ms=%.1f", step.name, did, spent_s * 1000)
        return True

    def _wait(self) -> bool:
        """Until something changed or a pass is due; whether something changed."""
        while not self._stop.is_set() and (left_s := self._due_s()) > 0:
            if self._listener is None or self._ctx.outages.away(DATABASE):
                self._stop.wait(left_s)
                continue
            woken = self._listener.wait(left_s)
            self._ctx.metrics.listening(self._listener.connected)
            if woken:
                return True
        return False

    def _due_s(self) -> float:
        """Seconds to the next pass that nobody has to ask for."""
        outages = self._ctx.outages
        if outages.away(DATABASE):
            return outages.pause_s(DATABASE)
        left_s = min(self._next_all, self._next_quick) - time.monotonic()
        return min(left_s, outages.pause_s(REDIS)) if outages.away(REDIS) else left_s
