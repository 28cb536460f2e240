"""The examples for Kubernetes are what they say: objects that the models take, and values that the chart takes."""

from typing import Any

import pytest
import yaml

from samjobs.names import API_VERSION, JOB_KIND, POOL_KIND
from samjobs.pool import PoolSpec
from samjobs.spec import JobSpec, Mode, parse
from tools.chart import ROOT

FOLDER = ROOT / "examples/kubernetes"
OBJECTS = [path for path in sorted(FOLDER.glob("*.yaml")) if "kind:" in path.read_text()]


def load(path: Any) -> dict[str, Any]:
    data: dict[str, Any] = yaml.safe_load(path.read_text())
    return data


@pytest.mark.parametrize("path", OBJECTS, ids=lambda path: path.stem)
def test_an_object_is_one_that_the_models_take(path: Any) -> None:
    one = load(path)
    assert one["apiVersion"] == API_VERSION
    parse({JOB_KIND: JobSpec, POOL_KIND: PoolSpec}[one["kind"]], one["spec"], path.name)


def test_there_is_a_job_of_each_mode() -> None:
    jobs = [load(path)["spec"] for path in OBJECTS if load(path)["kind"] == JOB_KIND]
    assert {job.get("mode", Mode.FIND_ALL.value) for job in jobs} == {mode.value for mode in Mode}
