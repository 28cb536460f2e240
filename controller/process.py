"""In which order does a controller start, and with which code does it end?

    settings → database, with this code's schema → health port → threads → pass after pass

The database must be there at the start: a supervisor starts it again. Redis need not be: what is asked for meanwhile
stays in the table. Later an outage of either ends nothing, nor does one of Kubernetes, which is asked where
SAMJOBS_KUBERNETES_CONFIG is set. Any number of controllers may run at once, one of them with Kubernetes.

    0   after SIGTERM or SIGINT, at the end of the step in hand; a second signal ends it at once
    3   something that it needs is not there or does not fit: settings, database, schema
    4   a fault of the code outside of any step, or the watch of Kubernetes ended
"""

import logging
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING

from controller.background import Background
from controller.context import Context
from controller.kube.installation import read
from controller.lister import Lister
from controller.loop import Loop
from controller.metrics import Metrics
from controller.outages import REDIS, Outages
from controller.outbox import Outbox
from samjobs import __version__, memory
from samjobs.errors import QueueUnavailable
from samjobs.health import HealthPort
from samjobs.process import Exit, end_by_next_signal, run, shared_store, signalled
from samjobs.queue import RedisQueue
from samjobs.settings import Settings
from samjobs.store import Store, check_schema
from samjobs.store.notify import Listener

if TYPE_CHECKING:
    from controller.kube.front import Front

log = logging.getLogger("controller")

CONNECTIONS = 5  # the loop, the lister, the outbox, Kubernetes, and one to spare
# Between two tries of a server that is away, at most; less where the poll is shorter.
LONGEST_PAUSE_S = 15.0
# A loop that is silent for three polls and this is stuck.
STUCK_S = 30.0
# Least time between two rounds of a thread; a wake-up in between waits for that.
LISTING_REST_S, SENDING_REST_S = 0.2, 1.0
# How long the end waits for threads whose storage or receiver does not answer.
LEAVE_S = 15.0


def main() -> Exit:
    """Run a controller until it is asked to end. The signals must be blocked, in this thread and before any other."""
    return run(_control, log)


def _control(settings: Settings, stack: ExitStack) -> Exit:
    store = shared_store(settings, stack, CONNECTIONS)
    check_schema(store)
    queue = RedisQueue.connect(settings.redis_url)
    stack.callback(queue.close)
    ctx = _context(settings, store, queue, stack)
    listener = None if store.pooled else stack.enter_context(Listener(store))
    stop = threading.Event()
    loop = Loop(ctx, listener, stop)
    front = _front(settings, ctx)
    port = stack.enter_context(_health(settings, ctx, loop, front))
    log.info(
        "controller %s starts: profile=%s poll=%gs lease=%gs no-progress=%gs failover=%gs"
        " database=%s%s redis=%s kubernetes=%s probes=%d",
        __version__,
        settings.profile,
        settings.poller_interval_seconds,
        settings.stale_job_timeout_seconds,
        settings.failed_job_timeout_seconds,
        settings.failover_after_seconds,
        store.name,
        " (pooled: no notifications)" if store.pooled else "",
        queue.name,
        "no" if front is None else front.name,
        port.server_port,
    )
    thread = threading.Thread(target=_passes, args=(loop, store), name="loop", daemon=True)
    memory.settle()
    ctx.listing.start()
    ctx.sending.start()
    thread.start()
    if front is not None:
        front.start()

    def broken() -> bool:
        return not thread.is_alive() or (front is not None and front.watch.ended.is_set())

    while not broken() and not signalled():
        pass
    code = Exit.BROKEN if broken() else Exit.DONE
    _end(ctx, listener, stop, thread, front)
    return code


def _context(settings: Settings, store: Store, queue: RedisQueue, stack: ExitStack) -> Context:
    metrics = Metrics(settings)
    outages = Outages(min(LONGEST_PAUSE_S, settings.poller_interval_seconds))
    lister = Lister(settings, store)
    stack.callback(lister.close)
    outbox = Outbox(settings, store, metrics)
    listing = Background("listing", lister.list_next, rest_s=LISTING_REST_S, outages=outages, metrics=metrics)
    sending = Background("sending", outbox.send, rest_s=SENDING_REST_S, outages=outages, metrics=metrics)
    try:
        queue.ping()
    except QueueUnavailable as error:
        outages.failed(REDIS, error)
    return Context(settings, store, queue, outages, metrics, lister, listing, sending)


def _front(settings: Settings, ctx: Context) -> "Front | None":
    """What looks at Kubernetes, where that is set."""
    if settings.kubernetes_config is None:
        return None
    from controller.kube.front import Front  # its libraries take a second that others need not wait

    front = Front(settings, read(settings.kubernetes_config), ctx.store, ctx.outages, ctx.metrics)
    ctx.changed, ctx.tick = front.changed, front.tick
    return front


def _health(settings: Settings, ctx: Context, loop: Loop, front: "Front | None") -> HealthPort:
    longest_s = 3 * settings.poller_interval_seconds + STUCK_S

    def alive() -> str | None:
        silent_s = loop.silent_s
        if silent_s > longest_s:
            return f"no step of a pass has ended for {silent_s:.0f} s"
        return None if front is None else front.why_dead()

    def ready() -> str | None:
        return None if loop.ready else "no pass has been done, or the database is away"

    return HealthPort(settings.health_host, settings.health_port, ctx.metrics.registry, alive=alive, ready=ready)


def _passes(loop: Loop, store: Store) -> None:
    try:
        with store.kept():
            loop.run()
    except BaseException:
        log.critical("the loop ended by an unexpected error", exc_info=True)
        raise


def _end(
    ctx: Context, listener: Listener | None, stop: threading.Event, loop: threading.Thread, front: "Front | None"
) -> None:
    """Let each thread finish what it has in hand. A second signal no longer waits for that."""
    end_by_next_signal()
    stop.set()
    if listener is not None:
        listener.close()
    for background in (ctx.listing, ctx.sending):
        background.stop()
    if front is not None:
        front.stop()
    loop.join(LEAVE_S)
    left = [
        name
        for name, ended in (
            ("loop", not loop.is_alive()),
            ("listing", ctx.listing.join(LEAVE_S)),
            ("sending", ctx.sending.join(LEAVE_S)),
            ("kubernetes", front is None or front.join(LEAVE_S)),
        )
        if not ended
    ]
    log.info("ended%s", f", while {', '.join(left)} waited for a server" if left else "")
