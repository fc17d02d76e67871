"""Which lines are shell: the words by which commands, assignments and options are told."""

from __future__ import annotations

import re

_A = re.ASCII

# Programs that start training or inference, as the first word of a command. Those of one word that
# people also write about need an argument to count (see `is_launch`).
_PROGRAMS = r"""
    (?:[\w./~$\{}-]{0,200}/)?(?:
      torchrun | deepspeed | horovodrun | mpirun | mpiexec | srun | sbatch | colossalai\ +run
    | accelerate\ +launch | vllm\ +(?:serve|bench) | sglang\ +serve | lmdeploy\ +serve
    | trl\ +(?:vllm-serve|sft|dpo|grpo|kto|rloo|reward) | tune\ +run
    | swift\ +(?:rollout|rlhf|sft|pt|infer|deploy|eval|export|app|sample)
    | megatron\ +(?:sft|pt|rlhf|export) | llamafactory-cli\ +\w+ | xtuner\ +train
    | axolotl\ +(?:train|preprocess) | ray\ +(?:job\ +submit|start) | docker\ +(?:run|exec)
    | singularity\ +exec | apptainer\ +(?:exec|run) | nerdctl\ +run
    | (?:ba|z)?sh\ +[\w./-]{1,200}\.sh
    | python[\d.]{0,5}(?:\ +-[A-Zc-lno-z]+)*\ +(?:-m\ *[\w.]{2,200}|[\w./$\{}~-]{1,300}\.py)
    )(?=[\s;&|]|$)
"""
# A value is quoted parts, substitutions and plain characters, each told by how it begins, so that
# a line has one reading and one that fits nothing fails fast. Python's "lr=1e-5, wd=0.1" is none.
_INNER = r"[^()\n]{0,200}"
_ASSIGN = (
    r"""[A-Za-z_]\w{0,80}=(?!=)(?:"[^"\n]{0,500}"|'[^'\n]{0,500}'"""
    rf"|\$\({_INNER}(?:\({_INNER}\){_INNER}){{0,6}}\)"
    r"""|\$\{[^{}\n]{0,200}\}|\$(?![({])|,(?=[^\s,])|[^\s"'$,;(){}]){0,500}"""
)
_WRAPPED = r"(?:numactl|taskset|nsys\ +profile|timeout|stdbuf|py-spy\ +record)"
_LEAD = (
    rf"(?:(?:export\ +)?{_ASSIGN}\ +){{0,40}}"
    r"(?:(?:sudo|nohup|exec|time|env|setsid|command)\ +(?:-\w+\ +){0,3}){0,3}"
    rf"(?:{_WRAPPED}(?:\ +[\w.,=:/-]{{1,80}}){{1,6}}?\ +)?"
    rf"(?:{_ASSIGN}\ +){{0,40}}"
)
LAUNCH = re.compile(rf"\s*{_LEAD}{_PROGRAMS}", re.VERBOSE | _A)
_BARE = re.compile(r"[-=$\\/]|\.py\b|\.sh\b|\.ya?ml\b")

