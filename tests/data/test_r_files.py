"""Files of R: factors keep the order of their levels; of several data frames one is named."""

from __future__ import annotations

import base64
import bz2
import gzip
import lzma
import struct
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from data.decoding import decoded
from unikat.data import Design, read
from unikat.errors import UnikatError

pyreadr = pytest.importorskip("pyreadr", reason="the extra 'r' is not installed")

DESIGN = Design(population_size=1000)
# What pyreadr does not write: a factor, and several objects in a file.
FRAME = base64.b85decode(
    "ABzYG$<P980{><%a%6J=bx=)9!$1(7W_N`IQVRYKi@kZXJyZ{Z72DE!k~P^%VUyJ)DxUNgi$_nblkAM70VnLv+c%"
    "RpAL|GJ1jwKVLLmgTTwI)-A$MFq@C@)s{6h4>>4;EogjcvnYlT3>O)`cXRd0x8(0HGDWX-FwB}ofn)w_GiA2}u4r"
    "l~db63(U_4V743vc#Y8Mkkdk5bf}^TM0gWE44(w=Fh)9@$uvR7!EyJ)cPO(8AatfGu(zEQZ8nzYi@mVIb}GXt{L7"
    ";?pR?pyS<uw*<jxpC`xsuhnoV6bP9)sdmD1`FPe;l{lsNYxQhF2UX|v#6O|9TG{nU;UralzcO%9FI56H7<?Ma|rD"
    "oeyGXekr"
)
SEVERAL = base64.b85decode(
    "ABzYG$<P980{><%a%5ourBcC8gFp}+ShfZdnkIgSjg1#?wu#k)i8XCa@njITrU|eJXyZx0*m(3*oMm?_piMMRvdl"
    "0uyf^dM>8W?*cn$y%uuKC8#SrNA{OsTuFoQ1!SYV^?q>QH#!_Ixtf~SYaQdRSCpdw>{54%LGm4LWavw#y^(u_7m#"
    "GY7`D`=v!^qD^<_qrusg&|HM-w2Pw76uI>Ki3dj;H4iFJi};%r#_1LDn}6zU6DU|mx-4T>4(ttXin{W*s%&t{Fv!"
    "6s7hM%$>LIvJ~|)ka5naIcs07w2#d+|VkTip*;>d6{lf1rGbCvd+ZkW?HTj#`Oc%QWk5iQ5c9j%4duUayJ3nVC=c"
    "@f&rJ2x%413Tpt(EH8eA9pz)fn!UsPfIGg0GWY-752sw`$j~6bzQu%=}4xA^9(*rRA5Bol^R}@_#zP<`cw?pT2qn"
    "000"
)


def _int(number: int) -> bytes:
    return struct.pack(">i", number)


def _texts(texts: list[str]) -> bytes:
    """Texts as R serializes them."""
    found = b"".join(_int(0x40009) + _int(len(text)) + text.encode() for text in texts)
    return _int(16) + _int(len(texts)) + found


def _attributes(named: dict[str, bytes]) -> bytes:
    found = (
        _int(0x402) + _int(1) + _int(0x40009) + _int(len(name)) + name.encode() + value
        for name, value in named.items()
    )
    return b"".join(found) + _int(254)


def _numbers(numbers: list[int], named: dict[str, bytes] | None = None) -> bytes:
    kind = 13 if named is None else 0x30D
    found = _int(kind) + _int(len(numbers)) + b"".join(map(_int, numbers))
    return found + (b"" if named is None else _attributes(named))


def r_frame(**more: bytes) -> bytes:
    """A data frame of 40 rows: an ordered factor, a factor (with more attributes), and numbers."""
    grades = {"levels": _texts(["low", "mid", "high"]), "class": _texts(["ordered", "factor"])}
    towns = {"levels": _texts(["x", "a"]), "class": _texts(["factor"]), **more}
    columns = {
        "grade": _numbers([1, 2, 3, 2] * 10, grades),
        "town": _numbers([2, 1, 2, 2] * 10, towns),
        "age": _numbers([30, 40, 50, 60, 50] * 8),
    }
    named = {
        "names": _texts(list(columns)),
        "row.names": _numbers([-(2**31), -40]),
        "class": _texts(["data.frame"]),
    }
    frame = _int(0x313) + _int(len(columns)) + b"".join(columns.values()) + _attributes(named)
    return b"X\n" + _int(2) + _int(0x30602) + _int(0x20300) + frame


