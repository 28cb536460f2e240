"""What does it cost to take the next shard, and does that grow with what is finished, what waits, who holds a
transaction open, or how many share the queue?

One claim is what a controller does for one shard: look at the queue, decide, take the row, commit. `look ms` is its
first part, `claim ms` the whole; medians of many, one after the other, each shard finished before the next is taken.
"""

import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from benchmarks.report import Section, main
from samjobs.decisions.dispatch import Limits, plan
from samjobs.decisions.routing import Standing, queues
from samjobs.spec import Images, JobSpec, Output, Prompts, TextPrompt
from samjobs.states import ShardState
from samjobs.store import Store, connect, jobs, views
from samjobs.store.lanes import MARGIN, Heads, claim_lane
from samjobs.store.tables import shards
from tests import postgres

REGION = "us"
TURNS = 10
QUEUES = queues(Standing(REGION, ready=1, silent_for_s=0, others_ready=0, failover_after_s=60))
ONE = Limits(region_concurrency=1, dispatch_window=1)

_FILL = sa.text(
    """
    INSERT INTO shards (id, job_id, index, first_index, images_total, images_done, state, held, attempt, failures,
                        region, tenant, priority, job_created_at, available_at, created_at, dispatched_at, finished_at)
    SELECT gen_random_uuid(), jobs.id, jobs.shards_total + n, jobs.shards_total + n, 1, :done, :state, false, :done, 0,
           jobs.region, jobs.tenant, jobs.priority, jobs.created_at, jobs.created_at, jobs.created_at, :at, :at
    FROM jobs, generate_series(0, :count - 1) n WHERE jobs.id = :job_id
    """
)
_COUNT_UP = sa.text(
    "UPDATE jobs SET shards_total = shards_total + :count, shards_succeeded = shards_succeeded + :done,"
    " images_total = images_total + :count, images_done = images_done + :done WHERE id = :job_id"
)


def job(store: Store, *, tenant: str = "default", region: str = REGION) -> UUID:
    """An empty job."""
    asked = JobSpec(
        images=Images(prefix="photos"),
        prompts=Prompts(text=(TextPrompt(text="a photo"),)),
        output=Output(uri="out"),
        region=region,
        dedupe=False,
    )
    with store.begin() as conn:
        return jobs.submit(conn, asked, tenant=tenant).job_id


def fill(store: Store, job_id: UUID, count: int, state: ShardState = ShardState.QUEUED) -> None:
    """Give a job `count` shards of one image, queued or succeeded, by one statement; their images are not written."""
    done = state is ShardState.SUCCEEDED
    with store.begin() as conn:
        filled = jobs.get(conn, job_id)
        assert filled is not None, "just submitted"
        at = filled.created_at if done else None
        conn.execute(_FILL, {"job_id": job_id, "count": count, "state": state.value, "done": int(done), "at": at})
        conn.execute(_COUNT_UP, {"job_id": job_id, "count": count, "done": count * done})


def settle(store: Store) -> None:
    """What autovacuum would have done."""
    with store.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
        conn.exec_driver_sql("VACUUM (ANALYZE) shards")
        conn.exec_driver_sql("VACUUM (ANALYZE) jobs")


@contextmanager
def held_open(store: Store) -> Iterator[None]:
    """Somebody's transaction that has read something and does not end: no dead row can be removed meanwhile."""
    with store.engine.connect().execution_options(isolation_level="REPEATABLE READ") as conn:
        conn.exec_driver_sql("SELECT count(*) FROM jobs")
        yield


_FINISH = sa.text(
    """
    WITH next AS (SELECT id FROM shards WHERE state = 'queued' AND NOT held
                  ORDER BY priority DESC, available_at, job_created_at, index LIMIT :count),
    taken AS (UPDATE shards SET state = 'dispatched', attempt = 1, dispatched_at = clock_timestamp()
              FROM next WHERE shards.id = next.id RETURNING shards.id)
    SELECT count(*) FROM taken
    """
)
_MOVE = sa.text("UPDATE shards SET state = :new WHERE state = :old")


