"""How is one queue measured, so that all of them are measured alike?

From one process, in one thread: submit jobs that do nothing, start the system's worker and see how fast it works them
off, then hand in one job at a time while nothing else is to do, to all systems in turn. A worker tells of each job by
two readings of the clock that all processes of a machine share, when its work began and when it was done, over a pipe.
"""

import os
import random
import select
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PIPE = "SAMJOBS_BENCH_PIPE"  # the number of its end for writing, in a worker's environment
_MARK = struct.Struct("<qq")
_PATIENCE_S = 60.0
_LEAVE_S = 3.0  # for a process that was asked to end
_SETTLE_S = 0.5  # between a backlog and the first lone job
_GAP_S = (0.02, 0.06)  # between two lone jobs: long enough for a system to tidy up, and no rhythm


@dataclass(frozen=True)
class System:
    """One queue: how a job is handed in, and what must run for it to be worked off."""

    name: str
    submit: Callable[[int], object]  # numbers differ
    processes: Sequence[Sequence[str]]  # arguments of Python; the worker's are the last
    environment: Mapping[str, str] = field(default_factory=dict)


def worker(module: str, *addresses: str) -> list[str]:
    """The arguments by which Python runs `module.work(*addresses)`."""
    return ["-m", "benchmarks.queue_worker", module, *addresses]


class Teller:
    """In a worker: tells the benchmark of every job."""

    def __init__(self) -> None:
        self._pipe = int(os.environ[PIPE])

    def tell(self, began_ns: int) -> None:
        """A job that began at `began_ns` (time.monotonic_ns) is done now."""
        os.write(self._pipe, _MARK.pack(began_ns, time.monotonic_ns()))

    def nothing(self) -> None:
        """The job that does nothing."""
        self.tell(time.monotonic_ns())


class Worked:
    """The benchmark's end of the pipe."""

    def __init__(self, pipe: int, processes: Sequence["subprocess.Popen[bytes]"], log: Path) -> None:
        self._pipe, self._processes, self._log = pipe, processes, log

    def one(self) -> tuple[int, int]:
        """The next job's beginning and end, in ns."""
        until = time.monotonic() + _PATIENCE_S
        while not select.select([self._pipe], [], [], 0.5)[0]:
            if time.monotonic() > until or any(process.poll() is not None for process in self._processes):
                raise RuntimeError(
                    f"a process ended, or no job was done for too long:\n{self._log.read_text()[-4000:]}"
                )
        began, done = _MARK.unpack(os.read(self._pipe, _MARK.size))
        return began, done

    @contextmanager
    def held(self) -> Iterator[None]:
        """Nothing is worked off in the block."""
        worker = self._processes[-1]
        worker.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            worker.send_signal(signal.SIGCONT)

    def rate(self, jobs: int) -> float:
        """Jobs per second from the first one's beginning to the last one's end, the start of processes left out."""
        marks = [self.one() for _ in range(jobs)]
        return (jobs - 1) / ((marks[-1][1] - marks[0][1]) / 1e9)


@contextmanager
def running(system: System) -> Iterator[Worked]:
    """The system's processes, until the end of the block."""
    receiver, sender = os.pipe()
    environment = {**os.environ, **system.environment, PIPE: str(sender)}
    processes: list[subprocess.Popen[bytes]] = []
    with tempfile.NamedTemporaryFile(prefix="samjobs-bench-", suffix=".log") as log:
        try:
            for arguments in system.processes:
                command = [sys.executable, *arguments]
                processes.append(
                    subprocess.Popen(command, env=environment, pass_fds=[sender], stdout=log, stderr=subprocess.STDOUT)
                )
            os.close(sender)
            yield Worked(receiver, processes, Path(log.name))
        finally:
            for process in reversed(processes):
                _end(process)
            os.close(receiver)


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(_LEAVE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def submit_rate(system: System, jobs: int) -> float:
    """Jobs per second that one thread hands in."""
    started = time.perf_counter()
    for number in range(jobs):
        system.submit(number)
    return jobs / (time.perf_counter() - started)


@dataclass(frozen=True)
class Pickups:
    """Milliseconds to the beginning of the work, one value per lone job."""

    from_commit: list[float]  # from the return of the call that hands it in
    from_call: list[float]  # from that call's beginning

    def row(self, name: str) -> dict[str, Any]:
        """For a table."""
        return {
            "system": name,
            "p50 ms": _at(self.from_commit, 50),
            "p90 ms": _at(self.from_commit, 90),
            "p99 ms": _at(self.from_commit, 99),
            "p50 ms with the submitting": _at(self.from_call, 50),
            "samples": len(self.from_commit),
        }

    @property
    def p50_ms(self) -> float:
        return _at(self.from_commit, 50)

    @property
    def p99_ms(self) -> float:
        return _at(self.from_commit, 99)


@dataclass(frozen=True)
class Trial:
    """A system that has worked off its backlog and waits for more."""

    system: System
    worked: Worked
    submit_per_s: float
    jobs_per_s: float


def begin(stack: ExitStack, system: System, backlog: int) -> Trial:
    """Hand a backlog in and let one worker work it off; its processes go on until `stack` ends."""
    submitted = submit_rate(system, backlog)
    worked = stack.enter_context(running(system))
    return Trial(system, worked, submitted, worked.rate(backlog))


def pickups(trials: Sequence[Trial], samples: int) -> dict[str, Pickups]:
    """By system, how soon a lone job is taken up, `samples` times.

    All systems take turns, in an order by chance, so that whatever else the machine does falls on all of them. Each
    job is handed in when the one before is done and a short while, by chance, has gone by.
    """
    chance = random.Random(1)
    found = {trial.system.name: Pickups([], []) for trial in trials}
    time.sleep(_SETTLE_S)
    for number in range(samples):
        for trial in chance.sample(trials, len(trials)):
            time.sleep(chance.uniform(*_GAP_S))
            called = time.monotonic_ns()
            trial.system.submit(-1 - number)
            returned = time.monotonic_ns()
            began, _ = trial.worked.one()
            of_system = found[trial.system.name]
            of_system.from_commit.append((began - returned) / 1e6)
            of_system.from_call.append((began - called) / 1e6)
    return found


def _at(values: Sequence[float], percent: int) -> float:
    """A percentile, by the nearest rank: a value that was seen."""
    ranked = sorted(values)
    return ranked[max(0, -(-len(ranked) * percent // 100) - 1)]
