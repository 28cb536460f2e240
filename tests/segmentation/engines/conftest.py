"""The tiny SAM 3, loaded once per session."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from samjobs.segmentation.engines.torch_engine import TorchEngine


@pytest.fixture(scope="session")
def tiny_engine() -> "Iterator[TorchEngine]":
    """The sam3 engine with the tiny checkpoint on the CPU, four images per batch."""
    # Imported here: the tests of the opencv engine need no torch.
    import torch

    from samjobs.segmentation.engines import sam3
    from tests.segmentation.engines.tiny import TINY

    # The tiny model's tensors are too small for a second thread to be worth its start.
    torch.set_num_threads(1)
    engine = sam3.load(model=str(TINY), device="cpu", batch=4)
    yield engine
    engine.close()
