"""Known margins of the population: their law by enumeration and by simulation."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy.stats import kstest

from risk.toy_model import Toy, ToyState
from unikat.data.design import Sampling
from unikat.data.keys import Key
from unikat.data.margins import margin_cell
from unikat.data.table import CellTable, Margin
from unikat.errors import SpecError
from unikat.models.base import Stream
from unikat.models.calibrated import OVERDISPERSION, SHIFTS, Calibrated, CalibratedData
from unikat.models.cells.individual_risk import IndividualRisk
from unikat.risk.by_class import Look
from unikat.risk.exposure import exposure_of, views
from unikat.risk.margins import ByMargins, Joint, Target, joint_counts, moved, raked
from unikat.risk.measures import RiskMeasures

STREAM = Stream(3, 0, 1)


@dataclass(frozen=True, kw_only=True)
class PoissonToy(Toy):
    population: ClassVar[str] = "poisson"


def keys_of(*n_levels: int) -> list[Key]:
    return [Key.of_size(f"K{j}", n) for j, n in enumerate(n_levels)]


def known(
    codes: Any, n_levels: tuple[int, ...], *margins: tuple[tuple[int, ...], Any], **kind: Any
) -> CellTable:
    """Table of a sample from a population with margins, given as keys and counts."""
    found = tuple(
        Margin(name="census", keys=keys, counts=np.asarray(counts, np.int64))
        for keys, counts in margins
    )
    table = CellTable.from_codes(codes, keys_of(*n_levels), found[0].total, **kind)
    return replace(table, margins=found)


def law(n_levels: tuple[int, ...], seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(math.prod(n_levels))).reshape(n_levels)


def risks(table: CellTable, p: np.ndarray, model: Any = Toy()) -> tuple[Any, Any]:  # noqa: B008
    """r1 and r2 of the table's cells, given the law of the cells."""
    exposure = exposure_of(table)
    chances = exposure.chances(Look(STREAM, model, ToyState(p), None), table.cells)
    return exposure.risk(chances, table.counts.astype(float), model.population == "poisson")


# --- one margin ------------------------------------------------------------------------------


def test_risks_are_those_of_all_populations_with_the_margin() -> None:
    """By enumeration of everything that the unobserved units can be."""
    p = law((2, 2))
    sample = [(0, 0), (0, 1), (1, 0)]
    margin = (5, 3)
    cells = list(itertools.product(range(2), range(2)))
    total = 0.0
    unique = dict.fromkeys(sample, 0.0)
    inverse = dict.fromkeys(sample, 0.0)
    for others in itertools.product(cells, repeat=sum(margin) - len(sample)):
        everybody = [*sample, *others]
        if sum(cell[0] == 0 for cell in everybody) != margin[0]:
            continue
        chance = math.prod(p[cell] for cell in others)
        total += chance
        for cell in sample:
            units = everybody.count(cell)
            unique[cell] += chance * (units == 1)
            inverse[cell] += chance / units
    r1, r2 = risks(known(sample, (2, 2), ((0,), margin)), p)
    np.testing.assert_allclose(r1, [unique[cell] / total for cell in sample])
    np.testing.assert_allclose(r2, [inverse[cell] / total for cell in sample])


def test_drawn_populations_have_the_law() -> None:
    p = law((2, 3), 4)
    table = known([[0, 0], [0, 1], [1, 2]], (2, 3), ((0,), [6, 4]))
    exposure = exposure_of(table)
    chances = exposure.chances(Look(STREAM, Toy(), ToyState(p), None), table.cells)
    drawn = np.array(
        [exposure.draw(Stream(3, 0, sweep), chances, False) for sweep in range(20_000)]
    )
    r1, r2 = exposure.risk(chances, np.ones(3), False)
    # Five standard errors: one alarm in a million.
    for values, expected in zip(drawn.T, (r1.sum(), r2.sum()), strict=True):
        assert abs(values.mean() - expected) < 5.0 * values.std() / math.sqrt(len(values))


