"""Where torch engines run: the choice of device and dtype, and what their faults mean.

Answers which device a name stands for, turns torch's and CUDA's exceptions into `samjobs.errors`, and runs work in
chunks that shrink when memory runs out. It changes no global flag of torch (TF32, cuDNN, autocast), never asks CUDA
anything when the CPU was asked for, and never falls back from a GPU to the CPU by itself.
"""

import gc
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch

from samjobs.errors import DeviceFault, InvalidInput, ModelUnavailable, OutOfMemory
from samjobs.segmentation.engines.device_memory import SHRINKS

Part = TypeVar("Part")

# Texts that torch, CUDA's libraries and glibc give when memory is short and the exception has no type of its own.
_OUT_OF_MEMORY = re.compile(
    r"out of memory|can't allocate memory|STATUS_ALLOC_FAILED|STATUS_INTERNAL_ERROR_ALLOC", re.IGNORECASE
)


def choose_device(name: str | None) -> torch.device:
    """The device that `name` stands for; None takes the GPU where there is one.

    Only the first GPU is ever used: libraries below place some tensors on the current device whatever index was
    asked for, so which GPU is meant is said with CUDA_VISIBLE_DEVICES.

    Raises:
        InvalidInput: an unknown name, or a GPU index above 0.
        ModelUnavailable: CUDA was asked for and is not usable.
    """
    if name == "cpu":
        return torch.device("cpu")
    if name is None:
        return torch.device("cuda:0") if torch.cuda.is_available() else torch.device("cpu")
    match = re.fullmatch(r"cuda(?::(\d+))?", name)
    if match is None:
        raise InvalidInput(f"device {name!r} is unknown: give cpu or cuda")
    if int(match[1] or 0) > 0:
        raise InvalidInput(
            f"device {name!r}: a process uses one GPU, which it sees as cuda:0. "
            f"Set CUDA_VISIBLE_DEVICES={match[1]} and give cuda"
        )
    if not torch.cuda.is_available():
        raise ModelUnavailable(
            f"device {name!r}: CUDA is not usable here (no NVIDIA driver, no GPU, or a torch build without CUDA). "
            "Check nvidia-smi and `python -m torch.utils.collect_env`; engine sam3 also runs on device cpu"
        )
    return torch.device("cuda:0")


def choose_dtype(device: torch.device) -> torch.dtype:
    """bfloat16 on CUDA and float32 on the CPU, where bfloat16 is slow."""
    return torch.bfloat16 if device.type == "cuda" else torch.float32


def at_least_one(name: str, value: int | None, default: int) -> int:
    """The size that was given, or its default.

    Raises:
        InvalidInput: it is below 1.
    """
    if value is not None and value < 1:
        raise InvalidInput(f"{name} {value} is below 1: give 1 or more, or leave it out")
    return default if value is None else value


def describe(device: torch.device) -> str:
    """`cpu`, or the GPU with its name: `cuda:0 NVIDIA H100 80GB HBM3`."""
    return f"{device} {torch.cuda.get_device_name(device)}" if device.type == "cuda" else str(device)


def release(device: torch.device) -> None:
    """Give memory that nothing refers to any more back to the device."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


@contextmanager
def device_errors(doing: str) -> Iterator[None]:
    """Translate what torch raises inside the block; `doing` says what was tried.

    Raises:
        OutOfMemory: memory ran out; the process is sound.
        DeviceFault: anything else. After a CUDA error (device-side assert, illegal access) each later call fails too.
    """
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise OutOfMemory(_first_line(doing, error)) from error
    except RuntimeError as error:
        if _OUT_OF_MEMORY.search(str(error)):
            raise OutOfMemory(_first_line(doing, error)) from error
        raise DeviceFault(f"{_first_line(doing, error)}. Restart this process") from error


def _first_line(doing: str, error: BaseException) -> str:
    """What was tried and the first line of what torch said: the rest is advice on debugging torch."""
    lines = str(error).strip().splitlines()
    return f"{doing}: {lines[0].rstrip('.') if lines else type(error).__name__}"


class Chunks:
    """Runs work in chunks of at most `size`; when memory runs out, halves the size for good and tries again."""

    def __init__(self, size: int, device: torch.device, doing: str) -> None:
        self.size = size
        self._device = device
        self._doing = doing

    def run(self, count: int, work: Callable[[int, int], Part]) -> list[Part]:
        """`work(start, stop)` over 0…count, in order.

        Raises:
            OutOfMemory: even one item at a time.
            DeviceFault: see `device_errors`.
        """
        parts: list[Part] = []
        start = 0
        while start < count:
            stop = min(start + self.size, count)
            part = self._try(work, start, stop)
            if part is None:
                # Only here, outside the except block, has the traceback let go of the tensors of the failed try.
                release(self._device)
                continue
            parts.append(part)
            start = stop
        return parts

    def _try(self, work: Callable[[int, int], Part], start: int, stop: int) -> Part | None:
        """The part, or None where memory ran out and a smaller chunk may still fit."""
        try:
            with device_errors(f"{self._doing} ({stop - start} at once)"):
                return work(start, stop)
        except OutOfMemory:
            if stop - start == 1:
                raise
            self.size = max(1, (stop - start) // 2)
            SHRINKS.add()
            return None
