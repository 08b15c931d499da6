"""The risk in the table of two keys."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.report.facts.breakdown import FEWEST_RECORDS
from unikat.report.facts.risk_map import MOST, hidden, risk_map
from unikat.report.pages.release_figures import risk_cells
from unikat.risk.estimate import assess


def found(seed: int = 1, n: int = 400) -> Any:
    """An estimate whose r1 are random numbers, and the codes; `age` has more levels than a map."""
    rng = np.random.default_rng(seed)
    codes = np.column_stack([rng.integers(0, size, n) for size in (30, 3, 4)]).astype(np.int32)
    codes[:5, 2] = -1
    ages = Key.of_size("age", 30)
    keys = [ages, Key.of_size("sex", 3), Key.of_size("region", 4)]
    table = CellTable.from_codes(codes, keys, population_size=n, missing="wildcard")
    estimate = assess(None, table)
    r1 = np.where(table.unique, rng.uniform(0.0, 1.0, len(table.cells)), np.nan)
    return replace(estimate, records=replace(estimate.records, r1=r1)), codes


@pytest.mark.parametrize("pair", [("sex", "region"), ("region", "age"), None])
def test_cells_add_up_to_the_file(pair: tuple[str, str] | None) -> None:
    estimate, codes = found()
    every = risk_map(estimate, pair, show_all=True)
    assert every is not None
    assert sum(sum(row) for row in every.records) == len(codes)  # type: ignore[arg-type]
    total = np.nansum(estimate.records.r1)
    assert every.total == pytest.approx(total)
    assert (every.n_hidden, every.tau1_hidden) == (0, 0.0)
    told = risk_map(estimate, pair)
    assert told is not None
    assert told.total == pytest.approx(total)
    # No cell of a page that others see is of few records.
    gone = 0
    for counts, whole, risks in zip(told.records, every.records, told.tau1, strict=True):
        for n, of_all, risk in zip(counts, whole, risks, strict=True):
            assert of_all is not None
            assert (n is None) == (risk is None)
            assert n is None or not 0 < of_all < FEWEST_RECORDS
            gone += n is None
    assert gone == told.n_hidden
    assert len(every.labels[0]) <= MOST + 1


def test_a_cell_is_that_of_its_levels() -> None:
    estimate, codes = found()
    drawn = risk_map(estimate, ("sex", "region"), show_all=True)
    assert drawn is not None
    table = estimate.table
    r1 = np.nan_to_num(estimate.records.r1)[table.record_cell]
    for sex in range(3):
        for place, region in enumerate([0, 1, 2, 3, -1]):
            there = (codes[:, 1] == sex) & (codes[:, 2] == region)
            assert drawn.records[sex][place] == there.sum()
            assert drawn.tau1[sex][place] == pytest.approx(r1[there].sum())


def test_the_keys_are_those_in_which_the_risk_is_concentrated() -> None:
    estimate, _ = found()
    table = estimate.table
    # All of the risk is in one cell of sex and region.
    there = (table.cells[:, 1] == 1) & (table.cells[:, 2] == 2)
    r1 = np.where(there, estimate.records.r1, 0.0)
    only = replace(estimate, records=replace(estimate.records, r1=r1))
    drawn = risk_map(only, None, show_all=True)
    assert drawn is not None
    assert "age" in drawn.names
    assert drawn.share_of_half < 0.05
    plain = risk_map(only, ("sex", "region"), show_all=True)
    assert plain is not None
    assert drawn.share_of_half <= plain.share_of_half
    for wrong in (("sex", "sex"), ("sex", "none")):
        assert risk_map(only, wrong) is None
    picture = risk_cells(drawn)
    assert "population uniques" in picture.alt


@pytest.mark.parametrize("seed", range(20))
def test_no_hidden_cell_is_the_difference_of_a_sum(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = rng.poisson(rng.gamma(0.5, 30.0, (6, 8))).astype(float)
    gone = hidden(n)
    assert gone[(n > 0) & (n < 10)].all()
    for cells, of_line in [*zip(n, gone, strict=True), *zip(n.T, gone.T, strict=True)]:
        # A single one is all that its row or column has, whose sum is then not told.
        assert of_line.sum() != 1 or cells[~of_line].sum() == 0