@pytest.mark.parametrize("model", [Toy(), PoissonToy()])
def test_a_margin_of_the_strata_is_a_design_with_these_strata(
    monkeypatch: pytest.MonkeyPatch, model: Any
) -> None:
    monkeypatch.setattr("unikat.data.sampling.NO_CHANCE", -1.0)
    codes = np.array([[0, 0], [0, 1], [1, 2], [1, 2], [1, 0]])
    table = known(codes, (2, 3), ((0,), [40, 9]))
    strata = codes[:, 0].astype(np.int32)
    sizes = np.array([40.0, 9.0])
    sampling = Sampling(
        weights=(sizes / np.bincount(strata))[strata],
        strata=strata,
        sizes=sizes,
        from_weights=False,
    )
    # Where the law says of the strata what the sample has, a Poisson model agrees too.
    p = law((2, 3))
    p *= (np.bincount(strata) / 5 / p.sum(axis=1))[:, None]
    designed = replace(table, margins=(), sampling=sampling)
    for ours, theirs in zip(risks(table, p, model), risks(designed, p, model), strict=True):
        np.testing.assert_allclose(ours, theirs)
    a, b = exposure_of(table), exposure_of(designed)
    ours, theirs = (
        one.chances(Look(STREAM, model, ToyState(p), None), table.cells) for one in (a, b)
    )
    np.testing.assert_allclose(ours.sample, theirs.sample)
    np.testing.assert_allclose(a.population(ours), b.population(theirs))


def test_the_classes_are_cells_of_several_keys() -> None:
    p = law((2, 3, 2))
    counts = np.arange(3, 9)
    table = known([[0, 0, 0], [0, 2, 1], [1, 1, 0]], (2, 3, 2), ((1, 0), counts))
    exposure = exposure_of(table)
    assert isinstance(exposure, ByMargins)
    every = np.array(list(np.ndindex(2, 3, 2)), np.int32)
    means = exposure.means(exposure.chances(Look(STREAM, Toy(), ToyState(p), None), every))
    grid = means.reshape(2, 3, 2).sum(axis=2)
    expected = counts.reshape(3, 2).T - np.array([[1, 0, 1], [0, 1, 0]])
    np.testing.assert_allclose(grid, expected)


def test_a_key_left_out_sums_over_its_levels() -> None:
    p = law((2, 3, 2))
    codes = [[0, 0, 0], [0, 2, 1], [1, 1, 0]]
    for margins in ([((0, 1), np.arange(3, 9))], [((0,), [20, 13]), ((1,), [10, 8, 15])]):
        table = known(codes, (2, 3, 2), *margins)
        exposure = exposure_of(table)
        every = np.array(list(np.ndindex(2, 3, 2)), np.int32)
        chances = exposure.chances(Look(STREAM, Toy(), ToyState(p), None), every)
        for left_out in ([0], [1], [2], [0, 1], [0, 1, 2]):
            open_ = every.copy()
            open_[:, left_out] = -1
            found = exposure.chances(Look(STREAM, Toy(), ToyState(p), None), open_)
            axes = tuple(left_out)
            for of in (exposure.means, exposure.probabilities):
                summed = of(chances).reshape(2, 3, 2).sum(axis=axes, keepdims=True)
                expected = np.broadcast_to(summed, (2, 3, 2)).ravel()
                np.testing.assert_allclose(of(found), expected, atol=1e-9)


def test_the_fit_is_that_of_the_table_without_margins() -> None:
    table = known([[0, 0], [1, 2]], (2, 3), ((0,), [20, 13]))
    fitted, at_risk = views(Toy(), table)
    assert fitted is table
    assert at_risk is table
    assert replace(table, margins=()).fingerprint != table.fingerprint
    with pytest.raises(SpecError, match="sees cells and not keys, so it cannot use margins"):
        views(IndividualRisk(), table)


# --- several margins -------------------------------------------------------------------------


