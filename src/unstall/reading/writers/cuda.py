"""CUDA errors, device-side assertions and exhausted device memory.

Sources: ``c10/cuda/CUDAException.cpp``, ``CUDACachingAllocator.cpp`` (torch 1.13 to 2.15),
``cudaGetErrorString`` of the CUDA runtime 11 and 12. Of the three to five lines of an error only
the first holds the cause. ROCm builds print the same with HIP.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable

from unstall.model.facts import NOBODY, CudaError, DeviceAssert, Fact, GroupTag
from unstall.reading.line import Line
from unstall.reading.writers.cuda_memory import OUT_OF_MEMORY, out_of_memory
from unstall.reading.writers.drafts import Draft, Drafts, channel, said, somebody
from unstall.reading.writers.recent import FRAME_MARKS, RecentFrames
from unstall.reading.writers.stamps import Stamp, nccl_stamp, records
from unstall.reading.writers.tags import group_tag

NAMES = (
    ("an illegal memory access was encountered", "IllegalAddress"),
    ("device-side assert triggered", "Assert"),
    ("unspecified launch failure", "LaunchFailure"),
    ("misaligned address", "MisalignedAddress"),
    ("an illegal instruction was encountered", "IllegalInstruction"),
    ("hardware stack error", "HardwareStackError"),
    ("uncorrectable ECC error encountered", "EccUncorrectable"),
    ("uncorrectable NVLink error", "NvlinkUncorrectable"),
    ("Invalid access of peer GPU memory over nvlink", "Contained"),
    ("the launch timed out and was terminated", "LaunchTimeout"),
    ("out of memory", "OutOfMemory"),
    ("device(s) is/are busy or unavailable", "DevicesUnavailable"),
    ("no CUDA-capable device is detected", "NoDevice"),
    ("invalid device ordinal", "InvalidDevice"),
    ("no kernel image is available", "NoKernelImageForDevice"),
    ("initialization error", "InitializationError"),
    ("system not yet initialized", "NotReady802"),
    ("MPS client failed to connect", "MpsConnectionFailed"),
    ("context is destroyed", "ContextIsDestroyed"),
    ("driver shutting down", "CudartUnloading"),
    ("driver version is insufficient", "InsufficientDriver"),
    ("operation not permitted when stream is capturing", "StreamCaptureUnsupported"),
    ("operation failed due to a previous error during capture", "StreamCaptureInvalidated"),
    ("operation not permitted on an event last recorded in a capturing stream", "CapturedEvent"),
    ("operation would result in a merge of separate capture", "StreamCaptureMerge"),
    ("operation would make the legacy stream depend on a capturing", "StreamCaptureImplicit"),
    ("dependency created on uncaptured work in another stream", "StreamCaptureIsolation"),
    ("peer access is not supported", "PeerAccessUnsupported"),
    ("peer access is already enabled", "PeerAccessAlreadyEnabled"),
    ("too many resources requested for launch", "LaunchOutOfResources"),
    ("invalid configuration argument", "InvalidConfiguration"),
    ("invalid resource handle", "InvalidResourceHandle"),
    ("invalid program counter", "InvalidPc"),
    ("forward compatibility was attempted", "CompatNotSupportedOnDevice"),
    ("operation not supported on global/shared address space", "InvalidAddressSpace"),
    ("invalid argument", "InvalidValue"),
    ("operation not supported", "NotSupported"),
    ("unknown error", "Unknown"),
)
_SYMBOLS = {
    "MemoryAllocation": "OutOfMemory",
    "ECCUncorrectable": "EccUncorrectable",
    "NvlinkUncorrectable": "NvlinkUncorrectable",
    "SystemNotReady": "NotReady802",
}
_ERROR = re.compile(
    r"(?:(?:CUDA|HIP) (?:runtime |driver )?[Ee]rror(?: \d{1,4})?|Triton Error \[(?:CUDA|HIP)\]"
    r"|cuda(?: runtime)? error \(\d{1,4}\) ?)"
    r": {0,2}(\S.{0,500})"
    r"|Cuda failure (?:\d{1,4} )?'([^']{1,200})'"
    r"|C(?:UDA|uda) error (?:in )?[^\s']{1,300}:\d{1,7} '([^']{1,200})'"
    r"|from cudaGetDeviceCount\(\).{0,200}?Error \d{1,4}: (\S.{0,200})"
    # vLLM's custom_all_reduce.cuh up to 0.8; torch_memory_saver, by which SGLang's engines sleep
    r"|Failed: [^\s']{1,300}\.cuh?:\d{1,7} '([^']{1,200})'"
    r"|CUresult error: \d{1,4} \(([^)]{1,200})\)",
    re.ASCII,
)
_RUNTIME_API = re.compile(
    r"(?:AcceleratorError|CudaError|CUDARuntimeError): (cudaError\w{1,60}): ?(\S.{0,300})", re.ASCII
)
# The driver's names of errors that end a process; a missing device is often only a remark.
_DRIVER_API = re.compile(
    r"\bCUDA_ERROR_(?:ECC_UNCORRECTABLE|NVLINK_UNCORRECTABLE|CONTAINED|ILLEGAL_ADDRESS"
    r"|LAUNCH_FAILED|MISALIGNED_ADDRESS)\b(?: ?\(\d{1,4}\))?[:,] ?(\S.{0,300})",
    re.ASCII,
)
_THC_PLACE = re.compile(r" at /?[\w./-]{1,300}:\d{1,7}\W{0,4}$", re.ASCII)
_SYMBOL = re.compile(r"Search for [`']cudaError(\w{1,60})'", re.ASCII)
_CUBLAS = re.compile(r"(CUBLAS|CUDNN|CUSOLVER|CUSPARSE|CUFFT)_STATUS_(\w{1,60})", re.ASCII)
_ASYNC_NOTES = ("CUDA kernel errors might", "HIP kernel errors might", "For debugging consider")
_LAST_NOTE = ("Compile with", "enable device-side assertions")
_WATCHDOG = ("watchdog thread terminated", "[TC]", "event query:", "raised the following async")
_FOLLOW = 6
_ASSERT = re.compile(r"Assertion [`'\"]?(.{1,400}?)[`'\"]? failed", re.ASCII)
_PLACE = re.compile(
    r"^[\"'`*]*(\S{1,300}\.(?:cuh?|hip|hpp|h|cpp|cc|py|inl)):(\d{1,7}):?$", re.ASCII
)
_OPEN_AT_MOST = 256


class _Open:
    """An error whose notes may follow."""

    __slots__ = ("asynchronous", "draft", "lines")

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.lines = 0
        self.asynchronous = False


class CudaReader:
    """Facts of CUDA's errors, wherever they are printed."""

    marks: tuple[str, ...] = (
        "CUDA error",
        "HIP error",
        "CUDA driver error",
        "CUDA runtime error",
        "Cuda failure",
        "Cuda error",
        "CUDA Error",
        "Failed: /",
        "CUresult error",
        "cuda runtime error (",  # THC, up to PyTorch 1.9
        "cuda error (",
        "cudaError",
        "CUDA_ERROR_",
        "from cudaGetDeviceCount()",
        "Triton Error [",
        *OUT_OF_MEMORY,
        "Assertion ",
        "CUDA kernel errors might",
        "HIP kernel errors might",
        "For debugging consider passing",
        "to enable device-side assertions",
        *FRAME_MARKS,
    )

    def __init__(self) -> None:
        self._drafts = Drafts()
        self._frames = RecentFrames()
        self._open: OrderedDict[object, _Open] = OrderedDict()

    @property
    def wants_more(self) -> bool:
        """Never: the notes under an error have marks of their own."""
        return False

    def feed(self, line: Line) -> Iterable[Fact]:
        """Facts that left the window by this line."""
        self._frames.feed(line)
        for record in records(line.text):
            stamp = record if isinstance(record, Stamp) else None
            text = stamp.message if stamp is not None else str(record)
            if " block: [" in text and "Assertion" in text:
                self._assertion(text, line, stamp)
            elif any(words in text for words in OUT_OF_MEMORY):
                base = said(line, stamp)
                fact = out_of_memory(text, base)
                frames = self._frames.take(line.speaker)
                key = ("oom", fact.device, fact.wanted, fact.free, fact.allocated)
                self._drafts.say(fact, key, anonymous=not frames)
            elif not self._error(text, line, stamp):
                self._note(text, line)
        return self._drafts.overflow()

    def finish(self) -> Iterable[Fact]:
        """The facts still held."""
        return self._drafts.drain()

    def _error(self, text: str, line: Line, stamp: Stamp | None) -> bool:
        found = _ERROR.search(text)
        symbol = None
        if found is not None:
            words = next(group for group in found.groups() if group)
        elif (found := _RUNTIME_API.search(text)) is not None:
            symbol, words = found[1].removeprefix("cudaError"), found[2]
        elif (found := _DRIVER_API.search(text)) is not None:
            words = found[1]
        else:
            return False
        words = words.split("\\n", 1)[0].split("CUDA kernel errors might", 1)[0]
        words = _THC_PLACE.sub("", words)
        words = words.strip(" *\"'`")
        name = canonical(words, symbol)
        if name is None or not words:
            return False
        before = text[: found.start()]
        nccl = found[0].startswith("Cuda failure")
        base = said(line, (nccl_stamp(line.text) or stamp) if nccl else stamp)
        watchdog = not nccl and any(mark in before for mark in _WATCHDOG)
        through = "nccl" if nccl else "watchdog" if watchdog else "python"
        group = group_tag(before) if watchdog else GroupTag()
        frames = self._frames.take(line.speaker) if through == "python" else ()
        fact = CudaError(**base, name=name, text=words, through=through, group=group, frames=frames)
        draft = None
        key = (name, words)
        for known in self._drafts.alike(key, fact.speaker, fact.moment):
            if self._same(known, fact):
                if _is_title(known.fact) and not _is_title(fact):
                    # a report's title repeats a line of its log, which tells more
                    known.change(place=fact.place, quote=fact.quote, group=fact.group)
                known.copy_seen(fact.speaker)
                draft = known
                break
        if draft is None:
            draft = self._drafts.add(fact, key)
        self._open[channel(fact.speaker)] = _Open(draft)
        self._open.move_to_end(channel(fact.speaker))
        if len(self._open) > _OPEN_AT_MOST:
            self._open.popitem(last=False)
        return True

    def _same(self, draft: Draft, fact: CudaError) -> bool:
        """Whether the text is a copy: what() after the watchdog's line, Ray's after both."""
        known = draft.fact
        if not isinstance(known, CudaError) or known.through != fact.through:
            return False
        if _is_title(known):
            return True
        if known.group.rank != fact.group.rank or (
            None not in (known.group.pg_id, fact.group.pg_id)
            and known.group.pg_id != fact.group.pg_id
        ):
            return False
        if fact.through == "python":
            # Bare lines of several processes look alike; a traceback of its own is another error.
            if fact.frames and known.frames and fact.frames != known.frames:
                return False
            return not fact.frames or (somebody(fact.speaker) and somebody(known.speaker))
        return True

    def _note(self, text: str, line: Line) -> None:
        one = self._open.get(channel(line.speaker))
        if one is None:
            return
        one.lines += 1
        fact = one.draft.fact
        if (found := _SYMBOL.search(text)) is not None:
            name = canonical("", found[1])
            if isinstance(fact, CudaError) and fact.name == "Other" and name is not None:
                one.draft.change(name=name)
        elif any(words in text for words in _ASYNC_NOTES):
            one.asynchronous = True
        elif any(words in text for words in _LAST_NOTE):
            # Both notes are left out where launches are blocking.
            if not one.asynchronous:
                one.draft.change(blocking=True)
            del self._open[channel(line.speaker)]
            return
        if one.lines > _FOLLOW:
            del self._open[channel(line.speaker)]

    def _assertion(self, text: str, line: Line, stamp: Stamp | None) -> None:
        found = _ASSERT.search(text)
        if found is None:
            return
        head = text[: text.find(" block: [")][-1200:]
        place = next((hit for hit in map(_PLACE.match, head.split()) if hit), None)
        fact = DeviceAssert(
            **said(line, stamp), file=place[1] if place else "", expression=found[1].strip()
        )
        self._drafts.say(fact, anonymous=True)


def _is_title(fact: Fact) -> bool:
    """Whether it is a heading that a person put over a log."""
    return fact.quote.startswith("# ") and fact.speaker == NOBODY


def canonical(words: str, symbol: str | None = None) -> str | None:
    """The canonical name of an error's text; ``Other`` for a text that is not known.

    ``None`` where the text is no error's (``CUDA error: no error``, NCCL's own line).
    """
    if symbol is not None:
        return _SYMBOLS.get(symbol, symbol)
    if found := _CUBLAS.search(words):
        parts = [found[1], *found[2].split("_")]
        return "".join(part.capitalize() for part in parts)
    for known, name in NAMES:
        if known in words:
            return name
    return None if words.startswith(("no error", "{", "%", '"')) else "Other"
