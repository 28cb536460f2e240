"""Which device a name stands for, and what torch's errors mean."""

import pytest
import torch

from samjobs.errors import DeviceFault, InvalidInput, ModelUnavailable, OutOfMemory
from samjobs.segmentation.engines.device_memory import SHRINKS, gpu_bytes
from samjobs.segmentation.engines.torch_device import Chunks, choose_device, choose_dtype, describe, device_errors

pytestmark = pytest.mark.needs_torch

CPU = torch.device("cpu")


def test_the_cpu_is_described_by_its_name() -> None:
    assert describe(choose_device("cpu")) == "cpu"


def test_a_gpu_that_is_not_there_is_refused_and_not_replaced_by_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ModelUnavailable, match="CUDA is not usable here"):
        choose_device("cuda")
    assert choose_device(None) == CPU


@pytest.mark.parametrize("name", ["cuda", "cuda:0", None])
def test_the_first_gpu_is_taken_where_there_is_one(monkeypatch: pytest.MonkeyPatch, name: str | None) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert choose_device(name) == torch.device("cuda:0")


def test_a_gpu_with_another_index_is_refused_with_the_remedy() -> None:
    with pytest.raises(InvalidInput, match="Set CUDA_VISIBLE_DEVICES=7 and give cuda"):
        choose_device("cuda:7")


def test_the_dtype_follows_the_device() -> None:
    assert choose_dtype(CPU) is torch.float32
    assert choose_dtype(torch.device("cuda:0")) is torch.bfloat16


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        pytest.param(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"), OutOfMemory, id="CUDA"),
        pytest.param(RuntimeError("CUDA error: out of memory"), OutOfMemory, id="the driver"),
        pytest.param(
            RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
            OutOfMemory,
            id="cuBLAS",
        ),
        pytest.param(
            RuntimeError("[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate memory"),
            OutOfMemory,
            id="the host",
        ),
        pytest.param(RuntimeError("CUDA error: device-side assert triggered"), DeviceFault, id="device-side assert"),
        pytest.param(RuntimeError("CUDA error: an illegal memory access"), DeviceFault, id="illegal access"),
        pytest.param(
            RuntimeError("mat1 and mat2 must have the same dtype, but got Float and BFloat16"), DeviceFault, id="dtypes"
        ),
    ],
)
def test_errors_of_the_device_are_told_apart(raised: Exception, expected: type[Exception]) -> None:
    with pytest.raises(expected, match="encoding"), device_errors("encoding"):
        raise raised


def test_the_host_running_out_of_memory_is_recognised_for_real() -> None:
    with pytest.raises(OutOfMemory), device_errors("allocating"):
        torch.empty(1 << 60, dtype=torch.uint8)


def test_other_exceptions_pass() -> None:
    with pytest.raises(KeyError), device_errors("encoding"):
        raise KeyError("a mistake in the program")


def test_chunks_halve_until_the_work_fits_and_lose_nothing() -> None:
    chunks = Chunks(8, CPU, "working")
    shrunk = SHRINKS.count

    def work(start: int, stop: int) -> range:
        if stop - start > 3:
            raise torch.OutOfMemoryError("out of memory")
        return range(start, stop)

    assert [number for part in chunks.run(11, work) for number in part] == list(range(11))
    assert chunks.size == 2
    assert SHRINKS.count == shrunk + 2, "each time is counted"


def test_work_that_does_not_fit_even_alone_fails() -> None:
    chunks = Chunks(8, CPU, "working")

    def work(start: int, stop: int) -> range:
        raise torch.OutOfMemoryError("out of memory")

    with pytest.raises(OutOfMemory, match=r"working \(1 at once\)"):
        chunks.run(3, work)


def test_without_a_gpu_in_use_there_is_no_memory_of_one() -> None:
    assert bool(gpu_bytes()) == torch.cuda.is_initialized()


def test_no_work_gives_no_parts() -> None:
    assert Chunks(8, CPU, "working").run(0, lambda start, stop: (start, stop)) == []
