"""Jobs asked for by plain SQL: the way from an unvalidated row to a job, or to what is wrong with it.

    INSERT INTO requests (spec) VALUES ('{"images": {"prefix": "s3://photos/"}, …}')

What the spec should be is for the caller to judge; here each request is answered exactly once.
"""

from datetime import timedelta
from uuid import UUID

import sqlalchemy as sa
from pydantic import TypeAdapter, ValidationError

from samjobs.errors import InvalidInput
from samjobs.spec import JobSpec, Name
from samjobs.store.engine import Connection, as_row, now
from samjobs.store.jobs import submit
from samjobs.store.rows import Request, Submitted
from samjobs.store.tables import requests

_OPEN = requests.c.answered_at.is_(None)
_NAME: TypeAdapter[str] = TypeAdapter(Name)


def pending(conn: Connection, *, limit: int) -> list[Request]:
    """Requests without an answer, oldest first, locked until the transaction ends: two callers get different ones.

    On Postgres answer one per transaction: each makes a job, and a transaction acts on one job.
    """
    query = sa.select(requests).where(_OPEN).order_by(requests.c.created_at).limit(limit)
    return [as_row(Request, row) for row in conn.execute(query.with_for_update(skip_locked=True))]


def get(conn: Connection, request_id: UUID) -> Request | None:
    """The request, or None."""
    row = conn.execute(sa.select(requests).where(requests.c.id == request_id)).one_or_none()
    return None if row is None else as_row(Request, row)


def admit(conn: Connection, request: Request, spec: JobSpec, *, actor: str) -> Submitted:
    """Answer a request by a job of the same id, or by an equal one that is active.

    Args:
        spec: what `request.spec` was found to be.

    Raises:
        InvalidInput: the row's tenant or name is none, or the request was refused by somebody else.
    """
    tenant = _valid(request.tenant, "tenant")
    name = None if request.name is None else _valid(request.name, "name")
    row = conn.execute(sa.select(requests).where(requests.c.id == request.id).with_for_update()).one_or_none()
    if row is None or (row.answered_at is not None and row.job_id is None):
        raise InvalidInput(f"request {request.id} was refused or withdrawn meanwhile")
    if row.answered_at is not None:
        return Submitted(row.job_id, created=False)
    submitted = submit(conn, spec, tenant=tenant, name=name, job_id=request.id, actor=actor)
    _answer(conn, request.id, job_id=submitted.job_id)
    return submitted


def _valid(value: str, column: str) -> str:
    try:
        return _NAME.validate_python(value)
    except ValidationError:
        raise InvalidInput(
            f"requests.{column} {value[:80]!r} is no name: give 1 to 253 letters, digits, '.', '_' and '-', with a"
            " letter or digit at both ends"
        ) from None


def refuse(conn: Connection, request_id: UUID, error: str) -> bool:
    """Answer a request by what is wrong with it. False if it has its answer already, or is gone."""
    return _answer(conn, request_id, error=error)


def _answer(conn: Connection, request_id: UUID, **answer: UUID | str) -> bool:
    told = requests.update().where(requests.c.id == request_id, _OPEN).values(answered_at=now(conn), **answer)
    return conn.execute(told).rowcount == 1


def prune(conn: Connection, *, older_than_s: float, limit: int = 1000) -> int:
    """Forget requests that were answered longer ago than this; the number that went, at most `limit`."""
    past = now(conn) - timedelta(seconds=older_than_s)
    old = sa.select(requests.c.id).where(requests.c.answered_at < past).order_by(requests.c.answered_at).limit(limit)
    return conn.execute(requests.delete().where(requests.c.id.in_(old.with_for_update(skip_locked=True)))).rowcount
