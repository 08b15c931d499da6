"""Frequencies with missing keys and k-anonymity: the definition pair by pair, sdcMicro's values."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unikat.classics.frequencies import Frequencies, frequencies, k_anonymity
from unikat.data import Key
from unikat.data.design import Sampling
from unikat.data.table import CellTable
from unikat.errors import SpecError

ORACLES = Path(__file__).parents[3] / "shared" / "oracles"
ALPHAS = (0.0, 0.3, 0.5, 1.0)


def oracle(name: str) -> Any:
    path = ORACLES / name
    if not path.exists():
        pytest.skip(f"{path} is not here: the oracle values are kept beside the checkout")
    return json.loads(path.read_text())["cases"]


def columns(name: str) -> dict[str, list[str]]:
    """Columns of an input of the oracles; `_reversed` has the rows backwards."""
    base = name.removesuffix("_reversed")
    with open(ORACLES / (base if base.endswith(".csv") else f"{base}.csv"), newline="") as file:
        rows = list(csv.DictReader(file))
    rows = rows[::-1] if base != name else rows
    return {column: [row[column] for row in rows] for column in rows[0]}


def coded(values: list[str]) -> np.ndarray:
    """Codes of a column, -1 where empty."""
    levels = sorted({value for value in values if value})
    return np.array([levels.index(value) if value else -1 for value in values])


def weighted(codes: np.ndarray, weights: np.ndarray) -> CellTable:
    """A table whose records have weights of their own."""
    keys = [Key.of_size(f"K{j}", max(int(column.max()) + 1, 1)) for j, column in enumerate(codes.T)]
    size = max(round(weights.sum()), len(codes))
    table = CellTable.from_codes(codes, keys, population_size=size)
    sampling = Sampling(
        weights=np.asarray(weights, float),
        strata=np.zeros(len(codes), np.int32),
        sizes=np.array([float(size)]),
        from_weights=True,
    )
    return replace(table, sampling=sampling)


def of_case(case: dict[str, Any]) -> CellTable:
    data = columns(case["input"])
    codes = np.stack([coded(data[key]) for key in case["keys"]], axis=1)
    return weighted(codes, np.array(data[case["weight"]], float))


def naive(codes: np.ndarray, weights: np.ndarray, alpha: float | None) -> np.ndarray:
    """f and F of every record, (n, 2), pair by pair from the definition."""
    found = np.zeros((len(codes), 2))
    for i, mine in enumerate(codes):
        for other, weight in zip(codes, weights, strict=True):
            differ = any((mine != other) & (mine >= 0) & (other >= 0))
            if all(mine == other):
                share = 1.0
            elif alpha is None or differ or (all(other < 0) and all(mine >= 0)):
                share = 0.0
            else:
                share = 1.0 if all(mine < 0) or all(other >= 0) else alpha
            found[i] += share * np.array([1.0, weight])
    return found


def test_sdcmicro_frequencies() -> None:
    """Every record of every case, f and F, exactly as far as the digits kept go."""
    cases = oracle("sdcmicro_freqcalc_indivrisk.json")
    assert len(cases) == 10
    for case in cases:
        table = of_case(case)
        found = frequencies(table, case["alpha"])
        np.testing.assert_array_equal(found.sample[table.record_cell], case["fk"])
        np.testing.assert_allclose(found.population[table.record_cell], case["Fk"], rtol=1e-12)
        np.testing.assert_array_equal(found.records, table.counts)


@pytest.mark.parametrize("alpha", [None, *ALPHAS])
@pytest.mark.parametrize("share_missing", [0.0, 0.1, 0.5])
def test_frequencies_are_those_of_the_definition(alpha: float | None, share_missing: float) -> None:
    rng = np.random.default_rng(5)
    for n, sizes in [(90, (2, 3, 2)), (60, (2, 2, 2, 2, 2)), (40, (9, 9)), (1, (2, 2)), (12, (2,))]:
        codes = (rng.random((n, len(sizes))) * sizes).astype(int)
        codes[rng.random(codes.shape) < share_missing] = -1
        if share_missing and n > 20:
            codes[:2] = -1
        weights = rng.uniform(0.5, 40.0, n)
        table = weighted(codes, weights)
        found = frequencies(table, alpha)
        got = np.stack((found.sample, found.population), axis=1)[table.record_cell]
        np.testing.assert_allclose(got, naive(codes, weights, alpha), rtol=1e-12)
        assert (found.sample >= table.counts).all()


def test_thousand_patterns_of_eight_keys() -> None:
    """1,000 patterns, many masks, against the matrix of all pairs."""
    rng = np.random.default_rng(8)
    codes = (rng.random((1_400, 8)) ** 2 * 4).astype(int)
    codes[rng.random(codes.shape) < 0.15] = -1
    table = weighted(codes, rng.uniform(1.0, 9.0, len(codes)))
    cells = table.cells
    assert len(cells) > 1_000
    agree = np.ones((len(cells),) * 2, bool)
    for column in cells.T:
        agree &= (column[:, None] == column) | (column[:, None] < 0) | (column < 0)
    incomplete = (cells < 0).any(axis=1)
    shares = agree * np.where(incomplete, 0.7, 1.0)
    shares[~incomplete] *= ~(cells < 0).all(axis=1)
    np.fill_diagonal(shares, 1.0)
    shares[(cells < 0).all(axis=1)] = 1.0
    found = frequencies(table, 0.7)
    np.testing.assert_allclose(found.sample, shares @ table.counts, rtol=1e-12)
    np.testing.assert_allclose(found.population, shares @ table.cell_weights, rtol=1e-12)
    np.testing.assert_array_equal(table.matches, agree @ table.counts)


def test_records_alike_and_records_without_keys() -> None:
    alike = frequencies(weighted(np.zeros((7, 3), int), np.full(7, 2.0)))
    assert (alike.sample.tolist(), alike.population.tolist()) == ([7.0], [14.0])
    empty = frequencies(weighted(np.full((5, 2), -1), np.full(5, 3.0)), 0.0)
    assert (empty.sample.tolist(), empty.population.tolist()) == ([5.0], [15.0])


def test_without_a_design_every_record_stands_for_as_many() -> None:
    keys = [Key.of_size("A", 3)]
    table = CellTable.from_codes([[0], [0], [2]], keys, population_size=30)
    assert frequencies(table).population.tolist() == [20.0, 10.0]


@pytest.mark.parametrize("alpha", [-0.1, 1.1, float("nan")])
def test_alpha_is_a_share(alpha: float) -> None:
    table = weighted(np.zeros((2, 1), int), np.ones(2))
    with pytest.raises(SpecError, match="alpha"):
        frequencies(table, alpha)


def test_k_anonymity_counts_records() -> None:
    found = k_anonymity(
        Frequencies(np.array([1.0, 2.0, 5.0]), np.array([4.0, 3.0 - 1e-14, 90.0]),
                    np.array([1, 2, 5])),
        ks=(1, 2, 3, 4, 6),
    )  # fmt: skip
    assert found.violating.tolist() == [0, 1, 3, 3, 8]
    # Three units are not less than three by rounding.
    assert found.violating_population.tolist() == [0, 0, 0, 2, 3]
    assert (found.smallest, found.smallest_population) == (1.0, 3.0 - 1e-14)
    with pytest.raises(SpecError, match="from 1 on"):
        k_anonymity(Frequencies(np.ones(1), np.ones(1), np.ones(1, np.int64)), ks=(0,))


def test_k_anonymity_of_the_oracle() -> None:
    """Records with f < 2 and f < 3 as sdcMicro counts those with f = 1 and f = 2."""
    for case in oracle("sdcmicro_freqcalc_indivrisk.json"):
        if case["alpha"] == 0.5:
            continue
        found = k_anonymity(frequencies(of_case(case), case["alpha"]), ks=(2, 3))
        assert found.violating.tolist() == [case["n1"], case["n1"] + case["n2"]]


def test_more_keys_than_fit_in_an_integer() -> None:
    """25 keys of 9 levels: identifiers of 83 bits."""
    rng = np.random.default_rng(2)
    kinds = rng.integers(0, 9, (6, 25))
    codes = kinds[rng.integers(0, 6, 50)]
    codes[rng.random(codes.shape) < 0.02] = -1
    weights = rng.uniform(1.0, 5.0, 50)
    table = weighted(np.vstack((codes, np.full((1, 25), 8))), np.append(weights, 1.0))
    found = frequencies(table, 0.4)
    got = np.stack((found.sample, found.population), axis=1)[table.record_cell]
    everybody = np.vstack((codes, np.full((1, 25), 8)))
    np.testing.assert_allclose(got, naive(everybody, table.weights, 0.4), rtol=1e-12)
