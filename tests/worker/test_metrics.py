"""What a worker tells Prometheus of its work."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from prometheus_client.parser import text_string_to_metric_families as families

from samjobs.metrics import STAGES
from tests import redis_server as redis_servers
from tests.postgres import database
from tests.worker.machine import Machine, Process


@pytest.fixture(scope="module")
def worked(
    postgres_server: str, redis_server: redis_servers.Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Machine, Process]]:
    """A worker of a pool of its own, which has done a job of three photos and found the same ones unchanged."""
    with ExitStack() as stack:
        url = stack.enter_context(database(postgres_server))
        redis_server.forget()
        machine = Machine(tmp_path_factory.mktemp("machine"), url, redis_server.url)
        stack.callback(machine.close)
        worker = machine.ready(POOL="spot")
        for _ in range(2):
            job_id = machine.job("photos", 3)
            machine.send(job_id)
            assert machine.until_ended(job_id).state.value == "succeeded"
        yield machine, worker


def told(worker: Process) -> dict[str, float]:
    return {
        f"{one.name} {sorted(one.labels.items())}": one.value
        for family in families(worker.probe("metrics")[1])
        for one in family.samples
    }


def test_each_stage_of_what_was_done_took_time(worked: tuple[Machine, Process]) -> None:
    _, worker = worked
    spent = {stage: worker.metric(f'samjobs_worker_stage_seconds_total{{stage="{stage}"}}') for stage in STAGES}
    assert all(seconds > 0 for seconds in spent.values()), spent
    in_hand = worker.metric("samjobs_worker_busy_seconds_total")
    assert spent["segment"] < in_hand, "a device is busy for no longer than its worker"


def test_what_came_of_images_and_of_shards_is_told(worked: tuple[Machine, Process]) -> None:
    _, worker = worked
    assert worker.metric('samjobs_worker_images_total{outcome="done"}') == 3
    assert worker.metric('samjobs_worker_images_total{outcome="skipped"}') == 3
    assert worker.metric('samjobs_worker_shards_total{end="finished"}') == 2
    assert worker.metric("samjobs_worker_pickup_seconds_count") == 2
    assert worker.metric("samjobs_worker_last_progress_timestamp_seconds") > 1_700_000_000
    assert worker.metric("samjobs_worker_busy") == 0


def test_what_is_loaded_and_how_much_memory_it_takes_is_told(worked: tuple[Machine, Process]) -> None:
    _, worker = worked
    assert worker.metric('samjobs_worker_engine_info{engine="opencv",device="cpu"}') == 1
    assert worker.metric("samjobs_worker_model_load_seconds") > 0
    assert worker.metric("process_resident_memory_bytes") > 2**20
    assert worker.metric("samjobs_worker_oom_shrinks_total") == 0
    assert "samjobs_worker_gpu_memory_bytes{" not in worker.probe("metrics")[1], "there is no GPU"


def test_every_metric_of_a_worker_names_its_region_and_pool(worked: tuple[Machine, Process]) -> None:
    _, worker = worked
    for sample in told(worker):
        if not sample.startswith("process_"):
            assert "('pool', 'spot')" in sample
            assert "('region', 'default')" in sample


def test_more_jobs_add_no_series(worked: tuple[Machine, Process]) -> None:
    machine, worker = worked
    before = told(worker).keys()
    assert len(before) < 150
    for number in range(5):
        machine.done(f"more-{number}")
    assert told(worker).keys() == before
