"""The sam3-meta engine on a CPU, with Meta's package led there by the test, and random weights.

What is found means nothing; that batches, crops, chunks and settings come out right does.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from samjobs.errors import ModelUnavailable, PromptError
from samjobs.segmentation.engines import sam3_meta
from samjobs.segmentation.engines.base import Candidates, Query, Selection, Square
from samjobs.segmentation.engines.torch_engine import Batch, TorchEngine
from samjobs.spec import Mode

pytestmark = pytest.mark.needs_meta

EVERYTHING = Selection(score=0.0, mask=0.5)
real_cuda_device = sam3_meta.cuda_device  # before this module's fixtures replace it
BOX = (0.2, 0.2, 0.7, 0.8)


@pytest.fixture(scope="module")
def patch() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as context:
        yield context


@pytest.fixture(scope="module")
def checkpoint(patch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.segmentation.engines.meta_on_cpu import lead_cuda_to_cpu, make_small, write_checkpoint

    lead_cuda_to_cpu(patch)
    path = tmp_path_factory.mktemp("meta") / "sam3.pt"
    with sam3_meta._contained():
        make_small(patch)
        write_checkpoint(path)
    return path


@pytest.fixture(scope="module")
def engine(checkpoint: Path) -> Iterator[TorchEngine]:
    before = torch.is_autocast_enabled("cuda"), torch.backends.cuda.matmul.allow_tf32
    with pytest.MonkeyPatch.context() as own:
        own.setattr(sam3_meta, "_PAIRS", 2)
        loaded = sam3_meta.load(model=str(checkpoint), batch=2)
    assert (torch.is_autocast_enabled("cuda"), torch.backends.cuda.matmul.allow_tf32) == before == (False, False)
    yield loaded
    loaded.close()


@pytest.fixture(scope="module")
def pictures() -> list[np.ndarray]:
    """Two different ones."""
    rng = np.random.default_rng(0)
    return [rng.integers(0, 256, (1008, 1008, 3), dtype=np.uint8) for _ in range(2)]


@contextmanager
def full_precision(engine: TorchEngine) -> Iterator[None]:
    """Without autocast for a while: a CPU takes ten times as long in bfloat16. Clicks and boxes keep it."""
    with pytest.MonkeyPatch.context() as own:
        own.setattr(type(engine.network), "_autocast", lambda _network: nullcontext())
        yield


@pytest.fixture(scope="module")
def encoded(engine: TorchEngine, pictures: list[np.ndarray]) -> Batch:
    with full_precision(engine):
        return engine.encode(pictures)


def same(ours: Candidates, theirs: Candidates) -> None:
    """Equal but for rounding."""
    np.testing.assert_allclose(ours.scores, theirs.scores, atol=1e-4)
    difference = np.asarray(ours.logits, np.float32) - np.asarray(theirs.logits, np.float32)
    assert np.abs(difference).max() < 0.05


def test_the_package_leaves_nothing_behind_in_the_process(engine: TorchEngine) -> None:
    assert engine.info.name == "sam3-meta"
    assert torch.is_autocast_enabled("cuda") is False
    assert torch.is_autocast_enabled("cpu") is False
    assert torch.is_grad_enabled()


def test_info_says_what_it_is(engine: TorchEngine, checkpoint: Path) -> None:
    info = engine.info
    assert (info.model, info.revision, info.dtype) == (str(checkpoint), "", "bfloat16 autocast")
    assert info.input_size == Square(1008)
    assert info.max_instances == 200
    assert info.versions["sam3"] == "0.1.4"


def test_find_all_gives_low_resolution_logits_for_ragged_prompts_of_two_images(
    engine: TorchEngine, encoded: Batch
) -> None:
    two = Query(boxes=(BOX, (0.1, 0.1, 0.3, 0.3)), positives=(True, False))
    one = Query(text="cat", boxes=(BOX,), positives=(True,))
    asked = [[Query(text="cat")], [one, two]]
    with full_precision(engine):
        answers = engine.segment(encoded, Mode.FIND_ALL, asked, EVERYTHING)
        alone = engine.segment(encoded, Mode.FIND_ALL, [[], [one]], EVERYTHING)
    assert [len(row) for row in answers] == [1, 2]
    for candidates in (c for row in answers for c in row):
        assert len(candidates) == 200
        assert candidates.truncated
        logits = np.asarray(candidates.logits)
        assert (logits.shape, logits.dtype) == ((200, 288, 288), np.float16)
        assert np.isfinite(logits).all()
        assert (np.diff(candidates.scores) <= 0).all()
    same(answers[1][0], alone[1][0])
    assert np.abs(answers[1][0].scores - answers[1][1].scores).max() > 1e-4


def test_a_click_or_box_gives_one_mask_each(engine: TorchEngine, encoded: Batch) -> None:
    clicks = Query(points=((0.5, 0.5), (0.1, 0.1)), positives=(True, False))
    one = Query(points=((0.3, 0.6),), positives=(True,))
    clicked = engine.segment(encoded, Mode.POINT, [[clicks, one], [one]], EVERYTHING)
    box = Query(boxes=(BOX,), positives=(True,))
    boxed = engine.segment(encoded, Mode.INSIDE_BOX, [[box], [box, box, box]], EVERYTHING)
    assert [[len(c) for c in row] for row in clicked + boxed] == [[1, 1], [1], [1], [1, 1, 1]]
    assert np.asarray(boxed[0][0].logits).shape == (1, 288, 288)
    for again in boxed[1]:
        same(again, boxed[1][0])


def test_a_phrase_over_the_limit_is_refused(engine: TorchEngine) -> None:
    engine.check(Mode.FIND_ALL, Query(text=" ".join(["cat"] * 30)))
    with pytest.raises(PromptError, match=r"33 tokens.*at most 32"):
        engine.check(Mode.FIND_ALL, Query(text=" ".join(["cat"] * 31)))


def test_a_click_agrees_with_metas_own_predictor(engine: TorchEngine, encoded: Batch) -> None:
    model = engine.network.model
    predictor = model.inst_interactive_predictor
    fine, middle, coarse = (level[:1] for level in encoded.parts[0][1].tracker)
    predictor._features = {"image_embed": coarse, "high_res_feats": [fine, middle]}
    with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16):
        _, iou, logits = predictor_answer(predictor, torch.tensor([[[504.0, 504.0]]]), torch.tensor([[1]]))
    click = Query(points=((0.5, 0.5),), positives=(True,))
    (ours,) = engine.segment(encoded, Mode.POINT, [[click], []], EVERYTHING)[0]
    best = int(iou[0].argmax())
    assert ours.scores[0] == pytest.approx(float(iou[0, best]), abs=1e-3)
    assert np.abs(np.asarray(ours.logits, np.float32)[0] - logits[0, best].float().numpy()).max() < 0.05


def predictor_answer(predictor: Any, points: torch.Tensor, labels: torch.Tensor) -> Any:
    """What `SAM3InteractiveImagePredictor._predict` gives, without its making masks full-size."""
    predictor._is_image_set, predictor._orig_hw = True, [(1008, 1008)]
    with pytest.MonkeyPatch.context() as own:
        own.setattr(type(predictor._transforms), "postprocess_masks", lambda _self, masks, _size: masks)
        return predictor._predict(points, labels, multimask_output=True, return_logits=True)


def test_a_checkpoint_that_lacks_a_weight_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    state = torch.load(checkpoint, weights_only=True)
    del state["detector.transformer.decoder.query_embed.weight"]
    torch.save({"model": state}, tmp_path / "sam3.pt")
    with pytest.raises(ModelUnavailable, match=r"lacks 1 weights .*query_embed"):
        sam3_meta.load(model=str(tmp_path))


class Payload:
    """What a hostile pickle carries."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return print, ("code from the checkpoint ran",)


def test_code_in_a_checkpoint_is_not_run(checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.save({"detector.x": Payload()}, tmp_path / "sam3.pt")
    with pytest.raises(ModelUnavailable, match="does not load"):
        sam3_meta.load(model=str(tmp_path))
    assert "code from the checkpoint ran" not in capsys.readouterr().out


def test_settings_are_put_back_even_when_the_package_fails() -> None:
    def fail() -> None:
        with sam3_meta._contained():
            torch.backends.cuda.matmul.allow_tf32 = True
            torch.set_autocast_enabled("cuda", True)
            raise RuntimeError("the package failed")

    with pytest.raises(RuntimeError, match="the package failed"):
        fail()
    assert torch.backends.cuda.matmul.allow_tf32 is False
    assert torch.is_autocast_enabled("cuda") is False


def test_without_cuda_it_says_which_engine_to_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for device in (None, "cuda"):
        with pytest.raises(ModelUnavailable, match="engine sam3 also runs on device cpu"):
            real_cuda_device(device)
    with pytest.raises(ModelUnavailable, match="use engine sam3 on a CPU"):
        real_cuda_device("cpu")
