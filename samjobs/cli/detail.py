"""`samjobs describe JOB` and `samjobs why JOB`: all that a person wants to know of one job, and the one line of it."""

import json
from collections.abc import Iterator

from samjobs.cli.context import AsJson, JobName, JobTable, open_client, settings_for
from samjobs.cli.shown import event_line, event_object, image_line, job_object, progress, prompts, shard_object, source
from samjobs.cli.streams import print_out
from samjobs.cli.tables import age, when
from samjobs.client import Client
from samjobs.states import JOB_TERMINAL, ShardState
from samjobs.storage import redact
from samjobs.store.rows import Delivery, Event, Job, Shard, Worker

SHOWN = 10  # of what failed, of what is dead, of the events
EVENTS_A_PAGE = 1000
WIDTH = 13


def why(job: JobName, db: JobTable = None, as_json: AsJson = False) -> None:
    """Say in one line why a job waits, or what it does instead."""
    with open_client(settings_for(db), "why") as client:
        reason, message = client.why(job)
    print_out(json.dumps({"reason": reason.value, "message": message}) if as_json else message)


def describe(job: JobName, db: JobTable = None, as_json: AsJson = False) -> None:
    """Tell all about one job: what it is, how far it came, why it waits, who works on it, what failed."""
    with open_client(settings_for(db), "describe") as client:
        found = client.get(job)
        print_out(json.dumps(_object(client, found)) if as_json else "\n".join(_lines(client, found)))


def _object(client: Client, job: Job) -> dict[str, object]:
    reason, message = client.why(job.id)
    failed = client.images(job.id, failed_only=True, limit=SHOWN) if job.images_failed else []
    return job_object(job) | {
        "why": {"reason": reason.value, "message": message},
        "atWork": [
            {"shard": shard.index, "state": shard.state.value, "node": worker.node if worker else None}
            for shard, worker in client.at_work(job.id)
        ],
        "failedImages": [{"key": image.key, "error": redact(image.error or "")} for image in failed],
        "deadShards": [shard_object(shard, job) for shard in _dead(client, job)],
        "deliveries": [_delivery(one) for one in client.deliveries(job.id)],
        "lastEvents": [event_object(event) for event in _last_events(client, job)],
    }


def _lines(client: Client, job: Job) -> Iterator[str]:
    at_work = client.at_work(job.id)
    yield from _about(job)
    yield _field("State", f"{job.state.value} ({job.reason.value})")
    yield _field("Why", client.why(job.id)[1])
    if job.error:
        yield _field("Error", redact(job.error))
    yield _field("Images", _images(job))
    yield _field("Shards", _shards(job, [shard for shard, _ in at_work]))
    yield from _times(client, job)
    if job.spec.callback is not None:
        told = [_delivery_line(delivery) for delivery in client.deliveries(job.id)]
        yield _field("Callback", f"{job.spec.callback.host}: {'; '.join(told) or 'told of its end'}")
    yield from _section("At work", [_at_work_line(shard, worker) for shard, worker in at_work])
    if job.images_failed:
        failed = client.images(job.id, failed_only=True, limit=SHOWN)
        title = f"Failed images (the first {len(failed)} of {job.images_failed})"
        yield from _section(title, [image_line(image) for image in failed])
    yield from _section("Dead shards", [_dead_line(shard) for shard in _dead(client, job)])
    yield from _section("Last events", [event_line(event) for event in _last_events(client, job)])


def _about(job: Job) -> Iterator[str]:
    spec = job.spec
    yield _field("Name", job.name or "-")
    yield _field("ID", str(job.id))
    yield _field("Tenant", job.tenant)
    yield _field("Mode", f"{spec.mode.value}: {prompts(spec)}")
    yield _field("Engine", spec.engine)
    yield _field("Input", source(spec.images))
    formats = ", ".join(one.value for one in spec.output.formats)
    yield _field("Output", redact(spec.output.uri) + (f" ({formats})" if formats else ""))
    parallel = f", {spec.parallelism} shards at once" if spec.parallelism else ""
    yield _field("Region", f"{job.region}, priority {job.priority}{parallel}")


