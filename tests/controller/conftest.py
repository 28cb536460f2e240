"""A world for the steps, and a receiver of webhooks."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controller.receiver import Receiver
from tests.controller.world import World, opened


@pytest.fixture
def receiver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """An https server whose certificate this process trusts."""
    one = Receiver(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(one.authority))
    yield one
    one.close()


@pytest.fixture
def world(postgres_url: str, redis_url: str) -> Iterator[World]:
    """A controller with default settings."""
    with opened(postgres_url, redis_url) as one:
        yield one
