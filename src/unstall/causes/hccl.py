"""What HCCL's error codes mean for the causes, and what decides where they leave it open.

Meanings and steps are those of the CANN 8.0 to 9.0 manuals (HCCL user guide, troubleshooting) and
of hcomm's message table; see `unstall.reading.writers.hccl`.
"""

from __future__ import annotations

from collections.abc import Iterable

from unstall.causes.base import FAIR, STRONG, WEAK, evidence, excerpt, origin_of
from unstall.causes.deaths import rank_told
from unstall.job import Job
from unstall.model.facts import HcclError
from unstall.model.findings import Finding, Fix
from unstall.model.text import Text, say

_SOURCE = "CANN HCCL user guide 8.5, error codes"

#: Code to (cause, role of the origin, weight): what a code alone makes likely.
CAUSES: dict[str, tuple[str, str, float]] = {
    "EI0004": ("rendezvous-environment", "launcher", STRONG + FAIR),
    "EI0008": ("library-mismatch", "trainer", STRONG + STRONG),
    "EI0013": ("network-transport", "node", STRONG + WEAK),
    "EI0014": ("rendezvous-environment", "launcher", STRONG + FAIR),
    "EI0017": ("rendezvous-environment", "launcher", STRONG + FAIR),
    "EJ0001": ("device-overlap", "launcher", STRONG + WEAK),
    "EJ0002": ("network-transport", "node", STRONG + FAIR),
    "EJ0004": ("rendezvous-environment", "launcher", STRONG + FAIR),
    "Error cqe": ("network-transport", "node", STRONG + WEAK),
}


def claims(job: Job, cause: str) -> Iterable[Finding]:
    """The claim of one cause that rests on a code of HCCL, if there is one."""
    told = [error for error in job.all(HcclError) if CAUSES.get(error.code, ("",))[0] == cause]
    if not told:
        return
    first = told[0]
    _, role, weight = CAUSES[first.code]
    ranks = sorted({rank for one in told if (rank := rank_told(job, one)) is not None})
    owner = job.owner(first)
    yield Finding(
        cause=cause,
        summary=_summary(first),
        support=(
            evidence(
                say("HCCL reports {code}: {words}", code=first.code, words=first.reason[:160]),
                weight,
                first,
                source=_SOURCE,
            ),
        ),
        fixes=tuple(Fix(text) for text in _fixes(first)),
        next_step=step(first),
        origin=origin_of(owner if role == "trainer" else None, ranks[:2], role=role),
        started_at=job.chronology.with_year(first.moment),
        excerpts=(excerpt(first, "origin"),),
        ceiling=0.85,
    )


def headline(error: HcclError) -> Text:
    """What a code shows for certain."""
    if error.at is not None:
        return say(
            "HCCL's heartbeats saw the fault first at {place} ({kind}); the input does not tell "
            "what happened there.",
            place=error.at,
            kind=error.code,
        )
    if error.code in ("EI0006", "EI0009"):
        return say(
            "HCCL waited in vain for a connection to another NPU's process ({code}): that one was "
            "late, had failed, or cannot be reached. The input does not tell which.",
            code=error.code,
        )
    if error.code == "EI0015":
        return say(
            "The ranks of an HCCL group did not all meet in time (EI0015): one was late, had "
            "failed, or cannot be reached. The input does not tell which."
        )
    return say(
        "HCCL failed ({code}: {words}); the input does not tell why.",
        code=error.code,
        words=error.reason[:140],
    )


def _summary(error: HcclError) -> Text:
    code = error.code
    if code == "EJ0001":
        return say(
            "The NPU's HCCP process could not start: most likely a process of an earlier or other "
            "job still holds the device."
        )
    if code == "EI0008":
        return say("The ranks run different versions of HCCL.")
    if code == "EJ0002":
        return say("The network port of an NPU is down.")
    if code in ("EI0013", "Error cqe"):
        return say(
            "An RDMA transfer between NPUs was given up after its retries: the link failed, or the "
            "process at the other end had gone."
        )
    return say("The rank table or the NPU's address does not fit the machines.")


def _fixes(error: HcclError) -> tuple[Text, ...]:
    code = error.code
    if code == "EJ0001":
        return (
            say(
                "end what is left of the earlier job on that device (npu-smi info lists the "
                "processes), wait 10 s, start again"
            ),
            say("give every job and every rank NPUs of its own (ASCEND_RT_VISIBLE_DEVICES)"),
        )
    if code == "EI0008":
        return (say("install the same CANN release on all machines and in all containers"),)
    if CAUSES[code][0] == "network-transport":
        return (
            say(
                "mend the link that is told (hccn_tool -i DEVICE -link -g, -net_health -g, "
                "-optical -g; the switch's counters)"
            ),
            say(
                "until then a longer retry hides short interruptions: HCCL_RDMA_TIMEOUT, "
                "HCCL_RDMA_RETRY_CNT"
            ),
        )
    return (
        say(
            "make the rank table anew from what hccn_tool -i DEVICE -ip -g shows on every machine, "
            "or leave it out and let HCCL negotiate"
        ),
    )


def step(error: HcclError) -> Text:
    """What decides."""
    code = error.code
    if code == "EJ0001":
        return say("npu-smi info on that machine: which processes are on the device?")
    if error.at is not None and code != "Error cqe":
        return say(
            "read the log and plog of {place}: what its process did or how it ended before the "
            "others' time-outs",
            place=error.at,
        )
    if code in ("EI0006", "EI0009", "EI0015"):
        return say(
            "compare all ranks' first errors (~/ascend/log/debug/plog): a rank with another or no "
            "error is the one that the others waited for. If all say the same within "
            "HCCL_CONNECT_TIMEOUT (120 s), check the network: HCCL_SOCKET_IFNAME, hccn_tool -i "
            "DEVICE -tls -g on every machine, hccn_tool -i DEVICE -ping -g address PEER"
        )
    if CAUSES.get(code, ("",))[0] == "network-transport":
        return say(
            "see whether the process at the other end had ended before (its log, its plog); if it "
            "had not, it is the link: hccn_tool -i DEVICE -link -g and -stat -g at both ends"
        )
    return say("get the plog of every rank (~/ascend/log/debug/plog) from that time")
