"""The mixed-effects model: options, layout, the contract, and what it refuses."""

from __future__ import annotations

import inspect
import itertools
import pickle
from typing import Any

import numpy as np
import pytest
from scipy import stats

from statistical import joint, mixed
from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.models.base import Model, Stream
from unikat.models.loglinear import grid as grids
from unikat.models.loglinear import mixed_effects
from unikat.models.loglinear.mixed_effects import MixedEffects

LEVELS = (2, 3, 2, 4)
KEYS = [Key.of_size(f"K{j}", n) for j, n in enumerate(LEVELS)]
FALSE_ALARM = 1e-6
"""Of each statistical comparison; about 20 of them."""
VARIANTS: list[dict[str, Any]] = [
    {},
    {"fixed": "two-way", "mean": "unknown"},
    {"fixed": "none"},
    {"empirical": True, "mean": "unknown"},
    {"random": "normal"},
    {"random": "normal", "fixed": "two-way"},
    {"random": "normal", "empirical": True, "fixed": "two-way"},
    {"random": "normal", "fixed": "none"},
    {"random": "none", "fixed": "two-way"},
    {"random": "none", "fixed": "none"},
    {"random": "gamma-dp"},
    {"random": "gamma-dp", "empirical": True},
]
every_variant = pytest.mark.parametrize(
    "options", VARIANTS, ids=[",".join(map(str, o.values())) or "default" for o in VARIANTS]
)


def impossible() -> np.ndarray:
    """Level 2 of the second key excludes level 0 of the first and level 1 of the third."""
    mask = np.zeros(LEVELS, bool)
    mask[0, 2], mask[:, 2, 1] = True, True
    return mask


def a_table(missing: float = 0.2, zeros: bool = False, n: int = 150) -> CellTable:
    """Two groups of records; a tenth of the population, some keys missing."""
    rng = np.random.default_rng(1)
    group = rng.random((3 * n, 1)) < 0.5
    codes = (rng.random((3 * n, 4)) ** np.where(group, 0.4, 2.0) * LEVELS).astype(int)
    diagram = None
    if zeros:
        codes = codes[~impossible()[tuple(codes.T)]]
        diagram = joint.diagram_of(impossible())
    codes = codes[:n]
    codes[rng.random(codes.shape) < missing] = -1
    if missing:
        codes[:2] = -1
    return CellTable.from_codes(codes, KEYS, population_size=10 * n, zeros=diagram)


def after(model: Any, data: Any, n_sweeps: int, n_threads: int = 1, chain: int = 1) -> Any:
    state = model.init(Stream(3, chain, 0), data)
    for sweep in range(1, n_sweeps + 1):
        state, _ = model.step(Stream(3, chain, sweep), state, data, n_threads)
    return state


def arrays(value: Any) -> list[np.ndarray]:
    if isinstance(value, tuple):
        return [array for part in value for array in arrays(part)]
    return [np.asarray(value)]


def assert_same(one: Any, other: Any) -> None:
    for mine, theirs in zip(arrays(one), arrays(other), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_signatures_are_those_of_the_contract():
    for method, promised in vars(Model).items():
        if inspect.isfunction(promised) and method[0] != "_":
            kept = inspect.signature(getattr(MixedEffects, method))
            assert list(kept.parameters) == list(inspect.signature(promised).parameters)
    model = MixedEffects(random="normal")
    assert pickle.loads(pickle.dumps(model)) == model
    assert (model.name, model.population) == ("mixed-effects", "poisson")


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"random": "gamma"}, "random is 'gamma'"),
        ({"fixed": "three-way"}, "fixed is 'three-way'"),
        ({"mean": 0}, "mean is 0"),
        ({"empirical": 1}, "empirical is 1"),
        ({"effect_variance": 0.0}, r"effect_variance is 0\.0"),
        ({"variance_scale": float("inf")}, "variance_scale is inf"),
        ({"mass_rate": True}, "mass_rate is true"),
        ({"mean": "unknown", "random": "normal"}, "mean is 'unknown' while random is 'normal'"),
        ({"empirical": True, "random": "none"}, "empirical is true while random is 'none'"),
    ],
)
def test_bad_options_are_refused(bad, message):
    with pytest.raises(SpecError, match=message):
        MixedEffects(**bad)


