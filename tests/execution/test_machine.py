"""Engines and access, as this machine's settings have them."""

from pathlib import Path

import pytest

from samjobs.errors import InvalidInput
from samjobs.execution.machine import Engines, access_for
from tests.execution.builders import settings, spec


def test_jobs_that_ask_for_the_same_engine_get_the_one_that_is_loaded(tmp_path: Path) -> None:
    with Engines(settings()) as engines:
        first = engines(spec(tmp_path / "a"))

        assert engines(spec(tmp_path / "b")) is first
        with pytest.raises(InvalidInput, match="no weights"):
            engines(spec(tmp_path, model="some/model"))
        assert engines(spec(tmp_path)) is not first, "one at a time: the first one was given back for the other"


def test_hosts_and_networks_that_are_allowed_are_told_apart() -> None:
    access = access_for(settings(allowed_hosts="minio.local, 10.0.0.0/8,192.168.1.7"))

    assert access.hosts == ("minio.local",)
    assert access.networks == ("10.0.0.0/8", "192.168.1.7")
