"""Helm of each version that users have, built from its Go module on first use."""

from pathlib import Path

import pytest

from tests.charts.helm import Helm
from tests.cluster import binaries
from tests.conftest import missing


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Building helm, the first time, does not count against a test's time."""
    for item in items:
        if {"helm3", "helm4"} & set(getattr(item, "fixturenames", ())) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(300, func_only=True))


def _built(module: binaries.Program, home: Path) -> Helm:
    lacking = binaries.lacking()
    if lacking is not None:
        missing(lacking)
    return Helm(binaries.built(module), home)


@pytest.fixture(scope="session")
def helm3(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Helm 3."""
    return _built(binaries.HELM3, tmp_path_factory.mktemp("helm3"))


@pytest.fixture(scope="session")
def helm4(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Helm 4."""
    return _built(binaries.HELM4, tmp_path_factory.mktemp("helm4"))


@pytest.fixture
def helm(helm4: Helm) -> Helm:
    """One of them, where it does not matter which: test_versions.py shows that they render alike."""
    return helm4


@pytest.fixture(params=["helm3", "helm4"])
def each_helm(request: pytest.FixtureRequest) -> Helm:
    """Both of them in turn."""
    found: Helm = request.getfixturevalue(request.param)
    return found
