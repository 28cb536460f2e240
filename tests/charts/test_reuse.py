"""`helm upgrade --reuse-values` brings the values of an older chart: those that came later are missing, whole maps of
them too. The chart renders all the same. Here each map of values.yaml is emptied and taken out in turn."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.charts.helm import Helm
from tests.charts.sets import EXTERNAL, MONITORED, everything
from tools.chart import CHART, Value, values

ON = {"embedded": {"enabled": True}, "networkPolicy": {"enabled": True}, **MONITORED}


def maps(of: tuple[Value, ...]) -> Iterator[tuple[str, ...]]:
    """Paths of all maps."""
    for one in of:
        if isinstance(one.default, dict):
            yield one.path
        yield from maps(one.inner)


def without(path: tuple[str, ...], *, emptied: bool) -> dict[str, Any]:
    """The default values, less what is below a path, or less the path too."""
    data: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
    inner = data
    for key in path[:-1]:
        inner = inner[key]
    if emptied:
        inner[path[-1]] = {}
    else:
        del inner[path[-1]]
    return data


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """A copy of the chart whose values.yaml a test may write, since helm adds all that is in it."""
    copy = tmp_path / "samjobs"
    shutil.copytree(CHART, copy)
    return copy


@pytest.mark.parametrize("path", list(maps(values())), ids=".".join)
def test_values_that_came_later_may_be_missing(helm3: Helm, older: Path, path: tuple[str, ...]) -> None:
    for emptied in (True, False):
        (older / "values.yaml").write_text(yaml.safe_dump(without(path, emptied=emptied)))
        helm3.template(ON, chart=older)


@pytest.mark.parametrize("given", [dict(EXTERNAL), everything()], ids=["the least", "everything"])
def test_without_any_defaults_it_still_renders(helm: Helm, older: Path, given: dict[str, Any]) -> None:
    (older / "values.yaml").write_text("{}")
    image = {"repository": "samjobs-controller"}
    assert helm.template({**given, "image": image}, chart=older).one("Deployment", "samjobs-controller")
