"""CUDA errors by name, assertions collapsed, memory in all wordings."""

# ruff: noqa: E501 - log lines as they were written
from __future__ import annotations

from collections.abc import Callable

import pytest

from unstall.model.facts import CudaError, CudaOutOfMemory, DeviceAssert, Fact, GroupTag
from unstall.reading.line import Reader
from unstall.reading.writers.cuda import CudaReader

Read = Callable[[type[Reader], str], list[Fact]]
Sample = Callable[[str], str]


@pytest.mark.parametrize("version", ["2.1.2", "2.6.0", "2.9.1", "2.14.1"])
def test_device_error_in_python_and_in_the_watchdog(
    read: Read, sample: Sample, version: str
) -> None:
    """The exception with its frame, then the watchdog's words and their copy in what()."""
    facts = [
        f for f in read(CudaReader, sample(f"torch-{version}.log")) if isinstance(f, CudaError)
    ]
    assert [(f.name, f.through, f.copies, f.blocking) for f in facts] == [
        ("IllegalAddress", "python", 1, False),
        ("IllegalAddress", "watchdog", 2, False),
    ]
    assert facts[0].frames == (("train_step", "/workspace/train.py", 230),)
    assert facts[0].text == "an illegal memory access was encountered"
    assert facts[1].group.rank == 1


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("an illegal memory access was encountered", "IllegalAddress"),
        ("device-side assert triggered", "Assert"),
        ("dependency created on uncaptured work in another stream", "StreamCaptureIsolation"),
        ("unspecified launch failure", "LaunchFailure"),
        ("misaligned address", "MisalignedAddress"),
        ("an illegal instruction was encountered", "IllegalInstruction"),
        ("hardware stack error", "HardwareStackError"),
        ("uncorrectable ECC error encountered", "EccUncorrectable"),
        (
            "uncorrectable NVLink error detected during the execution",
            "NvlinkUncorrectable",
        ),
        ("Invalid access of peer GPU memory over nvlink or a hardware error", "Contained"),
        ("the launch timed out and was terminated", "LaunchTimeout"),
        ("out of memory", "OutOfMemory"),
        ("CUDA-capable device(s) is/are busy or unavailable", "DevicesUnavailable"),
        ("no CUDA-capable device is detected", "NoDevice"),
        ("invalid device ordinal", "InvalidDevice"),
        ("no kernel image is available for execution on the device", "NoKernelImageForDevice"),
        ("initialization error", "InitializationError"),
        ("system not yet initialized", "NotReady802"),
        (
            "MPS client failed to connect to the MPS control daemon or the MPS server",
            "MpsConnectionFailed",
        ),
        ("context is destroyed", "ContextIsDestroyed"),
        ("driver shutting down", "CudartUnloading"),
        ("unknown error", "Unknown"),
        (
            "CUDA driver version is insufficient for CUDA runtime version",
            "InsufficientDriver",
        ),
        (
            "operation not permitted on an event last recorded in a capturing stream",
            "CapturedEvent",
        ),
        ("CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx`", "CublasExecutionFailed"),
        ("something new in CUDA 14", "Other"),
    ],
)
def test_names(read: Read, words: str, name: str) -> None:
    """Every text of the runtime that jobs are known to end with."""
    (fact,) = read(CudaReader, f"[rank2]: RuntimeError: CUDA error: {words}")
    assert isinstance(fact, CudaError)
    assert (fact.name, fact.text, fact.speaker.rank) == (name, words.rstrip("`"), 2)


def test_symbol_names_an_error_of_unknown_text(read: Read) -> None:
    """Since 2.9 a line tells the runtime's own name."""
    (fact,) = read(
        CudaReader,
        "RuntimeError: CUDA error: a new text\nSearch for `cudaErrorNewThing' in https://docs.nvidia.com/x",
    )
    assert isinstance(fact, CudaError)
    assert fact.name == "NewThing"


def test_blocking_launches_leave_two_notes_out(read: Read) -> None:
    """With CUDA_LAUNCH_BLOCKING=1 only the last note follows."""
    last = "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions."
    first = "CUDA kernel errors might be asynchronously reported at some other API call"
    error = "RuntimeError: CUDA error: misaligned address"
    (blocking,) = read(CudaReader, f"{error}\n{last}")
    (free,) = read(CudaReader, f"{error}\n{first}\n{last}")
    assert isinstance(blocking, CudaError)
    assert isinstance(free, CudaError)
    assert (blocking.blocking, free.blocking) == (True, False)


def test_through_nccl_and_kernels(read: Read) -> None:
    """NCCL's own failure, and a library's check that names its source line."""
    text = (
        "h:1:2 [0] enqueue.cc:9 NCCL WARN Cuda failure 719 'unspecified launch failure'\n"
        "Failed: Cuda error /ws/csrc/custom_all_reduce.cuh:453 'an illegal memory access was encountered'\n"
    )
    assert [(f.name, f.through) for f in read(CudaReader, text) if isinstance(f, CudaError)] == [
        ("LaunchFailure", "nccl"),
        ("IllegalAddress", "python"),
    ]


def test_group_of_the_watchdog(read: Read) -> None:
    """The prefix of the last words."""
    (fact,) = read(
        CudaReader,
        "[rank9]:[E1206 1:1:1 x] [PG ID 4 PG GUID 11(ep) Rank 1] Process group watchdog thread terminated with exception: CUDA error: hardware stack error",
    )
    assert isinstance(fact, CudaError)
    assert fact.group == GroupTag(pg_id=4, guid="11", description="ep", rank=1)


