"""The sam3 engine on the tiny checkpoint: what it finds, how it loads, and what it refuses to load."""

import gc
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers.utils import logging as transformers_logging

from samjobs.errors import DeviceFault, InvalidInput, ModelUnavailable, PromptError
from samjobs.segmentation.engines import sam3
from samjobs.segmentation.engines.base import Query, Square
from samjobs.segmentation.engines.torch_engine import TorchEngine
from samjobs.spec import Mode
from tests.segmentation.engines.tiny import (
    FIRST_SEED,
    TINY,
    ask,
    box_fractions,
    centre_fractions,
    full_masks,
    overlap,
    tallies,
)
from tools.tiny_sam3.evaluate import Tally, held_out

pytestmark = pytest.mark.needs_torch


@pytest.fixture(scope="module")
def figures(tiny_engine: TorchEngine) -> dict[str, Tally]:
    return tallies(tiny_engine, scenes=40)


@pytest.mark.parametrize(
    ("family", "recall", "precision"),
    [
        pytest.param("colour+shape", 0.93, 0.93, id="red circle"),
        pytest.param("shape", 0.90, 0.90, id="circle"),
        pytest.param("colour", 0.93, 0.93, id="red shape"),
        pytest.param("any", 0.93, 0.93, id="shape"),
        pytest.param("exemplar box", 0.88, 0.86, id="like this box"),
        pytest.param("exemplar + negative box", 0.88, 0.80, id="like this box, not like that"),
        pytest.param("text + negative box", 0.75, 0.85, id="shape, not like this box"),
    ],
)
def test_find_all_finds_every_matching_object_and_nothing_else(
    figures: dict[str, Tally], family: str, recall: float, precision: float
) -> None:
    tally = figures[family]
    assert tally.prompts > 20
    assert tally.recall is not None
    assert tally.recall >= recall
    assert tally.precision is not None
    assert tally.precision >= precision
    assert tally.mask_iou is not None
    assert tally.mask_iou >= 0.87


@pytest.mark.parametrize("family", ["absent", "unknown word"])
def test_what_is_not_in_the_picture_is_not_found(figures: dict[str, Tally], family: str) -> None:
    assert figures[family].prompts == 40
    assert figures[family].exact >= 38


@pytest.mark.parametrize("mode", [Mode.POINT, Mode.INSIDE_BOX])
def test_a_click_or_box_gives_the_object_there(tiny_engine: TorchEngine, mode: Mode) -> None:
    overlaps = []
    for number in range(40):
        scene = held_out(number, FIRST_SEED)
        objects = range(len(scene.kinds))
        if mode is Mode.POINT:
            queries = [Query(points=(centre_fractions(scene, i),), positives=(True,)) for i in objects]
        else:
            queries = [Query(boxes=(box_fractions(scene, i),), positives=(True,)) for i in objects]
        (answers,) = ask(tiny_engine, [scene], mode, [queries])
        for candidates, truth in zip(answers, scene.masks(), strict=True):
            assert len(candidates) == 1
            overlaps.append(overlap(full_masks(candidates, *scene.ids.shape)[0], truth))
    assert len(overlaps) > 100
    assert np.mean(overlaps) >= 0.85
    assert np.mean(np.array(overlaps) > 0.5) >= 0.95


def test_boxes_lie_around_their_masks(tiny_engine: TorchEngine) -> None:
    scene = held_out(0, FIRST_SEED)
    height, width = scene.ids.shape
    found = ask(tiny_engine, [scene], Mode.FIND_ALL, [[Query(text="shape")]])[0][0]
    click = Query(points=(centre_fractions(scene, 0),), positives=(True,))
    clicked = ask(tiny_engine, [scene], Mode.POINT, [[click]])[0][0]
    for candidates in (found, clicked):
        for box, mask in zip(candidates.boxes, full_masks(candidates, height, width), strict=True):
            ys, xs = np.nonzero(mask)
            around = np.array([xs.min() / width, ys.min() / height, (xs.max() + 1) / width, (ys.max() + 1) / height])
            assert np.abs(box - around).max() < 0.05


def test_two_clicks_take_one_object_and_leave_the_other(tiny_engine: TorchEngine) -> None:
    scene = next(s for s in (held_out(n, FIRST_SEED) for n in range(20)) if len(s.kinds) >= 3)
    query = Query(points=(centre_fractions(scene, 0), centre_fractions(scene, 1)), positives=(True, False))
    masks = full_masks(ask(tiny_engine, [scene], Mode.POINT, [[query]])[0][0], *scene.ids.shape)
    assert overlap(masks[0], scene.masks()[0]) > 0.8
    assert overlap(masks[0], scene.masks()[1]) < 0.05


def test_info_says_what_shaped_the_result(tiny_engine: TorchEngine) -> None:
    info = tiny_engine.info
    assert (info.name, info.model, info.revision) == ("sam3", str(TINY), "")
    assert (info.device, info.dtype, info.batch) == ("cpu", "float32", 4)
    assert info.input_size == Square(140)
    assert info.max_instances == 24
    assert info.modes == set(Mode)
    assert info.fingerprint.startswith("blake2b:")
    assert set(info.versions) == {"torch", "torchvision", "transformers"}


