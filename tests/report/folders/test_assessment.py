from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from report.estimates import NAMES, estimate, provenance, spec, table, write
from unikat.errors import OutputError
from unikat.files import writing as files
from unikat.jobs.outcome import write_page
from unikat.report.facts.breakdown import FEWEST_RECORDS
from unikat.report.facts.result import SCHEMA
from unikat.report.folders.assessment import FILES, load
from unikat.report.folders.outputs import HOUSEHOLDS, REGISTRY, STATES


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "out"
    write(estimate(), folder, spec(Path("/data/people.csv")), provenance())
    return folder


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


def test_all_files_are_written_for_the_owner_alone(folder: Path) -> None:
    written = {*FILES} - {REGISTRY, HOUSEHOLDS, STATES}
    assert {path.name for path in folder.iterdir()} == written | {".unikat"}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for name in written:
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600, name


def test_result_json_has_the_promised_keys(folder: Path) -> None:
    result = json.loads((folder / "result.json").read_text())
    assert result["schema"] == SCHEMA
    assert result["model"] == "hdp"
    assert result["seed"] == 1
    assert result["converged"] is True
    assert result["seconds"] == 12.3
    cells = table()
    assert result["sample"] == {
        "n_records": 3000,
        "n_keys": 5,
        "n_cells": cells.n_cells,
        "n_uniques": cells.n_uniques,
        "population_size": 150_000,
        "n_incomplete": 0,
        "missing": "integrate",
        "n_combinations": 18.0 * 2 * 9 * 12 * 4,
        "smallest": 1,
        "n_households": None,
        "n_shared_keys": None,
        "copies": None,
    }
    for name in ("tau1", "tau2", "tau1_expected", "tau2_expected"):
        assert set(result[name]) == {
            "mean", "median", "lower", "upper", "level", "rhat", "ess_bulk", "ess_tail"
        }  # fmt: skip
        assert result["sentences"][name]
    assert result["warnings"] == []
    assert [key["name"] for key in result["keys"]] == list(NAMES)
    assert result["provenance"]["data_fingerprint"] == "ab" * 32
    assert result["data"] == "people.csv"
    assert "/data" not in (folder / "result.json").read_text()


def test_the_numbers_of_result_json_agree_with_the_records(folder: Path) -> None:
    result = json.loads((folder / "result.json").read_text())
    frame = pq.read_table(folder / "records.parquet")
    r1 = np.array([np.nan if v is None else v for v in frame["r1"].to_pylist()])
    for part in result["records"]["at_least"]:
        assert part["records"] == np.count_nonzero(r1 >= part["r1"])
    assert sum(result["records"]["histogram"]) == np.count_nonzero(~np.isnan(r1))
    top = result["records"]["top"]
    assert [record["r1"] for record in top] == sorted(r1[~np.isnan(r1)])[::-1][: len(top)]
    for record in top:
        assert r1[record["row"] - 1] == record["r1"]
        row = frame.slice(record["row"] - 1, 1).to_pylist()[0]
        assert [reason["key"] for reason in record["reasons"]] == [
            row[f"key_{rank}"] for rank in (1, 2, 3) if row[f"key_{rank}"] is not None
        ]
    for key in result["keys"]:
        assert key["drop"] + key["tau1_without"] == pytest.approx(result["tau1_expected"]["mean"])


def test_records_are_in_the_order_of_the_input(folder: Path, monkeypatch: Any) -> None:
    found = estimate()
    frame = pq.read_table(folder / "records.parquet")
    assert frame["row"].to_pylist() == list(range(1, 3001))
    counts = found.table.counts[found.table.record_cell]
    assert frame["f"].to_numpy().tolist() == counts.tolist()
    assert frame["sample_unique"].to_pylist() == (counts == 1).tolist()
    assert frame["r2"].to_numpy().tolist() == found.records.r2[found.table.record_cell].tolist()
    assert frame["r1"].null_count == np.count_nonzero(counts > 1)


