"""Unequal chances: classes, their unobserved units and risks, by enumeration and by simulation."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

from risk.toy_model import Toy, ToyState
from unikat.data.design import CLASS, Sampling
from unikat.data.keys import Key
from unikat.data.sampling import sampling_of, telling_key
from unikat.data.split import split
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.inference.backends import Workers
from unikat.inference.chains import sample
from unikat.inference.plan import Plan, StopRule
from unikat.models.auto import Auto
from unikat.models.base import Stream
from unikat.models.calibrated import OVERDISPERSION, SHIFTS, Calibrated, CalibratedData
from unikat.models.cells.individual_risk import IndividualRisk
from unikat.models.loglinear.conditional import LogLinear
from unikat.models.mixtures.latent_class import LatentClass
from unikat.risk.bootstrap import Bootstrapped
from unikat.risk.by_class import Look
from unikat.risk.exposure import (
    BySampling,
    EqualChances,
    class_left_open,
    exposure_of,
    fitted_table,
    views,
    without_class,
)
from unikat.risk.measures import RiskMeasures
from unikat.studies.rare_cells import BINS, RareCells
from unikat.zeros.diagram import build, possible

STREAM = Stream(3, 0, 1)


@dataclass(frozen=True, kw_only=True)
class PoissonToy(Toy):
    population: ClassVar[str] = "poisson"


MODELS = [Toy(), PoissonToy()]


@pytest.fixture(autouse=True)
def _few_records_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables small enough to be enumerated: that a key tells the class is no chance here."""
    monkeypatch.setattr("unikat.data.sampling.NO_CHANCE", -1.0)


def keys_of(*n_levels: int) -> list[Key]:
    return [Key.of_size(f"K{j}", n) for j, n in enumerate(n_levels)]


def sampled(
    codes: Any,
    n_levels: tuple[int, ...],
    strata: Any,
    sizes: Any,
    *,
    from_weights: bool = False,
    missing: Any = "integrate",
) -> CellTable:
    """Table of a sample whose class h has sizes[h] units in the population."""
    codes, strata = np.asarray(codes), np.asarray(strata, np.int32)
    sizes = np.asarray(sizes, np.float64)
    counts = np.bincount(strata, minlength=len(sizes))
    sampling = Sampling(
        weights=(sizes / counts)[strata], strata=strata, sizes=sizes, from_weights=from_weights
    )
    table = CellTable.from_codes(codes, keys_of(*n_levels), round(sizes.sum()), missing)
    return replace(table, sampling=sampling)


