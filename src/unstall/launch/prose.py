"""Comments that lost their sign, told from commands."""

from __future__ import annotations

_KEYWORDS = frozenset(
    [
        "if",
        "then",
        "else",
        "elif",
        "fi",
        "for",
        "while",
        "until",
        "do",
        "done",
        "case",
        "esac",
        "function",
        "select",
        "in",
        "time",
        "{",
        "}",
        "(",
        ")",
        "[",
        "[[",
        "((",
        "!",
        "export",
        "local",
        "declare",
        "readonly",
        "typeset",
        "unset",
        "set",
        "source",
        ".",
        "eval",
        "exec",
        "exit",
        "return",
        "break",
        "continue",
        "cd",
        "echo",
        "printf",
        "wait",
        "sleep",
        "trap",
        "read",
        "shift",
        "ulimit",
        "test",
        "true",
        "false",
        "kill",
        "alias",
        "let",
        "mapfile",
        "shopt",
        "pushd",
        "popd",
        "umask",
    ]
)
_COMMON = frozenset(
    [
        "python",
        "python3",
        "torchrun",
        "accelerate",
        "deepspeed",
        "swift",
        "megatron",
        "vllm",
        "trl",
        "sglang",
        "ray",
        "srun",
        "sbatch",
        "salloc",
        "mpirun",
        "mpiexec",
        "bash",
        "sh",
        "zsh",
        "ssh",
        "scp",
        "rsync",
        "docker",
        "docker-compose",
        "podman",
        "kubectl",
        "conda",
        "mamba",
        "pip",
        "pip3",
        "uv",
        "poetry",
        "nohup",
        "env",
        "sudo",
        "nice",
        "timeout",
        "numactl",
        "taskset",
        "tmux",
        "screen",
        "mkdir",
        "rm",
        "cp",
        "mv",
        "ln",
        "ls",
        "cat",
        "head",
        "tail",
        "grep",
        "sed",
        "awk",
        "cut",
        "tr",
        "sort",
        "uniq",
        "tee",
        "find",
        "xargs",
        "wc",
        "seq",
        "basename",
        "dirname",
        "date",
        "hostname",
        "nvidia-smi",
        "nproc",
        "git",
        "wget",
        "curl",
        "tar",
        "unzip",
        "chmod",
        "chown",
        "module",
        "ml",
        "singularity",
        "apptainer",
        "enroot",
        "make",
        "apt",
        "apt-get",
        "yum",
        "llamafactory-cli",
        "axolotl",
        "huggingface-cli",
        "hf",
        "modelscope",
        "wandb",
        "jq",
        "yq",
        "pkill",
        "pgrep",
        "killall",
        "lsof",
        "ss",
        "netstat",
        "ip",
        "ifconfig",
        "scontrol",
        "squeue",
        "sacct",
        "scancel",
        "node",
        "npm",
        "java",
        "perl",
        "horovodrun",
        "composer",
        "lightning",
        "fabric",
        "openrlhf",
        "verl",
        "colossalai",
        "oxenl",
        "stdbuf",
        "setsid",
        "time",
        "which",
        "ps",
        "free",
        "df",
        "du",
        "touch",
        "sync",
        "sysctl",
        "systemctl",
        "supervisord",
        "xvfb-run",
        "nsys",
        "ncu",
    ]
)


def is_prose(line: str, functions: set[str] | frozenset[str] = frozenset()) -> bool:
    """Whether a line that begins a command is rather a comment that lost its sign."""
    text = line.strip()
    if not text or text.startswith("#"):
        return False
    first = text.split(None, 1)[0]
    if first[:1] in "$\"'(){}[]!&|;<>:~./`\\@":
        return False
    branch = first.endswith(")") and "(" not in first
    if branch and (first == text or ";;" in text or not first[:1].isdigit()):
        return False  # a branch of `case`, not `1) first do this`
    if first[0] == "+" and "=" in first and "." in first:
        return False  # one of Hydra's overrides
    if first.startswith("-"):
        # `--model x` is a lost continuation; `---- part two ----` is prose
        return first.strip("-=*") == "" or not (
            first.lstrip("-")[:1].isascii() and first.lstrip("-")[:1].isalpha()
        )
    head = first.rstrip(";")
    if head in _KEYWORDS or head in _COMMON or head.split("(")[0] in functions:
        return False
    name, equals, _ = first.partition("=")
    if equals and name.rstrip("+").split("[")[0].isidentifier() and name.isascii():
        return False
    if "/" in first and first.isascii() and not first.startswith("http"):
        return False
    if not first.isascii():
        return True
    words = text.split()
    if first[0].isdigit() or first[0] in "*+%=^,?":
        return True
    flags = any(
        (w.startswith("-") and len(w) > 1 and w[1:2].isalpha()) or w.startswith("--")
        for w in words[1:]
    )
    if not text.isascii() and not flags:
        # words of another script next to an unknown command
        outside = "".join(c for c in text if not c.isascii())
        return len(outside) >= 2 and not any(q in text for q in "\"'")
    if flags or any(mark in text for mark in ("$", "|", ">", '"', "=")):
        return _apostrophe(text) and not flags
    if first[0].isupper() and len(words) >= 2 and first.rstrip(":,.").isalpha():
        return True
    if _apostrophe(text):
        return True
    return len(words) >= 4 and (text[-1] in ".:!?" or first.endswith((",", ":")))


def _apostrophe(text: str) -> bool:
    """Whether an apostrophe stands inside a word, as in ``don't``, and no quotation closes it."""
    at = text.find("'")
    return (
        at > 0
        and text[at - 1].isalpha()
        and text[at + 1 : at + 2].isalpha()
        and text.count("'") % 2 == 1
    )
