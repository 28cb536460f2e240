"""Jobs whose images are all known when they are submitted: written whole, many of them in the statements of one.

A job that comes with its list needs none of the steps of `submit`, `add_images` and `mark_expanded`, each of which
locks and reads what the one before it wrote. Where hundreds of SamJobs come at once, their way into the table would
be as long as all those round trips.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from samjobs.inputs import NewImage
from samjobs.names import Reason
from samjobs.spec import JobSpec
from samjobs.store.engine import Connection, as_row
from samjobs.store.expansion import image_row, shard_rows
from samjobs.store.jobs import insert_or_nothing, new_row
from samjobs.store.notify import wake
from samjobs.store.rows import Job, Subject
from samjobs.store.tables import events, images, jobs, shards
from samjobs.store.window import open_window, starts_held


@dataclass(frozen=True)
class Whole:
    """A job and all of its images: at least one, and no key twice."""

    spec: JobSpec  # with `dedupe` false: it stands for itself
    tenant: str
    name: str
    uid: UUID  # of the object in front of it
    images: Sequence[NewImage]


def submit_whole(conn: Connection, wanted: Sequence[Whole], *, actor: str) -> int:
    """Put complete jobs into the table, all of them or, by an error, none; how many are new, by their uid.

    Raises:
        sqlalchemy.exc.IntegrityError: a key is listed twice. `jobs.add_images` tells which, one job at a time.
    """
    assert not any(one.spec.dedupe for one in wanted), "an equal job would have to be joined"
    at = wake(conn)
    rows = [_row(one, at, place) for place, one in enumerate(wanted)]
    # In one order, so that two controllers that submit the same jobs do not wait for each other.
    rows.sort(key=lambda row: row["uid"])
    made = conn.execute(insert_or_nothing(conn).returning(jobs), rows).all()
    if made:
        listed = {one.uid: one.images for one in wanted}
        new = [as_row(Job, row) for row in made]
        _fill(conn, [(job, listed[job.uid]) for job in new if job.uid is not None], at, actor)
    return len(made)


def _row(one: Whole, at: datetime, place: int) -> dict[str, Any]:
    # Each has an instant of its own, since jobs are paged by it.
    row = new_row(one.spec, one.tenant, one.name, one.uid, None, uuid4(), at + timedelta(microseconds=place))
    cut = -(-len(one.images) // one.spec.shard_size)
    return row | {"images_total": len(one.images), "shards_total": cut, "expanded_at": at}


def _fill(conn: Connection, new: Sequence[tuple[Job, Sequence[NewImage]]], at: datetime, actor: str) -> None:
    """Write what belongs to rows that were just inserted."""
    image_rows, cut, told = [], [], []
    for job, listed in new:
        bare = replace(job, images_total=0, shards_total=0)
        image_rows += [image_row(bare, place, item, at) for place, item in enumerate(listed)]
        cut += shard_rows(bare, 0, len(listed), at)
        moved = {"subject": Subject.JOB, "job_id": job.id, "from_state": None, "to_state": job.state}
        told.append({**moved, "shard_id": None, "reason": Reason.SUBMITTED, "actor": actor, "at": at, "message": ""})
    conn.execute(images.insert(), image_rows)
    conn.execute(shards.insert(), cut)
    conn.execute(events.insert(), told)
    for job, _ in new:
        if starts_held(job):
            open_window(conn, job)
