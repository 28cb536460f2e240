"""Jobs from Python: submit, look, wait, stop, retry. Needs the database alone; not Redis, not a worker.

    with Client("postgresql://samjobs@db/samjobs") as client:
        submitted = client.submit({"images": {"prefix": "s3://photos/trip"}, ...}, name="trip")
        job = client.wait(submitted.job_id)

A job is named by its id, by the first digits of it (at least 4), or by its name, which means the newest one so called.
Every method raises DatabaseUnavailable when the database does not answer, and InvalidInput for a job that there is not.
"""

import copy
import hashlib
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import TypeAdapter, ValidationError

from samjobs import places, settings
from samjobs.decisions import waiting
from samjobs.errors import DatabaseUnavailable, InvalidInput, KeyReused, QueueUnavailable, SamjobsError
from samjobs.listing import images_of
from samjobs.names import DEFAULT_TENANT, Reason
from samjobs.spec import JobSpec, Name, explain, parse
from samjobs.states import JOB_TERMINAL, JobState
from samjobs.storage import Storage
from samjobs.storage.fence import Fence, fence_for
from samjobs.store import (
    Connection,
    Store,
    check_schema,
    connect,
    deliveries,
    images,
    jobs,
    now,
    pools,
    repeats,
    requests,
    shards,
    views,
    workers,
)
from samjobs.store.retrying import What
from samjobs.store.rows import (
    Delivery,
    Event,
    Image,
    Job,
    Pool,
    RegionStatus,
    Request,
    Retried,
    Shard,
    Submitted,
    Worker,
)

POLL_S = 1.0
REDIS_PAUSE_S = 30.0
LONGEST_KEY = 255
MAX_SPEC_BYTES = 1 << 20  # far above what a hundred listed images need
_NAME: TypeAdapter[str] = TypeAdapter(Name)


