"""The table of metrics keeps Prometheus' conventions, and a board tells what it is told."""

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families as families

from controller.loop import ALL
from samjobs.errors import InvalidInput
from samjobs.execution.shard import End
from samjobs.metrics import (
    API_SECONDS,
    BUILD,
    ERRORS,
    JOBS,
    MULTIPROCESS,
    SHARD_ENDS,
    SHARD_STATES,
    TABLE,
    WORKER_BUSY,
    WORKER_GPU_MEMORY,
    WORKER_IMAGES,
    WORKER_SHARDS,
    WORKER_SHRINKS,
    WORKER_STATES,
    Board,
    Kind,
    Metric,
    Process,
)
from samjobs.store.rows import RegionStatus, WorkerState
from worker.metrics import BROKEN, CRITICAL, STALE

METRICS = {metric.name: metric for metrics in TABLE.values() for metric in metrics}
# What would make a series of each job, shard, pod, person or photo.
UNBOUNDED = {"job", "shard", "image", "pod", "worker", "tenant", "namespace", "user", "uri", "name_of_job", "message"}


@pytest.mark.parametrize("metric", METRICS.values(), ids=lambda metric: metric.name)
def test_a_metric_is_named_and_told_as_prometheus_wants_it(metric: Metric) -> None:
    assert metric.name.startswith("samjobs_")
    assert metric.name.endswith("_total") == (metric.kind is Kind.COUNTER)
    assert metric.told.endswith(".")
    assert bool(metric.buckets) == (metric.kind is Kind.HISTOGRAM)
    assert list(metric.buckets) == sorted(set(metric.buckets))
    assert not UNBOUNDED & set(metric.labels)
    assert all(len(values) == len(metric.labels) for values in metric.known)
    if metric.kind is Kind.HISTOGRAM:
        assert metric.name.endswith("_seconds")


def test_words_that_the_table_repeats_are_those_of_their_owners() -> None:
    assert set(SHARD_ENDS) == {end.value for end in End} | {STALE, CRITICAL, BROKEN}
    assert set(WORKER_STATES) == {state.value for state in WorkerState} - {"gone"} | {"silent"}
    assert all(f"shards_{state}" in RegionStatus.__dataclass_fields__ for state in SHARD_STATES)
    steps = {step.name for step in ALL}
    assert steps <= {values[0] for values in ERRORS.known}


def samples(board: Board) -> dict[tuple[str, ...], float]:
    """Name and label values, sorted → value."""
    return {
        (one.name, *(f"{label}={value}" for label, value in sorted(one.labels.items()))): one.value
        for family in families(generate_latest(board.registry).decode())
        for one in family.samples
    }


@pytest.fixture
def board() -> Board:
    return Board(Process.WORKER, region="eu", pool="gpu")


def test_what_is_known_is_there_from_the_start_at_zero(board: Board) -> None:
    told = samples(board)
    assert told["samjobs_worker_images_total", "outcome=failed", "pool=gpu", "region=eu"] == 0
    assert told["samjobs_worker_instances_total", "pool=gpu", "region=eu"] == 0
    assert ("samjobs_jobs", "state=queued") in samples(Board(Process.CONTROLLER))


def test_a_counter_counts_and_its_creation_is_no_series(board: Board) -> None:
    board.inc(WORKER_IMAGES, 2, "done")
    board.inc(WORKER_SHARDS, 1, "finished")
    told = samples(board)
    assert told["samjobs_worker_images_total", "outcome=done", "pool=gpu", "region=eu"] == 2
    assert not [name for name, *_ in told if name.endswith("_created")]


def test_a_gauge_that_is_replaced_forgets_what_is_not_told_again() -> None:
    board = Board(Process.CONTROLLER)
    for regions in (["eu", "us"], ["us"]):
        board.replace(METRICS["samjobs_workers_ended_young"], {(region,): 1.0 for region in regions})
    told = {key for key in samples(board) if key[0] == "samjobs_workers_ended_young"}
    assert told == {("samjobs_workers_ended_young", "region=us")}


def test_what_is_watched_is_asked_at_each_scrape(board: Board) -> None:
    shrunk = iter([1, 5])
    taken: dict[tuple[str, ...], float] = {}
    board.watch(WORKER_SHRINKS, lambda: next(shrunk))
    board.watch(WORKER_GPU_MEMORY, lambda: taken)
    assert samples(board)["samjobs_worker_oom_shrinks_total", "pool=gpu", "region=eu"] == 1
    taken["peak",] = 7.0
    told = samples(board)
    assert told["samjobs_worker_oom_shrinks_total", "pool=gpu", "region=eu"] == 5
    assert told["samjobs_worker_gpu_memory_bytes", "kind=peak", "pool=gpu", "region=eu"] == 7


def test_every_process_tells_its_version_and_its_memory() -> None:
    for process in Process:
        told = samples(Board(process))
        assert [key for key in told if key[0] == BUILD.name and f"process={process.value}" in key]
        assert told["process_resident_memory_bytes",] > 0


def test_a_metric_of_another_process_cannot_be_told(board: Board) -> None:
    with pytest.raises(KeyError):
        board.set(JOBS, 1, "queued")


def test_a_gauge_and_a_counter_are_not_mistaken(board: Board) -> None:
    with pytest.raises(AssertionError, match=WORKER_BUSY.name):
        board.inc(WORKER_BUSY)
    with pytest.raises(AssertionError, match=API_SECONDS.name):
        Board(Process.API).inc(API_SECONDS, 1, "/jobs", "GET", "2xx")


@pytest.mark.parametrize("name", MULTIPROCESS)
def test_the_clients_mode_of_several_processes_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "/var/run/prometheus")
    with pytest.raises(InvalidInput, match=f"{name}.*/var/run/prometheus.*unset it"):
        Board(Process.API)
