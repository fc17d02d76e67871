"""``library-mismatch``: libraries that were not built for each other."""

from __future__ import annotations

import re
from collections.abc import Iterable

from unstall.causes.base import (
    FAIR,
    STRONG,
    WEAK,
    Cause,
    LookAlike,
    evidence,
    excerpt,
    origin_of,
)
from unstall.causes.reasons import went_on
from unstall.job import Job
from unstall.model.facts import (
    CudaError,
    Fact,
    NcclError,
    NcclWarning,
    PackageVersion,
    PythonException,
    WarningLine,
)
from unstall.model.findings import Evidence, Exonerated, Finding, Fix
from unstall.model.text import Text, say

#: The loader's words (glibc), each a proof that a library is not the one it was built against.
_SYMBOL = re.compile(r"undefined symbol: ?([\w@.]{1,200})")
_VERSIONED = re.compile(r"version [`'\"]?((?:GLIBCXX|CXXABI|GLIBC)_[\d.]{1,12})[`'\"]? not found")
_ABSENT = re.compile(
    r"(lib(?:cudart|cublas|cublasLt|cudnn\w{0,40}|nccl|nvrtc|cusparse\w{0,8}|cufft|torch\w{0,20}|"
    r"c10\w{0,10}|nvJitLink|cuda|cupti|mpi)[\w.-]{0,20}\.so[\d.]{0,12}): cannot open shared object"
)
_NAME = re.compile(
    r"cannot import name ['\"](\w{1,80})['\"] from (?:partially initialized module )?"
    r"['\"]((?:vllm|torch|transformers|trl|accelerate|peft|deepspeed|flash_attn|sglang|verl|"
    r"tokenizers|huggingface_hub|triton|xformers|megatron|apex|transformer_engine|datasets|"
    r"numpy)[\w.]{0,120})['\"]"
)
_CUDA_PACKAGE = re.compile(r"(nvidia-[a-z0-9-]{2,40})-cu1[1-9]")
#: CUDA errors that mean: this build, this driver or this GPU do not go together.
_CUDA = {
    "InsufficientDriver": say("the driver is older than the CUDA runtime of this build needs"),
    "NoKernelImageForDevice": say("the build holds no kernels for this kind of GPU"),
    "CompatNotSupportedOnDevice": say(
        "the CUDA compatibility libraries do not work with this driver and GPU"
    ),
}


def examine(job: Job) -> Iterable[Finding]:
    """One claim for the first library that does not fit."""
    found = [item for item in _signs(job) if went_on(job, item[0]) is None]
    if all(isinstance(fact, WarningLine) and kind == "packages" for fact, _, _, kind in found):
        return  # nothing at all, or an installer's notice, which stops nothing
    fact, text, weight, kind = min(found, key=lambda item: (-item[2], item[0].place))
    support: list[Evidence] = [evidence(text, weight, fact)]
    for other, words, _, sort in found:
        if sort != kind:
            support.append(evidence(words, WEAK, other))
            break
    support.extend(_mixed(job))
    ranks = sorted({f.speaker.rank for f, *_ in found if f.speaker.rank is not None})
    yield Finding(
        cause="library-mismatch",
        summary=_summary(kind),
        support=tuple(support),
        fixes=_fixes(kind),
        next_step=say(
            "in the very environment of the run: python -m torch.utils.collect_env, pip list, and "
            "ldd of the library that is named (with echo $LD_LIBRARY_PATH) show which file is "
            "really loaded; compare them on every node"
        ),
        origin=origin_of(job.owner(fact), ranks if len(ranks) == 1 else (), role="node"),
        started_at=job.chronology.with_year(fact.moment),
        exonerated=(
            Exonerated(
                "gpu-hardware",
                say("a library could not be used; the device itself was never asked"),
                (fact.place,),
            ),
        ),
        excerpts=(excerpt(fact, "origin"),),
    )


_Sign = tuple[Fact, Text, float, str]


def _signs(job: Job) -> Iterable[_Sign]:
    for exception in job.all(PythonException):
        yield from _of_words(exception, exception.message[:2000])
    for line in job.all(WarningLine):
        if line.topic in ("undefined-symbol", "driver-too-old"):
            yield from _of_words(line, line.quote)
            if line.topic == "driver-too-old":
                yield (
                    line,
                    say(
                        "PyTorch says that the NVIDIA driver is too old for the CUDA it was built "
                        "for"
                    ),
                    STRONG + FAIR,
                    "driver",
                )
        elif line.topic == "version":
            yield (
                line,
                say("packages that do not fit are installed: {quote}", quote=line.quote[:160]),
                FAIR,
                "packages",
            )
    for error in job.all(CudaError):
        words = _CUDA.get(error.name)
        if words is not None:
            yield error, words, STRONG + FAIR, "driver"
    for warning in job.all(NcclWarning):
        if warning.topic == "version":
            yield _nccl(warning, warning.message)
    for failed in job.all(NcclError):
        if failed.last_error and re.search(
            r"ersion.{0,40}ismatch|ismatch.{0,40}ersion", failed.last_error
        ):
            yield _nccl(failed, failed.last_error)
    versions = {v.version.split("+")[0] for v in job.all(PackageVersion) if v.name == "nccl"}
    hosts = {
        (v.speaker.host, v.version.split("+")[0])
        for v in job.all(PackageVersion)
        if v.name == "nccl" and v.speaker.host
    }
    if len(versions) > 1 and len({host for host, _ in hosts}) > 1 and len(hosts) > 1:
        one = next(v for v in job.all(PackageVersion) if v.name == "nccl")
        yield (
            one,
            say(
                "the nodes have different versions of NCCL: {versions}",
                versions=", ".join(sorted(versions)),
            ),
            STRONG,
            "nccl",
        )