class Client(AbstractContextManager["Client"]):
    """The job table of one database. Any number of threads may share one client."""

    def __init__(self, url: str | None = None, *, pooled: bool | None = None, actor: str = "client") -> None:
        """
        Args:
            url: `postgresql://user:password@host/name` or `sqlite:///path`; left out, the one that is set
                (SAMJOBS_DATABASE_URL).
            pooled: it is reached through pgbouncer in transaction mode; left out, as set (SAMJOBS_DATABASE_POOLED).
            actor: who does what this client does, for the events of the jobs.

        Raises:
            InvalidInput: the address has no meaning, or a setting is wrong.
            DatabaseUnavailable: the database does not answer.
            SchemaMismatch: its tables are not of this version: `samjobs migrate` makes them.
        """
        self._settings = settings.load()
        self._actor = actor
        self._minutes = _Minutes(self._settings.redis_url)
        self.store: Store = opened(
            self._settings.database_url if url is None else url,
            pooled=self._settings.database_pooled if pooled is None else pooled,
        )
        try:
            check_schema(self.store)
            # What lies in a SQLite file is worked on by a person with their own rights.
            self._fence = Fence(private=()) if self.store.is_sqlite else fence_for(self._settings)
        except SamjobsError:
            self.store.close()
            raise

    def acting(self, actor: str) -> "Client":
        """The same client, whose acts are somebody else's: the connections are shared, and closed once."""
        other = copy.copy(self)
        other._actor = actor
        return other

    @property
    def alive_within_s(self) -> float:
        """A worker that was not heard of for longer than this is taken for gone."""
        return self._settings.stale_job_timeout_seconds

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self.store.close()

    # Submitting.

    def submit(
        self,
        spec: JobSpec | Mapping[str, Any],
        *,
        name: str | None = None,
        tenant: str = DEFAULT_TENANT,
        uid: UUID | None = None,
        key: str | None = None,
        within: Connection | None = None,
    ) -> Submitted:
        """Put a job into the table: all of it, or nothing.

        A list of images is complete at once; a prefix or a manifest is listed by a controller. An equal job that is
        still active is joined (`created` is False then), unless the spec says `dedupe: false`.

        Args:
            spec: see docs/reference/job.md. Paths are absolute: the machine that works has another working folder.
            name: letters, digits, `.`, `_` and `-`; several jobs may have it.
            uid: of an object in front of the job; a second submission with it finds the first.
            key: of this submission, from 1 to 255 characters: repeated by who got no answer, with the same request, it
                finds the first, also when that has ended. For the tenant alone, and as long as the job is remembered.
            within: an open SQLAlchemy connection to the same database. The job is then part of the transaction that
                runs there: it exists when and only when the caller commits.

        Raises:
            InvalidInput: the spec, the name or the tenant is wrong; nothing was written.
            KeyReused: the key was given with another request.
        """
        _check_name("tenant", tenant)
        wanted = _valid(spec, tenant, self._fence)
        if name is not None:
            _check_name("name", name)
        if self.store.is_sqlite and wanted.images.list is None:
            raise InvalidInput(
                "images: no controller lists a prefix or a manifest into a SQLite file: use"
                " `samjobs process --no-process`, or set SAMJOBS_DATABASE_URL to the cluster's Postgres"
            )
        if key is not None and not (1 <= len(key) <= LONGEST_KEY and key.isprintable()):
            raise InvalidInput(f"key {key[:80]!r} is none: give 1 to {LONGEST_KEY} characters that can be printed")
        request = None if key is None else (key, _request_hash(wanted, name))
        try:
            return self._submit(wanted, tenant, name, uid, request, within)
        except _KeyInUse:
            if within is not None:  # that transaction is the caller's to repeat
                raise
            # Whoever was faster has committed.
            return self._submit(wanted, tenant, name, uid, request, within)

    def _submit(
        self,
        wanted: JobSpec,
        tenant: str,
        name: str | None,
        uid: UUID | None,
        request: tuple[str, str] | None,
        within: Connection | None,
    ) -> Submitted:
        with Storage() as storage, self._transaction(within) as conn:
            if request is not None and (first := _repeated(conn, tenant, *request)) is not None:
                return Submitted(first, created=False)
            submitted = jobs.submit(conn, wanted, tenant=tenant, name=name, uid=uid, actor=self._actor)
            if submitted.created and wanted.images.list is not None:
                jobs.add_images(conn, submitted.job_id, [*images_of(wanted, storage, Counter())])
                jobs.mark_expanded(conn, submitted.job_id)
            if request is not None:
                _remember(conn, tenant, *request, submitted.job_id)
        return submitted

    def _transaction(self, within: Connection | None) -> AbstractContextManager[Connection]:
        return self.store.begin() if within is None else nullcontext(within)

    # Looking.

    def get(self, job: UUID | str) -> Job:
        """The job as it is now.

        Raises:
            InvalidInput: there is none; or it was asked for by SQL and is not admitted yet, or was refused, and why.
        """
        with self.store.read() as conn:
            return _job(conn, job)

    def list(
        self,
        *,
        tenant: str | None = None,
        region: str | None = None,
        state: JobState | None = None,
        active_only: bool = False,
        before: datetime | None = None,
        limit: int = 50,
    ) -> Sequence[Job]:
        """Jobs, newest first; `before` is the `created_at` of the last one seen."""
        which: dict[str, Any] = {"tenant": tenant, "region": region, "state": state, "active_only": active_only}
        with self.store.read() as conn:
            return jobs.list_jobs(conn, **which, before=before, limit=limit)

    def why(self, job: UUID | str) -> tuple[Reason, str]:
        """Why a job waits, or what it does instead: a reason for programs and a line for people.

        True as far as this process has the settings of the controller; that a tenant's minute is used up is told where
        Redis can be asked.
        """
        limits = views.limits_of(self._settings)
        with self.store.read() as conn:
            found = _job(conn, job).id
            view = views.waiting_view(conn, found, limits, alive_within_s=self.alive_within_s)
        if view is None:
            raise InvalidInput(f"job {found} has just been forgotten")
        if limits.tenant_rate_per_minute is not None:
            minute_left = self._minutes.left(view.tenant, limits.tenant_rate_per_minute, view.at)
            view = replace(view, minute_left=minute_left)
        return waiting.why(view)

    def shards(self, job: UUID | str, *, after: int = -1, limit: int = 1000) -> Sequence[Shard]:
        """A job's shards by index; `after` is the index of the last one seen."""
        with self.store.read() as conn:
            return shards.of_job(conn, _job(conn, job).id, after_index=after, limit=limit)

    def at_work(self, job: UUID | str) -> Sequence[tuple[Shard, Worker | None]]:
        """The job's shards that were sent to a queue or run, each with the worker that runs it."""
        with self.store.read() as conn:
            found = shards.at_work(conn, _job(conn, job).id)
            return [(one, workers.get(conn, one.incarnation) if one.incarnation else None) for one in found]

    def deliveries(self, job: UUID | str) -> Sequence[Delivery]:
        """What the job's callback was or is to be told."""
        with self.store.read() as conn:
            return deliveries.of_job(conn, _job(conn, job).id)

    def workers(self, *, region: str | None = None) -> Sequence[Worker]:
        """The worker processes that are alive, oldest first."""
        with self.store.read() as conn:
            return workers.alive(conn, within_s=self.alive_within_s, region=region)

    def pools(self) -> Sequence[Pool]:
        """What the controller last decided of each SamWorkerPool, by namespace and name."""
        with self.store.read() as conn:
            return pools.listing(conn)

    def regions(self) -> Sequence[RegionStatus]:
        """What waits and what is at work, for every region in which something does."""
        with self.store.read() as conn:
            return views.regions(conn)

    def dead(
        self, *, tenant: str | None = None, after: UUID | None = None, limit: int = 100
    ) -> Sequence[tuple[Shard, Job]]:
        """Shards that wait for a person, each with its job, in order of their ids; `after` is the last one seen."""
        with self.store.read() as conn:
            found = shards.dead(conn, tenant=tenant, after=after, limit=limit)
            of = {job_id: jobs.get(conn, job_id) for job_id in {shard.job_id for shard in found}}
        return [(shard, job) for shard in found if (job := of[shard.job_id]) is not None]

    def now(self) -> datetime:
        """The database's clock, by which all times are."""
        with self.store.read() as conn:
            return now(conn)

    def watch(self, job: UUID | str, *, poll_s: float = POLL_S) -> Iterator[Job]:
        """The job now, then each time it has changed, to its end. A request by SQL is waited for."""
        seen: Job | None = None
        while True:
            with self.store.read() as conn:
                found = _look(conn, seen.id if seen else job)
            if isinstance(found, Job):
                if found != seen:
                    yield found
                if found.state in JOB_TERMINAL:
                    return
                seen = found
            time.sleep(poll_s)

    def wait(self, job: UUID | str, timeout: float | None = None, *, poll_s: float = POLL_S) -> Job:
        """The job, when it has ended.

        Args:
            timeout: seconds; None waits for ever.

        Raises:
            TimeoutError: it has not ended by then, and goes on.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            with self.store.read() as conn:
                found = _look(conn, job)
            if isinstance(found, Job) and found.state in JOB_TERMINAL:
                return found
            left = poll_s if deadline is None else min(poll_s, deadline - time.monotonic())
            if left <= 0:
                state = f"still {found.state.value}" if isinstance(found, Job) else "not admitted yet"
                raise TimeoutError(f"job {job} is {state} after {timeout:g} s; it goes on")
            time.sleep(left)

    def events(self, job: UUID | str, *, after: int = 0, limit: int = 100) -> Sequence[Event]:
        """What happened to a job, its shards and its images, oldest first; `after` is the id of the last one seen."""
        with self.store.read() as conn:
            return jobs.events(conn, _job(conn, job).id, after=after, limit=limit)

    def images(
        self, job: UUID | str, *, failed_only: bool = False, after: int = -1, limit: int = 100
    ) -> Sequence[Image]:
        """A job's images in input order, or those that failed; `after` is the index of the last one seen."""
        with self.store.read() as conn:
            job_id = _job(conn, job).id
            if failed_only:
                return images.failed(conn, job_id, after=after, limit=limit)
            return images.iterate(conn, job_id, after_index=after, limit=limit)

    # Acting.

    def cancel(self, job: UUID | str) -> bool:
        """End a job now; its results stay. False if it had ended already."""
        with self.store.begin() as conn:
            return jobs.cancel(conn, _job(conn, job).id, actor=self._actor)

    def suspend(self, job: UUID | str) -> bool:
        """Take a job's shards off the workers, each after the image in hand. False if it is so, or has ended."""
        with self.store.begin() as conn:
            return jobs.set_suspend(conn, _job(conn, job).id, True, actor=self._actor)

    def resume(self, job: UUID | str) -> bool:
        """Let a suspended job go on where it was. False if it is not suspended, or has ended."""
        with self.store.begin() as conn:
            return jobs.set_suspend(conn, _job(conn, job).id, False, actor=self._actor)

    def retry(self, job: UUID | str, *, what: What = "all") -> Retried:
        """Put failed images and dead shards back to work, with their failures forgiven.

        Args:
            what: "all"; "dead" for dead shards alone, with the failed images in them; "images" for the failed images
                of shards that succeeded.

        Raises:
            InvalidInput: the job was cancelled or stopped, is being forgotten, or an equal one is active.
        """
        with self.store.begin() as conn:
            return jobs.retry_failed(conn, _job(conn, job).id, what=what, actor=self._actor)

    def purge(self, job: UUID | str) -> int:
        """Give a job's dead shards up for good; how many they were. The job stays, failed."""
        with self.store.begin() as conn:
            return jobs.purge_dead(conn, _job(conn, job).id, actor=self._actor)