def _images(job: Job) -> str:
    told = f"{progress(job)}: {job.images_done} done, {job.images_skipped} unchanged, {job.images_failed} failed"
    return told if job.expanded_at is not None else f"{told}; still being listed"


def _shards(job: Job, at_work: list[Shard]) -> str:
    running = sum(shard.state is ShardState.RUNNING for shard in at_work)
    counts = {
        "queued": job.shards_open - len(at_work),
        "dispatched": len(at_work) - running,
        "running": running,
        "succeeded": job.shards_succeeded,
        "dead": job.shards_dead,
        "cancelled": job.shards_cancelled,
    }
    told = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    return f"{job.shards_total}: {told}" if told else "none yet"


def _times(client: Client, job: Job) -> Iterator[str]:
    at = client.now()
    yield _field("Created", f"{when(job.created_at)} ({age(job.created_at, at)} ago)")
    for title, moment in (("Not before", job.not_before), ("Deadline", job.deadline_at), ("Started", job.started_at)):
        if moment is not None:
            yield _field(title, when(moment))
    if job.state in JOB_TERMINAL:
        yield _field("Finished", when(job.finished_at))
        if job.published_at is not None:
            yield _field("Gathered", when(job.published_at))
        elif job.images_open < job.images_total:
            yield _field("Gathered", "not yet: results.jsonl is written by the next free worker")
    if job.expires_at is not None:
        yield _field("Forgotten", when(job.expires_at))


def _at_work_line(shard: Shard, worker: Worker | None) -> str:
    what = f"shard {shard.index}, attempt {shard.attempt}"
    if shard.state is ShardState.DISPATCHED:
        return f"{what}: sent to queue {shard.queue or '-'} at {when(shard.dispatched_at)}"
    where = f"{worker.node} (pool {worker.pool}, {worker.device or 'loading'})" if worker else "a worker that is gone"
    return f"{what}: {shard.images_done}/{shard.images_total} images on {where}"


def _dead(client: Client, job: Job) -> list[Shard]:
    """The first dead shards."""
    found: list[Shard] = []
    after = -1
    while len(found) < min(job.shards_dead, SHOWN) and (page := client.shards(job.id, after=after)):
        found += [shard for shard in page if shard.state is ShardState.DEAD]
        after = page[-1].index
    return found[:SHOWN]


def _dead_line(shard: Shard) -> str:
    return f"shard {shard.index}, {shard.failures} failures: {redact(shard.error or 'no error was told')}"


def _delivery_line(delivery: Delivery) -> str:
    tries = f"{delivery.attempts} tries" if delivery.attempts != 1 else "1 try"
    if delivery.delivered_at is not None:
        return f"told at {when(delivery.delivered_at)} after {tries}"
    last = f": {redact(delivery.error)}" if delivery.error else ""
    return f"{tries}, next at {when(delivery.due_at)}{last}" if delivery.due_at else f"given up after {tries}{last}"


def _delivery(delivery: Delivery) -> dict[str, object]:
    return {
        "id": str(delivery.id),
        "attempts": delivery.attempts,
        "status": delivery.status,
        "error": redact(delivery.error) if delivery.error else None,
        "dueAt": delivery.due_at.isoformat() if delivery.due_at else None,
        "deliveredAt": delivery.delivered_at.isoformat() if delivery.delivered_at else None,
    }


def _last_events(client: Client, job: Job) -> list[Event]:
    last: list[Event] = []
    while page := client.events(job.id, after=last[-1].id if last else 0, limit=EVENTS_A_PAGE):
        last = [*last, *page][-SHOWN:]
    return last


def _section(title: str, lines: list[str]) -> Iterator[str]:
    if lines:
        yield f"{title}:"
        yield from (f"  {line}" for line in lines)


def _field(title: str, value: str) -> str:
    return f"{title + ':':<{WIDTH}}{value}"
