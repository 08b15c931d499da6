"""The records at risk as CSV."""

from __future__ import annotations

import csv
import io
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from report.estimates import NAMES, estimate, provenance, spec, table, write
from unikat.report.folders.assessment import load
from unikat.report.folders.records_at_risk import COLUMNS, FILE, REASONS, SHOWN, safe
from unikat.zeros import Zeros
from unikat.zeros.conflicts import apply_zeros


def test_the_records_are_those_of_the_parquet_file(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(estimate(), out, spec(), provenance())
    found = pd.read_csv(out / FILE)
    assert tuple(found.columns) == (*COLUMNS, *REASONS)
    every = pd.read_parquet(out / "records.parquet")
    at_risk = every[every["r1"].notna()]
    assert len(found) == len(at_risk) == estimate().table.n_uniques
    assert found["r1"].is_monotonic_decreasing
    same = at_risk.set_index("row").loc[found["row"]]
    for name in COLUMNS[1:]:
        np.testing.assert_allclose(found[name], same[name], rtol=1e-5)
    for name in REASONS:
        assert (found[name].fillna("") == same[name].astype(object).fillna("").to_numpy()).all()
    assert stat.S_IMODE((out / FILE).stat().st_mode) == 0o600
    assert FILE in load(out).digests
    assert "-v1" not in (out / FILE).read_text()


def test_values_are_there_only_if_small_cells_are_shown(tmp_path: Path) -> None:
    write(estimate(), tmp_path, spec(show_small_cells=True), provenance())
    found = pd.read_csv(tmp_path / FILE)
    assert tuple(found.columns) == (*COLUMNS, *REASONS, *NAMES)
    cells = table()
    first = cells.cells[cells.record_cell[found["row"][0] - 1]]
    assert found["AGE"][0] == f"AGE-v{first[0]}"


def test_rows_are_those_of_the_file(tmp_path: Path) -> None:
    cells = table()
    made = apply_zeros(cells, Zeros.of([(None, "AGE < 2 and SEX == 1")], cells.keys), "drop")
    assert made.n_dropped
    write(estimate(made.table), tmp_path, spec(), provenance(), made)
    found = pd.read_csv(tmp_path / FILE)
    kept = np.flatnonzero(made.kept) + 1
    assert set(found["row"]) <= set(kept)
    every = pd.read_parquet(tmp_path / "records.parquet").set_index("row")
    np.testing.assert_allclose(found["r1"], every.loc[found["row"], "r1"], rtol=1e-5)


@pytest.mark.parametrize("name", ["=1+1", "+A", "-A", "@A", "\tA", " =A", 'a"b,c', "a\nb"])
def test_names_are_no_formulas_and_come_back(tmp_path: Path, name: str) -> None:
    cells = table()
    keys = (replace(cells.keys[0], name=name), *cells.keys[1:])
    found = estimate(replace(cells, keys=keys))
    write(found, tmp_path, None, provenance())
    lines = list(csv.reader(io.StringIO((tmp_path / FILE).read_bytes().decode(), newline="")))
    named = {cell for line in lines[1:] for cell in line[len(COLUMNS) :]}
    assert safe(name) in named
    assert not any(cell.lstrip()[:1] in tuple("=+-@") and cell for cell in named if cell)
    assert {len(line) for line in lines} == {len(COLUMNS) + len(REASONS)}


def test_a_file_without_records_at_risk_has_a_header(tmp_path: Path) -> None:
    codes = np.zeros((20, 5), np.int64)
    none = type(table()).from_codes(codes, table().keys, 20)
    write(estimate(none, known=True), tmp_path, None, provenance())
    assert (tmp_path / FILE).read_text().splitlines() == [",".join((*COLUMNS, *REASONS))]


def test_published_risks_order_the_file_where_records_are_imputed(tmp_path: Path) -> None:
    """By hand: hidden values take risk from the records that lack them."""
    cells = table()
    gaps = cells.cells[cells.record_cell].copy()
    gaps[::7, 1] = -1
    found = estimate(type(cells).from_codes(gaps, cells.keys, cells.n_units))
    risks, incomplete = found.records, found.table.incomplete
    shown: dict[str, Any] = {
        f"{measure}_shown{end}": np.where(
            incomplete, 0.1 * getattr(risks, measure + end), getattr(risks, measure + end)
        )
        for measure in ("r1", "r2")
        for end in ("", "_lower", "_upper")
    }
    found = replace(
        found, records=replace(risks, **shown), tau1_shown=found.tau1, tau2_shown=found.tau2
    )
    write(found, tmp_path, spec(), provenance())
    listed = pd.read_csv(tmp_path / FILE)
    assert tuple(listed.columns) == (*COLUMNS, *SHOWN, *REASONS)
    assert listed["r1_shown"].is_monotonic_decreasing
    assert not listed["r1"].is_monotonic_decreasing
    every = pd.read_parquet(tmp_path / "records.parquet")
    same = every.set_index("row").loc[listed["row"]]
    for name in SHOWN:
        np.testing.assert_allclose(listed[name], same[name], rtol=1e-5)
    assert (every["r1_shown"] <= every["r1"]).sum() == every["r1"].notna().sum()
    assert {"r2_shown_lower", "r2_shown_upper"} <= set(every)
    result = load(tmp_path).result
    assert result.tau1_shown == found.tau1
    assert all(one.r1_shown is not None for one in result.records.top)
    page = (tmp_path / "report.html").read_text()
    assert page.count(result.sentences["tau1_shown"]) == 2
    assert result.sentences["tau2_shown"] in page
    assert "r1, published" in page
    assert "τ1, published file" in page


def test_files_without_imputed_records_say_nothing_of_it(tmp_path: Path) -> None:
    write(estimate(), tmp_path, spec(), provenance())
    result = load(tmp_path).result
    assert result.tau1_shown is result.tau2_shown is None
    assert not {"tau1_shown", "r1_shown"} & set(result.sentences)
    assert "published" not in (tmp_path / "report.html").read_text()
    assert not [name for name in pd.read_parquet(tmp_path / "records.parquet") if "shown" in name]
