"""How rows of the job table are shown: a line, a JSON object, words. No URL is shown with the secrets it carries."""

from datetime import datetime
from typing import Any

from samjobs.cli.tables import age
from samjobs.spec import Images, JobSpec
from samjobs.storage import redact
from samjobs.store.rows import Event, Image, Job, Pool, Shard, Worker

JOB_HEADER = ("NAME", "ID", "MODE", "PHASE", "PROGRESS", "FAILED", "AGE")


def short(job: Job) -> str:
    """A job in a line of text."""
    return f"{job.name} ({str(job.id)[:8]})" if job.name else str(job.id)[:8]


def job_row(job: Job, at: datetime) -> tuple[object, ...]:
    """The cells below JOB_HEADER."""
    return (
        job.name or "-",
        str(job.id)[:8],
        job.spec.mode.value,
        job.state.value,
        progress(job),
        job.images_failed,
        age(job.created_at, at),
    )


def progress(job: Job) -> str:
    """Images that have an outcome, of all that are known: `?` while they are being listed."""
    known = str(job.images_total) if job.expanded_at is not None else f"{job.images_total or ''}?"
    return f"{job.images_total - job.images_open}/{known}"


def job_object(job: Job) -> dict[str, Any]:
    """The object of `--json`."""
    return {
        "id": str(job.id),
        "name": job.name,
        "tenant": job.tenant,
        "mode": job.spec.mode.value,
        "state": job.state.value,
        "reason": job.reason.value,
        "error": job.error,
        "engine": job.spec.engine,
        "region": job.region,
        "priority": job.priority,
        "suspend": job.suspend,
        "input": source(job.spec.images),
        "output": redact(job.spec.output.uri),
        "images": {
            "total": job.images_total,
            "done": job.images_done,
            "unchanged": job.images_skipped,
            "failed": job.images_failed,
            "complete": job.expanded_at is not None,
        },
        "shards": {
            "total": job.shards_total,
            "succeeded": job.shards_succeeded,
            "dead": job.shards_dead,
            "cancelled": job.shards_cancelled,
        },
        "createdAt": _time(job.created_at),
        "startedAt": _time(job.started_at),
        "finishedAt": _time(job.finished_at),
        "notBefore": _time(job.not_before),
        "deadlineAt": _time(job.deadline_at),
        "expiresAt": _time(job.expires_at),
        "publishedAt": _time(job.published_at),
    }


def source(images: Images) -> str:
    """Where a job's images come from."""
    place = images.prefix or images.manifest
    return redact(place) if place is not None else f"a list of {len(images.list or ())}"


def prompts(spec: JobSpec) -> str:
    """What is looked for, in words."""
    said = ", ".join(text.text for text in spec.prompts.text)
    counted = [f"{len(spec.prompts.boxes)} boxes"] * bool(spec.prompts.boxes)
    counted += [f"{len(spec.prompts.points)} sets of clicks"] * bool(spec.prompts.points)
    return "; ".join(filter(None, [said, *counted])) or "each image brings its own"


def event_object(event: Event) -> dict[str, Any]:
    """The object of `events --json`."""
    return {
        "id": event.id,
        "at": _time(event.at),
        "subject": event.subject.value,
        "shard": str(event.shard_id) if event.shard_id else None,
        "image": event.image_index,
        "from": event.from_state,
        "to": event.to_state,
        "reason": event.reason.value,
        "message": redact(event.message),
        "actor": event.actor,
    }


def event_line(event: Event) -> str:
    """An event for people."""
    what = event.subject.value
    if event.image_index is not None:
        what += f" {event.image_index}"
    elif event.shard_id is not None:
        what += f" {str(event.shard_id)[:8]}"
    change = f"{event.from_state} → {event.to_state}" if event.from_state else event.to_state
    by = f" [{event.actor}]" if event.actor else ""
    message = f": {redact(event.message)}" if event.message else ""
    return f"{event.at:%Y-%m-%d %H:%M:%S}  {what}  {change}  {event.reason.value}{message}{by}"


def image_line(image: Image) -> str:
    """A failed image for people."""
    return f"{image.key}: {redact(image.error or 'failed')}"


def shard_object(shard: Shard, job: Job | None) -> dict[str, Any]:
    """The object of `dead list --json`."""
    return {
        "id": str(shard.id),
        "job": str(shard.job_id),
        "jobName": job.name if job else None,
        "index": shard.index,
        "images": shard.images_total,
        "done": shard.images_done,
        "attempts": shard.attempt,
        "failures": shard.failures,
        "errorClass": shard.error_class.value if shard.error_class else None,
        "error": redact(shard.error) if shard.error else None,
        "diedAt": _time(shard.finished_at),
    }


def worker_object(worker: Worker) -> dict[str, Any]:
    """The object of `workers --json`."""
    return {
        "incarnation": str(worker.incarnation),
        "pool": worker.pool,
        "region": worker.region,
        "node": worker.node,
        "pod": worker.pod,
        "pid": worker.pid,
        "device": worker.device,
        "model": worker.model,
        "revision": worker.revision,
        "state": worker.state.value,
        "shard": str(worker.shard_id) if worker.shard_id else None,
        "images": worker.images_total,
        "secondsPerImage": worker.image_s,
        "loadSeconds": worker.load_s,
        "heartbeatAt": _time(worker.heartbeat_at),
        "startedAt": _time(worker.started_at),
    }


def pool_line(pool: Pool) -> str:
    """Why a pool has as many workers as it has, for people."""
    counts = f"{pool.desired} wanted, {pool.ready} ready, {pool.busy} busy"
    return f"{pool.namespace}/{pool.name}: {counts}: {pool.reason.value}: {redact(pool.message)}"


def pool_object(pool: Pool) -> dict[str, Any]:
    """The object of `pools NAME --json`."""
    return {
        "namespace": pool.namespace,
        "name": pool.name,
        "region": pool.region,
        "engine": pool.engine,
        "desired": pool.desired,
        "ready": pool.ready,
        "busy": pool.busy,
        "reason": pool.reason.value,
        "message": redact(pool.message),
        "changedAt": _time(pool.changed_at),
        "enoughSince": _time(pool.enough_since),
        "enough": pool.enough,
        "secondsPerImage": pool.image_s,
        "loadSeconds": pool.load_s,
        "updatedAt": _time(pool.updated_at),
    }


def _time(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()