def test_assertions_of_all_threads_are_one(read: Read) -> None:
    """Thousands of lines, one fact; another expression is another."""
    line = "../aten/src/ATen/native/cuda/Indexing.cu:1231: indexSelect: block: [51,0,0], thread: [{n},0,0] Assertion `{what}` failed."
    text = "\n".join(
        [line.format(n=n, what="srcIndex < srcSelectDimSize") for n in range(40)]
        + [
            "C:\\b\\Loss.cu:250: nll: block: [0,0,0], thread: [1,0,0] Assertion `t >= 0 && t < n_classes` failed."
        ]
    )
    facts = [f for f in read(CudaReader, text) if isinstance(f, DeviceAssert)]
    assert [(f.expression, f.copies) for f in facts] == [
        ("srcIndex < srcSelectDimSize", 40),
        ("t >= 0 && t < n_classes", 1),
    ]
    assert facts[0].file == "../aten/src/ATen/native/cuda/Indexing.cu"


MEMORY = {
    "1.13": "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 3; 79.15 GiB total capacity; 75.00 GiB already allocated; 1.00 GiB free; 76.00 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory try",
    "2.1": "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacty of 79.15 GiB of which 1.00 GiB is free. Including non-PyTorch memory, this process has 78.10 GiB memory in use. Of the allocated memory 75.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated.",
    "2.5": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 79.15 GiB of which 1.00 GiB is free. Process 123 has 510.00 MiB memory in use. Process 456 has 1.50 GiB memory in use. Including non-PyTorch memory, this process has 76.10 GiB memory in use. Of the allocated memory 75.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved",
}


@pytest.mark.parametrize("version", MEMORY)
def test_memory_in_three_wordings(read: Read, version: str) -> None:
    """The same numbers of GPU 3, in MiB; foreign processes where they are told."""
    (fact,) = read(CudaReader, MEMORY[version])
    assert isinstance(fact, CudaOutOfMemory)
    assert (fact.device, fact.wanted, fact.total) == (3, 2048.0, 81049.6)
    assert (fact.free, fact.allocated) == (1024.0, 76800.0)
    assert fact.others == (((123, 510.0), (456, 1536.0)) if version == "2.5" else ())


def test_memory_refused_in_advance(read: Read) -> None:
    """2.14 tells only what was asked for."""
    (fact,) = read(
        CudaReader,
        "torch.OutOfMemoryError: CUDA out of memory. Allocation was preemptively rejected because it would exceed per_process_memory_fraction limit. Requested size: 512.00 MiB",
    )
    assert isinstance(fact, CudaOutOfMemory)
    assert (fact.wanted, fact.device, fact.total) == (512.0, None, None)


def test_source_code_is_no_error(read: Read) -> None:
    """A pasted line that would print an error."""
    assert read(CudaReader, 'raise RuntimeError(f"CUDA error: {err}")') == []


def test_an_error_of_counting_the_devices(read: Read) -> None:
    """``torch/csrc/cuda/Module.cpp`` and ``CUDAFunctions.cpp`` put the number before the text."""
    (fact,) = read(
        CudaReader,
        "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions "
        "before calling NumCudaDevices() that might have already set an error? Error 802: system "
        "not yet initialized\n",
    )
    assert isinstance(fact, CudaError)
    assert (fact.name, fact.text) == ("NotReady802", "system not yet initialized")


def test_an_error_that_triton_met(read: Read) -> None:
    """``triton/backends/nvidia/driver.py`` puts the back end in brackets."""
    (fact,) = read(
        CudaReader, "RuntimeError: Triton Error [CUDA]: an illegal memory access was encountered\n"
    )
    assert isinstance(fact, CudaError)
    assert (fact.name, fact.through) == ("IllegalAddress", "python")


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("(2) : out of memory at /pytorch/aten/src/THC/THCGeneral.cu:70", "OutOfMemory"),
        ("(59) : device-side assert triggered at /x/THC/generic/THCStorage.cpp:39", "Assert"),
        ("(77): an illegal memory access was encountered at /x/y.cu:3", "IllegalAddress"),
    ],
)
def test_words_of_thc(read: Read, words: str, name: str) -> None:
    """Up to PyTorch 1.9 the old back end printed the number, and its own place behind the words."""
    (fact,) = read(CudaReader, f"RuntimeError: cuda runtime error {words}\n")
    assert isinstance(fact, CudaError)
    assert fact.name == name
    assert " at /" not in fact.text


def test_a_title_that_repeats_the_log_is_no_error_of_its_own(read: Read) -> None:
    """The log's line stays: it tells the rank."""
    (fact,) = read(
        CudaReader,
        """# NCCL watchdog thread terminated with exception: CUDA error: an illegal memory access was encountered
It breaks all of a sudden:
[E ProcessGroupNCCL.cpp:915] [Rank 3] NCCL watchdog thread terminated with exception: CUDA error: an illegal memory access was encountered
""",
    )
    assert isinstance(fact, CudaError)
    assert (fact.place.line, fact.group.rank) == (3, 3)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("Failed: /w/csrc/custom_all_reduce.cuh:368 'invalid argument'", "InvalidValue"),
        ("Failed: Cuda error /w/csrc/custom_all_reduce.cuh:455 'invalid argument'", "InvalidValue"),
        ("[torch_memory_saver.cpp] CUresult error: 2 (out of memory)  file=csrc/utils.h", "OutOfMemory"),
        ("CUDA Error: out of memory at /w/csrc/cumem_allocator.cpp:62", "OutOfMemory"),
    ],
)  # fmt: skip
def test_words_of_engines_extensions(read: Read, line: str, name: str) -> None:
    (fact,) = read(CudaReader, line + "\n")
    assert isinstance(fact, CudaError)
    assert fact.name == name
    assert fact.text in ("invalid argument", "out of memory")