def opened(url: str, *, pooled: bool) -> Store:
    """The database at `url`; opens no connection yet.

    Raises:
        InvalidInput: the address has no meaning, or the library that it needs is not installed.
    """
    try:
        return connect(url, pooled=pooled)
    except ModuleNotFoundError as error:
        raise InvalidInput(
            f"the database address names a Postgres, and {error.name} is not installed: pip install 'samjobs[server]'"
        ) from None


def _valid(spec: JobSpec | Mapping[str, Any], tenant: str, fence: Fence) -> JobSpec:
    """The spec with its places settled.

    Raises:
        InvalidInput: it is wrong, or too large, or one of its places is not the tenant's.
    """
    given = dict(spec) if isinstance(spec, Mapping) else spec
    parsed = given if isinstance(given, JobSpec) else parse(JobSpec, given, "spec")
    size = len(parsed.model_dump_json(by_alias=True, exclude_defaults=True).encode("utf-8", "backslashreplace"))
    if size > MAX_SPEC_BYTES:
        raise InvalidInput(
            f"spec: {size:,} bytes, more than {MAX_SPEC_BYTES:,}: put the images and their prompts into a manifest"
        )
    return places.admitted(parsed, tenant, fence)


def _request_hash(spec: JobSpec, name: str | None) -> str:
    """Equal for requests that ask for the same in every respect."""
    return hashlib.blake2b(f"{name}\n{spec.model_dump_json()}".encode(), digest_size=20).hexdigest()


