"""Copies of the keys: their owner alone can read them."""

from __future__ import annotations

import gzip
import stat
from collections.abc import Callable
from pathlib import Path

import pyarrow.csv
import pyarrow.dataset
import pytest

from unikat.data import Design, read

DESIGN = Design(population_size=1_000)
ROWS = "A,B\n" + "".join(f"{i % 3},ö{i % 2}\n" for i in range(50))


def plain(folder: Path) -> object:
    (folder / "x.csv").write_text(ROWS)
    return folder / "x.csv"


def latin(folder: Path) -> object:
    (folder / "x.csv").write_bytes(ROWS.encode("utf-16"))
    return folder / "x.csv"


def packed(folder: Path) -> object:
    (folder / "x.csv.gz").write_bytes(gzip.compress(ROWS.encode()))
    return folder / "x.csv.gz"


def several(folder: Path) -> object:
    for number in range(3):
        (folder / f"{number}.csv").write_text(ROWS)
    return folder


def dataset(folder: Path) -> object:
    return pyarrow.dataset.dataset(str(plain(folder)), format="csv")


@pytest.mark.parametrize("made", [plain, latin, packed, several, dataset])
def test_temporary_files_are_private(
    made: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary, folder = tmp_path / "tmp", tmp_path / "data"
    temporary.mkdir()
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    source = made(folder)
    seen: dict[str, int] = {}
    microdata = read(source, "A,B", DESIGN)
    for path in temporary.rglob("*"):
        seen[path.name] = stat.S_IMODE(path.stat().st_mode)
        assert not seen[path.name] & 0o077, (path, oct(seen[path.name]))
    assert any(name.endswith(".parquet") for name in seen)
    assert microdata.tabulate().n_records in (50, 150)
