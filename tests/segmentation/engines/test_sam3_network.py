"""Two models on one backbone, cached phrases, and agreement with transformers' own way of calling them."""

from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from samjobs.segmentation.engines import sam3
from samjobs.segmentation.engines.base import Query, Selection
from samjobs.segmentation.engines.sam3_network import Sam3Network
from samjobs.segmentation.engines.torch_engine import TorchEngine
from samjobs.spec import Mode
from tests.segmentation.engines.tiny import FIRST_SEED, TINY, ask, box_fractions, centre_fractions, full_masks
from tools.tiny_sam3.evaluate import Detector, Tracker
from tools.tiny_sam3.prompts import Prompt
from tools.tiny_sam3.scenes import Scene, make_scene

pytestmark = pytest.mark.needs_torch


@pytest.fixture
def network(tiny_engine: TorchEngine) -> Sam3Network:
    assert isinstance(tiny_engine.network, Sam3Network)
    return tiny_engine.network


@pytest.fixture
def scene() -> Scene:
    """A picture that is the model's square already, so that no resizing stands between the two ways."""
    return make_scene(FIRST_SEED + 5, count=5)


def test_detector_and_tracker_share_one_backbone(network: Sam3Network) -> None:
    assert network.tracker.vision_encoder.backbone is network.detector.vision_encoder.backbone


def test_an_image_is_encoded_once_for_all_modes_and_prompts(
    tiny_engine: TorchEngine, network: Sam3Network, scene: Scene
) -> None:
    calls: list[int] = []
    backbone = network.detector.vision_encoder.backbone
    hook = backbone.register_forward_pre_hook(lambda _module, inputs: calls.append(len(inputs[0])))
    try:
        encoded = tiny_engine.encode([scene.image] * 3)
        everything = Selection(score=0.5, mask=0.5)
        tiny_engine.segment(encoded, Mode.FIND_ALL, [[Query(text="circle"), Query(text="square")]] * 3, everything)
        click = Query(points=(centre_fractions(scene, 0),), positives=(True,))
        tiny_engine.segment(encoded, Mode.POINT, [[click] * 5] * 3, everything)
    finally:
        hook.remove()
    assert calls == [4]  # once, filled up to the fixed batch


def test_nothing_computes_gradients(network: Sam3Network) -> None:
    weights = [*network.detector.parameters(), *network.tracker.parameters()]
    assert weights
    assert not any(weight.requires_grad for weight in weights)
    features = network.vision(torch.zeros(1, 3, 140, 140))
    assert not features.hidden.requires_grad


def test_a_phrase_is_encoded_once_and_gives_the_same_answer_again(
    tiny_engine: TorchEngine, network: Sam3Network, scene: Scene
) -> None:
    calls: list[int] = []
    hook = network.detector.text_encoder.register_forward_hook(lambda *_: calls.append(1))
    try:
        first = ask(tiny_engine, [scene], Mode.FIND_ALL, [[Query(text="the green shape")]])[0][0]
        again = ask(tiny_engine, [scene], Mode.FIND_ALL, [[Query(text="the green shape")]])[0][0]
    finally:
        hook.remove()
    assert len(calls) == 1
    assert len(first) > 0
    assert (first.scores == again.scores).all()
    assert (np.asarray(first.logits) == np.asarray(again.logits)).all()


def test_a_cached_phrase_keeps_its_mask_so_that_padding_is_not_read(
    tiny_engine: TorchEngine, network: Sam3Network, scene: Scene
) -> None:
    seen: list[torch.Tensor] = []
    hook = network.detector.register_forward_pre_hook(
        lambda _module, _args, named: seen.append(named["attention_mask"]), with_kwargs=True
    )
    try:
        for _ in range(2):
            ask(tiny_engine, [scene], Mode.FIND_ALL, [[Query(text="red circle")]])
    finally:
        hook.remove()
    assert [mask.sum().item() for mask in seen] == [4, 4]  # start, red, circle, end


