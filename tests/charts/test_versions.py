"""Helm 3 and 4 render alike, and lint finds nothing."""

import pytest
import yaml

from tests.charts.helm import Helm, plain
from tests.charts.sets import SETS
from tools.chart import CHART

# What is made by chance.
_SETS = [name for name in SETS if "embedded" not in name and "trial" not in name]


@pytest.mark.parametrize("name", _SETS)
def test_both_versions_render_the_same_objects(helm3: Helm, helm4: Helm, name: str) -> None:
    assert helm3.template(SETS[name]).objects == helm4.template(SETS[name]).objects


@pytest.mark.parametrize("name", SETS)
def test_lint_finds_nothing(each_helm: Helm, name: str) -> None:
    given = yaml.safe_dump(plain(SETS[name]))
    told = each_helm.run("lint", "--strict", str(CHART), "--values", "-", given=given)
    assert "0 chart(s) failed" in told
