"""The chart's README and schema are what values.yaml and the code make now."""

import json
from pathlib import Path

import pytest
import yaml

from samjobs import __version__
from samjobs.settings import Settings
from tools.chart import CHART, OWN_VALUE, ROOT, Value, pages, values


@pytest.mark.parametrize("name", sorted(pages()))
def test_a_generated_file_is_fresh(name: str) -> None:
    assert (ROOT / name).read_text() == pages()[name], f"{name} is stale: run `python -m tools.chart` and commit it"


def test_every_value_is_explained() -> None:
    def silent(of: tuple[Value, ...]) -> list[str]:
        return [name for one in of for name in ([one.name] if not one.told and not one.inner else silent(one.inner))]

    # Fields of a budget, which are those of a PodDisruptionBudget.
    assert [name for name in silent(values()) if ".podDisruptionBudget." not in name] == []


def test_the_chart_installs_the_version_that_it_comes_with() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == __version__


def test_settings_that_a_value_makes_are_settings() -> None:
    later = {"kubernetes_config", "pod_name", "model_sha256"}  # of the operator and its pods
    assert set(Settings.model_fields) >= OWN_VALUE - later


def test_the_schema_refuses_unknown_values_at_every_level() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    open_maps = list(_open(schema, Path("values")))
    assert [str(path) for path in open_maps] == ["values/global"]


def _open(schema: dict[str, object], path: Path) -> list[Path]:
    """Maps with named keys that take others too."""
    inner = schema.get("properties", {})
    assert isinstance(inner, dict)
    own = [path] if inner and schema.get("additionalProperties") is not False else []
    return own + [found for name, one in inner.items() for found in _open(one, path / name)]