def test_only_the_latest_phrases_are_kept(monkeypatch: pytest.MonkeyPatch, scene: Scene) -> None:
    monkeypatch.setattr("samjobs.segmentation.engines.sam3_network._PHRASES", 2)
    engine = sam3.load(model=str(TINY), device="cpu")
    calls: list[int] = []
    engine.network.detector.text_encoder.register_forward_hook(lambda *_: calls.append(1))
    counts = []
    for phrase in ("red", "green", "blue", "green", "red"):
        ask(engine, [scene], Mode.FIND_ALL, [[Query(text=phrase)]])
        counts.append(len(calls))
    engine.close()
    assert counts == [1, 2, 3, 3, 4]


@pytest.mark.parametrize(
    "prompt",
    [
        Prompt("shape", ()),
        Prompt(None, (), ((0, True),)),
        Prompt(None, (), ((0, True), (1, False))),
        Prompt("shape", (), ((0, False),)),
    ],
    ids=["phrase", "exemplar", "exemplar and negative", "phrase and negative"],
)
def test_find_all_agrees_with_transformers_own_processor(
    tiny_engine: TorchEngine, scene: Scene, prompt: Prompt
) -> None:
    query = Query(
        text=prompt.text,
        boxes=tuple(box_fractions(scene, i) for i, _ in prompt.exemplars),
        positives=tuple(positive for _, positive in prompt.exemplars),
    )
    candidates = ask(tiny_engine, [scene], Mode.FIND_ALL, [[query]])[0][0]
    theirs = library_answer(scene, prompt)
    order = theirs["scores"].argsort(descending=True)
    assert len(candidates) == len(order) > 0
    np.testing.assert_allclose(candidates.scores, theirs["scores"][order], atol=1e-4)
    np.testing.assert_allclose(candidates.boxes * 140, theirs["boxes"][order], atol=0.05)
    masks = full_masks(candidates, 140, 140)
    differing = (masks != theirs["masks"][order].numpy().astype(bool)).mean()
    # transformers interpolates probabilities, samjobs logits: the edge may move by a fraction of a pixel.
    assert differing < 0.005


def library_answer(scene: Scene, prompt: Prompt) -> dict[str, torch.Tensor]:
    """Scores, boxes and masks as transformers' documentation gets them."""
    detector = Detector(TINY)
    geometry: dict[str, Any] = {}
    if prompt.exemplars:
        boxes = scene.boxes()
        geometry["input_boxes"] = [[list(boxes[i]) for i, _ in prompt.exemplars]]
        geometry["input_boxes_labels"] = [[int(positive) for _, positive in prompt.exemplars]]
    inputs = detector.processor(images=Image.fromarray(scene.image), text=prompt.text, return_tensors="pt", **geometry)
    sizes = inputs.pop("original_sizes").tolist()
    with torch.inference_mode():
        output = detector.model(**inputs)
    answer: dict[str, torch.Tensor] = detector.processor.post_process_instance_segmentation(
        output, threshold=0.5, target_sizes=sizes
    )[0]
    return answer


@pytest.mark.parametrize("mode", [Mode.POINT, Mode.INSIDE_BOX])
def test_a_click_or_box_agrees_with_transformers_own_processor(
    tiny_engine: TorchEngine, scene: Scene, mode: Mode
) -> None:
    tracker = Tracker(TINY)
    objects = range(len(scene.kinds))
    if mode is Mode.POINT:
        queries = [Query(points=(centre_fractions(scene, i),), positives=(True,)) for i in objects]
        points = [[[[x * 140, y * 140]] for ((x, y),) in (query.points for query in queries)]]
        theirs = tracker.trace(scene, multimask=True, input_points=points, input_labels=[[[1]] * len(queries)])
    else:
        queries = [Query(boxes=(box_fractions(scene, i),), positives=(True,)) for i in objects]
        theirs = tracker.trace(scene, multimask=True, input_boxes=[[list(box) for box in scene.boxes()]])
    (answers,) = ask(tiny_engine, [scene], mode, [queries])
    ours = np.concatenate([full_masks(candidates, 140, 140) for candidates in answers])
    assert (ours != theirs).mean() < 0.0005
