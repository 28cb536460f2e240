"""A submission that is repeated: whoever got no answer asks again with the same key, and is told of the first job.

A key belongs to a tenant and to one request. It is kept beside the job that the request became, also where that was an
equal one already there, and as long as that job is: so it still answers when the job has ended.
"""

from dataclasses import dataclass
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from samjobs.store.engine import Connection, now
from samjobs.store.tables import idempotency_keys


@dataclass(frozen=True)
class Repeat:
    """What a key was given for."""

    job_id: UUID
    request_hash: str


def find(conn: Connection, tenant: str, key: str) -> Repeat | None:
    """What the key was first given for, or None."""
    query = sa.select(idempotency_keys.c.job_id, idempotency_keys.c.request_hash).where(
        idempotency_keys.c.tenant == tenant, idempotency_keys.c.key == key
    )
    row = conn.execute(query).one_or_none()
    return None if row is None else Repeat(row.job_id, row.request_hash)


def remember(conn: Connection, tenant: str, key: str, request_hash: str, job_id: UUID) -> bool:
    """Keep what a key was given for. False if somebody else gave it meanwhile: Postgres waits for who just does."""
    insert = sqlite.insert if conn.dialect.name == "sqlite" else postgresql.insert
    row = {"tenant": tenant, "key": key, "request_hash": request_hash, "job_id": job_id, "created_at": now(conn)}
    told = insert(idempotency_keys).values(row).on_conflict_do_nothing()
    return conn.execute(told.execution_options(preserve_rowcount=True)).rowcount == 1
