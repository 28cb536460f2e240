"""Batches, chunks, caps and refusals of the engine that both implementations of SAM 3 stand behind."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch

from samjobs.errors import DeviceFault, OutOfMemory, PromptError
from samjobs.segmentation.engines import sam3
from samjobs.segmentation.engines.base import Candidates, Query, Selection
from samjobs.segmentation.engines.sam3_network import Sam3Network
from samjobs.segmentation.engines.torch_engine import TorchEngine
from samjobs.spec import Mode
from tests.segmentation.engines.tiny import FIRST_SEED, SELECTION, TINY, ask, box_fractions, centre_fractions, squashed
from tools.tiny_sam3.evaluate import held_out
from tools.tiny_sam3.scenes import Scene

pytestmark = pytest.mark.needs_torch


@pytest.fixture(scope="module")
def scenes() -> list[Scene]:
    """Four pictures of different sizes with 3 objects or more each."""
    return [scene for scene in (held_out(n, FIRST_SEED) for n in range(30)) if len(scene.kinds) >= 3][:4]


def same(ours: Candidates, theirs: Candidates) -> None:
    """Equal but for rounding."""
    assert len(ours) == len(theirs)
    np.testing.assert_allclose(ours.scores, theirs.scores, atol=1e-4)
    np.testing.assert_allclose(ours.boxes, theirs.boxes, atol=1e-3)
    a, b = (np.asarray(each.logits, np.float32) for each in (ours, theirs))
    assert np.abs(a - b).max(initial=0) < 0.05


def find_all_queries(scenes: list[Scene]) -> list[list[Query]]:
    """Ragged: 3, 1, 0 and 2 queries; 2, 1 and 0 boxes; with and without text."""
    two = tuple(box_fractions(scenes[0], i) for i in range(2))
    return [
        [Query(text="shape"), Query(boxes=two, positives=(True, True)), Query(text="red circle")],
        [Query(boxes=(box_fractions(scenes[1], 0),), positives=(True,))],
        [],
        [Query(text="circle"), Query(text="shape", boxes=(box_fractions(scenes[3], 0),), positives=(False,))],
    ]


def point_queries(scenes: list[Scene]) -> list[list[Query]]:
    """Ragged: 3, 1, 0 and 2 objects; 1 and 2 clicks."""
    first, second, _, last = scenes
    pair = Query(points=(centre_fractions(last, 0), centre_fractions(last, 1)), positives=(True, False))
    return [
        [Query(points=(centre_fractions(first, i),), positives=(True,)) for i in range(3)],
        [Query(points=(centre_fractions(second, 0),), positives=(True,))],
        [],
        [Query(points=(centre_fractions(last, 2),), positives=(True,)), pair],
    ]


def box_queries(scenes: list[Scene]) -> list[list[Query]]:
    """Ragged: 3, 1, 0 and 2 boxes."""
    return [
        [Query(boxes=(box_fractions(scene, i),), positives=(True,)) for i in range(count)]
        for scene, count in zip(scenes, (3, 1, 0, 2), strict=True)
    ]


@pytest.mark.parametrize(
    ("mode", "queries"),
    [(Mode.FIND_ALL, find_all_queries), (Mode.POINT, point_queries), (Mode.INSIDE_BOX, box_queries)],
)
def test_four_images_at_once_answer_as_one_at_a_time(
    tiny_engine: TorchEngine, scenes: list[Scene], mode: Mode, queries: Any
) -> None:
    asked = queries(scenes)
    together = ask(tiny_engine, scenes, mode, asked)
    assert [len(row) for row in together] == [3, 1, 0, 2]
    for scene, own, answers in zip(scenes, asked, together, strict=True):
        for query, answer in zip(own, answers, strict=True):
            same(answer, ask(tiny_engine, [scene], mode, [[query]])[0][0])


def test_the_best_candidate_comes_first(tiny_engine: TorchEngine, scenes: list[Scene]) -> None:
    candidates = ask(tiny_engine, scenes[:1], Mode.FIND_ALL, [[Query(text="shape")]])[0][0]
    assert len(candidates) > 1
    assert (np.diff(candidates.scores) <= 0).all()
    assert candidates.scores.min() >= SELECTION.score
    assert np.asarray(candidates.logits).dtype == np.float16
    assert not candidates.truncated


def test_every_slot_used_up_is_reported_as_truncated(tiny_engine: TorchEngine, scenes: list[Scene]) -> None:
    encoded = tiny_engine.encode([squashed(scenes[0].image)])
    everything = Selection(score=0.0, mask=0.5)
    candidates = tiny_engine.segment(encoded, Mode.FIND_ALL, [[Query(text="shape")]], everything)[0][0]
    assert len(candidates) == tiny_engine.info.max_instances == 24
    assert candidates.truncated
    click = Query(points=((0.5, 0.5),), positives=(True,))
    assert not tiny_engine.segment(encoded, Mode.POINT, [[click]], everything)[0][0].truncated


def test_a_click_is_answered_whatever_its_score(tiny_engine: TorchEngine, scenes: list[Scene]) -> None:
    encoded = tiny_engine.encode([squashed(scenes[0].image)])
    click = Query(points=((0.01, 0.01),), positives=(True,))
    assert len(tiny_engine.segment(encoded, Mode.POINT, [[click]], Selection(score=1.0, mask=0.5))[0][0]) == 1


def test_a_query_that_the_mode_cannot_take_is_refused_before_anything_runs(
    tiny_engine: TorchEngine, scenes: list[Scene]
) -> None:
    encoded = tiny_engine.encode([squashed(scenes[0].image)])
    with pytest.raises(PromptError, match="find_all needs a phrase"):
        tiny_engine.segment(encoded, Mode.FIND_ALL, [[Query()]], SELECTION)


@pytest.mark.parametrize(
    ("images", "message"),
    [
        ([np.zeros((140, 140, 3), np.uint8)] * 5, "1…4 images, not 5"),
        ([], "1…4 images, not 0"),
        ([np.zeros((140, 100, 3), np.uint8)], "140, 140, 3"),
        ([np.zeros((140, 140, 3), np.float32)], "uint8"),
    ],
)
def test_images_that_are_not_prepared_are_a_mistake_of_the_caller(
    tiny_engine: TorchEngine, images: list[Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        tiny_engine.encode(images)


def test_queries_for_another_number_of_images_are_a_mistake_of_the_caller(tiny_engine: TorchEngine) -> None:
    encoded = tiny_engine.encode([np.zeros((140, 140, 3), np.uint8)])
    with pytest.raises(ValueError, match="1 images were encoded, but queries came for 2"):
        tiny_engine.segment(encoded, Mode.FIND_ALL, [[], []], SELECTION)


@pytest.fixture
def own_engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[TorchEngine]:
    """An engine whose chunks may shrink."""
    monkeypatch.setitem(sam3._DEFAULTS, "cpu", (1, 8))
    engine = sam3.load(model=str(TINY), device="cpu", batch=4)
    yield engine
    engine.close()


@contextmanager
def failing(module: torch.nn.Module, error: Exception, above: int) -> Iterator[list[int]]:
    """`module` raises `error` for batches above a size, as a device with too little memory does."""
    sizes: list[int] = []

    def refuse(_module: Any, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        first = named.get("attention_mask", args[0] if args else None)
        assert isinstance(first, torch.Tensor)
        sizes.append(len(first))
        if len(first) > above:
            raise error

    hook = module.register_forward_pre_hook(refuse, with_kwargs=True)
    try:
        yield sizes
    finally:
        hook.remove()


def network_of(engine: TorchEngine) -> Sam3Network:
    assert isinstance(engine.network, Sam3Network)
    return engine.network


def test_out_of_memory_in_a_chunk_of_queries_halves_it_and_goes_on(
    own_engine: TorchEngine, tiny_engine: TorchEngine, scenes: list[Scene]
) -> None:
    queries = [[Query(text=text) for text in ("circle", "square", "triangle", "shape", "red", "blue")]]
    expected = ask(tiny_engine, scenes[:1], Mode.FIND_ALL, queries)[0]
    with failing(network_of(own_engine).detector, torch.OutOfMemoryError("CUDA out of memory. Tried…"), 2) as sizes:
        answers = ask(own_engine, scenes[:1], Mode.FIND_ALL, queries)[0]
        ask(own_engine, scenes[:1], Mode.FIND_ALL, queries)
    assert sizes == [6, 3, 1, 1, 1, 1, 1, 1, *[1] * 6]  # it remembers
    for answer, wanted in zip(answers, expected, strict=True):
        same(answer, wanted)


def test_out_of_memory_in_encoding_splits_the_batch_and_the_answers_stay(
    own_engine: TorchEngine, tiny_engine: TorchEngine, scenes: list[Scene]
) -> None:
    asked = find_all_queries(scenes)
    expected = ask(tiny_engine, scenes, Mode.FIND_ALL, asked)
    backbone = network_of(own_engine).detector.vision_encoder.backbone
    with failing(backbone, torch.OutOfMemoryError("CUDA out of memory. Tried…"), 2) as sizes:
        answers = ask(own_engine, scenes, Mode.FIND_ALL, asked)
    assert sizes == [4, 2, 2]
    for row, wanted in zip(answers, expected, strict=True):
        for answer, candidates in zip(row, wanted, strict=True):
            same(answer, candidates)


def test_out_of_memory_with_one_query_is_reported_and_the_engine_lives_on(
    own_engine: TorchEngine, scenes: list[Scene]
) -> None:
    query = [[Query(text="circle")]]
    with (
        failing(network_of(own_engine).detector, torch.OutOfMemoryError("CUDA out of memory. Tried…"), 0),
        pytest.raises(OutOfMemory, match=r"segmenting \(1 at once\): CUDA out of memory"),
    ):
        ask(own_engine, scenes[:1], Mode.FIND_ALL, query)
    assert len(ask(own_engine, scenes[:1], Mode.FIND_ALL, query)[0]) == 1


def test_a_cuda_error_is_a_fault_of_the_device_and_is_not_tried_again(
    own_engine: TorchEngine, scenes: list[Scene]
) -> None:
    error = RuntimeError("CUDA error: device-side assert triggered\nCUDA kernel errors might be …")
    with (
        failing(network_of(own_engine).detector, error, 0) as sizes,
        pytest.raises(DeviceFault, match=r"device-side assert triggered\. Restart this process"),
    ):
        ask(own_engine, scenes[:1], Mode.FIND_ALL, [[Query(text="circle"), Query(text="square")]])
    assert sizes == [2]
