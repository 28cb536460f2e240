"""Engines by name, and which are available."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from samjobs.errors import InvalidInput, ModelUnavailable
from samjobs.segmentation import engines
from samjobs.segmentation.engines import catalogue

TINY = Path(__file__).parents[2] / "data" / "sam3-tiny"


def run(program: str) -> str:
    """What a fresh interpreter prints."""
    return subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout


def test_an_unknown_engine_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match="'sam4' is unknown: give one of sam3, sam3-meta, opencv"):
        engines.load("sam4")


@pytest.mark.needs_torch
def test_sam3_is_loaded_by_its_name() -> None:
    engine = engines.load("sam3", model=str(TINY), device="cpu")
    assert engine.info.name == "sam3"
    engine.close()


def test_opencv_is_loaded_without_torch() -> None:
    loaded = run(
        "import sys\nfrom samjobs.segmentation import engines\n"
        "engine = engines.load('opencv', device='cpu', batch=4)\n"
        "print(engine.info.name, [m for m in ('torch', 'transformers', 'sam3') if m in sys.modules])"
    )
    assert loaded == "opencv []\n"


@pytest.mark.parametrize("option", ["model", "revision"])
def test_opencv_has_no_weights_to_choose(option: str) -> None:
    with pytest.raises(InvalidInput, match=f"{option} 'x': engine opencv has no weights"):
        engines.load("opencv", **{option: "x"})


def test_a_missing_extra_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "find_spec", lambda module: None if module == "transformers" else object())
    with pytest.raises(ModelUnavailable, match=r"engine sam3 needs transformers: `make sam3`"):
        engines.load("sam3")
    by_name = {status.name: status for status in engines.available()}
    assert not by_name["sam3"].installed
    assert by_name["sam3"].remedy == (
        'transformers not installed: `make sam3` in a checkout, or pip install "samjobs[sam3]"'
    )
    assert by_name["sam3"].device == ""


def test_what_is_available_is_told_with_weights_device_and_licence() -> None:
    by_name = {status.name: status for status in engines.available({"sam3": str(TINY)}, device="cpu")}
    assert list(by_name) == ["sam3", "sam3-meta", "opencv"]
    sam3, opencv = by_name["sam3"], by_name["opencv"]
    assert sam3.installed
    assert sam3.device == "cpu"
    assert sam3.weights == f"{TINY / 'model.safetensors'} (3,590,130 bytes)"
    assert set(sam3.versions) == {"torch", "torchvision", "transformers"}
    assert "SAM License" in sam3.licence
    assert (opencv.device, opencv.weights, opencv.remedy) == ("cpu", "none needed", "")
    assert "no model" in opencv.about


def test_weights_that_are_not_there_are_told_without_asking_the_hub() -> None:
    (sam3, meta, _) = engines.available({"sam3": "/no/such/folder", "sam3-meta": "/no/such/sam3.pt"}, device="cpu")
    assert sam3.weights.startswith("/no/such/folder/model.safetensors is missing: copy it there")
    assert meta.weights.startswith("/no/such/sam3.pt is missing: copy it there")


def test_weights_in_several_files_are_told_as_the_engine_would_load_them(tmp_path: Path) -> None:
    for name in ("one.safetensors", "two.safetensors"):
        (tmp_path / name).write_bytes(b"12345")
    index = {"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert engines.available({"sam3": str(tmp_path)}, device="cpu")[0].weights == f"{tmp_path} (2 files, 10 bytes)"


def test_a_hub_model_that_was_never_downloaded_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    assert engines.available(device="cpu")[0].weights.startswith("not downloaded: fetched from the hub")


def test_a_device_that_cannot_be_used_is_told_and_not_raised() -> None:
    status = engines.available(device="cuda:7")[0]
    assert status.device == ""
    assert "CUDA_VISIBLE_DEVICES=7" in status.remedy
