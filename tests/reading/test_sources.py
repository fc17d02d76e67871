"""Opening: every kind of container, damage and hostility, and what the user is told of it."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import random
import tarfile
import zipfile
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from unstall.model.facts import Unreadable
from unstall.reading.sources import Source, open_sources
from unstall.reading.streams import Limits


def noise(size: int) -> bytes:
    return random.Random(size).randbytes(size)  # noqa: S311 - any bytes will do


# Hexadecimal digits of random bytes pack to about half, and every part of them is different.
TEXT = b"first line\n" + noise(150_000).hex().encode() + b"\nlast line\n"

LONG = TEXT + noise(1_000_000).hex().encode()  # more than one bzip2 block


def opened(
    *paths: str | Path, stdin: bytes = b"", limits: Limits | None = None
) -> tuple[dict[str, bytes], dict[str, Unreadable]]:
    """Contents by name, and what could not be read by name."""
    contents: dict[str, bytes] = {}
    troubles: dict[str, Unreadable] = {}
    for one in open_sources([str(path) for path in paths], io.BytesIO(stdin), limits):
        if isinstance(one, Source):
            contents[one.name] = b"".join(one.chunks())
        else:
            troubles[one.place.source] = one
    return contents, troubles


def tar(members: dict[str, bytes], mode: str = "w") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:  # type: ignore[call-overload]
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def zipped(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "packed"),
    [
        ("a.log", TEXT),
        ("a.log.gz", gzip.compress(TEXT)),
        ("two.gz", gzip.compress(TEXT[:1000]) + gzip.compress(TEXT[1000:])),
        ("padded.gz", gzip.compress(TEXT) + b"\0" * 512),
        ("a.log.bz2", bz2.compress(TEXT)),
        ("a.log.xz", lzma.compress(TEXT)),
        ("a.log.zst", zstandard.compress(TEXT)),
        ("two.zst", zstandard.compress(TEXT[:99]) + zstandard.compress(TEXT[99:])),
        ("misnamed.txt", gzip.compress(TEXT)),
    ],
)
def test_one_file_packed_or_not(here: Path, name: str, packed: bytes) -> None:
    (here / name).write_bytes(packed)
    assert opened(name) == ({name: TEXT}, {})


@pytest.mark.parametrize(
    ("name", "packed"),
    [
        ("logs.tar", tar({"inner/rank0.log": TEXT, "b.txt": b"hi\n"})),
        ("logs.tgz", tar({"inner/rank0.log": TEXT, "b.txt": b"hi\n"}, "w:gz")),
        ("logs.tar.xz", tar({"inner/rank0.log": TEXT, "b.txt": b"hi\n"}, "w:xz")),
        ("logs.tar.bz2", tar({"inner/rank0.log": TEXT, "b.txt": b"hi\n"}, "w:bz2")),
        ("l.tar.zst", zstandard.compress(tar({"inner/rank0.log": TEXT, "b.txt": b"hi\n"}))),
        ("logs.zip", zipped({"inner/rank0.log": TEXT, "b.txt": b"hi\n"})),
        ("nested.zip", zipped({"x": b"x\n", "in.tgz": tar({"rank0.log": TEXT}, "w:gz")})),
        ("nested.tar", tar({"in.zip": zipped({"rank0.log": TEXT}), "rank1.log.gz": b""})),
    ],
)
def test_archives_give_their_members_by_name(here: Path, name: str, packed: bytes) -> None:
    (here / name).write_bytes(packed)
    contents, troubles = opened(name)
    assert troubles == {}
    expected = {
        "nested.zip": {"nested.zip!x": b"x\n", "nested.zip!in.tgz!rank0.log": TEXT},
        "nested.tar": {"nested.tar!in.zip!rank0.log": TEXT},
    }
    usual = {f"{name}!inner/rank0.log": TEXT, f"{name}!b.txt": b"hi\n"}
    assert contents == expected.get(name, usual)


def test_an_archive_on_standard_input() -> None:
    assert opened("-", stdin=zipped({"a.log": b"x\n"})) == ({"-!a.log": b"x\n"}, {})
    assert opened("-", stdin=gzip.compress(b"x\n")) == ({"-": b"x\n"}, {})


@pytest.mark.parametrize(
    ("name", "packed"),
    [
        ("cut.gz", gzip.compress(TEXT)[:90_000]),
        ("cut.bz2", bz2.compress(LONG)[:-50_000]),
        ("cut.xz", lzma.compress(TEXT)[:90_000]),
        ("cut.zst", zstandard.compress(TEXT)[:140_000]),
    ],
)
def test_what_stands_before_damage_is_used(here: Path, name: str, packed: bytes) -> None:
    (here / name).write_bytes(packed)
    contents, troubles = opened(name)
    assert len(contents[name]) > 10_000
    assert (LONG if "bz2" in name else TEXT).startswith(contents[name])
    assert not troubles[name].fatal
    assert "ends too early" in troubles[name].reason


def test_a_cut_tar_and_a_cut_zip_still_give_members(here: Path) -> None:
    (here / "cut.tgz").write_bytes(tar({"a.log": b"whole\n", "b.log": TEXT}, "w:gz")[:90_000])
    (here / "cut.zip").write_bytes(zipped({"a.log": b"whole\n", "b.log": TEXT})[:90_000])
    contents, troubles = opened("cut.tgz", "cut.zip")
    for name in ("cut.tgz", "cut.zip"):
        assert contents[f"{name}!a.log"] == b"whole\n"
        part = contents[f"{name}!b.log"]
        assert len(part) > 50_000
        assert TEXT.startswith(part)
        assert not troubles[name].fatal


def test_a_zip_that_lost_its_end_is_read_in_order(here: Path) -> None:
    (here / "cut.zip").write_bytes(zipped({"a.log": b"one\n", "b.log": b"two\n"})[:-30])
    contents, troubles = opened("cut.zip")
    assert contents == {"cut.zip!a.log": b"one\n", "cut.zip!b.log": b"two\n"}
    assert not troubles["cut.zip"].fatal


def test_an_archive_bomb_is_stopped_and_told(here: Path) -> None:
    bomb = gzip.compress(b"a line\n" * 300_000)
    (here / "bomb.gz").write_bytes(bomb)
    limits = Limits(ratio=50, ratio_from=200_000)
    contents, troubles = opened("bomb.gz", limits=limits)
    assert len(contents["bomb.gz"]) < 1_000_000 < 2_100_000
    assert "50 times its size" in troubles["bomb.gz"].reason
    contents, troubles = opened("bomb.gz", limits=Limits(expanded=300_000))
    assert len(contents["bomb.gz"]) <= 300_000
    assert "more than 293 KiB" in troubles["bomb.gz"].reason


def test_bombs_in_members_count_together(here: Path) -> None:
    (here / "b.zip").write_bytes(zipped({f"{n}.log": b"x" * 99 + b"\n" * 99_900 for n in range(9)}))
    contents, troubles = opened("b.zip", limits=Limits(expanded=350_000))
    assert sum(map(len, contents.values())) <= 350_000
    assert troubles


def test_limits_on_members_files_and_depth_are_told(here: Path) -> None:
    (here / "m.tar").write_bytes(tar({f"{n}.log": b"x\n" for n in range(5)}))
    contents, troubles = opened("m.tar", limits=Limits(members=3))
    assert len(contents) == 3
    assert "first 3 members" in troubles["m.tar"].reason
    for n in range(4):
        (here / f"{n}.log").write_bytes(b"x\n")
    contents, troubles = opened("0.log", "1.log", "2.log", "3.log", limits=Limits(files=2))
    assert list(contents) == ["0.log", "1.log"]
    assert len(troubles) == 1
    deep = b"bottom\n"
    for _ in range(5):
        deep = tar({"d.tar": deep})
    (here / "deep.tar").write_bytes(deep)
    contents, troubles = opened("deep.tar")
    assert contents == {}
    assert "too many layers" in next(iter(troubles.values())).reason


def test_nothing_escapes_through_links_in_archives(here: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        link = tarfile.TarInfo("passwd")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
        up = tarfile.TarInfo("../../up.log")
        up.size = 3
        archive.addfile(up, io.BytesIO(b"up\n"))
    (here / "links.tar").write_bytes(buffer.getvalue())
    contents, _ = opened("links.tar")
    assert contents == {"links.tar!../../up.log": b"up\n"}
    assert sorted(os.listdir(here)) == ["links.tar"]


def test_a_folder_is_searched_sorted_once_and_without_loops(here: Path) -> None:
    for name in ("d/b.log", "d/a.log", "d/sub/c.log", "d/.git/config.log"):
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).write_text("x\n")
    (here / "d/sub/again").symlink_to(here / "d")
    (here / "d/model.safetensors").write_bytes(noise(4000))
    contents, troubles = opened("d", "d/a.log")
    assert list(contents) == ["d/a.log", "d/b.log", "d/sub/c.log"]
    assert "1 binary files" in troubles["d"].reason
    assert not troubles["d"].fatal


def test_patterns_that_the_shell_left(here: Path) -> None:
    for name in ("r0.log", "r1.log", "x.txt"):
        (here / name).write_text("x\n")
    assert list(opened("r*.log")[0]) == ["r0.log", "r1.log"]
    assert "no file matches" in opened("*.nothing")[1]["*.nothing"].reason


def test_what_cannot_be_read_is_told_with_a_way_out(here: Path) -> None:
    (here / "train.log").write_text("x\n")
    (here / "empty.log").write_text("")
    (here / "noise").write_bytes(noise(5000))
    (here / "nothing").mkdir()
    (here / "gone").symlink_to("nowhere")
    os.mkfifo(here / "pipe")
    _, troubles = opened(
        "trian.log", "empty.log", "noise", "nothing", "gone", "pipe", "/dev/zero", "-", "a\0b"
    )
    assert "did you mean train.log?" in troubles["trian.log"].reason
    assert "empty" in troubles["empty.log"].reason
    assert "binary" in troubles["noise"].reason
    assert "nothing that can be read" in troubles["nothing"].reason
    assert "link" in troubles["gone"].reason
    assert "cat pipe | unstall diagnose -" in troubles["pipe"].reason
    assert "device" in troubles["/dev/zero"].reason
    assert "nothing was given" in troubles["-"].reason
    assert all(trouble.fatal for trouble in troubles.values())
    assert len(troubles) == 9


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission(here: Path) -> None:
    (here / "secret.log").write_text("x\n")
    (here / "secret.log").chmod(0)
    assert "may not read" in opened("secret.log")[1]["secret.log"].reason


def test_an_encrypted_member_is_told(here: Path) -> None:
    data = bytearray(zipped({"a.log": b"secret\n"}))
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(signature) + offset] |= 1
    (here / "locked.zip").write_bytes(bytes(data))
    assert "password" in opened("locked.zip")[1]["locked.zip!a.log"].reason


def test_an_empty_recorder_dump_is_evidence(here: Path) -> None:
    (here / "nccl_trace_rank_3").write_bytes(b"")
    (source,) = open_sources(["nccl_trace_rank_3"])
    assert isinstance(source, Source)
    assert source.kind == "recorder"
    assert source.read_bytes(10) == b""


def test_reading_the_start_loses_nothing(here: Path) -> None:
    (here / "a.log").write_bytes(TEXT)
    opening = open_sources(["a.log"])
    source = next(opening)
    assert isinstance(source, Source)
    assert source.read_bytes(5) == b"first"
    assert source.read_bytes(280_000) == TEXT[:280_000]
    assert b"".join(source.chunks(1000)) == TEXT


@settings(max_examples=60, deadline=None)
@given(
    data=st.binary(max_size=3000),
    start=st.sampled_from(
        [b"", b"\x1f\x8b\x08\0", b"BZh91AY&SY", b"\xfd7zXZ\0\0\4", b"\x28\xb5\x2f\xfd",
         b"PK\x03\x04\x14\0\0\0\x08\0", b"PK\x05\x06", tar({"a": b"x" * 700})[:1100]]
    ),
)  # fmt: skip
def test_any_bytes_are_read_or_told(data: bytes, start: bytes) -> None:
    contents, troubles = opened("-", stdin=start + data)
    assert contents or troubles or start.startswith(b"ustar") or start[257:262] == b"ustar"
    assert sum(map(len, contents.values())) <= 20 * len(start + data)
