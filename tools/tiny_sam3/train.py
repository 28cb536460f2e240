"""Train the tiny SAM 3 on drawn scenes, on a CPU: `python -m tools.tiny_sam3.train --out DIR --minutes 45`.

Detector and tracker learn together on one ViT: 16 images with 2 prompts and 4 clicks or boxes each per step, AdamW,
a cosine over the time given. It ends after `--minutes` or `--steps`, whichever comes first, and saves on the way.
"""

import argparse
import math
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import Sam3Model, Sam3TrackerModel
from transformers.models.sam3.modeling_sam3 import Sam3VisionEncoderOutput

from tools.tiny_sam3.batches import Batch, Example, make_batch
from tools.tiny_sam3.losses import Recorder, detector_loss, tracker_loss
from tools.tiny_sam3.model import GRID, VIT_WIDTH, build, make_tokenizer, save
from tools.tiny_sam3.scenes import make_scene

CLICKS = 4  # per image and step
PRINT_EVERY = 50  # steps
SAVE_EVERY = 250


def main(arguments: Sequence[str] | None = None) -> None:
    """Train as the command line says."""
    options = _parser().parse_args(arguments)
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    tokenizer = make_tokenizer()
    detector, tracker = build(len(tokenizer))
    if options.resume is not None:
        _take_over(options.resume, detector, tracker, fresh_tracker=options.fresh_tracker)
    pool = [Example.of(make_scene(options.first_seed + i, squash=True)) for i in range(options.pool)]
    print(f"{len(pool)} scenes", flush=True)
    Training(detector, tracker, tokenizer, pool, options).run()


def _take_over(folder: Path, detector: Any, tracker: Any, *, fresh_tracker: bool) -> None:
    """Start from the weights of another checkpoint."""
    detector.load_state_dict(Sam3Model.from_pretrained(folder, dtype=torch.float32).state_dict())
    if not fresh_tracker:
        tracker.load_state_dict(Sam3TrackerModel.from_pretrained(folder, dtype=torch.float32).state_dict())


class Training:
    """One run: models, optimiser, progress."""

    def __init__(
        self, detector: Any, tracker: Any, tokenizer: Any, pool: list[Example], options: argparse.Namespace
    ) -> None:
        self._detector, self._tracker, self._tokenizer = detector.train(), tracker.train(), tokenizer
        self._pool, self._options = pool, options
        self._rng = random.Random(0)
        self._recorder = Recorder(detector)
        unique = {id(weight): weight for weight in [*detector.parameters(), *tracker.parameters()]}
        self._weights: list[nn.Parameter] = list(unique.values())
        self._optimiser = torch.optim.AdamW(self._weights, lr=options.lr, weight_decay=1e-3, betas=(0.9, 0.98))
        self._averages: dict[str, float] = {}

    def run(self) -> None:
        """Steps until the time or the steps are used up, then save."""
        start = time.monotonic()
        step = 0
        while step < self._options.steps:
            progress = (time.monotonic() - start) / 60 / self._options.minutes
            if progress >= 1:
                break
            self._step(step, progress)
            step += 1
            if step % PRINT_EVERY == 0:
                averages = " ".join(f"{name}={value:.3f}" for name, value in self._averages.items())
                print(step, f"{time.monotonic() - start:.0f}s", averages, flush=True)
            if step % SAVE_EVERY == 0:
                self._save(step, time.monotonic() - start)
        self._save(step, time.monotonic() - start)

    def _save(self, steps: int, seconds: float) -> None:
        facts = {
            "steps": steps,
            "seconds": round(seconds),
            "params": sum(weight.numel() for weight in self._weights),
            "batch_images": self._options.batch,
            "prompts_per_image": self._options.prompts,
        }
        save(self._detector, self._tracker, self._tokenizer, self._options.out, facts)

    def _step(self, step: int, progress: float) -> None:
        options = self._options
        warm_up = min(1, (step + 1) / 100)
        for group in self._optimiser.param_groups:
            group["lr"] = options.lr * warm_up * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * progress)))
        # Phrases first, exemplar boxes phased in: both at once from the start learn neither.
        boxes = self._rng.random() < 0.45 * min(1, progress / options.ramp)
        batch = make_batch(
            self._pool,
            self._tokenizer,
            self._rng,
            images=options.batch,
            prompts=options.prompts,
            clicks=CLICKS,
            boxes=boxes,
        )
        losses, iou = self._losses(batch)
        loss = torch.stack(list(losses.values())).sum()
        self._optimiser.zero_grad()
        torch.autograd.backward(loss)
        norm = nn.utils.clip_grad_norm_(self._weights, 2.0)
        self._optimiser.step()
        for name, value in {**{k: v.item() for k, v in losses.items()}, "tiou": iou, "gn": norm.item()}.items():
            self._averages[name] = 0.97 * self._averages.get(name, value) + 0.03 * value

    def _losses(self, batch: Batch) -> tuple[dict[str, Tensor], float]:
        """Every loss of a batch, and the tracker's mean IoU."""
        vision = self._detector.vision_encoder(batch.pixels)
        output = self._detector(
            vision_embeds=Sam3VisionEncoderOutput(
                fpn_hidden_states=self._per_prompt(vision.fpn_hidden_states),
                fpn_position_encoding=self._per_prompt(vision.fpn_position_encoding),
            ),
            input_ids=batch.ids,
            attention_mask=batch.attention,
            input_boxes=batch.boxes,
            input_boxes_labels=batch.labels,
        )
        losses = detector_loss(self._recorder.layers(), output, batch.targets)
        grid = vision.last_hidden_state.transpose(1, 2).reshape(-1, VIT_WIDTH, GRID, GRID)
        fine, middle, coarse = self._tracker.vision_encoder.neck(grid)[0][:3]
        decoder = self._tracker.mask_decoder
        maps = [decoder.conv_s0(fine), decoder.conv_s1(middle), coarse]
        losses["trk"], iou = tracker_loss(self._tracker, maps, batch.clicks, self._rng)
        return losses, iou

    def _per_prompt(self, levels: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Each image's maps once per prompt of it."""
        return tuple(level.repeat_interleave(self._options.prompts, 0) for level in levels)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.tiny_sam3.train", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder of the checkpoint")
    parser.add_argument("--minutes", type=float, default=45)
    parser.add_argument("--steps", type=int, default=10**9)
    parser.add_argument("--threads", type=int, default=2, help="1 is faster where the cores are shared")
    parser.add_argument("--pool", type=int, default=6000, help="scenes drawn before the start")
    parser.add_argument("--first-seed", type=int, default=0, help="seed of the first scene")
    parser.add_argument("--batch", type=int, default=16, help="images per step")
    parser.add_argument("--prompts", type=int, default=2, help="per image and step")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--resume", type=Path, help="start from this checkpoint")
    parser.add_argument("--fresh-tracker", action="store_true", help="with --resume: take over the detector only")
    parser.add_argument("--ramp", type=float, default=0.15, help="share of the time over which boxes are phased in")
    return parser


if __name__ == "__main__":
    main()
