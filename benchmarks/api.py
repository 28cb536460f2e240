"""What does the REST API cost where a million jobs are remembered: to submit, to list, and to follow a job?

It runs as it is deployed, `python -m api`, beside a Postgres that keeps what it commits, on this machine. Beside each
figure stands what a user would do instead: the Python client, SQL with OFFSET, a loop that polls.
"""

import os
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import psycopg

from api import cursors
from benchmarks.queue_servers import servers
from benchmarks.report import Section, main
from samjobs.client import Client
from samjobs.errors import DatabaseUnavailable
from samjobs.store import Store, connect, jobs
from tests.api.server import Api

TENANTS = 20
PAGE = 50
JOBS = "/api/v1/jobs"
# Finished jobs of several tenants, one a second into the past, copies of one; every hundredth failed.
_FILL = """
    INSERT INTO jobs ({columns})
    SELECT {values} FROM jobs, generate_series(1, {count}) n WHERE jobs.id = '{job_id}'
"""


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    jobs: int
    calls: int
    watchers: int
    changes: int


FULL, QUICK = Sizes(1_000_000, 300, 50, 20), Sizes(20_000, 30, 50, 3)


def measure(quick: bool) -> list[Section]:
    """All tables."""
    sizes = QUICK if quick else FULL
    with ExitStack() as stack:
        url = stack.enter_context(stack.enter_context(servers()).ours())
        store = connect(url)
        stack.callback(store.close)
        _fill(store, url, sizes.jobs)
        api = Api(Path(stack.enter_context(tempfile.TemporaryDirectory())), url)
        stack.callback(api.close)
        api.until_ready()
        with api.client() as http, Client(url) as client, psycopg.connect(url, autocommit=True) as plain:
            return [
                _submissions(http, client, sizes),
                _lists(http, client, plain, sizes),
                _following(api, store, client, sizes),
            ]


def _fill(store: Store, url: str, count: int) -> None:
    with Client(url) as client:
        job_id = client.submit(_spec()).job_id
        client.cancel(job_id)
    set_to = {
        "id": "gen_random_uuid()",
        "tenant": f"'tenant-' || n % {TENANTS}",
        "created_at": "jobs.created_at - n * interval '1 second'",
        "state": "CASE WHEN n % 100 = 0 THEN 'failed' ELSE 'succeeded' END",
        "reason": "'Completed'",
        "dedupe_key": "NULL",
        "cancel_reason": "NULL",
    }
    with psycopg.connect(url, autocommit=True) as plain:
        cursor = plain.execute("SELECT * FROM jobs LIMIT 0")
        names = [column.name for column in cursor.description or ()]
        values = ", ".join(set_to.get(name, f"jobs.{name}") for name in names)
        plain.execute(_FILL.format(columns=", ".join(names), values=values, count=count, job_id=job_id).encode())
        plain.execute("VACUUM (ANALYZE) jobs")


def _spec() -> dict[str, Any]:
    """A job over ten photos, which no other equals."""
    return {
        "images": {"list": [{"image": f"s3://photos/trip/{number:04}.jpg"} for number in range(10)]},
        "prompts": {"text": ["red car", "bicycle"]},
        "output": {"uri": f"s3://masks/{uuid4()}"},
    }


def _timed(calls: int, act: Callable[[], object]) -> dict[str, float]:
    """Milliseconds of so many calls, one after the other, after a few that are not counted."""
    for _ in range(3):
        act()
    took_ms = []
    for _ in range(calls):
        began = time.perf_counter()
        act()
        took_ms.append(1000 * (time.perf_counter() - began))
    return {"p50 ms": statistics.median(took_ms), "p99 ms": statistics.quantiles(took_ms, n=100)[98]}