def law(n_levels: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Probabilities of all cells, an axis for each key."""
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(math.prod(n_levels))).reshape(n_levels)


def inverse_mean(parts: list[tuple[float, float]], count: int) -> float:
    """E[1 / (count + X)] for X a sum of binomials (M, p), by their convolution."""
    total = np.ones(1)
    for unobserved, p in parts:
        m = int(unobserved)
        one = [math.comb(m, x) * p**x * (1.0 - p) ** (m - x) for x in range(m + 1)]
        total = np.convolve(total, one)
    return float((total / (count + np.arange(len(total)))).sum())


def poisson_inverse_mean(mean: float, count: int) -> float:
    terms = [math.exp(-mean + x * math.log(mean) - math.lgamma(x + 1)) for x in range(200)]
    return sum(term / (count + x) for x, term in enumerate(terms))


CODES = [[0, 0, 0], [0, 0, 0], [0, 1, 1], [1, 2, 0], [1, 2, 1], [0, 2, 1], [1, 0, 0]]
LEVELS = (2, 3, 2)


# --- what the exposure is --------------------------------------------------------------------


def test_one_class_is_none_to_the_last_digit():
    codes = [*CODES, [0, -1, 1], [-1, -1, 0]]
    bare = CellTable.from_codes(codes, keys_of(*LEVELS), 61)
    table = sampled(codes, LEVELS, np.zeros(9), [61])
    assert isinstance(exposure_of(table), EqualChances)
    fitted, at_risk = views(Toy(), table)
    assert fitted.fingerprint == bare.fingerprint
    state = ToyState(law(LEVELS))
    for model in MODELS:
        data = model.prepare(fitted)
        found = []
        for one in (bare, at_risk):
            measures = RiskMeasures.of(one)
            totals = measures.start()
            scalars = [
                measures.observe(Stream(3, 0, sweep), model, state, data, totals)
                for sweep in range(20)
            ]
            found.append((scalars, totals))
        assert found[0][0] == found[1][0]
        for a, b in zip(found[0][1], found[1][1], strict=True):
            np.testing.assert_array_equal(a, b)


def test_the_key_that_tells_the_class_is_the_one_with_the_fewest_levels():
    strata = [0, 0, 0, 1, 1, 0, 1]
    # K0 is the stratum; a finer key tells it too.
    codes = np.column_stack((np.array(CODES), [0, 1, 2, 3, 4, 5, 3]))
    table = sampled(codes, (*LEVELS, 6), strata, [50, 30])
    assert telling_key(table.sampling, table) == 0
    assert fitted_table(table).keys == table.keys
    turned = sampled(codes[:, ::-1], (6, *LEVELS[::-1]), strata, [50, 30])
    assert telling_key(turned.sampling, turned) == 3
    finer = sampled(codes[:, 1:], (3, 2, 6), strata, [50, 30])
    assert telling_key(finer.sampling, finer) == 2
    exposure = BySampling.of(finer.sampling, finer)
    assert exposure.class_of.tolist() == [0, 0, 0, 1, 1, 0]
    # Classes of weights are no strata of other units, even if a key happens to tell them.
    weights = sampled(codes, (*LEVELS, 6), strata, [50, 30], from_weights=True)
    assert telling_key(weights.sampling, weights) is None
    # Nobody knows the class of an unobserved unit by a key that is missing.
    codes[0, 0] = codes[0, 3] = -1
    gaps = sampled(codes, (*LEVELS, 6), strata, [50, 30])
    assert telling_key(gaps.sampling, gaps) is None
    assert fitted_table(gaps).keys[-1].name == CLASS


def test_tables_with_and_without_the_class():
    strata = [0, 1, 0, 1, 1, 0, 2]
    table = sampled(CODES, LEVELS, strata, [40, 30, 10])
    fitted, at_risk = views(Toy(), table)
    assert at_risk is table
    assert fitted.sampling is None
    assert [key.name for key in fitted.keys] == ["K0", "K1", "K2", CLASS]
    np.testing.assert_array_equal(
        fitted.cells[fitted.record_cell], np.column_stack((CODES, strata))
    )
    back = without_class(fitted)
    np.testing.assert_array_equal(back.cells, table.cells)
    np.testing.assert_array_equal(back.counts, table.counts)
    assert without_class(table) is table
    open_ = class_left_open(table.cells, fitted)
    np.testing.assert_array_equal(open_[:, :3], table.cells)
    assert (open_[:, 3] == -1).all()
    assert class_left_open(table.cells, table) is table.cells

    class Weighted(Toy):
        uses_weights = True

    fitted, at_risk = views(Weighted(), table)
    assert fitted is table
    assert at_risk.sampling is None
    bare = CellTable.from_codes(CODES, keys_of(*LEVELS), 80)
    assert all(one is bare for one in views(Toy(), bare))


def test_the_parts_of_a_split_have_the_same_keys():
    rng = np.random.default_rng(1)
    codes, strata = rng.integers(0, 2, (40, 3)), np.r_[np.zeros(38), 1, 2]
    table = sampled(codes, (2, 2, 2), strata, [400, 10, 5])
    for seed in range(20):
        parts = split(views(Toy(), table)[0], 0.5, seed)
        assert all(part.keys[-1].name == CLASS and part.n_levels[-1] == 3 for part in parts)


def test_rare_cells_of_a_design_have_the_units_of_the_population():
    """Records and units expected in each cell, by sums over the classes; and their likelihood."""
    rng = np.random.default_rng(1)
    codes, strata = rng.integers(0, (4, 5, 6), (80, 3)), np.sort(rng.integers(0, 3, 80))
    sizes = np.array([4000.0, 400.0, 50.0])
    table = sampled(codes, (4, 5, 6), strata, sizes)
    found, p = RareCells.of(table), law((4, 5, 6, 3))
    totals = found.start()
    for _ in range(2):
        found.observe(STREAM, Toy(), ToyState(p), None, totals)
    units = (p * sizes / p.sum(axis=(0, 1, 2))).sum(axis=-1)
    assert len(found.cells) > 20
    assert (totals.draws.sum(axis=1) == 2).all()
    for c, cell in enumerate(map(tuple, found.cells.tolist())):
        assert totals.units[c] == pytest.approx(2.0 * units[cell])
        assert totals.records[c] == pytest.approx(2.0 * 80.0 * p[cell].sum())
        middle = (0.5 * (BINS[1:] + BINS[:-1]))[np.flatnonzero(totals.draws[c])[0]]
        assert abs(middle - math.log(units[cell])) <= 0.5 * (BINS[1] - BINS[0]) + 1e-9
    bare = RareCells.of(replace(table, sampling=None))
    plain = bare.start()
    bare.observe(STREAM, Toy(), ToyState(p), None, plain)
    np.testing.assert_allclose(plain.units / plain.records, 4450.0 / 80.0)


# --- exact risks -----------------------------------------------------------------------------


def unobserved_parts(
    model: Any, p: np.ndarray, cell: Any, class_of: Any, axis: int, unobserved: Any, share: Any
) -> list[tuple[float, float]]:
    """(M_h, probability that a unit of class h falls in the cell), class by class, by enumeration.

    p is the law of the keys and the class, whose axis is `axis`, of `class_of` its levels.
    """
    inside, by_class = np.zeros(len(unobserved)), np.zeros(len(unobserved))
    for index in itertools.product(*map(range, p.shape)):
        h = class_of[index[axis]]
        if h < 0:
            continue
        by_class[h] += p[index]
        if all(c < 0 or c == x for c, x in zip(cell, index, strict=False)):
            inside[h] += p[index]
    if model.population == "poisson":
        by_class = np.asarray(share, float)
    return [(m, q / b) for m, q, b in zip(unobserved, inside, by_class, strict=True) if b > 0.0]


def risks(model: Any, parts: list[tuple[float, float]], count: int) -> tuple[float, float]:
    if model.population == "poisson":
        mean = sum(m * p for m, p in parts)
        return math.exp(-mean), poisson_inverse_mean(mean, count)
    return math.prod((1.0 - p) ** m for m, p in parts), inverse_mean(parts, count)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("missing", ["integrate", "wildcard"])
@pytest.mark.parametrize("telling", [False, True])
def test_risks_of_every_record_and_every_key_left_out(model, missing, telling):
    """r1, r2, the fall of r1 without a key, expected tau: against a sum over all cells and classes.

    r2 of a sum of binomials is that of one with the same mean and variance, off by less than the
    largest chance as a share; r1 is exact.
    """
    gaps = [[0, -1, 1], [1, 0, -1], [1, 1, -1]]
    codes = [*CODES, *(gaps if missing == "wildcard" else [])]
    if telling:
        strata = [code[0] for code in codes]
        sizes, n_levels, axis, class_of = [45, 17], (3, 3, 2), 0, [0, 1, -1]
    else:
        strata = [0, 1, 0, 1, 1, 0, 2, 0, 1, 2][: len(codes)]
        sizes, n_levels, axis, class_of = [25, 20, 17], LEVELS, 3, [0, 1, 2]
    table = sampled(codes, n_levels, strata, sizes, missing=missing)
    p = law(n_levels if telling else (*n_levels, 3), 4)
    n_h = np.bincount(strata)
    unobserved, share = np.array(sizes) - n_h, n_h / len(codes)
    measures = RiskMeasures.of(table)
    assert measures.exposure.appended is not telling
    totals = measures.start()
    for sweep in range(1, 101):
        scalars = measures.observe(Stream(5, 0, sweep), model, ToyState(p), None, totals)

    def exact(cell: Any, count: int) -> tuple[float, float]:
        parts = unobserved_parts(model, p, cell, class_of, axis, unobserved, share)
        return risks(model, parts, count)

    records = np.array(codes)
    tau = np.zeros(2)
    u = 0
    parts_of = len(totals.key_draws)
    n_uniques = table.n_uniques
    assert n_uniques >= 3
    for c, cell in enumerate(table.cells):
        agree = (records == cell) | (records < 0) | (cell < 0)
        count = int(agree.all(axis=1).sum())
        r1, r2 = exact(cell, count)
        unique = bool(table.unique[c])
        assert unique == (count == 1)
        np.testing.assert_allclose(totals.r1[c] / 100, r1 * unique, rtol=1e-9, atol=1e-300)
        np.testing.assert_allclose(
            totals.r2[c] / 100, r2, rtol=1e-6 if telling and cell[0] >= 0 else 0.02
        )
        if not unique:
            continue
        tau += r1, totals.r2[c] / 100
        part = next(
            k
            for k in range(parts_of)
            if n_uniques * k // parts_of <= u < n_uniques * (k + 1) // parts_of
        )
        drop = (totals.key_whole[u] - totals.key_rest[u]) / totals.key_draws[part]
        for j in range(3):
            margin = cell.copy()
            margin[j] = -1
            agree = (records == margin) | (records < 0) | (margin < 0)
            alone = agree.all(axis=1).sum() == 1
            lost = r1 - (exact(margin, 1)[0] if alone else 0.0)
            np.testing.assert_allclose(drop[j], lost, rtol=1e-9, atol=1e-12)
        u += 1
    np.testing.assert_allclose([scalars["tau1_expected"], scalars["tau2_expected"]], tau, rtol=1e-9)


@pytest.mark.parametrize("model", MODELS)
def test_missing_keys_are_imputed_with_the_class(model):
    """Every draw completes the records of their class; risks follow the completed counts."""
    gaps = [[0, -1, 1], [0, -1, 1], [1, -1, 1], [-1, -1, 0]]
    codes, strata = [*CODES, *gaps], [0, 1, 0, 1, 1, 0, 2, 0, 2, 1, 1]
    sizes = np.array([25, 20, 17])
    table = sampled(codes, LEVELS, strata, sizes)
    fitted = fitted_table(table)
    p = law((*LEVELS, 3), 4)
    data, state = model.prepare(fitted), ToyState(p)
    measures = RiskMeasures.of(table)
    totals = measures.start()
    n_h = np.bincount(strata)
    r1, r2, weight = (np.zeros(table.n_cells) for _ in range(3))
    for sweep in range(40):
        stream = Stream(5, 0, sweep)
        scalars = measures.observe(stream, model, state, data, totals)
        imputed = model.impute(stream, state, data)
        # The order of the model: that of the incomplete patterns of the keys and the class.
        order = [
            tuple(cell)
            for cell, count in zip(fitted.cells.tolist(), fitted.counts.tolist(), strict=True)
            if -1 in cell
            for _ in range(count)
        ]
        assert sorted(order) == sorted((*c, h) for c, h in zip(gaps, strata[7:], strict=True))
        completed = [(tuple(code), tuple(code)) for code in CODES]
        completed += [
            (tuple(o[:3]), tuple(x[:3])) for o, x in zip(order, imputed.tolist(), strict=True)
        ]
        found = [cell for _, cell in completed]
        tau, done = np.zeros(2), set()
        for pattern, cell in completed:
            count = found.count(cell)
            parts = unobserved_parts(model, p, cell, [0, 1, 2], 3, sizes - n_h, n_h / len(codes))
            risk = np.array(risks(model, parts, count))
            tau += risk * (count == 1)
            c = int(np.flatnonzero((table.cells == pattern).all(axis=1))[0])
            if -1 in pattern or c not in done:
                done.add(c)
                weight[c] += 1
                r1[c] += risk[0] * (count == 1)
                r2[c] += risk[1]
        np.testing.assert_allclose(scalars["tau1_expected"], tau[0], rtol=1e-9)
        np.testing.assert_allclose(scalars["tau2_expected"], tau[1], rtol=0.02)
    np.testing.assert_allclose(totals.weight, weight)
    np.testing.assert_allclose(totals.r1, r1, rtol=1e-9)
    np.testing.assert_allclose(totals.r2, r2, rtol=0.02)


@pytest.mark.parametrize("telling", [False, True])
def test_a_models_error_scales_the_chances_of_all_classes(telling):
    """All probabilities wrong by 1.3: so are the expected others of a cell and of its margins."""

    class Wrong(PoissonToy):
        def risk_probabilities(self, stream: Any, data: Any, p: Any, counts: Any, **_: Any) -> Any:
            return 1.3 * p

    strata = [code[0] for code in CODES] if telling else [0, 1, 0, 1, 1, 0, 2]
    table = sampled(CODES, LEVELS, strata, [45, 17] if telling else [25, 20, 17])
    p = law(LEVELS if telling else (*LEVELS, 3), 4)
    measures = RiskMeasures.of(table)
    totals = measures.start()
    for sweep in range(1, 101):
        scalars = measures.observe(Stream(5, 0, sweep), Wrong(), ToyState(p), None, totals)
    assert scalars["tau1_model"] >= 0.0
    exposure = measures.exposure
    state = ToyState(p)

    def mean(cells: Any) -> Any:
        return exposure.means(exposure.chances(Look(STREAM, PoissonToy(), state, None), cells))

    uniques = table.cells[table.unique]
    r1 = np.exp(-1.3 * mean(uniques))
    np.testing.assert_allclose(totals.r1[table.unique] / 100, r1, rtol=1e-9)
    looked = totals.key_draws[totals.key_draws > 0]
    parts = np.arange(17) * len(uniques) // 16
    part = np.array([np.searchsorted(parts, u, side="right") - 1 for u in range(len(uniques))])
    drop = (totals.key_whole[:, None] - totals.key_rest) / totals.key_draws[part][:, None]
    assert len(looked) == len(uniques)
    for margin, u, j in zip(
        measures.margins, measures.margin_unique, measures.margin_key, strict=True
    ):
        without = np.exp(-1.3 * mean(margin[None, :])[0])
        np.testing.assert_allclose(drop[u, j], r1[u] - without, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("telling", [False, True])
def test_units_of_the_population_by_hand(telling, model):
    """sum_h N_h q(c | h) over the sample's q(c): of cells, and of what joins a cell in a margin."""
    strata = [code[0] for code in CODES] if telling else [0, 1, 0, 1, 1, 0, 2]
    sizes = np.array([45.0, 17.0] if telling else [25.0, 20.0, 17.0])
    table = sampled(CODES, LEVELS, strata, sizes)
    p = law(LEVELS if telling else (*LEVELS, 3), 4)
    if model.population == "poisson":
        # A Poisson law has the records of every class.
        shares = np.bincount(strata) / len(strata)
        p = (p.T * shares / p.sum(axis=(1, 2))).T if telling else p * shares / p.sum(axis=(0, 1, 2))
    exposure, state = exposure_of(table), ToyState(p)
    # Probability, and units, of each class by cell.
    p = p if telling else np.moveaxis(p, -1, 0)
    by_class = p.reshape(len(sizes), -1).sum(axis=1)
    units = (p.T * (sizes / by_class)).T
    if not telling:
        p, units = p.sum(axis=0), units.sum(axis=0)
    every = np.array(list(itertools.product(*map(range, LEVELS))), np.int32)
    chances = exposure.chances(Look(STREAM, model, state, None), every)
    expected = units[tuple(every.T)] / p[tuple(every.T)]
    np.testing.assert_allclose(exposure.population(chances), expected, rtol=1e-12)
    # One class with them all: the population's size.
    assert exposure_of(replace(table, sampling=None)).population(chances) is None
    # A cell, and the others that have its last two keys.
    cell, margin = every[:1], np.array([[-1, *every[0, 1:]]], np.int32)
    one, all_ = (
        exposure.chances(Look(STREAM, model, state, None), cells) for cells in (cell, margin)
    )
    heard = []

    def error(joining: Any, counts: Any, population: Any) -> Any:
        heard.append((joining[0], counts[0], population[0]))
        return joining

    exposure.alone_joined(all_, one, one, error, True)
    others = (slice(1, None), *every[0, 1:])
    joining = p[others].sum()
    (found,) = heard
    np.testing.assert_allclose(found, [joining, 0.0, units[others].sum() / joining], rtol=1e-9)


def error_differences(telling: bool) -> dict[str, np.ndarray]:
    """Expected less true population uniques, by class, of cells with gamma effects of known k.

    Class 0 is sampled by a half, class 1 by a two-hundredth.
    """
    rng = np.random.default_rng(21)
    n_h, sizes, n_cells = np.array([300, 300]), np.array([600, 60_000]), 3000
    given = rng.dirichlet(np.full(n_cells, 0.5), 2)
    if not telling:
        # Most cells have units of nearly one class alone, which no key tells.
        half = (np.arange(n_cells) // 60 + np.arange(n_cells)) % 2 == 0
        given *= np.where([half, ~half], 1.0, 0.0005)
        given /= given.sum(axis=1, keepdims=True)
    place = 19
    weights = np.zeros((len(OVERDISPERSION), len(SHIFTS)))
    weights[place, int(np.argmin(np.abs(SHIFTS)))] = 1.0
    model = Calibrated(wrapped=PoissonToy(), weights=tuple(weights.ravel().tolist()), asked=Auto())
    units = sizes[:, None] * given
    if not telling:
        units = np.tile(units.sum(axis=0), (2, 1))
    k = np.minimum(OVERDISPERSION[place] * units**-0.15, 5.0)
    found: dict[str, list[float]] = {"dense": [], "sparse": []}
    for repeat in range(300):
        # Keys that tell the class have cells, and effects, in each class by itself.
        effects = rng.gamma(1.0 / k, k)
        if not telling:
            effects[1] = effects[0]
        seen, others = (rng.poisson(n[:, None] * given * effects) for n in (n_h, sizes - n_h))
        strata, cells = (
            np.repeat(axis, seen.ravel()) for axis in np.indices(seen.shape).reshape(2, -1)
        )
        n = seen.sum(axis=1)
        codes = np.column_stack((strata, cells // 60, cells % 60))
        n_levels = (2, 50, 60)
        p = (given * (n / n.sum())[:, None]).reshape(n_levels)
        if not telling:
            codes, n_levels, p = codes[:, 1:], n_levels[1:], np.moveaxis(p, 0, -1)
        table = sampled(codes, n_levels, strata, sizes)
        state = ToyState(p)
        measures = RiskMeasures.of(table)
        totals = measures.start()
        for sweep in range(1, 5):
            data = CalibratedData(None, float(n.sum()), float(sizes.sum()))
            measures.observe(Stream(repeat, 0, sweep), model, state, data, totals)
        unique = table.cells[table.unique]
        place_of = unique[:, -2] * 60 + unique[:, -1]
        if telling:
            rest, dense = others[unique[:, 0], place_of], unique[:, 0] == 0
        else:
            rest, dense = others.sum(axis=0)[place_of], seen[0, place_of] == 1
        difference = totals.r1[table.unique] / 4.0 - (rest == 0)
        found["dense"].append(float(difference[dense].sum()))
        found["sparse"].append(float(difference[~dense].sum()))
    return {name: np.array(values) for name, values in found.items()}


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("telling", [False, True])
def test_the_models_error_is_that_of_cells_of_so_many_units(telling, monkeypatch):
    """The overdispersion falls with the units of the population, not with the sample's share.

    300 populations; z tests at 1e-5 each. As if all cells were sampled at one rate the dense class
    comes out wrong.
    """

    def z() -> dict[str, float]:
        return {
            name: float(values.mean() / (values.std() / math.sqrt(len(values))))
            for name, values in error_differences(telling).items()
        }

    right = z()
    assert max(map(abs, right.values())) < 4.42, right
    monkeypatch.setattr(BySampling, "population", lambda *_: None)
    assert max(map(abs, z().values())) > 6.0, z()


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize(
    "parts",
    [
        [(5, 0.05), (9, 0.3)],
        [(40, 0.01), (3, 0.2)],
        [(400, 0.002), (50, 0.1)],
        [(1, 0.9), (30, 0.01)],
        [(7, 0.2), (9, 0.2)],
        [(0, 0.5), (12, 0.1)],
        [(200, 0.3), (300, 0.2)],
    ],
)
def test_r2_of_a_sum_of_two_binomials(parts, count):
    """Off by less than the largest chance as a share of itself; exact where the chances agree."""
    exposure = BySampling(
        unobserved=np.array([m for m, _ in parts], float), sizes=np.ones(2),
        share=np.full(2, 0.5), column=1, n_columns=2, appended=True, class_of=np.arange(2),
    )  # fmt: skip
    chances = one_cell(parts)
    r1, r2 = exposure.risk(chances, np.array([float(count)]), False)
    exact = inverse_mean(parts, count)
    np.testing.assert_allclose(r1, math.prod((1.0 - p) ** m for m, p in parts), rtol=1e-12)
    apart = {p for m, p in parts if m > 0}
    error = abs(r2[0] / exact - 1.0)
    assert error < (2e-6 if len(apart) == 1 else 0.1 * max(apart)), error


def one_cell(parts: list[tuple[float, float]]) -> Any:
    from unikat.risk.by_class import ClassChances

    p = np.array([[p for _, p in parts]])
    return ClassChances(np.array([0.1]), p, np.arange(len(parts))[None, :])


@pytest.mark.statistical
@pytest.mark.parametrize("poisson", [False, True])
def test_drawn_populations_have_the_law_of_the_classes(poisson):
    """Two cells, two classes: 4,000 draws against enumeration (z tests, false alarm 1e-6).

    A class whose units all fall in the cells leaves none of them elsewhere: with one cell certain
    the number of its others is known.
    """
    from unikat.risk.by_class import ClassChances

    unobserved = np.array([3.0, 6.0])
    exposure = BySampling(
        unobserved=unobserved, sizes=unobserved + 1.0, share=np.full(2, 0.5), column=1,
        n_columns=2, appended=True, class_of=np.arange(2),
    )  # fmt: skip
    p = np.array([[0.3, 0.1], [0.7, 0.05]])
    chances = ClassChances(np.array([0.2, 0.3]), p, np.tile(np.arange(2), (2, 1)))
    draws = np.array(
        [exposure.draw(Stream(1, 0, sweep), chances, poisson) for sweep in range(4000)]
    )
    model = PoissonToy() if poisson else Toy()
    r1, r2 = np.array([risks(model, list(zip(unobserved, row, strict=True)), 1) for row in p]).T
    for column, exact in ((0, r1.sum()), (1, r2.sum())):
        error = draws[:, column].std() / math.sqrt(len(draws))
        assert abs(draws[:, column].mean() - exact) < 5.0 * error
    # Both cells hold all of class 0, so they cannot both be alone if their number is fixed.
    assert (draws[:, 0] == 2).any() == poisson
    certain = ClassChances(np.array([1.0]), np.array([[1.0, 0.0]]), np.array([[0, 1]]))
    if not poisson:
        assert exposure.draw(STREAM, certain, False) == (0.0, 0.25)


def test_a_stratum_taken_whole_has_no_unobserved_units():
    """Its sample uniques are population uniques, in every draw and by expectation."""
    table = sampled(CODES, LEVELS, [c[0] for c in CODES], [4, 40])
    measures = RiskMeasures.of(table)
    alone = table.unique & (table.cells[:, 0] == 0)
    totals = measures.start()
    for sweep in range(5):
        measures.observe(Stream(1, 0, sweep), Toy(), ToyState(law(LEVELS)), None, totals)
    np.testing.assert_array_equal(totals.r1[alone], 5.0)
    assert (totals.r1[table.unique & ~alone] < 5.0).all()
    # The rarest places are theirs.
    places = totals.rank[table.cells[table.unique, 0] == 0] / 5
    assert sorted(places) == list(range(1, int(alone.sum()) + 1))


def test_sums_of_weights_below_the_records_leave_nobody():
    table = sampled(CODES, LEVELS, [0, 0, 0, 1, 1, 1, 1], [2.2, 70.4], from_weights=True)
    exposure = exposure_of(table)
    assert exposure.unobserved.tolist() == [0.0, 66.0]


@pytest.mark.parametrize("kind", [LatentClass, LogLinear])
def test_structural_zeros_hold_with_the_class(kind):
    """What is impossible stays so in every class, and the chances of each class sum to one."""
    conditions = np.zeros((2, 7), bool)
    conditions[0] = [True, False, False, False, True, True, True]
    conditions[1] = [False, True, True, False, False, True, False]
    diagram = build(conditions, [0, 2, 5, 7])
    every = np.array(list(itertools.product(range(2), range(3), range(2))), np.int32)
    inside = possible(diagram, every)
    assert 0 < inside.sum() < 12
    rng = np.random.default_rng(1)
    codes = every[inside][rng.choice(inside.sum(), 90)]
    strata = rng.integers(0, 4, 90)
    table = replace(sampled(codes, LEVELS, strata, [500, 200, 100, 60]), zeros=diagram)
    fitted, _ = views(kind(), table)
    wide = np.array([[*cell, h] for cell in every.tolist() for h in range(4)], np.int32)
    np.testing.assert_array_equal(possible(fitted.zeros, wide), np.repeat(inside, 4))
    # More levels than any key, and fewer.
    assert fitted.zeros.child.shape[1] == 4
    two = replace(sampled(codes, LEVELS, strata % 2, [500, 360]), zeros=diagram)
    narrow = fitted_table(two).zeros
    np.testing.assert_array_equal(possible(narrow, wide[wide[:, 3] < 2]), np.repeat(inside, 2))
    model = kind()
    data = model.prepare(fitted)
    state = model.init(STREAM, data)
    for sweep in range(1, 9):
        state = model.step(Stream(3, 0, sweep), state, data, 1)[0]
    exposure = exposure_of(table)
    # No record has an impossible cell, so none is asked for.
    chances = exposure.chances(Look(STREAM, model, state, data), every[inside])
    np.testing.assert_allclose(chances.p.sum(axis=0), 1.0, rtol=1e-6)
    np.testing.assert_allclose(chances.sample.sum(), 1.0, rtol=1e-6)
    assert exposure.means(chances).sum() == pytest.approx(860 - 90, rel=1e-6)


@pytest.mark.parametrize("hidden", [0.0, 0.2])
def test_log_linear_margins_of_the_classes_are_their_records(hidden):
    """The weights are exposures: n_h / n is what the fit gives the class, with gaps too."""
    rng = np.random.default_rng(3)
    strata = np.sort(rng.integers(0, 3, 200))
    codes = np.column_stack([rng.binomial(k, 0.2 + 0.2 * strata) for k in (2, 3, 2)])
    # Keys are missing in one class more often than in the others.
    codes[rng.random(codes.shape) < hidden * (strata[:, None] == 1)] = -1
    table = sampled(codes, (3, 4, 3), strata, [2000, 600, 200])
    for terms in ("independence", "two-way"):
        model = LogLinear(terms=terms)
        data = model.prepare(fitted_table(table))
        state = model.init(STREAM, data)
        exposure = exposure_of(table)
        nobody = np.full((1, 3), -1, np.int32)
        chances = exposure.chances(Look(STREAM, model, state, data), nobody)
        np.testing.assert_allclose(chances.p, 1.0, rtol=1e-3)
        np.testing.assert_allclose(exposure.means(chances), 2800 - 200, rtol=1e-3)


# --- the bootstrap ---------------------------------------------------------------------------


def heard(monkeypatch: Any, boot: Bootstrapped, model: Any, stream: Stream) -> Any:
    """Truth and estimate of a simulated sample, and the table that was refitted."""
    data = model.prepare(boot.fitted)
    state = model.init(STREAM, data)
    seen = []
    right = type(model).refit

    def listen(self: Any, sample: CellTable, fitted: Any) -> Any:
        seen.append(sample)
        return right(self, sample, fitted)

    with monkeypatch.context() as patch:
        patch.setattr(type(model), "refit", listen)
        truth, estimate = boot._error(stream, model, state, data)
    return truth, estimate, seen[0], (data, state)


@pytest.mark.parametrize("telling", [False, True])
def test_simulated_samples_have_as_many_unobserved_units_in_each_class(telling, monkeypatch):
    """The truth is that of the simulating model's law by class, for the simulated uniques."""
    rng = np.random.default_rng(5)
    strata = np.sort(rng.integers(0, 3, 60))
    codes = np.column_stack([strata, rng.integers(0, 6, 60), rng.integers(0, 5, 60)])
    codes = codes if telling else codes[:, 1:]
    n_levels = (3, 6, 5) if telling else (6, 5)
    n_h = np.bincount(strata)
    unobserved = np.array([0, 40, 300])
    table = sampled(codes, n_levels, strata, n_h + unobserved)
    model = LogLinear(terms="independence", interval="bootstrap")
    boot = Bootstrapped.of(RiskMeasures.of(table), table)
    for sweep in range(6):
        stream = Stream(1, 0, sweep)
        truth, estimate, sample, (data, state) = heard(monkeypatch, boot, model, stream)
        cells = without_class(sample)
        p = np.array([
            [model.cell_probabilities(stream, state, data, np.array([
                cell if telling else [*cell, h]], np.int32))[0] * (not telling or cell[0] == h)
             for h in range(3)]
            for cell in cells.cells[cells.unique].tolist()
        ])  # fmt: skip
        assert len(p) > 0
        means = (unobserved * p / (n_h / 60)).sum(axis=1)
        assert truth["tau1_expected"] == pytest.approx(np.exp(-means).sum(), rel=1e-9)
        assert truth["tau2_expected"] == pytest.approx(
            sum(poisson_inverse_mean(m, 1) if m > 0 else 1.0 for m in means), rel=1e-6
        )
        # The estimate: the same with the law that is fitted to the simulated sample.
        again = sample.cells[sample.record_cell]
        simulated = sampled(
            again if telling else again[:, :-1], n_levels,
            again[:, 0 if telling else -1],
            np.bincount(again[:, 0 if telling else -1], minlength=3) + unobserved,
            from_weights=not telling,
        )  # fmt: skip
        measures = RiskMeasures.of(simulated)
        fresh = model.refit(sample, data)
        elsewhere = stream._replace(chain=2**31)
        there = measures.observe(elsewhere, model, state, fresh, measures.start())
        assert estimate["tau1_expected"] == pytest.approx(there["tau1_expected"], rel=1e-9)


def test_a_stratum_taken_whole_stays_so_in_the_bootstrap(monkeypatch):
    """Its units have no others in any simulated population: its uniques are all of tau1."""
    codes = [[0, a, b] for a in range(4) for b in range(4)] + [[1, 0, 0]] * 200
    table = sampled(codes, (2, 4, 4), [c[0] for c in codes], [16, 4000])
    model = LogLinear(terms="K0:K1 + K0:K2", interval="bootstrap")
    boot = Bootstrapped.of(RiskMeasures.of(table), table)
    for sweep in range(8):
        truth, estimate, sample, _ = heard(monkeypatch, boot, model, Stream(1, 0, sweep))
        assert sample.n_uniques > 0
        assert sample.cells[sample.unique, 0].max() == 0
        assert truth["tau1"] == truth["tau2"] == truth["tau1_expected"] == sample.n_uniques
        assert estimate["tau1_expected"] == sample.n_uniques


# --- a population whose law is known ---------------------------------------------------------

N_H, M_H = np.array([40, 40, 40]), np.array([2000, 500, 60])
SHAPE = (3, 8, 6, 5)
"""Stratum and three keys, independent of each other within strata."""


def known_law() -> np.ndarray:
    """q(keys | stratum), an axis for the stratum first."""
    rng = np.random.default_rng(11)
    found = []
    for _ in range(3):
        a, b, c = (rng.dirichlet(np.full(n, 1.5)) for n in SHAPE[1:])
        found.append(np.einsum("i,j,k->ijk", a, b, c))
    return np.array(found)


def repeated(kind: str, model: Any, n_repeats: int = 400) -> dict[str, np.ndarray]:
    """Estimate minus truth of simulated populations: by the design, and as by equal chances."""
    given, rng = known_law(), np.random.default_rng(12)
    every = np.array(list(itertools.product(*map(range, SHAPE[1:]))), np.int32)
    flat = given.reshape(3, -1)
    # Law of the records of the sample: keys, with the class last or the stratum first.
    joint = given * (N_H / N_H.sum())[:, None, None, None]
    # Classes made of weights come in the order of the weights.
    order = np.argsort(M_H)
    found: dict[str, list[float]] = {name: [] for name in ("tau1", "tau2", "drawn", "equal")}
    for repeat in range(n_repeats):
        inside = [rng.choice(len(every), n, p=p) for n, p in zip(N_H, flat, strict=True)]
        poisson = model.population == "poisson"
        # A Poisson population has units in every cell by themselves.
        number = rng.poisson(M_H) if poisson else M_H
        others = [rng.choice(len(every), m, p=p) for m, p in zip(number, flat, strict=True)]
        strata = np.repeat(np.arange(3), N_H).astype(np.int32)
        codes = every[np.concatenate(inside)]
        rest = every[np.concatenate(others)]
        if kind == "key":
            codes = np.column_stack((strata, codes))
            rest = np.column_stack((np.repeat(np.arange(3), number), rest))
        n_levels = SHAPE if kind == "key" else SHAPE[1:]
        table = sampled(codes, n_levels, strata, N_H + M_H)
        if kind == "weights":
            weights = 1.7 * table.weights
            table = replace(table, sampling=sampling_of(weights, table.population_size))
            assert table.sampling is not None
            np.testing.assert_array_equal(table.sampling.strata, np.argsort(order)[strata])
        uniques = table.cells[table.unique].tolist()
        counts: dict[tuple[int, ...], int] = {}
        for cell in map(tuple, rest.tolist()):
            counts[cell] = counts.get(cell, 0) + 1
        beside = np.array([counts.get(tuple(cell), 0) for cell in uniques])
        if kind == "key":
            p = joint
        else:
            p = np.moveaxis(joint[order] if kind == "weights" else joint, 0, -1)
        stream = Stream(7, 0, repeat)
        measures = RiskMeasures.of(table)
        scalars = measures.observe(stream, model, ToyState(p), None, measures.start())
        truth = {"tau1": (beside == 0).sum(), "tau2": (1.0 / (1.0 + beside)).sum()}
        for name in ("tau1", "tau2"):
            found[name].append(scalars[f"{name}_expected"] - truth[name])
        found["drawn"].append(scalars["tau1"] - truth["tau1"])
        bare = RiskMeasures.of(replace(table, sampling=None))
        flat_p = p if kind == "key" else p.sum(axis=-1)
        scalars = bare.observe(stream, model, ToyState(flat_p), None, bare.start())
        found["equal"].append(scalars["tau1_expected"] - truth["tau1"])
    return {name: np.array(values) for name, values in found.items()}


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("kind", ["key", "no key", "weights"])
def test_the_truth_is_met_on_average_where_the_law_is_known(kind, model):
    """400 disproportionate stratified samples from populations of a known law.

    z tests of the mean of estimate minus truth, false alarm 1e-5 each: expected tau1 and tau2, and
    the drawn tau1. As if chances were equal, with the true law of the records, they are far off.
    """
    gaps = repeated(kind, model)
    z = {name: gap.mean() / (gap.std() / math.sqrt(len(gap))) for name, gap in gaps.items()}
    assert max(abs(z[name]) for name in ("tau1", "tau2", "drawn")) < 4.42, z
    assert abs(z["equal"]) > 10.0, z


def test_blocks_of_cells_change_nothing(monkeypatch):
    """Many cells are asked for in parts; a class that no key tells is in each."""
    rng = np.random.default_rng(5)
    codes = rng.integers(0, (3, 4), (60, 2))
    strata = rng.integers(0, 3, 60)
    table = sampled(codes, (3, 4), strata, [200.0, 300.0, 400.0], from_weights=True)
    exposure = exposure_of(table)
    assert isinstance(exposure, BySampling)
    assert exposure.appended
    state = ToyState(rng.dirichlet(np.ones(36)).reshape(3, 4, 3))
    whole = exposure.chances(Look(STREAM, Toy(), state, None), table.cells)
    monkeypatch.setattr("unikat.risk.exposure.MOST_ROWS", 7)
    parts = exposure.chances(Look(STREAM, Toy(), state, None), table.cells)
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_design_that_would_not_be_seen_is_refused():
    """Each half of `views` left out is an error, never another number."""
    rng = np.random.default_rng(5)
    codes, strata = rng.integers(0, (3, 4), (60, 2)), rng.integers(0, 3, 60)
    table = sampled(codes, (3, 4), strata, [200.0, 300.0, 400.0], from_weights=True)
    with pytest.raises(SpecError, match=r"views\(model, table\)"):
        sample(LatentClass(), table, RiskMeasures.of(table), seed=1)
    with pytest.raises(SpecError, match="use them again"):
        sample(
            IndividualRisk(), table, RiskMeasures.of(table), seed=1, workers=Workers(n_workers=1)
        )
    fitted, at_risk = views(IndividualRisk(), table)
    plan = Plan(n_chains=1, stop=StopRule(max_sweeps=20))
    found = sample(IndividualRisk(), fitted, RiskMeasures.of(at_risk), seed=1, plan=plan)
    assert found.retained("tau2").size