_COMMANDS = re.compile(
    r"""\s*(?:
      export\ +[A-Za-z_]\w* | unset\ +[A-Z_]\w*
    | (?:declare|local|readonly)\ +(?:-\w+\ +)?[A-Za-z_]\w*=
    | echo\ +["'$-] | printf\ +["'] | sleep\ +[\d$] | cd\ +[\w./~$"'-] | source\ +\S
    | \.\ +[\w./~]+$ | set\ +[-+][a-zA-Z] | if\ +(?:\[|!|test\b|command\b) | elif\ +\[ | else$
    | fi\b | then$ | do$ | done\b | for\ +\w+\ +in\b | for\ +\(\(
    | while\ +(?:\[|true|read|:|!|kill|curl) | until\ +(?:\[|curl|nc)
    | wait(?:\ +[\d$%-].*)?$ | mkdir\ +-?\S | rm\ +-\w | cp\ +\S+\ +\S | mv\ +\S+\ +\S
    | chmod\ +\S | pip3?\ +(?:un)?install\b | (?:conda|mamba)\ +(?:activate|install|create)
    | uv\ +(?:pip|run|sync) | apt(?:-get)?\ +install | ulimit\ +-\w | module\ +(?:load|purge)
    | kill\ +[-\d$] | pkill\ +-?\w | trap\ +["'\w] | case\ +\S+\ +in | esac\b | return\ +\d
    | exit\ +\d | \[\[?\ .*\]\]? | ;;$ | [A-Za-z_]\w*\ ?\(\)\ *\{? | function\ +\w+ | \}$
    | \#SBATCH\b | \#\$\ -\w | \#PBS\b | \#!\s*/ | python[\d.]{0,5}\ +-c\ +["']
    | (?:curl|wget|git\ clone|huggingface-cli|nvidia-smi|nc|tail|tee|cat\ <<)\ +\S
    )""",
    re.VERBOSE | _A,
)
_ASSIGNED = re.compile(
    rf"\s*{_ASSIGN}(?:\ +{_ASSIGN}){{0,60}}\s*(?:\\|&)?\s*(?:\#.*)?$", re.VERBOSE | _A
)
_UPPER = re.compile(r"\s*[A-Z][A-Z0-9_]{1,60}=", _A)
_FLAG = re.compile(r"\s*-{1,2}[A-Za-z][\w.-]{0,80}(?:[ =]|$|\t|\\)", _A)
_OVERRIDE = re.compile(r"\s*[+~]{0,2}[A-Za-z_]\w{0,60}(?:[.@/][\w@]{1,60}){1,8}=\S", _A)
_SPOKEN = re.compile(r"\s*(?:-{1,2}[A-Za-z][\w-]*\s+)(?:is|are|was|and|or|the|to|does|should)\b")
PROMPT = re.compile(
    r"(?:\([\w.-]{1,60}\) ?)?"
    r"(?:[\w.-]{1,64}@[\w.-]{1,64}:[\w./~-]{0,200} ?[$#] ?|\[[\w.@ ~/-]{1,120}\][$#] ?"
    r"|\$ (?=\S)|❯ |➜ {1,3}\S{1,60} )"
)
_FANCY = re.compile("[\u2013\u2014\u2018\u2019\u201c\u201d]")
_FANCY_DASH = re.compile(
    r"(?:(?<=\s)|^)[\u2013\u2014][-\u2013\u2014]?(?=[A-Za-z][\w-]*(?:[\s=]|$))"
)
_QUOTES = {0x2018: "'", 0x2019: "'", 0x201C: '"', 0x201D: '"'}
TRACE = re.compile(r"\+{1,6} (?=\S)")


_CHAIN = re.compile(r"(?:export|cd|source|ulimit|conda activate|module load) \S")
_JOINT = re.compile(r"(?<!\\);|&&")
_CHAIN_LONGEST = 4000


def is_launch(line: str, after: str = "") -> bool:
    """Whether a line starts a program; ``after`` is the next line that is not empty.

    Sentences begin with ``deepspeed`` and ``vllm serve`` too: such a line needs an option, a path,
    or an option in the line behind it.
    """
    found = LAUNCH.match(line)
    if found is None:
        if _CHAIN.match(line) is None:
            return False
        parts = _JOINT.split(line[:_CHAIN_LONGEST], maxsplit=8)[1:]
        return any(LAUNCH.match(part) and is_launch(part) for part in map(str.strip, parts))
    rest = line[found.end() :]
    if _BARE.search(rest) or _BARE.search(line[: found.end()]):
        return True
    return is_flag(after) and len(rest) < 40


def is_command(line: str) -> bool:
    """Whether a line is one of the commands and keywords that scripts consist of."""
    return _COMMANDS.match(line) is not None


def is_assignment(line: str) -> bool:
    """Whether a line is nothing but assignments (``CUDA_VISIBLE_DEVICES=6,7``)."""
    if "=" not in line or "==" in line:
        return False
    if _UPPER.match(line) and line.count("=") == 1:
        return not line.rstrip().endswith((",", "."))
    return _ASSIGNED.match(line) is not None


def is_flag(line: str) -> bool:
    """Whether a line is an option of the command above it, or an override (``data.size=1``)."""
    if _FLAG.match(line):
        return _SPOKEN.match(line) is None
    return _OVERRIDE.match(line) is not None and "==" not in line and "(" not in line[:80]


def straight(line: str) -> str:
    """A command as it was typed, before an editor made dashes and quotes of it typographic."""
    if _FANCY.search(line) is None:
        return line
    return _FANCY_DASH.sub("--", line).translate(_QUOTES)


def without_prompt(line: str) -> str:
    """A command line without the shell's prompt or the ``+`` of ``set -x``."""
    for pattern in (PROMPT, TRACE):
        found = pattern.match(line)
        if found is not None:
            return line[found.end() :]
    return line
