"""Samples of whole households, and samples whose keys have their own levels alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from unikat.data import Design, read
from unikat.studies.designs import Population, Sample, draw_sample, draw_units, observed_levels


@pytest.fixture
def population() -> Population:
    rng = np.random.default_rng(5)
    home = np.repeat(np.arange(600), rng.integers(1, 7, 600))
    frame = pd.DataFrame(
        {
            "A": rng.integers(0, 4, len(home)),
            "B": rng.integers(0, 400, len(home)),
            "HH": rng.permutation(1000)[home],
        }
    )
    frame = frame.sample(frac=1.0, random_state=1)
    design = Design(population_size=len(frame), household=("HH",))
    return Population.of(read(frame, "A,B", design).tabulate())


def drawn(population: Population, repeat: int, **options: object) -> Sample:
    found = draw_sample(population, 300, repeat, seed=2, design="households", **options)  # type: ignore[arg-type]  # options by name
    assert found is not None
    return found


def test_all_members_of_a_drawn_household_are_drawn(population: Population) -> None:
    units = draw_units(population, 300, 1, seed=2, design="households")
    homes = population.table.households
    assert homes is not None
    assert np.isin(homes, np.unique(homes[units])).sum() == len(units)
    wanted = round(300 * 600 / population.n_units)
    assert len(np.unique(homes[units])) == wanted
    sample = drawn(population, 1)
    assert sample.table.households is not None
    assert sample.table.households.max() + 1 == wanted
    # Samples of persons do not know the households, of which they have parts.
    single = draw_sample(population, 300, 1, seed=2)
    assert single is not None
    assert single.table.households is None


def test_every_household_has_the_same_chance(population: Population) -> None:
    homes = population.table.households
    assert homes is not None
    times = np.zeros(600)
    for repeat in range(1, 401):
        times[
            np.unique(homes[draw_units(population, 300, repeat, seed=9, design="households")])
        ] += 1
    sizes = np.bincount(homes)
    chance = round(300 * 600 / population.n_units) / 600
    # Means by size of the household, each within four standard errors.
    for size in np.unique(sizes):
        among = times[sizes == size] / 400
        error = np.sqrt(chance * (1 - chance) / 400 / len(among))
        assert abs(among.mean() - chance) < 4 * error


def test_levels_of_the_sample_keep_cells_and_truth(population: Population) -> None:
    whole, own = drawn(population, 3), drawn(population, 3, levels="sample")
    assert own.table.n_levels[1] < whole.table.n_levels[1]
    assert own.tau1 == whole.tau1
    assert own.tau2 == whole.tau2
    np.testing.assert_array_equal(own.table.record_cell, whole.table.record_cell)
    for j in range(2):
        before = [whole.table.keys[j].levels[code] for code in whole.table.cells[:, j]]
        after = [own.table.keys[j].levels[code] for code in own.table.cells[:, j]]
        assert before == after
        assert set(own.table.cells[:, j]) == set(range(own.table.n_levels[j]))


def test_a_key_keeps_two_levels(population: Population) -> None:
    table = population.sample(np.array([0])).table
    assert observed_levels(table).n_levels == (2, 2)
    with_missing = replace(table, cells=np.array([[-1, 3]], np.int32))
    found = observed_levels(with_missing)
    assert found.cells[0, 0] == -1
    assert found.keys[1].levels[found.cells[0, 1]] == table.keys[1].levels[3]
