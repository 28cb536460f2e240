"""The engine that a worker keeps: tried on a drawn picture, given up for another, and had back."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from samjobs.errors import DeviceFault, EngineUnfit, ModelUnavailable
from samjobs.segmentation.engines import base, load
from samjobs.segmentation.engines.opencv import OpenCVEngine
from samjobs.settings import Settings
from tests.doubles import BrightEngine
from tests.execution.builders import settings, spec
from worker.metrics import Metrics
from worker.resident import Resident, canary

TINY = Path(__file__).parents[1] / "data" / "sam3-tiny"


def _resident(**changes: object) -> Resident:
    return Resident(_settings(**changes), Metrics())


def _settings(**changes: object) -> Settings:
    return settings(**({"engine": "opencv"} | changes))


def test_a_job_that_wants_this_workers_engine_gets_the_one_that_is_loaded(tmp_path: Path) -> None:
    resident = _resident()
    engine = resident.load()
    assert resident(spec(tmp_path)) is engine
    resident.close()


def test_another_engine_that_cannot_be_had_is_the_jobs_trouble_and_the_own_one_comes_back(tmp_path: Path) -> None:
    resident = _resident()
    first = resident.load()
    with pytest.raises(EngineUnfit, match=r"engine opencv some/model cannot be loaded .* keeps opencv: .*no weights"):
        resident(spec(tmp_path, model="some/model"))
    resident.recover()
    again = resident(spec(tmp_path))
    assert again is not first
    resident.recover()
    assert resident(spec(tmp_path)) is again, "there is nothing to recover from"


@pytest.mark.needs_torch
def test_the_own_engine_that_cannot_be_had_is_this_workers_trouble(tmp_path: Path) -> None:
    resident = _resident(engine="sam3", sam3_model=str(tmp_path / "no weights here"))
    with pytest.raises(ModelUnavailable, match="no weights here"):
        resident.load()
    with pytest.raises(ModelUnavailable):
        resident(spec(tmp_path, engine="sam3"))


@pytest.mark.needs_torch
def test_a_job_that_names_the_weights_that_are_set_gets_the_own_engine(tmp_path: Path) -> None:
    resident = _resident(engine="sam3", sam3_model="some/model")
    assert str(resident.own) == "sam3 some/model"
    with pytest.raises(ModelUnavailable):  # not EngineUnfit: these are its own
        resident(spec(tmp_path, engine="sam3", model="some/model"))


@pytest.mark.needs_torch
def test_sam3_comes_through_the_canary() -> None:
    engine = load("sam3", model=str(TINY), device="cpu")
    canary(engine)
    engine.close()


class Wrong(OpenCVEngine):
    """Answers with something else than what it found."""

    def __init__(self, **changes: Any) -> None:
        super().__init__()
        self._changes = changes

    def segment(self, *arguments: Any) -> Any:
        [[found]] = super().segment(*arguments)
        return [[replace(found, **self._changes)]]


NAN = np.full((1, 4, 4), np.nan, np.float32)
ONE = np.ones(1, np.float32)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"scores": ONE[:0], "boxes": np.zeros((0, 4), np.float32)}, "finds nothing"),
        ({"scores": ONE * np.nan}, "not finite"),
        ({"boxes": np.zeros((1, 3), np.float32)}, "shape"),
        ({"boxes": np.array([[0, 0, 1, 1]], np.float32)}, "is found at"),
        ({"logits": NAN, "crops": None}, "logits"),
        ({"logits": NAN[0], "crops": None}, "logits"),
    ],
    ids=["nothing", "not a number", "half a box", "the wrong place", "broken logits", "flat logits"],
)
def test_nonsense_is_a_fault_of_the_device(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(DeviceFault, match=told):
        canary(Wrong(**changes))


def test_any_engine_is_asked_at_the_size_that_it_works_at() -> None:
    sizes: list[tuple[int, ...]] = []
    engine = BrightEngine(before=lambda images: sizes.extend(image.shape for image in images))
    assert isinstance(engine.info.input_size, base.Square)
    canary(engine)
    assert sizes == [(engine.info.input_size.side, engine.info.input_size.side, 3)]
