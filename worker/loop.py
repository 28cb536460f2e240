"""How does a worker take messages, and what does it believe of them?

`ShardWorker` is an RQ worker to look at: `rq info` shows it, its state and its queues. It is none in what it does: it
pops ids and hands on those that are of a shard's attempt. RQ's loop would read the message's hash, which names a
function, callbacks and webhooks, and holds data that is decompressed without a limit; it would let anybody who can
publish on its channel stop it, and clean up after jobs of others. None of that is done here.

Redis away is no error: one line when it begins, one when it ends. `samjobs workers` tells the truth about workers;
`rq info` misses one whose shard takes longer than `REGISTERED_S`.
"""

import logging
import os
import platform
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any
from uuid import UUID

import redis
from rq import SimpleWorker, worker_registration
from rq.serializers import JSONSerializer
from rq.utils import now
from rq.worker import BaseWorker, WorkerStatus

from samjobs.errors import InvalidInput, QueueUnavailable, describe
from samjobs.names import listened_queues, parse_message_id
from samjobs.queue import RedisQueue
from worker.drain import Drain
from worker.metrics import Metrics
from worker.outage import Outage

log = logging.getLogger(__name__)

POP_S = 1.0  # a wait for messages: how long a signal may go unnoticed
REGISTERED_S = 480  # for how long `rq info` shows a worker that says nothing
TELL_EVERY_S = 30.0
SHOWN = 80  # characters of a message that is thrown away


class ShardWorker(SimpleWorker):
    """The loop. A setting may name a class made from it, to do something around `take`."""

    def __init__(
        self,
        queue: RedisQueue,
        region: str,
        incarnation: UUID,
        *,
        run: Callable[[UUID, int], None],
        drain: Drain,
        metrics: Metrics,
    ) -> None:
        """`run` sees to a shard's attempt; what it raises ends the loop."""
        with queue.client() as client:
            super().__init__(
                listened_queues(region),
                name=incarnation.hex,
                connection=client,
                serializer=JSONSerializer,
                prepare_for_work=False,  # would ask Redis for its own address
            )
        self.hostname, self.pid, self.ip_address = platform.node(), os.getpid(), "unknown"
        self.birth_date = now()
        self._queue, self._run, self._drain, self._metrics = queue, run, drain, metrics
        self._listened = listened_queues(region)
        self._outage = Outage(f"Redis {queue.name}")
        self._told: tuple[WorkerStatus, float] | None = None
        self._rejected: set[str] = set()

    def work(self, *_: Any, **__: Any) -> bool:
        """Take messages until this process is asked to end; whether there were any. RQ's arguments mean nothing."""
        worked = False
        try:
            while not self._drain.requested:
                message = self._next()
                if message is not None:
                    worked = True
                    self.take(message)
        finally:
            with suppress(QueueUnavailable), self._queue.client():
                self.register_death()  # type: ignore[no-untyped-call]
        return worked

    def take(self, message: str) -> None:
        """See to one popped id, whatever it is."""
        parsed = parse_message_id(message)
        if parsed is None:
            self._reject(message)
            return
        self._run(*parsed)
        with suppress(QueueUnavailable):  # the next pop will say so
            self._tell(WorkerStatus.BUSY)  # not before: the shard waits for its start

    def subscribe(self) -> None:
        """Nobody commands this worker through Redis."""

    def _set_connection(self, connection: redis.Redis) -> redis.Redis:
        """Keep the time limits of `RedisQueue`; RQ would wait for seven minutes."""
        return connection

    def _next(self) -> str | None:
        message = None
        try:
            message = self._queue.pop(self._listened, POP_S)
            if message is None:
                self._tell(WorkerStatus.IDLE)
        except QueueUnavailable as error:
            pause_s = self._outage.failed(error)
            if message is None:
                self._drain.pause(pause_s)
        else:
            self._outage.over()
        return message

    def _reject(self, message: str) -> None:
        reason = "undecodable" if "\ufffd" in message else "malformed"
        self._metrics.rejected(reason)
        if reason not in self._rejected:
            self._rejected.add(reason)
            shown = ascii(message if len(message) <= SHOWN else message[: SHOWN - 1] + "…")
            log.warning(
                "a message that is no shard's id was thrown away (%s; others like it go unsaid): %s", reason, shown
            )

    def _tell(self, status: WorkerStatus) -> None:
        """Register for `rq info`, all anew each time: Redis may have been emptied."""
        at = time.monotonic()
        if self._told is not None and self._told[0] is status and at - self._told[1] < TELL_EVERY_S:
            return
        self.last_heartbeat = now()
        with self._queue.client() as client, client.pipeline() as pipeline:
            pipeline.hset(self.key, mapping=self.serialize())
            self.set_state(status, pipeline)
            worker_registration.register(self, pipeline)
            pipeline.expire(self.key, REGISTERED_S)
            pipeline.execute()
        self._told = status, at


def worker_class(path: str) -> type[ShardWorker]:
    """The class that `SAMJOBS_WORKER_CLASS` names.

    Raises:
        InvalidInput: there is none, or it is not ShardWorker nor made from it; the message says what it would do.
    """
    module, _, name = path.rpartition(".")
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidInput(
            f"SAMJOBS_WORKER_CLASS: {path!r} cannot be imported ({describe(error)}): give a dotted path, or leave it"
            " out"
        ) from error
    if isinstance(found, type) and issubclass(found, ShardWorker):
        return found
    if isinstance(found, type) and issubclass(found, SimpleWorker):
        why = "it runs whatever function a message in Redis names"
    elif isinstance(found, type) and issubclass(found, BaseWorker):
        why = "it runs each job in a child process, which CUDA does not survive and where no model stays loaded"
    else:
        why = "it is no class of workers"
    raise InvalidInput(
        f"SAMJOBS_WORKER_CLASS: {path} will not do, {why}: leave it out, or give a class made from"
        " worker.loop.ShardWorker"
    )
