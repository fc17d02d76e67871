"""A hand-made diagnosis of a job with two programs, in English and Chinese; all of it made up."""

from __future__ import annotations

from datetime import datetime

from unstall.model.facts import Moment, Place, Unreadable
from unstall.model.findings import (
    Change,
    Collective,
    Diagnosis,
    Evidence,
    Excerpt,
    Exonerated,
    Finding,
    Fix,
    Origin,
    ProcessGroup,
    Ranked,
)
from unstall.model.plan import (
    Cited,
    Judgement,
    Parallel,
    Plan,
    Port,
    Program,
    Timeout,
    Value,
)
from unstall.model.text import Text, verbatim

LOG = "runs/2031-03/answers.log"
SCRIPT = "launch_both.sh"


class Sample:
    """Builds the parts in a language; ``tell`` picks the sentence."""

    def __init__(self, language: str) -> None:
        self.language = language

    def tell(self, english: str, chinese: str) -> Text:
        return verbatim(chinese if self.language == "zh" else english)

    def see(self, line: int, weight: float, english: str, chinese: str) -> Evidence:
        return Evidence(self.tell(english, chinese), Place(LOG, line), weight)

    def know(self, source: str, weight: float, english: str, chinese: str) -> Evidence:
        return Evidence(self.tell(english, chinese), None, weight, source)

    def desync(self) -> Finding:
        tell, see = self.tell, self.see
        return Finding(
            cause="engine-desync",
            summary=tell(
                "The answer server's two engines fell out of step: engine 1 never entered the "
                "all-reduce in which engine 0 waited.",
                "推理服务的两个引擎失去同步：引擎 1 始终没有进入引擎 0 正在等待的 all-reduce。",
            ),
            support=(
                see(41, 1.6, "Only ranks 0 and 1 speak.", "只有 rank 0 和 rank 1 有输出。"),
                see(
                    43,
                    2.4,
                    "The default group was never used (last enqueued -1).",
                    "默认进程组从未使用过（last enqueued 为 -1）。",
                ),
                see(
                    42,
                    3.2,
                    "PG ID 4 with PG GUID 12 is the data-parallel group in the order in which "
                    "this version creates its groups.",
                    "按该版本创建进程组的顺序，PG ID 4、PG GUID 12 正是数据并行组。",
                ),
                self.know(
                    "vLLM 0.9 forward_context.py",
                    1.4,
                    "Each engine adds one all-reduce of 2 elements per step.",
                    "每个引擎每一步都会发起一次 2 个元素的 all-reduce。",
                ),
                see(
                    42,
                    5.1,
                    "Rank 0 entered operation 7009, rank 1 stopped after 7008.",
                    "rank 0 进入了第 7009 号操作，rank 1 停在 7008。",
                ),
                see(
                    41,
                    0.6,
                    "The time-out is the library's default.",
                    "超时时间是该库的默认值。",
                ),
                see(
                    12,
                    0.5,
                    "The trainer had just asked for answers.",
                    "训练程序刚刚请求生成。",
                ),
            ),
            against=(
                see(
                    30,
                    0.4,
                    "The server answered a health check a minute before.",
                    "一分钟前服务还响应了健康检查。",
                ),
            ),
            fixes=(
                Fix(
                    tell(
                        "Start two independent servers instead of one with data parallel 2.",
                        "启动两个相互独立的服务，不要用数据并行 2 的单个服务。",
                    ),
                    Change("answer server", {"data_parallel_size": "1"}, ("VLLM_DP_SIZE",)),
                ),
                Fix(
                    tell(
                        "Use the asynchronous engine with its coordinator.",
                        "改用带协调器的异步引擎。",
                    ),
                    Change("answer server", {"use_async_engine": "true"}),
                ),
                Fix(tell("Upgrade the server.", "升级推理服务。")),
            ),
            next_step=tell(
                "While it hangs, take the stacks of the four server processes with py-spy dump.",
                "卡住时用 py-spy dump 抓取服务端四个进程的调用栈。",
            ),
            origin=Origin(
                "answer server",
                "rollout",
                "vllm",
                (1,),
                ProcessGroup(4, "12", None, tell("data-parallel group", "数据并行组"), (0, 1)),
            ),
            collective=Collective("ALLREDUCE", 7009, 2, 2, 600_000),
            waiting_ranks=(0,),
            started_at=Moment(datetime(1904, 3, 7, 4, 5, 6, 250_000), year_known=False),
            timeline=(
                see(12, 0, "Step 311 asks for answers.", "第 311 步请求生成。"),
                see(40, 0, "Engine 1 is idle.", "引擎 1 空闲。"),
                see(41, 0, "Rank 0's watchdog gives up.", "rank 0 的 watchdog 放弃等待。"),
            ),
        )

    def others(self) -> tuple[Ranked, ...]:
        late = Finding(
            cause="slow-rollout",
            summary=self.tell("Answers took longer than the time-out.", "生成耗时超过了超时时间。"),
            support=(self.see(12, 0.9, "A long prompt was sent.", "发送了一个很长的 prompt。"),),
            against=(self.see(40, 3.0, "No request was running.", "当时没有正在运行的请求。"),),
        )
        ports = Finding(
            cause="port-collision",
            summary=self.tell("A port was taken.", "端口被占用。"),
            support=(self.see(3, 0.3, "Both set MASTER_PORT.", "两者都设置了 MASTER_PORT。"),),
        )
        return Ranked(late, 0.06), Ranked(ports, 0.02)

    def settings(self) -> tuple[Judgement, ...]:
        def row(
            name: str,
            server: str,
            trainer: str,
            judgement: str,
            why: Text,
            line: int,
            correction: str | None = None,
        ) -> Judgement:
            return Judgement(
                name,
                {"answer server": server, "trainer": trainer},
                judgement,
                why,
                (Place(SCRIPT, line),),
                correction,
            )

        tell = self.tell
        apart = tell("Different devices.", "设备互不重叠。")
        plain = tell("Fits.", "相符。")
        return (
            row("CUDA_VISIBLE_DEVICES", "4,5", "0-3", "ok", apart, 9),
            row("MASTER_ADDR", "127.0.0.1", "127.0.0.1", "ok", plain, 3),
            row(
                "MASTER_PORT",
                "29701",
                "29702",
                "no effect",
                tell("The server picks a port of its own.", "服务会自行选择端口。"),
                4,
            ),
            row("NPROC_PER_NODE", "not set", "4", "ok", plain, 16),
            row(
                "data_parallel_size",
                "2",
                "not set",
                "conflict",
                tell(
                    "Two engines that must step together, without a coordinator.",
                    "两个引擎必须同步推进，却没有协调器。",
                ),
                12,
                "--data-parallel-size 1",
            ),
            row("tensor_parallel_size", "1", "not set", "ok", plain, 12),
            row("server port", "8911", "8911", "ok", tell("The same.", "一致。"), 13),
            row("PYTORCH_CUDA_ALLOC_CONF", "not set", "expandable", "ok", plain, 5),
            row(
                "readiness",
                "sleep 90",
                "-",
                "suspicious",
                tell("A fixed wait proves nothing.", "固定等待时间并不能证明服务已就绪。"),
                14,
            ),
            row("collective time-out", "10 min", "5 h", "ok", plain, 18),
            row("WANDB_API_KEY", "not set", "0123456789abcdef", "ok", plain, 6),
        )

    def programs(self) -> tuple[Program, ...]:
        server = Program(
            label="answer server",
            role="rollout",
            software="answerd",
            engine="vllm",
            command=("answerd", "serve", "--data-parallel-size", "2", "--port", "8911"),
            flags={"data_parallel_size": Value("2")},
            environment={"CUDA_VISIBLE_DEVICES": Value("4,5")},
            not_exported={"MASTER_PORT": Value("29701")},
            devices=(4, 5),
            processes=2,
            parallel=Parallel(tensor=1, data=2),
            ports=(Port("http", Value("8911"), host=Value("0.0.0.0")),),  # noqa: S104
            place=Place(SCRIPT, 12),
            background=True,
        )
        trainer = Program(
            label="trainer",
            role="trainer",
            software="torchrun",
            command=("torchrun", "--nproc-per-node", "4", "tune.py", "--hub_token", "hf_abc"),
            environment={"WANDB_API_KEY": Value("0123456789abcdef")},
            devices=(0, 1, 2, 3),
            processes=4,
            ports=(Port("http", Value("8911"), listens=False),),
            timeouts=(Timeout("ddp_timeout", 18_000_000, "process groups", Value("18000")),),
            versions={"torch": "2.7.1"},
            place=Place(SCRIPT, 16),
        )
        return server, trainer

    def exonerated(self) -> tuple[Exonerated, ...]:
        tell = self.tell
        return (
            Exonerated(
                "port-collision",
                tell("no two listeners share a port", "没有两个监听者使用同一端口"),
                (Place(SCRIPT, 4), Place(SCRIPT, 13)),
            ),
            Exonerated(
                "device-overlap",
                tell("the devices are disjoint", "设备互不重叠"),
                (Place(SCRIPT, 9),),
            ),
            Exonerated(
                "time-out too short",
                tell("rank 1 would never have come", "rank 1 根本不会到来"),
            ),
        )

    def diagnosis(self) -> Diagnosis:
        programs = self.programs()
        return Diagnosis(
            verdict="failure",
            causes=(Ranked(self.desync(), 0.91), *self.others()),
            programs=programs,
            plan=Plan(
                programs,
                notes=(
                    Cited(
                        self.tell(
                            "MASTER_PORT never reaches the server: it is not exported.",
                            "MASTER_PORT 没有导出，不会传给服务。",
                        ),
                        (Place(SCRIPT, 4),),
                    ),
                ),
                versions={"vllm": "0.9.2"},
            ),
            settings=self.settings(),
            exonerated=self.exonerated(),
            excerpts=(
                Excerpt(
                    Place(LOG, 42),
                    "[rank0]:[E307 04:15:06 ProcessGroupNCCL.cpp:685] Watchdog caught collective "
                    "operation timeout: WorkNCCL(SeqNum=7009, OpType=ALLREDUCE, NumelIn=2)",
                    "messenger",
                ),
                Excerpt(Place(LOG, 40), "engine 1: idle, 0 running | @ops see #12", "origin"),
                Excerpt(Place(LOG, 60), "leaked shared_memory objects", "consequence"),
            ),
            benign=(
                Exonerated(
                    "leaked shared memory",
                    self.tell("a consequence of the abrupt end", "进程异常退出的后果"),
                    (Place(LOG, 60),),
                ),
            ),
            language=self.language,
            unread=(
                Unreadable(
                    place=Place("core.4711", 1),
                    quote="",
                    reason="A core file; skipped. Open it with gdb.",
                ),
            ),
            counts={"lines": 1204, "sources": 3, "bytes": 88_000, "facts": 57},
        )

    def healthy(self) -> Diagnosis:
        return Diagnosis(
            verdict="benign",
            benign=(
                Exonerated(
                    "process group not destroyed",
                    self.tell(
                        "the job had ended; only its last call is missing",
                        "任务已结束，只是少了最后一次调用",
                    ),
                    (Place(LOG, 7),),
                ),
            ),
            counts={"lines": 80, "sources": 1},
        )

    def undecided(self) -> Diagnosis:
        unknown = Finding(
            cause="unknown",
            summary=self.tell(
                "one watchdog line of one rank says only that it waited.",
                "仅有一个 rank 的一行 watchdog 日志，只能说明它在等待。",
            ),
            support=(self.see(5, 1.0, "Nothing else was given.", "没有其他信息。"),),
            next_step=self.tell(
                "The logs of all ranks from the same minutes.", "同一时段所有 rank 的日志。"
            ),
        )
        late = self.others()[0].finding
        return Diagnosis(
            verdict="inconclusive",
            causes=(Ranked(unknown, 0.6), Ranked(late, 0.3)),
            counts={"lines": 1, "sources": 1},
        )
