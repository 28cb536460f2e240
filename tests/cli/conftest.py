"""`samjobs`: the command in a folder of its own."""

from pathlib import Path

import pytest

from tests.cli.command import Samjobs


@pytest.fixture
def samjobs(tmp_path: Path) -> Samjobs:
    """The command without photos yet: each test draws its own."""
    return Samjobs(tmp_path)
