"""Names of files that are odd, too long or no names at all: one message each, no traceback."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from unikat.data import Design, read
from unikat.data.codebook import load_codebook
from unikat.data.hierarchies import read_hierarchy
from unikat.errors import UnikatError
from unikat.spec.small_files import read_stratum_sizes

DESIGN = Design(population_size=1000)


def refused(path: object) -> str:
    with pytest.raises(UnikatError) as caught:
        read(path, "A,B", DESIGN)
    return str(caught.value)


def test_names_that_no_file_can_have() -> None:
    assert "cannot be opened (File name too long)" in refused("x" * 300 + ".csv")
    assert len(refused("x" * 300 + ".csv")) < 200
    assert "no path may hold (NUL)" in refused("x\0.csv")
    assert "no path may hold (NUL)" in refused("x\0*.csv")
    assert "is not UTF-8 text; rename" in refused("x\udcff.csv")


def test_a_name_that_is_not_utf8(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/\xff.csv"
    with open(path, "w") as file:
        file.write("A,B\n1,2\n2,1\n")
    assert "is not UTF-8 text; rename" in refused(os.fsdecode(path))


def test_a_folder_without_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Path.stat

    def stat(path: Path, **options: bool) -> os.stat_result:
        if path.name == "x.csv":
            raise PermissionError(13, "Permission denied")
        return real(path, **options)

    # The superuser may enter every folder, so that the system's answer is given here.
    monkeypatch.setattr(Path, "stat", stat)
    assert "x.csv cannot be opened (Permission denied)" in refused(tmp_path / "x.csv")


def test_a_folder_that_may_not_be_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def iterdir(path: Path) -> Iterator[Path]:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", iterdir)
    message = refused(tmp_path / "x.csv")
    assert "There is no file" in message
    assert "not there either" not in message


def test_files_of_the_same_kind_are_suggested(tmp_path: Path) -> None:
    for name in ("survey.toml", "survey.parquet", "surveys.csv.gz"):
        (tmp_path / name).write_text("")
    assert "Did you mean 'surveys.csv.gz'?" in refused(tmp_path / "survey.csv")
    assert "Did you mean 'survey.parquet'?" in refused(tmp_path / "surve.parquet")
    assert "Did you mean" not in refused(tmp_path / "survey.xlsx")
    assert "Did you mean 'surveys.csv.gz'?" in refused(tmp_path / "survey")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_a_pipe(tmp_path: Path) -> None:
    """Nobody writes into it, so that opening it would not return."""
    os.mkfifo(tmp_path / "x.csv")
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(refused(tmp_path / "x.csv")), daemon=True)
    thread.start()
    thread.join(20)
    assert "is a device or a pipe" in found[0]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
@pytest.mark.parametrize("what", ["hierarchy", "codebook", "sizes"])
def test_a_pipe_or_device_in_place_of_a_file_about_the_data(tmp_path: Path, what: str) -> None:
    """One is waited for, and the other never ends; a specification of others may name them."""
    os.mkfifo(tmp_path / "pipe.csv")
    reads: dict[str, Any] = {
        "hierarchy": read_hierarchy,
        "codebook": load_codebook,
        "sizes": read_stratum_sizes,
    }
    for path in (tmp_path / "pipe.csv", Path("/dev/zero")):
        said: list[str] = []

        def ask(path: Path = path, said: list[str] = said) -> None:
            with pytest.raises(UnikatError) as refusal:
                reads[what](path)
            said.append(str(refusal.value))

        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        thread.join(20)
        assert said, path
