"""A scheduler takes the job's nodes away, again and again, before there is a checkpoint."""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from unstall.experiments.child import ROLE, Lab, die_with_parent, say_line
from unstall.experiments.scenario import Change, Control, Ended, ProgramSpec, Says, Scenario
from unstall.experiments.scenarios._training import log_step, tiny_model
from unstall.model.text import say

SCENARIO = Scenario(
    name="preempted",
    causes=("preempted",),
    title=say("a scheduler takes the job's nodes away before its first checkpoint"),
    about=say(
        "A job with precedence wants the nodes: the scheduler says so as Slurm does, sends SIGTERM "
        "to the ranks, SIGKILL after a grace time, and puts the job back into the queue. The job "
        "resumes from its last checkpoint, but no allocation lasts until the first one, so that "
        "each begins at step 0. After some times the scheduler does not put it back any more."
    ),
    module="preempted",
    programs=(ProgramSpec("trainer", "scheduler", ranks=1, own_log=True),),
    changes=(
        Change(
            "save-and-resume",
            say("on SIGTERM the ranks agree on a step and save it within the grace time"),
        ),
        Change("checkpoint-often", say("several checkpoints in each allocation")),
    ),
    controls=(
        Control("undisturbed", say("nobody else wants the nodes: one allocation to the end")),
        Control(
            "suspended",
            say(
                "the scheduler stops the ranks for a while (SIGSTOP, SIGCONT) instead of ending "
                "them"
            ),
        ),
    ),
    fingerprint=(
        Says("trainer", "DUE TO PREEMPTION"),
        Says("trainer", ": Terminated"),
        Ended("trainer", 128 + signal.SIGTERM),
    ),
    expect="failure",
    steps=60,
    by=40,
    stall=30.0,
    sizes={"times": 0.25},
    size_texts={"times": say("how long an allocation lasts, in time-outs of the group")},
)

#: Steps for which a job is put back once: five times for 60 steps, Slurm's MaxBatchRequeue.
STEPS_A_REQUEUE = 12
#: How long a step takes at least, in time-outs of the group: 40 steps in an allocation at most.
STEP = 0.25 / 40
#: Steps from one checkpoint to the next: more than an allocation has, and much fewer.
SELDOM, OFTEN = 50, 5


# --- the scheduler -------------------------------------------------------------------------------


