"""Members of archives from streams that cannot be searched."""

from __future__ import annotations

import io
import tarfile
import zipfile

from hypothesis import given, settings
from hypothesis import strategies as st

from unstall.reading.archives import Member, Spoilt, is_tar, is_zip, tar_members, zip_members
from unstall.reading.streams import BLOCK, DAMAGE, Budget, Limits


def contents(packed: bytes, *, tar: bool = False) -> tuple[dict[str, bytes], list[Spoilt]]:
    stream = io.BytesIO(packed)
    members = tar_members(stream) if tar else zip_members(stream, None, Budget(Limits()))
    found: dict[str, bytes] = {}
    spoilt: list[Spoilt] = []
    for one in members:
        if isinstance(one, Member):
            parts = []
            while part := one.stream.read(BLOCK):
                parts.append(part)
            found[one.name] = b"".join(parts)
        else:
            spoilt.append(one)
    return found, spoilt


def zipped(method: int, *, streamed: bool) -> bytes:
    buffer = io.BytesIO()

    class Streamed(io.RawIOBase):
        """Not to be searched, so that sizes follow the data."""

        def writable(self) -> bool:
            return True

        def write(self, data: bytes) -> int:  # type: ignore[override]
            return buffer.write(data)

    target = Streamed() if streamed else buffer
    with zipfile.ZipFile(target, "w", method) as archive:  # type: ignore[arg-type]
        archive.writestr("a.log", b"first\n" * 50)
        archive.writestr("d/", b"")
        archive.writestr("d/b.log", b"second\n")
    return buffer.getvalue()


EXPECTED = {"a.log": b"first\n" * 50, "d/b.log": b"second\n"}


def test_zip_in_order() -> None:
    for packed in (
        zipped(zipfile.ZIP_DEFLATED, streamed=False),
        zipped(zipfile.ZIP_DEFLATED, streamed=True),
        zipped(zipfile.ZIP_STORED, streamed=False),
    ):
        assert is_zip(packed)
        assert contents(packed) == (EXPECTED, [])


def test_a_method_that_is_not_known_costs_that_member() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("odd.log", b"x" * 99, zipfile.ZIP_BZIP2)
        archive.writestr("b.log", b"second\n", zipfile.ZIP_DEFLATED)
    found, spoilt = contents(buffer.getvalue())
    assert found == {"b.log": b"second\n"}
    assert [one.name for one in spoilt] == ["odd.log"]


def test_a_tar_with_holes_and_links_gives_plain_files_only() -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, kind in (("link", tarfile.LNKTYPE), ("pipe", tarfile.FIFOTYPE)):
            info = tarfile.TarInfo(name)
            info.type = kind
            archive.addfile(info)
        info = tarfile.TarInfo("a.log")
        info.size = 2
        archive.addfile(info, io.BytesIO(b"a\n"))
    packed = buffer.getvalue()
    assert is_tar(packed[:512])
    assert contents(packed, tar=True) == ({"a.log": b"a\n"}, [])


def test_a_header_that_claims_too_much_is_refused() -> None:
    info = tarfile.TarInfo("pax")
    info.type, info.size = tarfile.XHDTYPE, 1 << 32
    packed = info.tobuf(tarfile.USTAR_FORMAT) + b"6 a=b\n" * (4 << 20)
    found, (spoilt,) = contents(packed, tar=True)
    assert found == {}
    assert "headers" in str(spoilt.reason)


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_damage_anywhere_is_survived(data: st.DataObject) -> None:
    tar = data.draw(st.booleans())
    if tar:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            for name in ("a.log", "b" * 120):
                info = tarfile.TarInfo(name)
                info.size = 700
                archive.addfile(info, io.BytesIO(b"x" * 700))
        packed = bytearray(buffer.getvalue())
    else:
        packed = bytearray(zipped(zipfile.ZIP_DEFLATED, streamed=False))
    for _ in range(data.draw(st.integers(1, 4))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(packed)))
    try:
        found, _ = contents(bytes(packed[:cut]), tar=tar)
    except DAMAGE:
        return  # members' own streams may raise such; sources guard them
    assert sum(map(len, found.values())) <= 20_000
