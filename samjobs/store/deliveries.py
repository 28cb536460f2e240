"""The outbox of webhooks: what is written with the end of a job, to be told to its callback.

Written in the transaction that ends the job, so that no end goes untold; sent afterwards by whoever takes it. It is
due once the job's merged files are there (`jobs.mark_published`), at the latest `PUBLISH_GRACE_S` after the end. A
delivery may happen twice (a sender dies after the receiver's answer): its id is the same, so the receiver can tell.
"""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import sqlalchemy as sa

from samjobs.decisions.lifecycle import JobVerdict
from samjobs.errors import storable
from samjobs.states import JobState
from samjobs.storage.paths import redact
from samjobs.store.engine import Connection, as_row, now
from samjobs.store.rows import Delivery, Job
from samjobs.store.tables import deliveries

PUBLISH_GRACE_S = 60.0


def job_ended(conn: Connection, job: Job, verdict: JobVerdict, at: datetime) -> None:
    """Note that the callback of `job`, where it has one, is to be told of this end."""
    if job.spec.callback is None:
        return
    row = {"id": uuid4(), "job_id": job.id, "payload": _payload(job, verdict, at), "attempts": 0}
    conn.execute(deliveries.insert(), row | {"due_at": at + timedelta(seconds=PUBLISH_GRACE_S), "created_at": at})


def _payload(job: Job, verdict: JobVerdict, at: datetime) -> dict[str, Any]:
    return {
        "type": "job.finished",
        "timestamp": at.isoformat(),
        "data": {
            "id": str(job.id),
            "name": None if job.name is None else storable(job.name),
            "tenant": storable(job.tenant),
            "state": verdict.state.value,
            "reason": verdict.reason.value,
            "error": storable(redact(verdict.message)) if verdict.state is JobState.FAILED else None,
            "images": {
                "total": job.images_total,
                "done": job.images_done,
                "failed": job.images_failed,
                "skipped": job.images_skipped,
            },
            "output": storable(redact(job.spec.output.uri)),
        },
    }


def files_ready(conn: Connection, job_id: UUID, at: datetime) -> None:
    """The job's merged files are there: what was not tried yet is due at `at`."""
    untried = sa.and_(deliveries.c.job_id == job_id, deliveries.c.attempts == 0, deliveries.c.due_at > at)
    conn.execute(deliveries.update().where(untried).values(due_at=at))


def take(conn: Connection, *, limit: int, lease_s: float) -> list[Delivery]:
    """Take up to `limit` due deliveries to send, each with one more attempt; two callers take different ones.

    Args:
        lease_s: seconds after which it is due again, should the caller never say what became of it.
    """
    at = now(conn)
    due = sa.select(deliveries).where(deliveries.c.due_at <= at).order_by(deliveries.c.due_at).limit(limit)
    ids = [row.id for row in conn.execute(due.with_for_update(skip_locked=True))]
    if not ids:
        return []
    taken = (
        deliveries.update()
        .where(deliveries.c.id.in_(ids))
        .values(attempts=deliveries.c.attempts + 1, due_at=at + timedelta(seconds=lease_s))
        .returning(deliveries)
    )
    return sorted((as_row(Delivery, row) for row in conn.execute(taken)), key=lambda one: ids.index(one.id))


def delivered(conn: Connection, delivery_id: UUID, status: int) -> bool:
    """The receiver has taken it, answering `status`. False if that was noted already, or it is gone."""
    done = {"delivered_at": now(conn), "due_at": None, "status": status, "error": None}
    return _update(conn, deliveries.c.id == delivery_id, done)


def failed(
    conn: Connection, delivery_id: UUID, attempts: int, *, status: int | None, error: str, retry_in_s: float | None
) -> bool:
    """Try number `attempts` failed. False when somebody else tries by now, or it is delivered.

    Args:
        status: the HTTP status, where there was an answer.
        retry_in_s: seconds to the next try; None gives up.
    """
    due_at = None if retry_in_s is None else now(conn) + timedelta(seconds=retry_in_s)
    mine = sa.and_(deliveries.c.id == delivery_id, deliveries.c.attempts == attempts)
    return _update(conn, mine, {"due_at": due_at, "status": status, "error": error})


def _update(conn: Connection, which: sa.ColumnElement[bool], values: dict[str, Any]) -> bool:
    open_ones = sa.and_(which, deliveries.c.delivered_at.is_(None))
    return conn.execute(deliveries.update().where(open_ones).values(**values)).rowcount == 1


def of_job(conn: Connection, job_id: UUID) -> list[Delivery]:
    """What a job's callback was or is to be told, oldest first."""
    query = sa.select(deliveries).where(deliveries.c.job_id == job_id).order_by(deliveries.c.created_at)
    return [as_row(Delivery, row) for row in conn.execute(query)]


def next_due_at(conn: Connection) -> datetime | None:
    """When the next delivery comes due (it may be past); None if there is none."""
    query = sa.select(sa.func.min(deliveries.c.due_at)).where(deliveries.c.due_at.is_not(None))
    earliest: datetime | None = conn.execute(query).scalar_one()
    return earliest


def waiting(conn: Connection) -> tuple[int, datetime | None]:
    """How many are still to be sent, and when the next one comes due (it may be past)."""
    query = sa.select(sa.func.count(), sa.func.min(deliveries.c.due_at)).where(deliveries.c.due_at.is_not(None))
    many, earliest = conn.execute(query).one()
    return many, earliest