@pytest.mark.parametrize("converged", [True, False])
def test_records_say_what_run_they_are_of(tmp_path: Path, converged: bool) -> None:
    write(estimate(converged=converged), tmp_path / "out", spec(), provenance())
    metadata = pq.read_schema(tmp_path / "out" / "records.parquet").metadata
    assert metadata[b"unikat.schema"] == b"unikat.records/1"
    assert metadata[b"unikat.version"] == b"0.1.0"
    assert metadata[b"unikat.seed"] == b"1"
    assert metadata[b"unikat.converged"] == (b"true" if converged else b"false")


def test_chunks_leave_no_trace(folder: Path, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("unikat.report.folders.records._CHUNK", 700)
    write(estimate(), tmp_path / "out", spec(), provenance())
    assert pq.read_table(tmp_path / "out" / "records.parquet").equals(
        pq.read_table(folder / "records.parquet")
    )
    assert pq.ParquetFile(tmp_path / "out" / "records.parquet").num_row_groups == 5


def test_missing_keys_are_counted(tmp_path: Path) -> None:
    cells = table(missing=True)
    result = write(estimate(cells), tmp_path / "out", spec(), provenance())
    assert [key.n_missing for key in result.keys] == list(cells.n_missing)
    assert result.sample.n_incomplete > 0
    assert f"{result.sample.n_incomplete:,} records" in result.sentences["sample.n_incomplete"]
    assert load(tmp_path / "out").result == result


def test_no_value_of_a_record_is_written_unless_asked(folder: Path, tmp_path: Path) -> None:
    counts = np.bincount(table().cells[:, 0], weights=table().counts, minlength=18)
    rare = [code for code in range(18) if 0 < counts[code] < FEWEST_RECORDS]
    assert rare
    for name in ("result.json", "report.html", "assessment.toml"):
        text = (folder / name).read_text()
        # Levels with enough records have a line in the table of risk by level.
        assert not [code for code in rare if f"AGE-v{code}<" in text or f'AGE-v{code}"' in text]
    top = json.loads((folder / "result.json").read_text())["records"]["top"]
    assert {one["values"] for one in top} == {None}
    result = write(estimate(), tmp_path / "o", spec(show_small_cells=True), provenance())
    assert result.records.top[0].values is not None
    assert result.records.top[0].values["SEX"].startswith("SEX-v")
    assert b"SEX-v" in (tmp_path / "o" / "report.html").read_bytes()


def test_what_is_loaded_is_what_was_written(folder: Path) -> None:
    found = load(folder)
    assert found.result.tau1.median == estimate().tau1.median
    draws = estimate().draws
    assert draws is not None
    for name, values in found.traces.items():
        np.testing.assert_array_equal(values, draws.scalars[name])


def test_draws_are_read_by_arviz(folder: Path) -> None:
    from xarray import open_datatree

    with open_datatree(folder / "draws.nc", engine="h5netcdf") as tree:
        assert tree["posterior"]["tau1"].shape == (4, 267)


def test_rendering_again_gives_the_same_report(folder: Path) -> None:
    before = content(folder)
    path = write_page(folder)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert content(folder) == before


def test_what_is_known_exactly_has_no_draws(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(estimate(), out, spec(), provenance())
    result = write(estimate(table(population_size=3000), known=True), out, spec(), provenance())
    assert not (out / "draws.nc").exists()
    assert result.known_exactly
    assert "whole population" in result.sentences["answer"]
    assert load(out).result == result
    assert "This is known exactly." in (out / "report.html").read_text()


@pytest.mark.parametrize("name", ["result.json", "records.parquet", "draws.nc", "assessment.toml"])
def test_an_edited_file_is_noticed(tmp_path: Path, name: str) -> None:
    out = tmp_path / "out"
    write(estimate(), out, spec(), provenance())
    path = out / name
    path.write_bytes(path.read_bytes().replace(b"1", b"2", 1))
    before = content(out)
    with pytest.raises(OutputError, match=f"{name} does not match"):
        load(out)
    assert content(out) == before


@pytest.mark.parametrize("text", ["", "{}", '{"schema": "x", "sha256": {}}', "[1]", "null"])
def test_a_damaged_manifest_is_refused(tmp_path: Path, text: str) -> None:
    out = tmp_path / "out"
    write(estimate(), out, spec(), provenance())
    (out / "manifest.json").write_text(text)
    with pytest.raises(OutputError, match="damaged or of another version"):
        load(out)


def test_a_manifest_names_no_file_outside_its_folder(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(estimate(), out, spec(), provenance())
    manifest = json.loads((out / "manifest.json").read_text())
    manifest["sha256"]["../secret"] = "0"
    (out / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(OutputError, match="damaged"):
        load(out)


def test_incomplete_and_absent_runs_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="is not a folder"):
        load(tmp_path / "none")
    with pytest.raises(OutputError, match="there are no results in it"):
        load(tmp_path)
    out = tmp_path / "out"
    write(estimate(), out, spec(), provenance())
    (out / "manifest.json").unlink()
    with pytest.raises(OutputError, match="may be incomplete or mixed"):
        load(out)
    write(estimate(), out, spec(), provenance())
    (out / "draws.nc").unlink()
    with pytest.raises(OutputError, match=r"Cannot read .*draws\.nc"):
        load(out)


def fail_on_call(monkeypatch: pytest.MonkeyPatch, name: str, nth: int) -> None:
    """Let the nth call of a function of `os` find the disk full."""
    real, calls = getattr(os, name), 0

    def full(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == nth:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*arguments, **named)

    monkeypatch.setattr(os, name, full)


@pytest.mark.parametrize("nth", [1, 2, 3, 4, 5, 6])
def test_a_full_disk_leaves_the_old_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nth: int
) -> None:
    out = tmp_path / "out"
    write(estimate(), out, spec(), provenance())
    before = content(out)
    fail_on_call(monkeypatch, "fsync", nth)
    with pytest.raises(OutputError, match="the disk is full"):
        write(estimate(seed=9), out, spec(), provenance())
    assert content(out) == before
    assert not [path for path in out.iterdir() if path.is_dir()]


def test_a_full_disk_leaves_no_new_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_on_call(monkeypatch, "fsync", 3)
    with pytest.raises(OutputError, match="the disk is full"):
        write(estimate(), tmp_path / "out", spec(), provenance())
    assert not (tmp_path / "out").exists()


def test_a_crash_between_two_renames_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    write(estimate(), out, spec(), provenance())
    with monkeypatch.context() as patch:
        fail_on_call(patch, "replace", 3)
        with pytest.raises(OutputError):
            write(estimate(seed=9), out, spec(), provenance())
    with pytest.raises(OutputError, match="may be incomplete or mixed"):
        load(out)
    write(estimate(seed=9), out, spec(), provenance())
    load(out)


def test_a_real_small_disk(tmp_path: Path) -> None:
    import subprocess

    if os.name != "posix" or os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("this machine does not allow mounting")
    try:
        with pytest.raises(OutputError, match="the disk is full"):
            write(estimate(), disk / "out", spec(), provenance())
        assert list(disk.iterdir()) == []
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    with pytest.raises(OutputError, match="is a file, not a folder"):
        write(estimate(), tmp_path / "out", spec(), provenance())
    with pytest.raises(OutputError, match="Not a directory"):
        write(estimate(), tmp_path / "out" / "deeper", spec(), provenance())
    assert (tmp_path / "out").read_text() == "mine"


def test_a_folder_without_permission_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    out.mkdir(mode=0o500)
    if os.name == "posix" and os.geteuid() == 0:
        # Nothing is forbidden to root.
        def refuse(*_: Any, **__: Any) -> Any:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

        monkeypatch.setattr(files.tempfile, "TemporaryFile", refuse)
    with pytest.raises(OutputError, match="Permission denied"):
        write(estimate(), out, spec(), provenance())
    assert list(out.iterdir()) == []


def test_files_of_the_user_stay(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    write(estimate(), out, spec(), provenance())
    assert (out / "notes.txt").read_text() == "mine"