def take_and_finish(store: Store, count: int) -> None:
    """Take the first `count` queued shards, run and finish them: each leaves its dead index entries behind."""
    for at_once in [500] * (count // 500) + [count % 500]:
        with store.begin() as conn:
            conn.execute(_FINISH, {"count": at_once})
        for old, new in (("dispatched", "running"), ("running", "succeeded")):
            with store.begin() as conn:
                conn.execute(_MOVE, {"old": old, "new": new})


@dataclass(frozen=True)
class Claims:
    """Medians over many claims."""

    look_ms: float
    claim_ms: float
    worst_ms: float
    statements: float  # per claim


class Claimer:
    """A controller that takes one shard after the other from a database."""

    def __init__(self, store: Store) -> None:
        self._store, self._heads = store, Heads()
        self._looks: list[float] = []
        self._claims: list[float] = []
        self._sent, self._timing = 0, False
        sa.event.listen(store.engine, "before_cursor_execute", self._note)

    def _note(self, *_: Any) -> None:
        self._sent += self._timing

    def claim(self, count: int) -> None:
        """Take `count` shards and finish each."""
        for _ in range(count):
            self._timing = True
            began = time.perf_counter()
            with self._store.begin() as conn:
                view = views.dispatch_view(conn, ONE, alive_within_s=60, heads=self._heads)
                (grant,) = plan(view).grants
                looked = time.perf_counter()
                (shard,) = claim_lane(
                    conn, grant.lane, limit=1, at=view.at, queues=queues(Standing(grant.lane.region, 1, 0.0, 0, 60.0))
                )
            self._claims.append(1000 * (time.perf_counter() - began))
            self._looks.append(1000 * (looked - began))
            self._timing = False
            with self._store.begin() as conn:
                conn.execute(shards.update().where(shards.c.id == shard.id).values(state=ShardState.SUCCEEDED))

    def forget(self) -> None:
        """What was before was to warm up."""
        self._looks, self._claims, self._sent = [], [], 0

    def result(self) -> Claims:
        """Over all claims since `forget`."""
        each = self._sent / len(self._claims)
        return Claims(statistics.median(self._looks), statistics.median(self._claims), max(self._claims), each)


@dataclass(frozen=True)
class Case:
    """A queue to claim from."""

    name: str
    finished: int
    queued: int
    tenants: int = 1
    held_open: bool = False
    dead: int = 0  # shards taken and finished while the transaction is open


def cases(quick: bool) -> list[Case]:
    """The sizes that must not matter."""
    some, many, most = (100, 5_000, 50_000) if quick else (1_000, 100_000, 1_000_000)
    dead = 1_000 if quick else 20_000
    return [
        Case(f"{some:,} finished", some, many),
        Case(f"{many:,} finished", many, many),
        Case(f"{most:,} finished", most, many),
        Case(f"{most:,} queued", some, most),
        Case("10 tenants", some, many, tenants=10),
        Case(f"transaction held open, {dead:,} taken since", some, many, held_open=True, dead=dead),
        Case(f"the same, {2 * dead:,} taken, 10 tenants", some, many, 10, held_open=True, dead=2 * dead),
    ]


def run_cases(server: str, asked: Sequence[Case], count: int) -> dict[Case, Claims]:
    """Measure each case in a database of its own, in turns: whatever else the machine does hits them all alike."""
    with ExitStack() as stack:
        claimers = {case: Claimer(_prepared(stack, server, case)) for case in asked}
        time.sleep(2 * MARGIN.total_seconds())  # not all of what is dead was taken in the last seconds
        for claimer in claimers.values():
            claimer.claim(30)
            claimer.forget()
        for _ in range(TURNS):
            for claimer in claimers.values():
                claimer.claim(count // TURNS)
        return {case: claimer.result() for case, claimer in claimers.items()}


def _prepared(stack: ExitStack, server: str, case: Case) -> Store:
    store = connect(stack.enter_context(postgres.database(server)))
    stack.callback(store.close)
    ids = [job(store, tenant=f"tenant-{n}") for n in range(case.tenants)]
    fill(store, ids[0], case.finished, ShardState.SUCCEEDED)
    for job_id in ids:
        fill(store, job_id, case.queued // case.tenants)
    settle(store)
    if case.held_open:
        stack.enter_context(held_open(store))
        take_and_finish(store, case.dead)
    return store


def measure(quick: bool) -> list[Section]:
    """One table."""
    programs = postgres.programs()
    if programs is None:
        raise SystemExit(f"PostgreSQL is missing: {postgres.INSTALL}")
    with postgres.server(programs) as server:
        measured = run_cases(server.url, cases(quick), 100 if quick else 500)
    return [section(measured)]


def section(measured: Mapping[Case, Claims]) -> Section:
    """The table of it."""
    rows = [
        {
            "queue": case.name,
            "look ms": claims.look_ms,
            "claim ms": claims.claim_ms,
            "worst ms": claims.worst_ms,
            "statements": claims.statements,
        }
        for case, claims in measured.items()
    ]
    medians = [claims.claim_ms for claims in measured.values()]
    flatness = max(medians) / min(medians)
    note = f"Medians of one claim after the other. Dearest over cheapest: {flatness:.2f}"
    return Section("Taking the next shard", rows, note, {"claim_flatness": flatness})


if __name__ == "__main__":
    main(__doc__ or "", measure)
