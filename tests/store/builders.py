"""Short builders of jobs, shards and outcomes for the store's tests."""

from typing import Any
from uuid import UUID, uuid4

from samjobs.decisions.retry import Verdict
from samjobs.decisions.routing import Queues
from samjobs.inputs import NewImage
from samjobs.names import Reason
from samjobs.spec import Images, JobSpec, Output, Prompts, TextPrompt
from samjobs.states import ImageState, ShardState
from samjobs.store import Store, jobs, shards
from samjobs.store.rows import ImageOutcome, Job, Shard

ME = uuid4()
REQUEUE = Verdict(ShardState.QUEUED, 0.0, True, Reason.TRANSIENT_ERROR, "retry at once")
DEAD = Verdict(ShardState.DEAD, 0.0, True, Reason.FAILURES_EXHAUSTED, "dead: failure 3 of 3")


def spec(**changes: Any) -> JobSpec:
    """A valid request; `output` differs by default so that no two are equal."""
    defaults = {
        "images": Images(prefix="photos"),
        "prompts": Prompts(text=(TextPrompt(text="red circle"),)),
        "output": Output(uri=f"out-{uuid4().hex}"),
        "shard_size": 2,
    }
    return JobSpec(**(defaults | changes))


def new_images(count: int, first: int = 0) -> list[NewImage]:
    return [NewImage(f"{n:04}.jpg", f"photos/{n:04}.jpg") for n in range(first, first + count)]


def job(store: Store, count: int = 4, *, name: str | None = None, tenant: str = "default", **changes: Any) -> UUID:
    """A job with `count` images, complete."""
    with store.begin() as conn:
        job_id = jobs.submit(conn, spec(**changes), name=name, tenant=tenant).job_id
        jobs.add_images(conn, job_id, new_images(count))
        jobs.mark_expanded(conn, job_id)
    return job_id


def read(store: Store, job_id: UUID) -> Job:
    with store.read() as conn:
        found = jobs.get(conn, job_id)
    assert found is not None
    return found


def shard_of(store: Store, job_id: UUID, index: int = 0) -> Shard:
    with store.read() as conn:
        return shards.of_job(conn, job_id)[index]


def claim(store: Store, limit: int = 1, **which: Any) -> list[Shard]:
    with store.begin() as conn:
        return shards.claim(conn, limit=limit, **which)


def running(store: Store, job_id: UUID, incarnation: UUID = ME) -> Shard:
    """The job's next shard, claimed and started."""
    with store.begin() as conn:
        (claimed,) = shards.claim(conn, limit=1, job_id=job_id)
    with store.begin() as conn:
        started = shards.start(conn, claimed.id, claimed.attempt, incarnation)
    assert started is not None
    return started[1]


def outcomes(shard: Shard, state: ImageState = ImageState.DONE, **values: Any) -> list[ImageOutcome]:
    """The same outcome for every image of a shard."""
    reason = Reason.IMAGE_ERROR if state is ImageState.FAILED else Reason.PROCESSED
    places = range(shard.first_index, shard.first_index + shard.images_total)
    return [ImageOutcome(index, state, reason, **values) for index in places]


def run(store: Store, job_id: UUID, state: ImageState = ImageState.DONE) -> Shard:
    """Run the job's next shard to its end, all images with the same outcome."""
    shard = running(store, job_id)
    with store.begin() as conn:
        assert shards.record(conn, shard.id, shard.attempt, outcomes(shard, state))
        assert shards.finish(conn, shard.id, shard.attempt)
    return shard


def only(queue: str) -> Queues:
    """Every shard waits there."""
    return Queues((queue,) * 3, (queue,) * 3, 60.0)