def test_too_many_cells_are_refused(monkeypatch):
    keys = [Key.of_size(f"K{j}", 11) for j in range(6)]
    table = CellTable.from_codes([[0] * 6], keys, population_size=9)
    with pytest.raises(SpecError, match=r"1,771,561 possible .* at most 1,000,000.*loglinear"):
        MixedEffects().prepare(table)
    monkeypatch.setattr(grids, "MOST_COMBINATIONS", 47)
    with pytest.raises(SpecError, match=r"48 combinations.* at most 47"):
        MixedEffects().prepare(a_table())
    monkeypatch.undo()
    keys = [Key.of_size("A", 60), Key.of_size("B", 60)]
    table = CellTable.from_codes([[0, 0]], keys, population_size=9)
    with pytest.raises(SpecError, match=r"two-way.* 3,599 effects .* at most 2,000"):
        MixedEffects(fixed="two-way").prepare(table)
    MixedEffects().prepare(table)


def test_impossible_cells_are_not_listed_and_records_there_refused():
    data = MixedEffects().prepare(a_table(zeros=True))
    np.testing.assert_array_equal(data.grid.cells, np.argwhere(~impossible()))
    assert data.grid.find(np.array([[0, 2, 0, 0], [1, 2, 0, 3]])).tolist()[0] == -1
    zeros = joint.diagram_of(impossible())
    for code in ([0, 2, 0, 0], [0, 2, -1, 1]):
        table = CellTable.from_codes([code], KEYS, population_size=9, zeros=zeros)
        with pytest.raises(SpecError, match="impossible"):
            MixedEffects().prepare(table)


@every_variant
@pytest.mark.parametrize("zeros", [False, True])
def test_functions_are_pure_and_threads_change_nothing(options, zeros):
    model: Any = MixedEffects(**options)
    table = a_table(zeros=zeros)
    data = model.prepare(table)
    state = after(model, data, 3)
    before = [array.copy() for array in arrays((state, data))]
    new, info = model.step(Stream(3, 1, 9), state, data, 2)
    model.cell_probabilities(Stream(3, 1, 9), state, data, table.cells)
    model.impute(Stream(3, 1, 9), state, data)
    model.simulate(Stream(3, 1, 9), state, data, 10)
    assert_same(tuple(before), (state, data))
    assert type(new) is type(state)
    assert all(isinstance(value, float) for value in info.values.values())
    assert_same(new, model.step(Stream(3, 1, 9), state, data, 1)[0])
    assert_same(state, after(model, data, 3, n_threads=3))
    assert not np.array_equal(state.log_mean, after(model, data, 3, chain=2).log_mean)
    assert [(a.dtype, a.ndim) for a in arrays(new)] == [(a.dtype, a.ndim) for a in arrays(state)]
    if not model.empirical:
        np.testing.assert_allclose(data.offset, np.log(150 / 1500))
    # What the state says of itself.
    W = mixed.design(model, data.grid.cells, LEVELS)
    phi = 0.0
    if model.random == "normal":
        phi = new.effects
    if mixed.clustered(model):
        phi = new.values[new.cluster]
        assert sorted(set(new.cluster.tolist())) == list(range(len(new.values)))
        assert info.values["n_clusters"] == len(new.values)
    np.testing.assert_allclose(new.log_mean, data.offset + W @ new.beta + phi)
    assert new.counts.sum() == table.n_records
    assert (new.counts >= data.known).all()


@every_variant
def test_imputed_records_keep_what_is_known(options):
    model: Any = MixedEffects(**options)
    table = a_table(zeros=True)
    data = model.prepare(table)
    state = after(model, data, 5)
    cells = model.impute(Stream(3, 1, 9), state, data)
    patterns = np.repeat(table.cells, table.counts, axis=0)
    incomplete = patterns[(patterns < 0).any(axis=1)]
    assert cells.shape == incomplete.shape
    assert cells.dtype == np.int32
    assert (cells == incomplete)[incomplete >= 0].all()
    assert not impossible()[tuple(cells.T)].any()
    np.testing.assert_array_equal(cells, model.impute(Stream(3, 1, 9), state, data))
    assert not np.array_equal(cells, model.impute(Stream(3, 1, 10), state, data))