def test_bfloat16_finds_the_same_objects(tiny_engine: TorchEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sam3, "choose_dtype", lambda device: torch.bfloat16)  # what a GPU takes
    engine = sam3.load(model=str(TINY), device="cpu", batch=1)
    assert engine.info.dtype == "bfloat16"
    scene = held_out(4, FIRST_SEED)  # on the smallest canvas: bfloat16 is slow on a CPU
    queries = [Query(text=word) for word in ("circle", "red shape", "shape")]
    exemplar = Query(boxes=(box_fractions(scene, 0),), positives=(True,))
    for wanted, got in zip(
        ask(tiny_engine, [scene], Mode.FIND_ALL, [[*queries, exemplar]])[0],
        ask(engine, [scene], Mode.FIND_ALL, [[*queries, exemplar]])[0],
        strict=True,
    ):
        assert len(got) == len(wanted)
        np.testing.assert_allclose(got.scores, wanted.scores, atol=0.05)
    click = Query(points=(centre_fractions(scene, 0),), positives=(True,))
    (((clicked,),), ((boxed,),)) = (
        ask(engine, [scene], Mode.POINT, [[click]]),
        ask(engine, [scene], Mode.INSIDE_BOX, [[exemplar]]),
    )
    engine.close()
    for candidates in (clicked, boxed):
        assert overlap(full_masks(candidates, *scene.ids.shape)[0], scene.masks()[0]) > 0.8


def test_loading_and_closing_again_and_again_keeps_memory_flat() -> None:
    def resident() -> int:
        engine = sam3.load(model=str(TINY), device="cpu")
        engine.warm_up()
        engine.close()
        del engine
        gc.collect()
        return psutil.Process().memory_info().rss

    first = [resident() for _ in range(2)][-1]
    assert [resident() for _ in range(4)][-1] - first < 8 << 20  # each load allocates about 15 MB


def test_a_closed_engine_says_so() -> None:
    engine = sam3.load(model=str(TINY), device="cpu")
    engine.close()
    with pytest.raises(RuntimeError, match="closed"):
        engine.encode([np.zeros((140, 140, 3), np.uint8)])


def test_the_cpu_is_used_without_asking_cuda_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("torch.cuda was asked although the device is cpu")

    for name in ("_lazy_init", "current_device", "device_count", "empty_cache", "get_device_name", "synchronize"):
        monkeypatch.setattr(torch.cuda, name, refuse)
    engine = sam3.load(model=str(TINY), device="cpu")
    engine.warm_up()
    engine.close()


def test_loading_changes_no_setting_of_the_libraries() -> None:
    def settings() -> tuple[Any, ...]:
        return (
            torch.backends.cuda.matmul.allow_tf32,
            torch.backends.cudnn.allow_tf32,
            torch.backends.cudnn.benchmark,
            torch.is_autocast_enabled("cpu"),
            torch.is_autocast_enabled("cuda"),
            torch.is_grad_enabled(),
            torch.is_inference_mode_enabled(),
            torch.get_default_dtype(),
            transformers_logging.get_verbosity(),
            transformers_logging.is_progress_bar_enabled(),
        )

    before = settings()
    engine = sam3.load(model=str(TINY), device="cpu")
    engine.warm_up()
    engine.close()
    assert settings() == before


def test_loading_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    sam3.load(model=str(TINY), device="cpu").close()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "cuda:7"}, "CUDA_VISIBLE_DEVICES=7"),
        ({"device": "tpu"}, "'tpu' is unknown: give cpu or cuda"),
        ({"batch": 0}, "batch 0 is below 1"),
    ],
)
def test_an_option_that_cannot_be_is_refused_with_its_remedy(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        sam3.load(**{"model": str(TINY), "device": "cpu", **options})


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A checkpoint to break."""
    return Path(shutil.copytree(TINY, tmp_path / "model"))


def drop_a_weight(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    del weights["detector_model.detr_decoder.query_embed.weight"]
    save_file(weights, folder / "model.safetensors")


def drop_a_weight_of_the_tracker(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    del weights["tracker_model.mask_decoder.iou_token.weight"]
    save_file(weights, folder / "model.safetensors")


def reshape_a_weight(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    name = "detector_model.detr_decoder.query_embed.weight"
    weights[name] = weights[name][:-1].contiguous()
    save_file(weights, folder / "model.safetensors")


def widen_the_config(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    config["detector_config"]["detr_decoder_config"]["hidden_size"] = 128
    (folder / "config.json").write_text(json.dumps(config))


def remove_the_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (drop_a_weight, r"lacks 1 weights of Sam3Model.*query_embed"),
        (drop_a_weight_of_the_tracker, r"lacks 1 weights of Sam3TrackerModel.*iou_token"),
        (reshape_a_weight, r"Sam3Model.*again"),
        (widen_the_config, r"Sam3Model.*again"),
        (remove_the_tokenizer, r"tokenizer or image settings do not load"),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_refused_and_not_filled_with_chance(
    copy: Path, damage: Any, message: str
) -> None:
    damage(copy)
    with pytest.raises(ModelUnavailable, match=message):
        sam3.load(model=str(copy), device="cpu")


def test_weights_that_are_not_numbers_fail_the_warm_up(copy: Path) -> None:
    weights = load_file(copy / "model.safetensors")
    weights["detector_model.detr_encoder.layers.0.mlp.fc1.weight"].fill_(float("nan"))
    save_file(weights, copy / "model.safetensors")
    engine = sam3.load(model=str(copy), device="cpu")
    with pytest.raises(DeviceFault, match="not numbers"):
        engine.warm_up()


def test_a_phrase_over_the_tokenizers_limit_is_refused_with_limit_and_count(tiny_engine: TorchEngine) -> None:
    tiny_engine.check(Mode.FIND_ALL, Query(text=" ".join(["red"] * 30)))
    with pytest.raises(PromptError, match=r"33 tokens.*at most 32"):
        tiny_engine.check(Mode.FIND_ALL, Query(text=" ".join(["red"] * 31)))
