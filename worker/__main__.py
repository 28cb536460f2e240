"""In which order does a worker start, and with which code does it end?

    settings → database, with this code's schema → Redis → listed as loading → engine loaded and warmed up
    → a drawn picture comes through → ready → messages

Whatever is missing at the start ends it at once, with a last line that says what, where and what helps: a supervisor
starts it again. Later an outage of the database or of Redis ends nothing. Nothing touches the device before the engine
is loaded, and no child process is ever forked.

    0   drained, after a signal
    3   something that it needs is not there or does not fit: settings, database, schema, Redis
    4   the device failed, or something unexpected
    5   the engine's weights or libraries cannot be had: its pool then says so
    128 + n   the second signal, n, ended it at once
"""

import logging
import os
from contextlib import ExitStack
from functools import partial
from uuid import uuid4

from samjobs import memory
from samjobs.execution.shard import Host
from samjobs.health import HealthPort
from samjobs.process import Exit, run, shared_store
from samjobs.queue import RedisQueue
from samjobs.settings import Settings
from samjobs.storage import Storage, access_of_server
from samjobs.store import check_schema
from worker.drain import Drain
from worker.gather import Gatherer
from worker.loop import ShardWorker, worker_class
from worker.metrics import Metrics
from worker.presence import Presence
from worker.resident import Resident
from worker.runner import Runner

log = logging.getLogger("worker")

CONNECTIONS = 3  # the loop, the gatherer, and what it gathers
RESERVED_CONNECTIONS = 2  # the presence's and the lease's heartbeats


def main() -> Exit:
    """Run a worker until it is asked to end, or cannot go on."""
    drain = Drain()
    drain.listen()
    code = run(partial(_work, drain), log)
    if code is Exit.DONE:
        log.info("drained")
    return code


def _work(drain: Drain, settings: Settings, stack: ExitStack) -> Exit:
    loop_class = worker_class(settings.worker_class)
    access = access_of_server(settings)
    incarnation = uuid4()
    metrics = Metrics(settings)
    store = shared_store(settings, stack, CONNECTIONS)
    reserved = shared_store(settings, stack, RESERVED_CONNECTIONS)
    check_schema(store)
    queue = RedisQueue.connect(settings.redis_url)
    stack.callback(queue.close)
    queue.ping()
    presence = Presence(reserved, incarnation, settings, drain)
    metrics.watch_heartbeat(presence.age_s)
    port = stack.enter_context(
        HealthPort(
            settings.health_host,
            settings.health_port,
            metrics.registry,
            alive=presence.alive,
            ready=presence.ready,
        )
    )
    log.info("worker %s starts in region %s: probes on port %d", incarnation, settings.region, port.server_port)
    stack.enter_context(presence)
    resident = Resident(settings, metrics)
    stack.callback(resident.close)
    info = resident.load().info
    memory.settle()
    drain.begin()
    storage = stack.enter_context(Storage(access))

    def tell_stall(why: str) -> None:
        presence.stall = why

    host = Host(
        store,
        storage,
        settings,
        incarnation,
        beats=reserved,
        tell_stall=tell_stall,
        critical_pause_s=settings.critical_pause_seconds,
        tell_commit=metrics.committed,
    )
    gatherer = stack.enter_context(Gatherer(host, metrics))
    runner = Runner(host, resident, drain, presence, gatherer, metrics)
    loop: ShardWorker = loop_class(queue, settings.region, incarnation, run=runner.run, drain=drain, metrics=metrics)
    presence.loaded(info, resident.load_s)
    log.info("worker %s is ready: engine %s on %s", incarnation, resident.own, info.device)
    with store.kept():
        loop.work()
    return Exit.DONE


if __name__ == "__main__":
    code = main()
    logging.shutdown()
    # All that is to be told and given back was. A broken device, or what is still being gathered, may hang in the
    # interpreter's own tidying up; and a process that hangs is never started again.
    os._exit(code)