@every_variant
@pytest.mark.parametrize("zeros", [False, True])
def test_probabilities_are_the_rates_and_margins_their_sums(options, zeros):
    model: Any = MixedEffects(**options)
    data = model.prepare(a_table(zeros=zeros))
    state = after(model, data, 5)
    where = Stream(3, 1, 5)
    cells = np.array(list(itertools.product(*map(range, LEVELS))), np.int32)
    p = model.cell_probabilities(where, state, data, cells)
    assert p.dtype == np.float64
    if zeros:
        assert (p[impossible().ravel()] == 0.0).all()
    # lambda / N, lambda = mean / pi.
    rates = np.exp(state.log_mean) / 0.1 / 1500
    np.testing.assert_allclose(p[p > 0.0], rates)
    share = model.predictive_probabilities(where, state, data, cells)
    np.testing.assert_allclose(share.sum(), 1.0)
    np.testing.assert_allclose(share * p.sum(), p)
    table = p.reshape(LEVELS)
    for keys in [(0,), (1,), (3,), (0, 2), (1, 2, 3), (0, 1, 2, 3)]:
        margin = cells.copy()
        margin[:, list(keys)] = -1
        expected = np.broadcast_to(table.sum(axis=keys, keepdims=True), LEVELS).ravel()
        got = model.cell_probabilities(where, state, data, margin)
        np.testing.assert_allclose(got, expected, atol=1e-15)
    mixed_patterns = cells.copy()
    mixed_patterns[::2, 0] = -1
    whole = np.where(cells[:, 0] >= 0, table.sum(axis=0).ravel()[np.arange(48) % 24], 0.0)
    expected = np.where(mixed_patterns[:, 0] < 0, whole, p)
    got = model.cell_probabilities(where, state, data, mixed_patterns)
    np.testing.assert_allclose(got, expected, atol=1e-15)
    assert model.cell_probabilities(where, state, data, cells[:0]).shape == (0,)


@pytest.mark.statistical
@every_variant
def test_simulated_individuals_have_the_predictive_probabilities(options):
    """Chi-square of 40,000 individuals over the cells; none in an impossible one."""
    model: Any = MixedEffects(**options)
    data = model.prepare(a_table(zeros=True))
    state = after(model, data, 10)
    n = 20_000
    draws = [model.simulate(Stream(3, 1, sweep), state, data, n) for sweep in (20, 21)]
    assert not np.array_equal(*draws)
    np.testing.assert_array_equal(draws[0], model.simulate(Stream(3, 1, 20), state, data, n))
    assert draws[0].dtype == np.int32
    cells = np.array(list(itertools.product(*map(range, LEVELS))), np.int32)
    expected = 2 * n * model.predictive_probabilities(Stream(3, 1, 20), state, data, cells)
    place = np.ravel_multi_index(tuple(np.concatenate(draws).T), LEVELS)
    observed = np.bincount(place, minlength=len(cells))
    assert observed[expected == 0.0].sum() == 0
    common = expected >= 8.0
    f_obs = np.append(observed[common], observed[~common].sum())
    f_exp = np.append(expected[common], expected[~common].sum())
    keep = f_exp > 0.0
    assert stats.chisquare(f_obs[keep], f_exp[keep]).pvalue > FALSE_ALARM


@pytest.mark.parametrize("fixed", ["none", "independence", "two-way"])
@pytest.mark.parametrize("zeros", [False, True])
def test_empirical_effects_are_the_estimate(fixed, zeros):
    """The likelihood of complete records has no slope along any column of the design."""
    table = a_table(missing=0.0, zeros=zeros, n=400)
    model = MixedEffects(random="normal", empirical=True, fixed=fixed)
    data = model.prepare(table)
    plain = MixedEffects(random="normal", fixed=fixed)
    W = mixed.design(plain, data.grid.cells, LEVELS)
    np.testing.assert_allclose(W.T @ np.exp(data.offset), W.T @ data.known, atol=1e-5)
    # It is a sum of effects: what is left over after projecting on the design is nothing.
    left = data.offset - W @ np.linalg.lstsq(W, data.offset, rcond=None)[0]
    np.testing.assert_allclose(left, 0.0, atol=1e-6)