class Job:
    """One allocation of the job: its tasks, and what the scheduler says and does to them."""

    number = 4711
    node = "node01"

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        for name in ("trainer.store", "training"):  # of the allocation before
            (lab.folder / name).unlink(missing_ok=True)
        self.running = {_task(rank, lab.settings.ranks): rank for rank in range(lab.settings.ranks)}
        self.codes: dict[int, int] = {}

    def wait(self, seconds: float) -> bool:
        """Whether all tasks end within that time."""
        end = time.monotonic() + seconds
        while self.running and time.monotonic() < end:
            for pid in list(self.running):
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    self.codes[self.running.pop(pid)] = os.waitstatus_to_exitcode(status)
            time.sleep(0.02)
        return not self.running

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the tasks that have not ended."""
        for pid in self.running:
            os.kill(pid, number)

    def preempt(self) -> None:
        """Say that it is preempted, end it with a grace time (``KillWait``)."""
        clock = time.strftime("%Y-%m-%dT%H:%M:%S")
        for entity in (f"STEP {self.number}.0", f"JOB {self.number}"):
            say_line(
                f"slurmstepd: error: *** {entity} ON {self.node} CANCELLED AT {clock} "
                "DUE TO PREEMPTION ***"
            )
        self.send(signal.SIGCONT)
        self.send(signal.SIGTERM)
        if not self.wait(self.lab.timeouts(1)):
            self.send(signal.SIGKILL)
            self.wait(self.lab.timeouts(10))

    def suspend(self) -> None:
        """Stop it while another job runs, and let it go on."""
        self.send(signal.SIGTSTP)
        self.send(signal.SIGSTOP)
        time.sleep(self.lab.timeouts(0.25))
        self.send(signal.SIGCONT)

    def report(self) -> int:
        """Tell of the tasks that ended badly, as srun does; its exit code."""
        words = {-signal.SIGTERM: "Terminated", -signal.SIGKILL: "Killed"}
        for code in sorted(set(self.codes.values()) - {0}):
            tasks = [rank for rank, one in sorted(self.codes.items()) if one == code]
            which = f"task {tasks[0]}" if len(tasks) == 1 else f"tasks {_ranges(tasks)}"
            how = words.get(code, f"Exited with exit code {code}")
            say_line(f"srun: error: {self.node}: {which}: {how}")
        return max(128 - code if code < 0 else code for code in self.codes.values())


def _ranges(tasks: list[int]) -> str:
    """``[0, 1, 2, 4]`` as ``0-2,4``."""
    parts: list[list[int]] = []
    for task in tasks:
        if parts and parts[-1][-1] == task - 1:
            parts[-1][1:] = [task]
        else:
            parts.append([task])
    return ",".join("-".join(map(str, part)) for part in parts)


def _task(rank: int, world: int) -> int:
    """Start a rank; its process id."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        die_with_parent()
        os.environ.update(
            RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), **{ROLE: "rank"}
        )
        train(Lab())
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def schedule(lab: Lab) -> int:
    """Give the job one allocation after the other until it ends; its exit code."""
    wanted = lab.settings.fault and lab.settings.control != "undisturbed"
    code = 0
    for _ in range(1 + max(lab.settings.steps // STEPS_A_REQUEUE, 1)):
        job = Job(lab)
        # the time counts from the first step: loading is spared (as by PreemptExemptTime)
        while not (lab.folder / "training").exists() and not job.wait(0.05):
            pass
        preempted = wanted and not job.wait(lab.timeouts(lab.size("times")))
        if preempted and lab.settings.control == "suspended":
            job.suspend()
            preempted = wanted = False
        if preempted:
            job.preempt()
        else:
            job.wait(float("inf"))
        code = job.report()
        if not preempted:
            break
    return code


# --- the job -------------------------------------------------------------------------------------


def save_checkpoint(lab: Lab, torch: Any, step: int, state: dict[str, Any]) -> None:
    """Write a checkpoint: whole or not at all, for SIGTERM may come at any moment."""
    if lab.rank == 0:
        target = lab.folder / "output" / f"checkpoint-{step}"
        draft = target.with_name(f"tmp-{target.name}")
        draft.mkdir(parents=True, exist_ok=True)
        say_line(f"Saving model checkpoint to output/checkpoint-{step}")
        torch.save({"step": step, **state}, draft / "state.pt")
        draft.rename(target)


def last_checkpoint(folder: Path) -> Path | None:
    """The newest checkpoint, as ``get_last_checkpoint`` finds it."""
    found = folder.glob("checkpoint-*/state.pt")
    return max(found, key=lambda one: int(one.parent.name.partition("-")[2]), default=None)


def train(lab: Lab) -> None:
    """Train from the last checkpoint on."""
    told: list[int] = []
    if lab.changed("save-and-resume"):
        signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
    torch = lab.torch()
    dist = lab.join()
    model = torch.nn.parallel.DistributedDataParallel(tiny_model(torch))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    done = 0
    if lab.rank == 0:
        say_line("***** Running training *****")
    if (path := last_checkpoint(lab.folder / "output")) is not None:
        state = torch.load(path, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        done = state["step"]
        if lab.rank == 0:
            say_line(f"  Continuing training from global step {done}")
    dist.barrier()
    if lab.rank == 0:
        lab.publish("training", "")
    every = OFTEN if lab.changed("checkpoint-often") else SELDOM
    for step in range(done + 1, lab.settings.steps + 1):
        time.sleep(lab.timeouts(STEP))  # the loader has the next batch no sooner
        inputs = torch.randn(8, 16)
        loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        log_step(lab, step, loss.item())
        ending = step == lab.settings.steps
        if lab.changed("save-and-resume"):
            asked = torch.tensor(len(told))
            dist.all_reduce(asked, dist.ReduceOp.MAX)  # a signal reaches the ranks one by one
            ending = ending or bool(asked)
        if ending or step % every == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            save_checkpoint(lab, torch, step, state)
        if ending:
            break
    lab.leave(dist)


def main(lab: Lab) -> None:
    """Schedule the job; its tasks train."""
    sys.exit(schedule(lab))