@pytest.mark.parametrize("packed", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_ordered_factors(tmp_path: Path, packed: Any) -> None:
    path = tmp_path / "x.rds"
    path.write_bytes(packed(r_frame()))
    keys = read(path, "grade,town,age", DESIGN).keys
    assert (keys[0].levels, keys[0].ordered) == (("low", "mid", "high"), True)
    assert (keys[1].levels, keys[1].ordered) == (("x", "a"), None)


def test_factors_are_unordered_where_the_file_tells_not_which_they_are(tmp_path: Path) -> None:
    path = tmp_path / "x.rds"
    # One class more than there are factors.
    path.write_bytes(r_frame(note=_texts(["factor"])))
    assert read(path, "grade,town,age", DESIGN).keys[0].ordered is None


def refused(source: Path, **options: Any) -> str:
    with pytest.raises(UnikatError) as caught:
        read(source, "TOWN,SEX", DESIGN, **options)
    return str(caught.value)


def test_frame(tmp_path: Path) -> None:
    path = tmp_path / "x.rds"
    path.write_bytes(FRAME)
    microdata = read(path, "TOWN,AGE,SEX,PAY,WORKS", DESIGN)
    rows = decoded(microdata.tabulate())
    assert rows["TOWN"].tolist() == ["01", "1", None, "01"]
    assert rows["AGE"].tolist() == ["young", "old", None, "young"]
    assert microdata.keys[1].levels == ("young", "old")
    assert rows["SEX"].tolist() == [1, 2, None, 2]
    assert rows["PAY"].tolist() == [1, None, 2, 2]
    assert rows["WORKS"].tolist() == [True, False, False, True]
    added = microdata.with_columns({"risk": [0.0] * 4})
    assert added["PAY"].to_pylist() == [1.0, None, 2.0, 2.0]


def test_several_frames(tmp_path: Path) -> None:
    path = tmp_path / "x.RData"
    path.write_bytes(SEVERAL)
    message = refused(path)
    assert "holds 3 tables: 'people', 'notes', 'towns'" in message
    assert "--table people (in Python: table='people')" in message
    assert read(path, "TOWN,SEX", DESIGN, table="towns", missing="level").n_missing == (1, 1)


def test_what_pyreadr_writes(tmp_path: Path) -> None:
    frame = pd.DataFrame({"TOWN": ["01", "1", "01"], "SEX": [1, 2, 2]})
    for name in ("x.rda", "x.rds"):
        write = pyreadr.write_rds if name == "x.rds" else pyreadr.write_rdata
        write(str(tmp_path / name), frame, **({} if name == "x.rds" else {"df_name": "d"}))
        assert read(tmp_path / name, "TOWN,SEX", DESIGN).keys[0].levels == ("01", "1")


def test_files_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.rds"
    for content in (FRAME[: len(FRAME) // 2], b"A,B\n1,2\n", b"\x1f\x8b and nothing else"):
        path.write_bytes(content)
        assert "x.rds cannot be read as a file of R" in refused(path)
    monkeypatch.setitem(sys.modules, "pyreadr", None)
    assert "pip install 'unikat[r]'" in refused(path)


def _nested(depth: int) -> bytes:
    """Lists within lists, as R serializes them."""
    start = b"X\n" + _int(2) + _int(0x30602) + _int(0x20300)
    return start + (_int(19) + _int(1)) * depth + _int(254)


def _long_frame(n: int) -> bytes:
    """A data frame of one column of whole numbers."""
    column = _int(13) + _int(n) + (_int(1) + _int(2)) * (n // 2)
    named = {
        "names": _texts(["TOWN", "SEX"]),
        "row.names": _numbers([-(2**31), -n]),
        "class": _texts(["data.frame"]),
    }
    start = b"X\n" + _int(2) + _int(0x30602) + _int(0x20300)
    return start + _int(0x313) + _int(2) + column * 2 + _attributes(named)


def test_a_file_that_ends_the_library_ends_no_process_of_ours(tmp_path: Path) -> None:
    path = tmp_path / "x.rds"
    path.write_bytes(gzip.compress(_nested(20_000)))
    assert "the process that read it ended. The file may be damaged" in refused(path)


def test_a_file_that_is_large_unpacked_is_refused_by_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "x.rds"
    path.write_bytes(gzip.compress(_long_frame(4_000_000), 1))
    for limit in ("10MB", "40MB"):
        # 32 MB unpacked: by their number, and by the memory that the library asks for.
        said = refused(path, memory_limit=limit)
        assert f"x.rds needs more memory than the {limit} allowed: it is large once" in said
    many = Design(population_size=10**8)
    assert read(path, "TOWN,SEX", many, memory_limit="400MB").n_records == 4_000_000


def test_no_module_beside_the_data_and_nothing_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, temporary = tmp_path / "data", tmp_path / "temporary"
    data.mkdir()
    temporary.mkdir()
    for name in ("pandas", "pyreadr", "json", "gzip"):
        (data / f"{name}.py").write_text("open('ran', 'w').close()")
    (data / "x.rds").write_bytes(FRAME)
    monkeypatch.chdir(data)
    monkeypatch.setenv("TMPDIR", str(temporary))
    assert read("x.rds", "TOWN,SEX", DESIGN, missing="level").n_records == 4
    assert not (data / "ran").exists()
    assert list(temporary.iterdir()) == []
