"""`samjobs`: the command in a folder of its own. `postgres_table`, `table`: the command on a job table."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from samjobs.store import Store, connect
from tests.cli.command import Samjobs
from tests.cli.job_table import JobTable


@pytest.fixture
def samjobs(tmp_path: Path) -> Samjobs:
    """The command without photos yet: each test draws its own."""
    return Samjobs(tmp_path)


@pytest.fixture
def postgres_table(postgres_url: str, tmp_path: Path) -> Iterator[JobTable]:
    """The command on a Postgres."""
    store = connect(postgres_url)
    yield JobTable(postgres_url, tmp_path, store)
    store.close()


@pytest.fixture
def table(store: Store, store_url: str, tmp_path: Path) -> JobTable:
    """The command on each of the two databases in turn."""
    return JobTable(store_url, tmp_path, store)
