"""The lower bound of τ2 from pairs of records, on populations whose truth is known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import unikat
from unikat.data.design import Sampling
from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.risk.pairs import match_bound

N_CELLS, N_UNITS = 2_000, 12_000


def drawn(seed: int, *, unequal: bool) -> tuple[CellTable, np.ndarray]:
    """A sample, each unit by its own chance, and F of its cells."""
    rng = np.random.default_rng(seed)
    p = np.random.default_rng(3).gamma(0.3, size=N_CELLS)
    unit = np.random.default_rng(4).choice(N_CELLS, N_UNITS, p=p / p.sum())
    # Rare cells are drawn more often.
    group = (unit % 3 == 0) if unequal else np.zeros(N_UNITS, bool)
    chance = np.where(group, 0.3, 0.05)
    taken = rng.random(N_UNITS) < chance
    keys = [Key.of_size("K", N_CELLS)]
    table = CellTable.from_codes(unit[taken][:, None], keys, population_size=N_UNITS)
    if unequal:
        sampling = Sampling(
            weights=1.0 / chance[taken],
            strata=group[taken].astype(np.int32),
            sizes=np.bincount(group, minlength=2).astype(float),
            from_weights=False,
        )
        table = replace(table, sampling=sampling)
    return table, np.bincount(unit, minlength=N_CELLS)[table.cells[:, 0]]


@pytest.mark.parametrize("unequal", [False, True])
def test_the_bound_is_that_of_the_population(unequal: bool) -> None:
    errors, standard, above = [], [], 0
    # Seeds 3 and 4 made the population, and a sample must not depend on it.
    for seed in range(5, 305):
        table, counts = drawn(seed, unequal=unequal)
        bound = match_bound(table)
        assert bound is not None
        of_uniques = counts[table.unique]
        errors.append(bound.value - len(of_uniques) ** 2 / of_uniques.sum())
        standard.append(bound.standard_error)
        above += bound.contradicts((1.0 / of_uniques).sum())
    error = np.array(errors)
    # The estimate is a ratio: its bias is small beside its standard error.
    assert abs(error.mean()) < 0.25 * np.mean(standard)
    # The standard error counts the sampling of the uniques too, which an error given them has not.
    assert 0.6 < error.std() / np.mean(standard) < 1.05
    assert above == 0


def people(n: int = 400) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    return pd.DataFrame({"A": rng.integers(0, 40, n), "B": rng.integers(0, 30, n)})


def assessed(**more: Any) -> Any:
    how: dict[str, Any] = {"model": "latent-class", "max_sweeps": 60, "chains": 2, "workers": 1}
    return unikat.assess(people(), keys="A,B", progress=False, **how, **more)


def test_an_assessment_tells_it_and_warns_where_tau2_is_below() -> None:
    found = assessed(population_size=4_000)
    bound = found.result.tau2_bound
    assert bound.value == match_bound(found.estimate.table).value
    assert "2002" in found.to_html()
    assert not any("Pairs of records" in one for one in found.warnings)
    table = found.estimate.table
    # Twice as many pairs as are possible by chance say that the records are no random sample.
    low = replace(bound, value=found.tau2.upper + 4.0 * bound.standard_error)
    assert low.contradicts(found.tau2.upper)
    assert not replace(bound, value=found.tau2.upper + bound.standard_error).contradicts(
        found.tau2.upper
    )
    assert table.n_uniques > 0


def test_where_pairs_do_not_tell() -> None:
    assert assessed(population_size=400).result.tau2_bound is None
    gaps = people()
    gaps.loc[3, "A"] = np.nan
    households = np.arange(400) // 3
    design = {"population_size": 4_000}
    for frame, more in ((gaps, {}), (people().assign(H=households), {"household": "H"})):
        microdata = unikat.read(frame, ["A", "B"], unikat.Design(**design, **more))
        assert match_bound(microdata.tabulate()) is None


@pytest.mark.parametrize(("n", "known"), [(100, 0), (1_500, 100)])
def test_too_few_pairs_tell_nothing(n: int, known: int) -> None:
    """Half a pair is expected of 100, and 100 pairs of 1,500; each F is 10."""
    keys, rng = [Key.of_size("K", 10_000)], np.random.default_rng(1)
    bounds = []
    for _ in range(100):
        units = rng.choice(100_000, n, replace=False)
        table = CellTable.from_codes(units[:, None] // 10, keys, population_size=100_000)
        bounds.append((match_bound(table), table.n_uniques / 10.0))
    found = [(bound, truth) for bound, truth in bounds if bound is not None]
    assert len(found) == known
    assert not any(bound.contradicts(truth) for bound, truth in found)
