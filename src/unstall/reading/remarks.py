"""What people note beside a log, in English and Chinese: silence, idle devices, what worked before.

Only lines that a person wrote are looked at, never a program's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from unstall.reading import retold

_I = re.IGNORECASE
_NUMBER = r"(\d{1,6}(?:\.\d{1,3})?)"
_UNIT = r"(hours?|hrs?|h|minutes?|mins?|min|m|days?|d|seconds?|secs?|s)\b"
_NUMBER_ZH = r"(\d{1,6}(?:\.\d{1,3})?|[一二两三四五六七八九十半])"
_ZH = {word: str(value) for value, word in enumerate("一二三四五六七八九十", 1)} | {
    "两": "2",
    "半": "0.5",
}
_UNIT_ZH = r"(?:个)?(?:多)?(小时|分钟|天|秒|h\b|min\b)"
_HOURS = {"h": 1.0, "m": 1 / 60, "d": 24.0, "s": 1 / 3600, "小": 1.0, "分": 1 / 60, "天": 24.0,
          "秒": 1 / 3600}  # fmt: skip

Values = dict[str, str]
_Make = Callable[[re.Match[str]], Values]


def _hours(found: re.Match[str]) -> Values:
    number = float(_ZH.get(found[1], found[1]))
    return {"hours": f"{number * _HOURS[found[2][0].lower()]:.4g}"}


def _nothing(_: re.Match[str]) -> Values:
    return {}


def _devices(found: re.Match[str]) -> Values:
    return {"devices": ",".join(re.findall(r"\d+", found[1])), "use": found[2].lower()}


def _setting(found: re.Match[str]) -> Values:
    return {"name": found[1].upper(), "value": found[2].strip("*`")}


def _count(found: re.Match[str]) -> Values:
    return {"count": found[1], "model": found[2].upper()}


_SILENT = r"(?:output|logs?|progress|response|log output|log lines?)"
_STUCK = r"(?:hang(?:s|ing|ed)?|hung|stuck|freezes|freezing|frozen|stall(?:s|ed)|blocked|idle)"
_STUCK_ZH = r"(?:卡住|卡死|卡在|挂起|挂住|挂死|hang住?|不动了?|停住)"
_SILENT_ZH = r"(?:没有|无|没)(?:任何|新的?|再)?(?:输出|日志|进展|反应|响应|打印)"

_SETTING = (
    r"\b((?:NCCL_(?:IB_DISABLE|IB_GID_INDEX|IB_HCA|IB_TC|IB_SL|NET_GDR_LEVEL|CROSS_NIC|"
    r"SOCKET_IFNAME|SHM_DISABLE|NVLS_ENABLE)|GLOO_SOCKET_IFNAME)) ?= ?[\"']?([^\s\"'`,;。；]{1,60})"
)
_HELPED = (
    r"(?:\b(?:works?|worked|working|solve[sd]|fixe[sd]|resolve[sd]|helps|helped|runs? (?:fine|well|"
    r"normally))\b|(?<!不)正常|解决了|可以了|就好了|没问题)"
)
_PREPARING = (r"(?:\btokeni[zs]\w{1,8}|\bpre-?process\w{0,6}"
              r"|\bdata(?:set)?[ -](?:processing|preparation|packing))")  # fmt: skip

# Topic, pattern, values. Of one topic the first that fits counts.
_NOTES: tuple[tuple[str, re.Pattern[str], _Make], ...] = (
    ("no-output", re.compile(
        rf"\bno (?:more |further |new |other |any ){{0,2}}{_SILENT}\b[^.;\n]{{0,40}}?"
        rf"\b{_NUMBER} ?{_UNIT}", _I), _hours),
    ("no-output", re.compile(
        rf"\b{_STUCK}\b[^.;\n]{{0,60}}?\b(?:for|over|than|about|after|~) ?"
            rf"(?:about |over |more than "
        rf"|almost |nearly |~ ?)?{_NUMBER} ?{_UNIT}", _I), _hours),
    ("no-output", re.compile(
        rf"(?:{_STUCK_ZH}|{_SILENT_ZH})[^。；;\n]{{0,20}}?{_NUMBER_ZH} ?{_UNIT_ZH}", _I), _hours),
    ("no-output", re.compile(
        rf"{_NUMBER_ZH} ?{_UNIT_ZH}[^。；;\n]{{0,12}}?(?:{_SILENT_ZH}|{_STUCK_ZH})", _I), _hours),
    ("no-output", re.compile(
        rf"\b{_STUCK} (?:forever|indefinitely|there)\b|\bno (?:more |further )?{_SILENT} "
        rf"(?:after|since|at all|any ?more)\b", _I), _nothing),
    ("no-output", re.compile(rf"(?:一直|然后就?|之后就?|直接){_STUCK_ZH}|{_SILENT_ZH}"), _nothing),
    # What may or could hang is a program's warning; what hangs is a person's complaint.
    ("stuck", re.compile(
        r"(?<!\bno )(?<!\bnever )(?<!n't )(?<!\bwithout )(?<!\bif it )"
        r"\b(?:hangs(?! up)|hung|freezes|deadlocked|(?:gets?|got|is|are|was|were) stuck"
        r"|stuck (?:at|in|on|when|while|during|after|for)|forever hang"
        r"|(?:program|training|process|script|job|code|it) hangs up"
        r"|(?:hang|stuck)(?:ing)? forever"
        r"|hangs? with(?! or\b)|(?:is|are|was|were|keeps|starts) hanging(?! or)"
        r"|hang(?:ing)? (?:at|in|on|when|while|during|after))\b", _I), _nothing),
    ("stuck", re.compile(
        r"(?<!不再)(?<!没有)(?<!不会)(?:卡住|卡死|卡在|卡主|死锁|挂死|一直卡|hang住|停住不)"),
        _nothing),
    ("stuck", re.compile(
        r"\b(?:causes|caused|causing|leads to|results in) (?:a |an |the )?(?:deadlock|hang)s?\b"
        r"|\bdeadlock\*{0,2}:", _I), _nothing),
    # a report's title; and a counter that does not move
    ("stuck", re.compile(
        r"^#{1,6} .{0,300}\b(?:stuck|hangs|hanging|deadlocks?)\W{0,6}$"
        r"|\b(?:stays?|remains?|sits?|is) at \d{1,9}(?:/\d{1,9}| ?%)[^.;\n]{0,30}\bforever\b", _I),
        _nothing),
    ("stuck", re.compile(r"\(stuck\)|[\"'“]freezes?[\"'”]", _I), _nothing),
    # "with NCCL_IB_DISABLE=1 it works": the test that decides, in either order
    ("setting-works", re.compile(
        rf"{_SETTING}(?:(?!\b(?:not|no|never|still|neither|but|fail\w*)\b|n't)[^.;。；\n]){{0,60}}?"
        rf"{_HELPED}", _I), _setting),
    ("setting-works", re.compile(
        rf"(?<!n't )(?<!not )(?<!never ){_HELPED}(?:(?!\b(?:not|no|never|still|fail\w*)\b|n't)"
        rf"[^.;。；\n]){{0,60}}?{_SETTING}", _I), _setting),
    # the same around a block of settings: what was done above it, and what came of it below
    ("after-adding", re.compile(
        r"^\W*(?:but |and |then )?(?:after|when|once|by|with) (?:I |we )?"
        r"(?:add|sett?|export)\w{0,4}"
        r"(?: (?:these|this|the following|following))?(?: (?:lines?|variables?|settings?))?\W*$"
        r"|^\W*(?:加上|添加|设置|加了|设了)(?:以下|如下|这些)?"
        r"(?:环境变量|变量|参数|设置)?(?:后|之后)?\W*$", _I),
        _nothing),
    ("works-now", re.compile(
        r"^\W*(?:then |now )?(?:it|training|everything|this|the hang|the problem)? ?(?:now )?"
        r"(?:works?|worked|runs?|is (?:gone|fixed|solved))(?: now| fine| well| again)?\W*$"
        r"|^\W*(?:就|然后)?(?:正常了|解决了|可以了|好了|跑起来了|能跑了)\W*$", _I), _nothing),
    # a person's own finding: preparing the data takes longer than the others wait
    ("slow-data", re.compile(
        rf"{_PREPARING}(?:(?!\b(?:not|no)\b)[^.;。\n]){{0,60}}?\btime(?:s|d)?[ -]?out", _I),
        _nothing),
    ("slow-data", re.compile(
        r"\btime(?:s|d)?[ -]?outs?\b[^.;。\n]{0,40}?\b(?:during|while|in|at|on)\b[^.;。\n]{0,24}?"
        rf"{_PREPARING}", _I), _nothing),
    ("slow-data", re.compile(
        r"(?:tokeni[zs]\w{0,8}|预处理|分词|数据处理|数据准备)[^。；\n]{0,24}?超时", _I), _nothing),
    # a person's own finding: rollouts last longer than the trainer's ranks wait
    ("slow-rollout", re.compile(
        r"\brollouts?\b[^.;\n]{0,60}?\b(?:tak(?:es?|ing)|lasts?|exceeds?|(?:longer|more) than"
        rf"|limited to)\b[^.;\n]{{0,24}}?{_NUMBER} ?{_UNIT}", _I), _nothing),
    ("slow-rollout", re.compile(
        r"(?:rollout|推理|生成)[^。；\n]{0,12}(?:时间|耗时)?[^。；\n]{0,6}(?:超过|长达|大于)了? ?"
        rf"{_NUMBER_ZH} ?{_UNIT_ZH}"), _nothing),
    ("collective-timeout", re.compile(
        r"\b(?:NCCL|watchdog|collective)\b[^.;\n]{0,40}?\btime(?:d)?[ -]?outs?\b"
        r"|NCCL[^。\n]{0,12}超时", _I), _nothing),
    # "works by setting NCCL_P2P_DISABLE=1"
    ("p2p-off-works", re.compile(
        r"(?<!n't )(?<!not )(?<!never )\b(?:works?|worked|solution|solve[sd]|fixe[sd]|resolve[sd]"
        r"|helps|helped)\b(?:(?!\b(?:not|no|never|still|fail\w*)\b|n't)[^.;\n]){0,60}?"
        r"NCCL_P2P_DISABLE ?= ?[\"']?1\b", _I), _nothing),
    ("p2p-off-works", re.compile(
        r"(?:NCCL_P2P_DISABLE ?= ?[\"']?1\b[\"'`*]{0,4}|\bp2p (?:is |was )?(?:disabled|off)\b"
        r"|(?:disabl|switch|turn)(?:e|ing|ed) (?:off )?p2p(?: off)?)"
        r"(?:(?!\b(?:not|no|never|still|neither|but|fail\w*)\b|n't)[^.;\n]){0,40}?"
        r"(?:\b(?:works?|worked|fixe[sd]|solve[sd]|resolve[sd]|helps|helped|(?:all |going )well|"
        r"(?:is|are|runs?) (?:ok|fine))\b)", _I), _nothing),
    ("p2p-off-works", re.compile(
        r"(?:NCCL_P2P_DISABLE ?= ?[\"']?1|(?:关闭|禁用|关掉) ?P2P)[^。；;\n不没]{0,16}?"
        r"(?:正常|解决|可以|就好|没问题|没有问题)", _I), _nothing),
    ("gpu-idle", re.compile(
        r"\bGPUs?\b(?! ?KV)[^.;,\n]{0,30}?(?<![\d.])0(?:\.0{1,3})? ?%"
        r"|(?<![\d.])0 ?% (?:GPU|util)|\bGPUs? (?:are|is|were|all|stay|sit) ?(?:all )?idle\b", _I),
        _nothing),
    ("gpu-idle", re.compile(
        r"(?:利用率|使用率|功耗)[^。；，,;\n\d]{0,10}(?<![\d.])0(?![\d.]) ?%?", _I), _nothing),
    ("gpu-busy", re.compile(
        r"\bGPUs?\b[^.;,\n]{0,30}?(?<![\d.])(?:100|99|98) ?%|(?<!\d)100 ?% (?:GPU|util)"
        r"|利用率[^。；，,;\n\d]{0,10}(?:100|99|98) ?%?", _I), _nothing),
    ("memory-low", re.compile(
        r"显存[^。；;\n]{0,16}?(?:不高|很低|较低|不多|充足|没满|没有满|不满|够用)"
        r"|\b(?:GPU|VRAM|device) memory[^.;\n]{0,30}?\b(?:low|not high|not full|far from full)\b",
        _I), _nothing),
    ("mixed-data", re.compile(
        r"\b(?:text|language)[- ]only\b|\b(?:no|without(?: any)?) (?:images?|pictures?|videos?)\b"
        r"|\bexperts?\b[^.;\n]{0,40}\b(?:no|any|zero|0) tokens?\b|纯文本|(?:没有|无|不带|不含)图"
        r"|图文[^。；\n]{0,12}混合|(?:没有|无|未)[^。；\n]{0,8}(?:token|激活)[^。；\n]{0,12}专家"
        r"|专家[^。；\n]{0,16}(?:没有|未|无)[^。；\n]{0,8}(?:token|激活)", _I), _nothing),
    ("devices", re.compile(
        r"(?:GPU|cards?|devices?|卡)s? ?(?:ids? |编号)?[#:]? ?"
        r"(\d{1,2}(?: ?(?:,|，|、|和|and|&|到|-) ?(?:GPU ?)?\d{1,2}){0,15}) ?"
        r"(?:are|is|作为|用作|用于|用来|做|for|used|as|跑|to|were)[^。.;\n]{0,24}?"
        r"(vllm|sglang|rollout|inference|推理|训练|train(?:ing|er)?|server|reward)", _I), _devices),
    ("devices", re.compile(
        r"(?<![\d.])(\d{1,4}) ?(?:x|×|\*|张|卡|块) ?(?:卡|张|块)?(?:的)? ?(?:NVIDIA |Nvidia )?"
        r"(H100|H200|H800|H20|A100|A800|A6000|A40|V100|L40S?|L20|B200|B300|GB200|RTX ?\d{4}|4090"
        r"|3090|910B\d?|MI300X|MI250X?)", _I), _count),
    ("several-nodes", re.compile(
        r"\b(?:multi[- ]?node|(?:two|three|four|multiple|several|both|[2-9]|\d\d) "
        r"(?:nodes|machines|servers|hosts))\b|多机|多节点|(?:[两二三四2-9]|\d\d) ?(?:台|个节点)"
        r"|双机", _I), _nothing),
    ("worked-before", re.compile(
        r"\b(?:works?|worked|runs?|trains?)(?: \w{1,12}){0,2} "
            r"(?:with|on|using|for) (?:a |only |just )?"
        r"(?:single|one|1) (?:gpu|card|process|device)", _I), lambda _: {"gpus": "1"}),
    ("worked-before", re.compile(
        r"\b(?:works?|worked|runs?|trains?)(?: \w{1,12}){0,2} (?:with|on|using|for) (?:a |only )?"
        r"(?:single|one|1) (?:node|machine)", _I), lambda _: {"nodes": "1"}),
    ("worked-before", re.compile(
        r"单卡(?:训练|运行|推理|跑)?(?:是|就|都|可以|能)?(?:正常|没问题|没有问题|可以|能跑)"),
        lambda _: {"gpus": "1"}),
    ("worked-before", re.compile(
        r"单机(?:训练|运行|跑)?(?:是|就|都|可以|能)?(?:正常|没问题|没有问题|可以|能跑)"),
        lambda _: {"nodes": "1"}),
    ("worked-before", re.compile(
        r"(?:之前|以前|旧版本?|降级[^。；\n]{0,20}?)(?:是|就|都|一直|可以)?(?:正常|没问题|没有问题)"
        r"|\b(?:used to work|worked (?:fine|well) (?:before|until|with the (?:old|previous))"
        r"|works? (?:fine|again) after downgrading)\b", _I), _nothing),
)  # fmt: skip
_LONGEST = 2000
_HAN = re.compile("[\u4e00-\u9fff]")
_WORDS = re.compile(r"[A-Za-z]{2,}")


def remarks(line: str) -> Iterator[tuple[str, Values]]:
    """What one line of a person says: topics of :class:`~unstall.model.facts.Remark`, values."""
    line = line[:_LONGEST]
    told: set[str] = set()
    for topic, pattern, values in _NOTES:
        if topic not in told and (found := pattern.search(line)) is not None:
            told.add(topic)
            yield topic, values(found)
    if (seen := retold.apart(line)) is not None:
        yield "ranks-apart", seen
    if (seen := retold.ended(line)) is not None:
        yield "data-ended", seen
    if retold.complains(line):
        yield "complaint", {}


class Tongue:
    """Counts what people wrote, to tell its language."""

    def __init__(self) -> None:
        self._chinese = 0
        self._english = 0

    def hear(self, line: str) -> None:
        """One line of a person."""
        self._chinese += len(_HAN.findall(line[:_LONGEST]))
        self._english += len(_WORDS.findall(line[:_LONGEST]))

    def add(self, other: Tongue) -> None:
        """What was counted elsewhere."""
        self._chinese += other._chinese
        self._english += other._english

    @property
    def language(self) -> str:
        """``zh`` or ``en``."""
        # A Chinese word is about 1.7 characters; names and options are English in either language.
        chinese = self._chinese / 1.7
        # Much of what looks like English prose is a program's, so a Chinese page has a lower bar.
        share = 0.4 if self._chinese < 40 else 0.15
        return "zh" if self._chinese >= 8 and chinese >= share * self._english else "en"
