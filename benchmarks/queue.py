"""How fast does work reach a worker, and what does a queue cost beside it? samjobs against queues that only queue.

All systems run against the same Postgres, which keeps what it commits, and the same Redis, one after the other, with
their own defaults. samjobs runs as it is deployed, controller and worker as processes of their own: a job goes from
the table through the controller to Redis and from there to the worker, two hops where the others have one. The share
of heartbeats that touch no index and the tables of `claims.py` follow.
"""

from contextlib import ExitStack
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from benchmarks import claims, queue_heartbeats, queue_samjobs
from benchmarks.queue_servers import servers
from benchmarks.queue_trial import Pickups, Trial, begin, pickups
from benchmarks.report import Section, main

OURS = queue_samjobs.NAME
RULE = "RQ"  # the system that ours is judged by
OTHERS = ("rq", "celery", "procrastinate", "pgqueuer")  # what is imported, and the end of our module's name


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    backlog: int
    samples: int
    dispatched: int
    beats: int
    claims: int


FULL, QUICK = Sizes(1000, 400, 4000, 4000, 300), Sizes(50, 60, 200, 400, 20)


def measure(quick: bool) -> list[Section]:
    """All tables."""
    sizes = QUICK if quick else FULL
    with servers() as both:
        with ExitStack() as stack:
            ours = queue_samjobs.begin(stack, both, sizes.backlog)
            trials = [ours.trial]
            for name in OTHERS:
                if find_spec(name) is not None:
                    system = stack.enter_context(import_module(f"benchmarks.queue_{name}").system(both))
                    trials.append(begin(stack, system, sizes.backlog))
            picked_up = pickups(trials, sizes.samples)
            shapes = ours.rates(sizes.backlog)
        dispatched = queue_samjobs.dispatch_rates(both, sizes.dispatched)
        with both.ours() as database:
            beats = queue_heartbeats.hot(database, sizes.beats)
        claimed = claims.run_cases(both.postgres, claims.cases(quick), sizes.claims)
    return [
        _submitted(trials),
        _picked_up(picked_up),
        _worked_off(trials, shapes),
        _dispatched(dispatched),
        _beats(beats),
        claims.section(claimed),
    ]


def _submitted(trials: list[Trial]) -> Section:
    figures = {trial.system.name: trial.submit_per_s for trial in trials}
    rows = [{"system": name, "submit/s": rate} for name, rate in figures.items()]
    note = "samjobs: a job with a list of one image, checked, and written whole in one transaction."
    missing = [name for name in OTHERS if find_spec(name) is None]
    if missing:
        note += f"\nLeft out, not installed: {', '.join(missing)}. To add them: uv pip install -e '.[bench]'"
    return Section("Submitting from one process, one thread", rows, note, {"submit_per_s": figures})


def _picked_up(measured: dict[str, Pickups]) -> Section:
    rule = measured[RULE].p50_ms if RULE in measured else None
    rows = [
        one.row(name) | {f"p50 in {RULE}'s": None if rule is None else one.p50_ms / rule}
        for name, one in measured.items()
    ]
    note = (
        "From the return of the call that submits, which is the commit, to the beginning of the work in the worker;"
        " all systems in turn.\nsamjobs: the beginning of the shard's run, after its start was committed."
    )
    figures = {
        "pickup_p50_ms": {name: one.p50_ms for name, one in measured.items()},
        "pickup_p99_ms": {name: one.p99_ms for name, one in measured.items()},
    }
    return Section("Pickup of a lone job", rows, note, figures)


def _worked_off(trials: list[Trial], shapes: dict[str, float]) -> Section:
    rows = [{"system": OURS, "work": work, "per s": rate} for work, rate in shapes.items()]
    rows += [
        {"system": trial.system.name, "work": "jobs that do nothing", "per s": trial.jobs_per_s}
        for trial in trials
        if trial.system.name != OURS
    ]
    figures = {trial.system.name: trial.jobs_per_s for trial in trials} | {OURS: shapes[queue_samjobs.BARE_JOBS]}
    return Section("A backlog worked off by one worker", rows, queue_samjobs.NOTE, {"shards_per_s": figures})


def _dispatched(rows: list[dict[str, Any]]) -> Section:
    note = "The controller's step alone: view, plan, claim, commit, push to Redis. Without its caps of shards at work."
    return Section("Dispatching", rows, note, {"dispatch_per_s": rows[0]["shards/s"]})


def _beats(rows: list[dict[str, Any]]) -> Section:
    title = f"Heartbeats over {queue_heartbeats.RUNNING} running shards and their workers"
    return Section(title, rows, figures={"hot_share": min(row["share %"] for row in rows) / 100})


if __name__ == "__main__":
    main(__doc__ or "", measure)