def test_cells_without_an_estimate_take_no_part():
    """A level that no record has: its cells have probability 0 and are not listed."""
    codes = np.argwhere(np.ones((2, 2, 2, 3), bool))
    table = CellTable.from_codes(codes, KEYS, population_size=100)
    data = MixedEffects(empirical=True).prepare(table)
    assert (data.grid.cells[:, 1] < 2).all()
    assert (data.grid.cells[:, 3] < 3).all()
    model = MixedEffects(empirical=True)
    state = after(model, data, 2)
    cells = np.array([[0, 2, 0, 0], [0, 1, 0, 0], [0, 2, -1, -1]], np.int32)
    p = model.cell_probabilities(Stream(3, 1, 2), state, data, cells)
    assert (p > 0.0).tolist() == [False, True, False]


def test_missing_keys_enter_the_estimate():
    """Two records of three know only that A is 1: P(A = 1) is that of all the records."""
    keys = [Key.of_size("A", 2), Key.of_size("B", 2)]
    codes = [[0, 0], [0, 1], [1, 0], [1, -1], [1, -1], [1, -1]]
    table = CellTable.from_codes(codes, keys, population_size=60)
    data = MixedEffects(empirical=True).prepare(table)
    fitted = np.exp(data.offset).reshape(2, 2) / 6.0
    np.testing.assert_allclose(fitted.sum(axis=1), [1 / 3, 2 / 3], atol=1e-6)
    np.testing.assert_allclose(fitted.sum(axis=0), [2 / 3, 1 / 3], atol=1e-6)


def test_the_step_is_found_in_the_start_and_never_after():
    model = MixedEffects(random="none")
    data = model.prepare(a_table(missing=0.0))
    state = model.init(Stream(3, 1, 0), data)
    accepted = []
    for sweep in range(1, 400):
        new, info = model.step(Stream(3, 1, sweep), state, data, 1)
        assert new.step_size == state.step_size
        state = new
        accepted.append(info.values["acceptance"])
    assert 0.5 < np.mean(accepted) < 0.85


def test_warm_up_and_steps_share_no_random_numbers(monkeypatch):
    """The keys of the generator in `init` are not those of the sweeps."""
    model = MixedEffects()
    data = model.prepare(a_table())
    seen: set[tuple[int, ...]] = set()
    right = mixed_effects.kernels.allocate

    def listen(key: Any, *rest: Any) -> Any:
        seen.add(tuple(key.tolist()))
        return right(key, *rest)

    monkeypatch.setattr(mixed_effects.kernels, "allocate", listen)
    state = model.init(Stream(3, 0, 0), data)
    warm_up, seen = seen, set()
    model.step(Stream(3, 0, 1), state, data, 1)
    assert len(warm_up) == len(seen) == 1
    assert not warm_up & seen


@pytest.mark.parametrize("options", [{}, {"fixed": "two-way", "random": "normal"}])
def test_empty_margins_and_large_counts_do_no_harm(options):
    """Levels without records, and one cell with nearly all: everything stays finite."""
    keys = [Key.of_size("A", 3), Key.of_size("B", 4)]
    codes = [[0, 0]] * 100_000 + [[1, 1]]
    table = CellTable.from_codes(codes, keys, population_size=10**6)
    model: Any = MixedEffects(**options)
    data = model.prepare(table)
    for chain in range(4):
        state = model.init(Stream(5, chain, 0), data)
        moved = 0.0
        for sweep in range(1, 60):
            state, info = model.step(Stream(5, chain, sweep), state, data, 1)
            moved += info.values["acceptance"]
            assert all(np.isfinite(a).all() for a in arrays(state))
        assert moved > 5.0
        p = model.cell_probabilities(Stream(5, chain, 60), state, data, table.cells)
        np.testing.assert_allclose(p[0], 1.0, atol=0.05)


def test_a_file_without_known_keys_leaves_the_prior():
    table = CellTable.from_codes([[-1] * 4] * 3, KEYS, 50)
    for options in ({}, {"random": "normal"}, {"random": "none", "fixed": "two-way"}):
        model: Any = MixedEffects(**options)
        data = model.prepare(table)
        state = after(model, data, 5)
        assert model.impute(Stream(3, 1, 6), state, data).shape == (3, 4)


def test_compiling_needs_no_data():
    for zeros in (False, True):
        MixedEffects().compile(zeros)


def test_cost_grows_with_the_work():
    data = MixedEffects().prepare(a_table())
    more = MixedEffects(fixed="two-way").prepare(a_table())
    assert 0.0 < MixedEffects().cost(data)[0] < MixedEffects(fixed="two-way").cost(more)[0]
