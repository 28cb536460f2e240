"""Machines of the tests' own: one per test, or one per module with a worker that all its tests share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.worker.machine import Machine


@pytest.fixture
def machine(tmp_path: Path, postgres_url: str, redis_url: str) -> Iterator[Machine]:
    opened = Machine(tmp_path, postgres_url, redis_url)
    yield opened
    opened.close()
