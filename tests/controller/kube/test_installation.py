"""What a controller makes of the file that the chart renders."""

import logging
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.kube.installation import read
from samjobs.errors import InvalidInput

LEAST: dict[str, Any] = {"namespace": "samjobs", "worker": {"image": "samjobs-worker:1"}}


@pytest.fixture
def file(tmp_path: Path) -> Any:
    """Writes the file."""

    def of(**fields: Any) -> Path:
        path = tmp_path / "kubernetes.yaml"
        path.write_text(yaml.safe_dump({**LEAST, **fields}))
        return path

    return of


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        pytest.param(
            {"name": "a", "spec": {"scaling": {"minReplicas": 3}}},
            ["default pool a", "defaultPools.0: spec.scaling", "minReplicas 3 is above maxReplicas 1"],
            id="two fields that contradict each other",
        ),
        pytest.param({"name": "A"}, ["default pool A", "defaultPools.0: name"], id="a name of no object"),
        pytest.param({"spec": {}}, ["defaultPools.0: name"], id="no name"),
        pytest.param("a", ["defaultPools.0"], id="no map"),
    ],
)
def test_a_wrong_default_pool_is_told_of_and_left_out(
    file: Any, caplog: pytest.LogCaptureFixture, wrong: Any, told: list[str]
) -> None:
    with caplog.at_level(logging.ERROR, logger="controller"):
        found = read(file(defaultPools=[wrong, {"name": "b"}]))
    assert [pool.name for pool in found.default_pools] == ["b"]
    (record,) = caplog.records
    assert [
        word for word in [*told, "correct it in the chart's value `pools`"] if word not in record.getMessage()
    ] == []


def test_what_is_wrong_beside_the_pools_ends_it(file: Any) -> None:
    with pytest.raises(InvalidInput, match=r"kubernetes\.yaml: watchNamespaces\.0"):
        read(file(watchNamespaces=["Team A"]))