def test_raking_gives_the_mean_given_both_margins() -> None:
    """Of two keys of two levels: the noncentral hypergeometric law, by its sum."""
    p = np.array([[0.4, 0.1], [0.2, 0.3]])
    rows, columns = (300, 200), (340, 160)
    odds = p[0, 0] * p[1, 1] / (p[0, 1] * p[1, 0])
    logs = [
        x * math.log(odds) - sum(math.lgamma(y + 1) for y in (x, 300 - x, 340 - x, 200 - 340 + x))
        for x in range(140, 301)
    ]
    weights = np.exp(np.array(logs) - max(logs))
    mean = float(weights @ np.arange(140, 301) / weights.sum())
    targets = [
        Target(np.array([0, 0, 1, 1]), np.array(rows, float)),
        Target(np.array([0, 1, 0, 1]), np.array(columns, float)),
    ]
    found = raked(p.ravel(), targets)
    assert found[0] == pytest.approx(mean, rel=0.002)
    np.testing.assert_allclose(found.reshape(2, 2).sum(axis=1), rows)
    np.testing.assert_allclose(found.reshape(2, 2).sum(axis=0), columns)


def test_all_margins_hold_in_expectation() -> None:
    p = law((2, 3, 2), 1)
    codes = [[0, 0, 0], [0, 2, 1], [1, 1, 0], [1, 1, 0]]
    table = known(codes, (2, 3, 2), ((0, 2), [9, 11, 8, 5]), ((1,), [10, 8, 15]), ((2,), [17, 16]))
    exposure = exposure_of(table)
    every = np.array(list(np.ndindex(2, 3, 2)), np.int32)
    means = exposure.means(exposure.chances(Look(STREAM, Toy(), ToyState(p), None), every))
    for margin in table.margins:
        sampled = np.bincount(
            margin_cell(table.cells, margin.keys, table.n_levels),
            table.counts,
            len(margin.counts),
        )
        found = np.bincount(margin_cell(every, margin.keys, table.n_levels), means)
        np.testing.assert_allclose(found, margin.counts - sampled, rtol=1e-7)


# --- missing keys ----------------------------------------------------------------------------


def test_incomplete_records_are_spread_over_the_units_left() -> None:
    codes = [[0, 0], [0, 1], [-1, 1], [-1, 0], [1, -1]]
    table = known(codes, (2, 2), ((0,), [4, 8]))
    found = joint_counts(table, Joint.of(table.margins, table.n_levels))
    # Two complete records of the first level, one of the second; two of unknown level.
    assert found.sum() == pytest.approx(5.0)
    assert found[0] == pytest.approx(2.0 + 2.0 * 2.0 / 9.0)
    exposure = exposure_of(table)
    assert isinstance(exposure, ByMargins)
    assert exposure.unobserved.tolist() == [2.0, 5.0]


def test_all_levels_are_asked_where_a_missing_key_matches_any() -> None:
    p = law((2, 2))
    table = known([[0, 0], [-1, 1]], (2, 2), ((0,), [4, 8]), missing="wildcard")
    r1, _ = risks(table, p)
    exposure = exposure_of(table)
    assert isinstance(exposure, ByMargins)
    given = p[:, 1] / p.sum(axis=1)
    expected = np.prod((1.0 - given) ** exposure.unobserved)
    assert r1[0] == pytest.approx(expected)


def test_a_run_of_incomplete_records() -> None:
    table = known([[0, 0], [0, 1], [-1, 1], [1, -1]], (2, 2), ((0,), [40, 80]))
    measures = RiskMeasures.of(table)
    model, totals = Toy(), measures.start()
    data = model.prepare(table)
    for sweep in range(20):
        stream = Stream(3, 0, sweep)
        state = model.init(stream, data)
        found = measures.observe(stream, model, state, data, totals)
        assert 0.0 <= found["tau1"] <= 4.0
    assert np.isfinite(totals.r1).all()


# --- the model's own error, the bootstrap ----------------------------------------------------


def test_the_error_is_put_on_cells_within_a_margin() -> None:
    """A margin cell that is in the sample as a whole has no unobserved units, with or without."""
    p = law((2, 3))
    codes = [[0, 0], [0, 1], [1, 2]]
    table = known(codes, (2, 3), ((0,), [2, 30]))
    weights = np.ones(len(OVERDISPERSION) * len(SHIFTS))
    model = Calibrated(wrapped=Toy(), weights=tuple(weights), asked=Toy())
    exposure = exposure_of(table)
    data = CalibratedData(None, 3.0, 32.0)
    chances = exposure.chances(Look(STREAM, model, ToyState(p), data), table.cells)
    # n p_c is what the sample's n_m records of the margin cell have there on average.
    np.testing.assert_allclose(
        3.0 * exposure.probabilities(chances), [2 * p[0, 0] / p[0].sum(), 2 * p[0, 1] / p[0].sum(),
                                                p[1, 2] / p[1].sum()]
    )  # fmt: skip
    population = exposure.population(chances)
    assert population is not None
    np.testing.assert_allclose(population, [3.0, 3.0, 90.0])
    before = exposure.probabilities(chances)
    after = model.risk_probabilities(STREAM, data, before, np.ones(3), population=population)
    r1, r2 = exposure.risk(exposure.scaled(chances, after), np.ones(3), False)
    assert r1[:2].tolist() == r2[:2].tolist() == [1.0, 1.0]
    assert 0.0 < r1[2] < 1.0


