"""A worker that lacks something ends at once, and its last line says what, where and what helps.

The code is 3, or 5 when it is the model, which a pool tells apart.
"""

import re
import signal
from collections.abc import Iterator

import pytest

from samjobs.process import Exit
from samjobs.store.rows import WorkerState
from tests.worker.machine import Machine
from worker.__main__ import main
from worker.drain import SIGNALS

PASSWORD = "sesame-and-honey"
NOWHERE = "127.0.0.1:1"

LACKS = {
    "the database": ({"DATABASE_URL": f"postgresql://me:{PASSWORD}@{NOWHERE}/jobs"}, "1/jobs.*SAMJOBS_DATABASE_URL"),
    "a database that machines can share": ({"DATABASE_URL": "sqlite:////tmp/x.db"}, "SQLite.*postgresql://"),
    "Redis": ({"REDIS_URL": f"redis://me:{PASSWORD}@{NOWHERE}/0"}, "127.0.0.1:1/0.*SAMJOBS_REDIS_URL"),
    "an address of Redis": ({"REDIS_URL": f"http://me:{PASSWORD}@host"}, "SAMJOBS_REDIS_URL.*redis"),
    "weights": ({"ENGINE": "sam3", "SAM3_MODEL": "/no/where"}, "/no/where.*no such folder"),
    "a good setting": ({"STALE_JOB_TIMEOUT_SECONDS": "soon"}, "SAMJOBS_STALE_JOB_TIMEOUT_SECONDS.*soon"),
    "a class that does not fork": ({"WORKER_CLASS": "rq.Worker"}, "SAMJOBS_WORKER_CLASS.*CUDA"),
    "a free port": ({"HEALTH_HOST": "192.0.2.1"}, "SAMJOBS_HEALTH_PORT.*192.0.2.1"),
}


@pytest.fixture(autouse=True)
def _signals_as_before() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        pytest.param(*case, id=what, marks=[pytest.mark.needs_torch] * (what == "weights"))
        for what, case in LACKS.items()
    ],
)
def test_what_is_missing_is_told_in_the_last_line(
    machine: Machine,
    settings: dict[str, str],
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for name, value in machine.settings(**settings).items():
        monkeypatch.setenv(name, value)

    assert main() is (Exit.WEIGHTLESS if "SAM3_MODEL" in settings else Exit.MISSING)

    last = caplog.records[-1]
    assert last.levelname == "CRITICAL"
    assert re.search(told, last.getMessage()), f"{told!r} is not in: {last.getMessage()}"
    assert PASSWORD not in caplog.text


def test_a_database_without_tables_is_told_how_to_get_them(machine: Machine) -> None:
    worker = machine.start(DATABASE_URL=machine.database_url.rpartition("/")[0] + "/postgres")
    assert worker.ends() == 3, worker.said
    assert re.search("schema revision none.*samjobs migrate", worker.last_line), worker.said


def test_a_restart_is_another_worker(machine: Machine) -> None:
    first = machine.ready()
    was = machine.listed().incarnation
    first.popen.kill()
    first.ends()
    machine.ready(REGION="asia", POOL="spot")
    machine.until_state(WorkerState.READY)
    now = machine.listed()
    assert now.incarnation != was
    assert (now.pool, now.region, now.device, now.model) == ("spot", "asia", "cpu", "none")


def test_a_device_that_fails_the_canary_takes_no_work(machine: Machine) -> None:
    worker = machine.start(environment={"FAULT_AT": "2"})
    assert worker.ends() == 4, worker.said
    assert "device-side assert" in worker.last_line
    assert machine.listed().state is WorkerState.GONE