def _repeated(conn: Connection, tenant: str, key: str, request_hash: str) -> UUID | None:
    """The job that the same request became before; None: it is the first with this key.

    Raises:
        KeyReused: the key was given with another request.
    """
    first = repeats.find(conn, tenant, key)
    if first is not None and first.request_hash != request_hash:
        raise KeyReused(
            f"key {key!r} was given before, for job {first.job_id}, with another request: repeat that one as it was,"
            " or take a new key"
        )
    return None if first is None else first.job_id


class _KeyInUse(DatabaseUnavailable):
    """The same request is being submitted by somebody else: this one is undone, and may be repeated."""


def _remember(conn: Connection, tenant: str, key: str, request_hash: str, job_id: UUID) -> None:
    """Keep what the key was given for.

    Raises:
        KeyReused: somebody else gives it just now, with another request.
        _KeyInUse: or with this one.
    """
    if repeats.remember(conn, tenant, key, request_hash, job_id):
        return
    if _repeated(conn, tenant, key, request_hash) != job_id:
        raise _KeyInUse(f"key {key!r} is being used by another submission: repeat this one")


class _Minutes:
    """Asks Redis what tenants may still send. When it did not answer it is left alone for a while: each question to a
    server that is silent takes seconds, and a process that serves many would soon do nothing else."""

    def __init__(self, redis_url: str) -> None:
        self._redis_url = redis_url
        self._next_at = 0.0  # monotonic

    def left(self, tenant: str, rate: int, at: datetime) -> int | None:
        """What the tenant may still send in this minute; None where nobody can be asked."""
        if time.monotonic() < self._next_at:
            return None
        try:
            from samjobs.queue import RedisQueue  # only an installation with Redis has its library
        except ModuleNotFoundError:
            return None
        queue = RedisQueue.connect(self._redis_url)
        try:
            return queue.minute_left([tenant], rate, int(at.timestamp() // 60))[tenant]
        except QueueUnavailable:
            self._next_at = time.monotonic() + REDIS_PAUSE_S
            return None
        finally:
            queue.close()


def _check_name(field: str, value: str) -> None:
    try:
        _NAME.validate_python(value)
    except ValidationError as error:
        raise InvalidInput(explain(error, field).replace(": the whole:", ":")) from None


def _job(conn: Connection, name: UUID | str) -> Job:
    found = _look(conn, name)
    if isinstance(found, Request):
        raise InvalidInput(f"request {found.id} waits for a controller to admit it")
    return found


def _look(conn: Connection, name: UUID | str) -> Job | Request:
    """The job that `name` means, or the request of that id that is not answered yet.

    Raises:
        InvalidInput: neither is there, or the request was refused.
    """
    found = jobs.get(conn, name) if isinstance(name, UUID) else jobs.find(conn, name)
    if found is not None:
        return found
    request_id = _as_uuid(name)
    request = None if request_id is None else requests.get(conn, request_id)
    if request is None:
        raise InvalidInput(f"no job {str(name)!r}: `samjobs get` lists them; one past its TTL has been forgotten")
    if request.error is not None:
        raise InvalidInput(f"request {request.id} was refused: {request.error}")
    if request.job_id is None:
        return request
    joined = jobs.get(conn, request.job_id)
    if joined is None:
        raise InvalidInput(f"job {request.job_id}, which request {request.id} became, has been forgotten")
    return joined


def _as_uuid(name: UUID | str) -> UUID | None:
    if isinstance(name, UUID):
        return name
    try:
        return UUID(name)
    except ValueError:
        return None