def _nccl(fact: Fact, words: str) -> _Sign:
    return (
        fact,
        say("NCCL met a peer or a library of another version: {words}", words=words[:160]),
        STRONG + FAIR,
        "nccl",
    )


def _of_words(fact: Fact, words: str) -> Iterable[_Sign]:
    if (found := _SYMBOL.search(words)) is not None:
        yield (
            fact,
            say(
                "the loader found no {symbol}: the library that was loaded is not the one that "
                "this file was built against",
                symbol=found[1][:100],
            ),
            STRONG + STRONG,
            "symbol",
        )
    elif (found := _VERSIONED.search(words)) is not None:
        yield (
            fact,
            say("the C++ library of the system is too old: {version} is missing", version=found[1]),
            STRONG + STRONG,
            "symbol",
        )
    elif (found := _ABSENT.search(words)) is not None:
        yield (
            fact,
            say(
                "{library} was not found: the package was built for another CUDA or torch than is "
                "installed",
                library=found[1],
            ),
            STRONG + FAIR + WEAK,
            "absent",
        )
    elif (found := _NAME.search(words)) is not None:
        yield (
            fact,
            say(
                "{module} has no {name}: the installed release is another one than the caller was "
                "written for",
                module=found[2],
                name=found[1],
            ),
            STRONG + FAIR + WEAK,
            "packages",
        )


def _mixed(job: Job) -> Iterable[Evidence]:
    """NVIDIA's packages for two CUDA releases in one environment."""
    seen: dict[str, tuple[str, PackageVersion]] = {}
    for version in job.all(PackageVersion):
        found = _CUDA_PACKAGE.search(version.quote)
        if found is None:
            continue
        name, other = seen.setdefault(found[1], (found[0], version))
        if name != found[0]:
            yield evidence(
                say(
                    "{one} {first} and {other} {second} are installed side by side: both bring the "
                    "same library",
                    one=name,
                    first=other.version,
                    other=found[0],
                    second=version.version,
                ),
                FAIR,
                version,
            )
            return


def _summary(kind: str) -> Text:
    if kind == "driver":
        return say("This build, the driver and the GPU do not fit together.")
    if kind == "nccl":
        return say("The processes use different versions of NCCL, which do not work together.")
    if kind == "packages":
        return say("Installed packages are of releases that do not fit together.")
    return say(
        "A library was loaded that is not the one this program was built against: the environment "
        "mixes packages."
    )


def _fixes(kind: str) -> tuple[Fix, ...]:
    fixes: list[Fix] = []
    if kind == "driver":
        fixes.append(
            Fix(
                say(
                    "install the build for the driver's CUDA and this GPU (nvidia-smi shows the "
                    "highest CUDA that the driver can), or update the driver"
                )
            )
        )
    elif kind == "nccl":
        fixes.append(
            Fix(
                say(
                    "the same NCCL on every node and in every program that shares a communicator: "
                    "the same image, no NCCL of the system before that of the environment in "
                    "LD_LIBRARY_PATH, no LD_PRELOAD of another"
                )
            )
        )
    fixes.append(
        Fix(
            say(
                "make a clean environment and install the framework's pinned versions in one step; "
                "do not mix packages of cu11, cu12 and cu13, conda and pip"
            )
        )
    )
    if kind in ("symbol", "absent"):
        fixes.append(
            Fix(
                say(
                    "reinstall or rebuild the extension that is named (flash-attn, apex, xformers, "
                    "DeepSpeed ops) against the installed torch; unset LD_LIBRARY_PATH to see "
                    "whether a foreign library came first"
                )
            )
        )
    return tuple(fixes)


CAUSE = Cause(
    id="library-mismatch",
    family="launch and configuration",
    title=say("libraries that do not fit together"),
    about=say(
        "Compiled extensions, torch, CUDA, NCCL and the driver are built for certain versions of "
        "each other. An environment that mixes them fails at import, at the first kernel, or at "
        "the first communicator, often on one node or in one program only."
    ),
    shows=(
        say("“undefined symbol”, “GLIBCXX … not found”, “cannot open shared object file”"),
        say("“driver version is insufficient”, “no kernel image is available”"),
        say("“NCCL version mismatch”, or different NCCL versions printed by different nodes"),
    ),
    decide=say(
        "pip list, ldd and the driver's version in the environment of the run, on each node"
    ),
    remedies=(
        say("a clean environment with the framework's pinned versions"),
        say("the same image on every node"),
    ),
    look_alikes=(
        LookAlike(
            "device-overlap", say("NCCL's “invalid usage” without versions: two ranks, one GPU")
        ),
        LookAlike("python-exception", say("the user's own module misses a name")),
        LookAlike("illegal-memory-access", say("the kernel ran and then failed")),
    ),
    examine=examine,
    sources=(
        "glibc ld.so messages; CUDA Runtime API, errors 35, 209, 804",
        "pytorch issue 119072 (undefined symbol: ncclCommRegister)",
    ),
)
