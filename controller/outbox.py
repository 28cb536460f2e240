"""Who is told that a job has ended?

A thread beside the pass sends the outbox's due webhooks, so that a slow receiver delays nobody: several at once, ten
seconds each at most. What fails is tried again as `decisions.delivery` says; what cannot be signed is not sent, and
its row says why.
"""

import asyncio
import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import fsspec.asyn

from controller.metrics import Metrics
from controller.webhooks import TIMEOUT_S, Answer, Message, Sender, secrets_of
from samjobs.decisions.delivery import next_attempt
from samjobs.errors import InvalidInput, describe
from samjobs.settings import Settings
from samjobs.storage import access_for
from samjobs.store import Store, deliveries, jobs, now
from samjobs.store.rows import Delivery

log = logging.getLogger("controller")

AT_ONCE = 20
# After this a taken delivery is due again: whoever took it is gone.
LEASE_S = 3 * TIMEOUT_S
NO_SECRET = (
    "not sent: there is no secret to sign it with: set SAMJOBS_WEBHOOK_SECRET, or put a file for tenant {tenant} into"
    " SAMJOBS_WEBHOOK_SECRETS_DIR"
)


@dataclass(frozen=True)
class _Due:
    """A delivery with what its job says of it."""

    delivery: Delivery
    tenant: str
    url: str


class Outbox:
    """The sending thread's duty."""

    def __init__(self, settings: Settings, store: Store, metrics: Metrics) -> None:
        self._settings = settings
        self._store = store
        self._metrics = metrics

    def send(self, stop: threading.Event) -> bool:
        """Send what is due, as many as go at once; True when there may be more."""
        due, at = self._take()
        if not due:
            return False
        answers: list[Answer] = fsspec.asyn.sync(fsspec.asyn.get_loop(), self._send_all, due, at)
        for one, answer in zip(due, answers, strict=True):
            self._note(one.delivery, answer)
        return len(due) == AT_ONCE

    def _take(self) -> tuple[list[_Due], datetime]:
        with self._store.begin() as conn:
            at = now(conn)
            taken = deliveries.take(conn, limit=AT_ONCE, lease_s=LEASE_S)
            found = {delivery.id: jobs.get(conn, delivery.job_id) for delivery in taken}
        due = []
        for delivery in taken:
            job = found[delivery.id]
            if job is not None and job.spec.callback is not None:
                due.append(_Due(delivery, job.tenant, str(job.spec.callback)))
        return due, at

    async def _send_all(self, due: Sequence[_Due], at: datetime) -> list[Answer]:
        async with Sender(access_for(self._settings)) as sender:
            return await asyncio.gather(*(self._send(sender, one, at) for one in due))

    async def _send(self, sender: Sender, one: _Due, at: datetime) -> Answer:
        try:
            keys = secrets_of(self._settings, one.tenant)
        except InvalidInput as error:
            return Answer(None, f"not sent: {error}")
        if not keys:
            return Answer(None, NO_SECRET.format(tenant=one.tenant))
        try:
            return await sender.send(Message(str(one.delivery.id), one.url, one.delivery.payload), keys, at)
        except Exception as error:
            # Noted as any failure: it is tried again and given up in the end, and the others are none the worse.
            log.exception("delivery=%s failed", one.delivery.id)
            return Answer(None, describe(error, 500))

    def _note(self, delivery: Delivery, answer: Answer) -> None:
        if answer.error is None and answer.status is not None:
            with self._store.begin() as conn:
                deliveries.delivered(conn, delivery.id, answer.status)
            self._metrics.delivered("delivered")
            return
        retry_in_s = next_attempt(delivery.attempts, answer.status)
        with self._store.begin() as conn:
            deliveries.failed(
                conn,
                delivery.id,
                delivery.attempts,
                status=answer.status,
                error=answer.error or "",
                retry_in_s=retry_in_s,
            )
        self._metrics.delivered("given_up" if retry_in_s is None else "failed")