def test_a_simulated_sample_leaves_as_many_units_unobserved() -> None:
    margins = ((0,), [20, 13]), ((1,), [10, 8, 15])
    table = known([[0, 0], [0, 1], [1, 2]], (2, 3), *margins)
    sample = known([[1, 1], [1, 2], [1, 2]], (2, 3), *margins)
    ours, theirs = (
        exposure_of(one) for one in (table, replace(sample, margins=moved(table, sample)))
    )
    assert isinstance(ours, ByMargins)
    assert isinstance(theirs, ByMargins)
    np.testing.assert_array_equal(ours.unobserved, theirs.unobserved)
    for a, b in zip(ours.targets, theirs.targets, strict=True):
        np.testing.assert_array_equal(a.units, b.units)
    assert moved(replace(table, margins=()), sample) == ()


# --- populations whose law is known ----------------------------------------------------------


def coverage(n_populations: int, n_draws: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Ranks of the true τ1 among draws, and variances of the draws, with and without margins.

    The law is drawn from the model's prior, a Dirichlet, under which shares within margin cells do
    not depend on the margins: the posterior is exact in both ways.
    """
    levels, n_units, n = (8, 5), 90, 25
    model = Toy()
    ranks, variances = np.empty((n_populations, 2)), np.empty((n_populations, 2))
    for number in range(n_populations):
        rng = np.random.default_rng([17, number])
        p = rng.dirichlet(np.ones(40)).reshape(levels)
        cells = np.column_stack(np.unravel_index(rng.choice(40, n_units, p=p.ravel()), levels))
        counts = np.zeros(levels)
        np.add.at(counts, tuple(cells.T), 1)
        table = known(cells[:n], levels, ((0,), counts.sum(axis=1)))
        true = int(sum(counts[tuple(cell)] == 1 for cell in table.cells[table.unique]))
        for column, one in enumerate((table, replace(table, margins=()))):
            exposure, data = exposure_of(one), model.prepare(one)
            uniques = one.cells[one.unique]
            drawn = []
            for sweep in range(n_draws):
                stream = Stream(number, 0, sweep)
                state = model.init(stream, data)
                chances = exposure.chances(Look(stream, model, state, data), uniques)
                drawn.append(exposure.draw(stream, chances, False)[0])
            values = np.array(drawn)
            below, same = (values < true).sum(), (values == true).sum()
            ranks[number, column] = (below + rng.random() * (same + 1)) / (n_draws + 1)
            variances[number, column] = values.var()
    return ranks, variances


@pytest.mark.slow
@pytest.mark.statistical
def test_intervals_are_calibrated_and_narrower(monkeypatch: pytest.MonkeyPatch) -> None:
    """One false alarm in ten thousand, by the Kolmogorov test; a mistake is seen."""
    ranks, variances = coverage(400)
    assert kstest(ranks[:, 0], "uniform").pvalue > 1e-4
    narrower = variances[:, 1] - variances[:, 0]
    # Five standard errors: what is known of the population helps.
    assert narrower.mean() > 5.0 * narrower.std() / math.sqrt(len(narrower))

    def forgetful(cls: Any, table: CellTable) -> ByMargins:
        """As if no unit of the margins were in the sample."""
        found = genuine(table)
        return replace(found, unobserved=found.sizes)

    genuine = ByMargins.of
    monkeypatch.setattr(ByMargins, "of", classmethod(forgetful))
    assert kstest(coverage(400)[0][:, 0], "uniform").pvalue < 1e-4
