"""What a source is, told from its name and its first bytes."""

from __future__ import annotations

import re
from typing import Literal

Kind = Literal["text", "script", "config", "code", "recorder", "binary"]

SCRIPT_ENDINGS = (".sh", ".bash", ".zsh", ".ksh", ".slurm", ".sbatch", ".pbs", ".lsf")
CONFIG_KINDS = {
    ".json": "json",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".toml": "toml",
    ".ini": "ini",
    ".cfg": "ini",
}
CODE_KINDS = {
    ".py": "python",
    ".pyi": "python",
    ".ipynb": "code",
    ".c": "code",
    ".cc": "code",
    ".cpp": "code",
    ".cu": "code",
    ".cuh": "code",
    ".h": "code",
    ".hpp": "code",
    ".rs": "code",
    ".go": "code",
    ".js": "code",
}
HOSTFILES = ("hostfile", "machinefile", "hosts.txt", "hostfile.txt", "nodefile")

#: Archives by their bytes that are something else by their meaning: checkpoints, arrays, packages.
NOT_ARCHIVES = (
    ".pt", ".pth", ".ckpt", ".bin", ".npz", ".whl", ".jar", ".docx", ".xlsx", ".pptx", ".distcp",
    ".keras", ".egg", ".safetensors",
)  # fmt: skip

# Names that PyTorch or its users give to dumps: TORCH_NCCL_DEBUG_INFO_TEMP_FILE's defaults
# (nccl_trace_rank_, comm_lib_trace_rank_ since 2.9) and the form of its documentation.
_DUMP_NAME = re.compile(
    r"(?:^|[/!])(?:[\w.-]*_?dump_\d+|[\w.-]*(?:nccl|comm_lib|fr)_trace(?:_json)?_rank_?\d+)"
    r"(?:\.(?:pkl|pickle|json))?$"
)
_DUMP_WORDS = (b"pg_config", b"collective_seq_id", b"profiling_name", b"pg_status", b"entries")
_DUMP_JSON = (b'"pg_config"', b'"collective_seq_id"', b'"record_id"', b'"pg_status"')
_MAGICS = (
    b"\x7fELF", b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"%PDF-", b"SQLite format 3\0",
    b"\x89HDF", b"\x93NUMPY", b"GGUF", b"RIFF", b"PK\x03\x04", b"OggS", b"\x00asm", b"!<arch>\n",
)  # fmt: skip
_SHEBANG = re.compile(rb"\A(?:\xef\xbb\xbf)?\s{0,200}#!\s*\S*/(?:env +)?(?:ba|z|k|da)?sh\b")
_CONTROLS = bytes(set(range(32)) - {0, 7, 8, 9, 10, 12, 13, 27}) + b"\x7f"
_HIGH = bytes(range(128, 256))


def base_name(name: str) -> str:
    """The last part of a source's name, in lower case."""
    return re.split(r"[/!\\]", name)[-1].lower()


def ending(name: str) -> str:
    """The ending of a source's name with its dot, in lower case."""
    base = base_name(name)
    dot = base.rfind(".")
    return base[dot:] if dot > 0 else ""


def named_like_dump(name: str) -> bool:
    """Whether a name is one that Flight Recorder dumps have, so that even an empty file tells."""
    return _DUMP_NAME.search(name) is not None


def recognise(name: str, head: bytes) -> Kind:
    """What a source is.

    Args:
        name: as shown to the user; endings count.
        head: its first bytes, some KiB of them.
    """
    if _is_dump(name, head):
        return "recorder"
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return _text_kind(name, b"")
    if any(head.startswith(magic) for magic in _MAGICS) or not _is_text(head):
        return "binary"
    return _text_kind(name, head)


def config_kind(name: str) -> str:
    """The ``kind`` of a :class:`~unstall.reading.parts.ConfigText` of that name."""
    end = ending(name)
    return CONFIG_KINDS.get(end) or CODE_KINDS.get(end) or "hostfile"


def _text_kind(name: str, head: bytes) -> Kind:
    end = ending(name)
    if end in SCRIPT_ENDINGS:
        return "script"
    if end in CODE_KINDS:
        return "code"
    if end in CONFIG_KINDS:
        # Docker's and collectors' logs are JSON too, one object a line.
        return "text" if head.startswith((b'{"log":', b'{"time')) else "config"
    if base_name(name) in HOSTFILES:
        return "config"
    # A pasted report may hold a script further down, even at its top: its name then says so.
    if end in ("", ".job", ".run", ".cmd") and _SHEBANG.match(head[:512]):
        return "script"
    return "text"


def _is_dump(name: str, head: bytes) -> bool:
    if not head:
        return named_like_dump(name)
    if len(head) > 1 and head[0] == 0x80 and head[1] in (2, 3, 4, 5):
        return named_like_dump(name) or any(word in head for word in _DUMP_WORDS)
    start = head[:64].lstrip(b"\xef\xbb\xbf \t\r\n")
    if start[:1] in (b"{", b"["):
        return sum(word in head for word in _DUMP_JSON) >= 1 and (
            b'"entries"' in head or b'"version"' in head or named_like_dump(name)
        )
    return False


def _is_text(head: bytes) -> bool:
    """Text may hold some NUL bytes: handlers in DataLoader workers write them into logs."""
    body = head.replace(b"\0", b"")
    if not body:
        return False
    controls = len(body) - len(body.translate(None, _CONTROLS))
    if controls > max(4, len(body) // 20):
        return False
    high = len(body) - len(body.translate(None, _HIGH))
    if high <= len(body) // 10:
        return True
    broken = body.decode("utf-8", "replace").count("\ufffd")
    if broken <= high // 5:
        return True
    # Half-random bytes decode as GB18030 now and then, but not without control characters.
    return controls == 0 and body.decode("gb18030", "replace").count("\ufffd") <= high // 20