def _get(http: httpx.Client, path: str, **query: Any) -> Any:
    answer = http.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def _submissions(http: httpx.Client, client: Client, sizes: Sizes) -> Section:
    def by_api(**headers: str) -> None:
        answer = http.post(JOBS, json={"spec": _spec(), "tenant": "bench"}, headers=headers)
        assert answer.status_code == 201, answer.text

    made = {
        "REST": lambda: by_api(),
        "REST, Idempotency-Key": lambda: by_api(**{"Idempotency-Key": str(uuid4())}),
        "Python client (no server between)": lambda: client.submit(_spec(), tenant="bench"),
    }
    rows = [{"submit 10 images by": name, **_timed(sizes.calls, act)} for name, act in made.items()]
    figures = {"submit_p50_ms": rows[0]["p50 ms"], "submit_p99_ms": rows[0]["p99 ms"]}
    title = f"Submitting, beside {sizes.jobs:,} jobs"
    return Section(title, rows, "One after the other, by one connection; each is committed to the disk.", figures)


def _lists(http: httpx.Client, client: Client, plain: psycopg.Connection[Any], sizes: Sizes) -> Section:
    tenant, deep = "tenant-0", int(0.9 * sizes.jobs / TENANTS)
    own = "SELECT * FROM jobs WHERE tenant = 'tenant-0' ORDER BY created_at DESC"
    row = plain.execute(f"{own} OFFSET {deep} LIMIT 1".replace("*", "created_at, id", 1).encode()).fetchone()
    assert row is not None
    cursor = cursors.of_time(*row)
    whole = "SELECT * FROM jobs ORDER BY created_at DESC"
    some = {
        "newest, of a tenant": (
            lambda: _get(http, JOBS, tenant=tenant, limit=PAGE),
            lambda: plain.execute(f"{own} LIMIT {PAGE}".encode()).fetchall(),
        ),
        f"from the {deep:,}th on, of a tenant": (
            lambda: _get(http, JOBS, tenant=tenant, limit=PAGE, cursor=cursor),
            lambda: plain.execute(f"{own} OFFSET {deep} LIMIT {PAGE}".encode()).fetchall(),
        ),
        "failed ones, of all": (
            lambda: _get(http, JOBS, state="failed", limit=PAGE),
            lambda: plain.execute(
                whole.replace("ORDER", "WHERE state = 'failed' ORDER").encode() + b" LIMIT 50"
            ).fetchall(),
        ),
        "active ones, of a tenant": (
            lambda: _get(http, JOBS, tenant="bench", active="true", limit=PAGE),
            lambda: client.list(tenant="bench", active_only=True, limit=PAGE),
        ),
    }
    rows = []
    for name, (ours, theirs) in some.items():
        mine = _timed(sizes.calls, ours)
        other = _timed(max(10, sizes.calls // 10), theirs)
        rows.append({f"{PAGE} jobs": name, **mine, "SQL p50 ms": other["p50 ms"], "SQL p99 ms": other["p99 ms"]})
    note = (
        "SQL: rows by OFFSET, read by psycopg with the same indexes, and not turned into anything; the last line by the"
        " Python\nclient. REST answers with JSON of each job."
    )
    figures = {
        "list_p50_ms": rows[0]["p50 ms"],
        "list_p99_ms": rows[0]["p99 ms"],
        "list_deep_p50_ms": rows[1]["p50 ms"],
    }
    return Section(f"Listing {PAGE} of {sizes.jobs:,} jobs", rows, note, figures)


class Told:
    """When each of many who follow jobs learned of a state."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, str], float] = {}
        self._new = threading.Condition()

    def note(self, who: int, state: str) -> None:
        with self._new:
            self._seen[who, state] = time.monotonic()
            self._new.notify_all()

    def forget(self) -> None:
        with self._new:
            self._seen.clear()

    def of(self, who: Sequence[int], state: str) -> list[float]:
        """When all of them had learned of it."""
        with self._new:
            assert self._new.wait_for(lambda: all((one, state) in self._seen for one in who), 60), f"no {state}"
            return [self._seen[one, state] for one in who]


def _following(api: Api, store: Store, client: Client, sizes: Sizes) -> Section:
    """Several jobs, each followed by several; some of them change, and are told of."""
    job_ids = [client.submit(_spec(), tenant="watched").job_id for _ in range(10)]
    process = api.process.pid
    rows = []
    for name, follow in (
        ("REST, server-sent events", _by_events(api)),
        ("Python client, polling", _by_polling(client)),
    ):
        told, before = Told(), _memory_mib(process)
        with follow(told, [job_ids[number % len(job_ids)] for number in range(sizes.watchers)]):
            told.of(range(sizes.watchers), "queued")
            grown, cpu_s, began = _memory_mib(process) - before, _cpu_s(process), time.monotonic()
            delays_s = [one for _ in range(sizes.changes) for one in _change(store, job_ids, told, sizes.watchers)]
            busy = 100 * (_cpu_s(process) - cpu_s) / (time.monotonic() - began)
        rest = name.startswith("REST")
        rows.append(
            {
                f"{sizes.watchers} followers by": name,
                "told after p50 ms": 1000 * statistics.median(delays_s),
                "max ms": 1000 * max(delays_s),
                "server +MiB": grown if rest else None,
                "server CPU %": busy if rest else None,
                "statements/s": 1.0 if rest else float(sizes.watchers),
            }
        )
    figures = {"watch_p50_ms": rows[0]["told after p50 ms"], "watch_mib": rows[0]["server +MiB"]}
    figures["api_rss_mib"] = _memory_mib(process)
    note = (
        "A job is suspended or resumed; told after: from the call that does it until a follower has the new state, over"
        " all\nfollowers. Statements of an idle queue, by their design. The whole API process has"
        f" {figures['api_rss_mib']:.0f} MiB."
    )
    return Section("Following jobs", rows, note, figures)


def _change(store: Store, job_ids: Sequence[UUID], told: Told, watchers: int) -> Iterator[float]:
    """Suspend a job and resume it; after how many seconds each of its followers knew."""
    place = random.randrange(len(job_ids))
    who = range(place, watchers, len(job_ids))
    for suspend, state in ((True, "suspended"), (False, "queued")):
        time.sleep(random.uniform(1.1, 1.8))  # in no step with anybody's looks
        told.forget()
        began = time.monotonic()
        with store.begin() as conn:
            jobs.set_suspend(conn, job_ids[place], suspend, actor="benchmark")
        yield from (at - began for at in told.of(who, state))


def _cpu_s(pid: int) -> float:
    """Processor time so far."""
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")


def _memory_mib(pid: int) -> float:
    """What it holds of the machine's memory."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024


Follow = Callable[[Told, Sequence[UUID]], Any]


def _by_events(api: Api) -> Follow:
    @contextmanager
    def follow(told: Told, job_ids: Sequence[UUID]) -> Iterator[None]:
        def one(number: int, job_id: UUID) -> None:
            # At the end the connections are closed under the threads.
            with suppress(httpx.HTTPError), http.stream("GET", f"{JOBS}/{job_id}/progress") as answer:
                for line in answer.iter_lines():
                    if line.startswith("data: "):
                        told.note(number, line.partition('"state":"')[2].partition('"')[0])
                    if ended.is_set():
                        return

        ended = threading.Event()
        with api.client(limits=httpx.Limits(max_connections=None)) as http:
            for number, job_id in enumerate(job_ids):
                threading.Thread(target=one, args=(number, job_id), daemon=True).start()
            yield
            ended.set()

    return follow


def _by_polling(client: Client) -> Follow:
    @contextmanager
    def follow(told: Told, job_ids: Sequence[UUID]) -> Iterator[None]:
        def one(number: int, job_id: UUID) -> None:
            with suppress(DatabaseUnavailable):  # at the end the database goes away under the threads
                for job in client.watch(job_id):
                    told.note(number, job.state.value)
                    if ended.is_set():
                        return

        ended = threading.Event()
        for number, job_id in enumerate(job_ids):
            threading.Thread(target=one, args=(number, job_id), daemon=True).start()
        yield
        ended.set()

    return follow


if __name__ == "__main__":
    main(__doc__ or "", measure)
