"""What every model promises: signatures, purity, repeatability, shapes, and coherent probabilities.

Parametrised over the catalogue, so that a new model meets these tests by standing there.
"""

from __future__ import annotations

import inspect
import itertools
import pickle
from typing import Any, get_args

import numpy as np
import pytest
from scipy import stats

from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.models import mixed_membership
from unikat.models.base import Info, Model, PopulationLaw, Stream, Uncertainty
from unikat.models.catalogue import MODELS, build_model

N_LEVELS = (2, 3, 2, 4)
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "hdp": [
        {},
        {"alpha": "per-record"},
        {"alpha": "hierarchical"},
        {"profile_concentration": 1, "profile_base": "uniform", "split_merge": False},
    ],
    "gom": [
        {"components": 11},
        {"components": 3, "alpha": "per-record", "profile_base": "empirical"},
        {"components": 1, "alpha": "hierarchical"},
    ],
    "latent-class": [{}, {"profile_concentration": 0.1, "profile_base": "uniform"}],
}
VARIANTS = [(name, options) for name in MODELS for options in OPTIONS.get(name, [{}])]
IDS = [f"{name}:{','.join(map(str, options.values()))}" for name, options in VARIANTS]
every_model = pytest.mark.parametrize(("name", "options"), VARIANTS, ids=IDS)


def random_table(n: int = 201, missing: float = 0.2) -> CellTable:
    """Two groups of records, repeated cells, missing keys, and two records without any."""
    rng = np.random.default_rng(1)
    keys = [Key.of_size(f"K{j}", n_levels) for j, n_levels in enumerate(N_LEVELS)]
    group = rng.random((n, 1)) < 0.5
    codes = (rng.random((n, 4)) ** np.where(group, 0.4, 2.0) * N_LEVELS).astype(int)
    codes[rng.random(codes.shape) < missing] = -1
    codes[:2] = -1 if missing else 0
    return CellTable.from_codes(codes, keys, population_size=10 * n)


def after(model: Any, data: Any, n_sweeps: int, n_threads: int = 1, chain: int = 1) -> Any:
    state = model.init(Stream(3, chain, 0), data)
    for sweep in range(1, n_sweeps + 1):
        state, _ = model.step(Stream(3, chain, sweep), state, data, n_threads)
    return state


def arrays(value: Any) -> list[np.ndarray]:
    """All arrays of nested tuples."""
    if value is None:
        return []
    if isinstance(value, np.ndarray):
        return [value]
    assert isinstance(value, tuple)
    return [array for part in value for array in arrays(part)]


def assert_same(one: Any, other: Any) -> None:
    for mine, theirs in zip(arrays(one), arrays(other), strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("name", MODELS)
def test_signatures_are_those_of_the_contract(name):
    """Every method of `Model`, with its parameters in order; names and parameters in words."""
    model = build_model(name, {})
    assert model.name == name
    methods = [m for m, f in vars(Model).items() if inspect.isfunction(f) and m[0] != "_"]
    assert {"prepare", "init", "step", "impute", "simulate"} <= set(methods)
    for method in methods:
        promised = inspect.signature(getattr(Model, method))
        kept = inspect.signature(getattr(type(model), method))
        assert list(kept.parameters) == list(promised.parameters), method
        assert all(
            p.kind is q.kind and p.default is q.default
            for p, q in zip(kept.parameters.values(), promised.parameters.values(), strict=True)
        ), method
    assert model.population in get_args(PopulationLaw)
    assert model.uncertainty in get_args(Uncertainty)
    assert type(model).__dataclass_params__.frozen
    assert pickle.loads(pickle.dumps(model)) == model


def test_every_model_has_variants_here():
    assert set(OPTIONS) == set(MODELS)


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("gom", {"components": 0}),
        ("gom", {"components": 2.0}),
        ("gom", {"components": True}),
        ("gom", {"components": 10_001}),
        ("gom", {"alpha": "none"}),
        ("gom", {"alpha_rate": 0.0}),
        ("latent-class", {"top_shape": 0.0}),
        ("latent-class", {"split_merge": 1}),
        ("latent-class", {"profile_base": "flat"}),
        ("hdp", {"profile_concentration": 0.0}),
        ("hdp", {"profile_concentration": "learn"}),
        ("hdp", {"profile_shape": float("nan")}),
        ("hdp", {"profile_rate": -1.0}),
        ("hdp", {"split_merge": "yes"}),
    ],
)
def test_impossible_options_are_refused(name, bad):
    with pytest.raises(SpecError, match=next(iter(bad))):
        build_model(name, bad)


@every_model
def test_functions_leave_their_arguments_alone(name, options):
    model: Any = build_model(name, options)
    table = random_table()
    data = model.prepare(table)
    state = after(model, data, 3)
    before = [array.copy() for array in arrays((state, data))]
    cells = table.cells.copy()
    new, info = model.step(Stream(3, 1, 9), state, data, 2)
    model.cell_probabilities(Stream(3, 1, 9), state, data, cells)
    model.impute(Stream(3, 1, 9), state, data)
    model.simulate(Stream(3, 1, 9), state, data, 10)
    for copy, array in zip(before, arrays((state, data)), strict=True):
        np.testing.assert_array_equal(copy, array)
    np.testing.assert_array_equal(cells, table.cells)
    assert type(new) is type(state)
    assert isinstance(info, Info)
    assert all(isinstance(value, float) for value in info.values.values())
    # A second step from the same state gives the same numbers.
    assert_same(new, model.step(Stream(3, 1, 9), state, data, 1)[0])


@every_model
def test_numbers_do_not_depend_on_threads(name, options):
    model: Any = build_model(name, options)
    data = model.prepare(random_table())
    ends = [after(model, data, 8, n_threads) for n_threads in (1, 2, 3, 7)]
    for other in ends[1:]:
        assert_same(ends[0], other)


@every_model
def test_starts_repeat_and_differ_between_chains(name, options):
    model: Any = build_model(name, options)
    data = model.prepare(random_table())
    assert_same(after(model, data, 0), after(model, data, 0))
    one, other = after(model, data, 0), after(model, data, 0, chain=2)
    assert not np.array_equal(one.theta[:, :8], other.theta[:, :8])


@every_model
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_states_stay_valid(name, options, missing):
    """Weights and profiles are probabilities, missing keys have no component, types stay."""
    model: Any = build_model(name, options)
    table = random_table(missing=missing)
    data = model.prepare(table)
    state = after(model, data, 0)
    first = np.concatenate(([0], np.cumsum(N_LEVELS)))
    for sweep in range(1, 30):
        new, info = model.step(Stream(3, 1, sweep), state, data, 1)
        assert [(a.dtype, a.ndim) for a in arrays(new)] == [
            (a.dtype, a.ndim) for a in arrays(state)
        ]
        assert all(a.flags.c_contiguous for a in arrays(new))
        state = new
        np.testing.assert_allclose(state.weights.sum(), 1.0)
        assert (state.weights >= 0.0).all()
        assert state.theta.shape == (first[-1], len(state.weights))
        assert len(state.weights) % 8 == 0
        for start, end in itertools.pairwise(first):
            np.testing.assert_allclose(state.theta[start:end].sum(axis=0), 1.0, rtol=1e-5)
        assert (state.profile > 0.0).all()
        known = table.cells[np.repeat(np.arange(table.n_cells), table.counts)] >= 0
        if state.z.shape[1] == 1:
            known = known.any(axis=1, keepdims=True)
        assert ((state.z >= 0) == known).all()
        assert info.values["n_components"] == len(set(state.z[known].tolist()))
        assert (state.weights[np.unique(state.z[known])] > 0.0).all()


@every_model
def test_imputed_records_keep_what_is_known(name, options):
    model: Any = build_model(name, options)
    table = random_table()
    data = model.prepare(table)
    state = after(model, data, 5)
    cells = model.impute(Stream(3, 1, 9), state, data)
    patterns = np.repeat(table.cells, table.counts, axis=0)
    incomplete = patterns[(patterns < 0).any(axis=1)]
    assert cells.shape == incomplete.shape
    assert cells.dtype == np.int32
    assert ((cells >= 0) & (cells < N_LEVELS)).all()
    assert (cells == incomplete)[incomplete >= 0].all()
    np.testing.assert_array_equal(cells, model.impute(Stream(3, 1, 9), state, data))
    assert not np.array_equal(cells, model.impute(Stream(3, 1, 10), state, data))


@every_model
def test_probabilities_add_up(name, options):
    """All cells add to 1; a margin (-1) is the sum over the key's levels; no cells, no numbers."""
    model: Any = build_model(name, options)
    data = model.prepare(random_table())
    state = after(model, data, 5)
    where = Stream(3, 1, 5)
    cells = np.array(list(itertools.product(*map(range, N_LEVELS))), np.int32)
    p = model.cell_probabilities(where, state, data, cells)
    assert p.dtype == np.float64
    assert (p > 0.0).all()
    # For each key: profiles in single precision, and sticks of up to 1e-6 in total left out.
    np.testing.assert_allclose(p.sum(), 1.0, rtol=2e-6 * len(N_LEVELS))
    table = p.reshape(N_LEVELS)
    for j in range(len(N_LEVELS)):
        margin = cells.copy()
        margin[:, j] = -1
        expected = np.broadcast_to(table.sum(axis=j, keepdims=True), N_LEVELS).ravel()
        got = model.cell_probabilities(where, state, data, margin)
        np.testing.assert_allclose(got, expected, rtol=2e-6 * len(N_LEVELS))
    none = np.full((1, len(N_LEVELS)), -1, np.int32)
    np.testing.assert_allclose(model.cell_probabilities(where, state, data, none), 1.0, rtol=1e-9)
    assert model.cell_probabilities(where, state, data, cells[:0]).shape == (0,)


@pytest.mark.statistical
@every_model
def test_simulated_individuals_have_the_cell_probabilities(name, options):
    """Chi-square of 40,000 individuals over all cells; false alarm 1e-6 for each model."""
    model: Any = build_model(name, options)
    data = model.prepare(random_table())
    state = after(model, data, 20)
    n = 20_000
    draws = [model.simulate(Stream(3, 1, sweep), state, data, n) for sweep in (20, 21)]
    for draw in draws:
        assert draw.shape == (n, len(N_LEVELS))
        assert draw.dtype == np.int32
        assert ((draw >= 0) & (draw < N_LEVELS)).all()
    assert not np.array_equal(*draws)
    np.testing.assert_array_equal(draws[0], model.simulate(Stream(3, 1, 20), state, data, n))
    cells = np.array(list(itertools.product(*map(range, N_LEVELS))), np.int32)
    expected = model.cell_probabilities(Stream(3, 1, 20), state, data, cells)
    expected *= 2 * n / expected.sum()
    place = np.ravel_multi_index(tuple(np.concatenate(draws).T), N_LEVELS)
    observed = np.bincount(place, minlength=len(cells))
    common = expected >= 8.0
    f_obs = np.append(observed[common], observed[~common].sum())
    f_exp = np.append(expected[common], expected[~common].sum())
    keep = f_exp > 0.0
    assert stats.chisquare(f_obs[keep], f_exp[keep]).pvalue > 1e-6


@pytest.mark.parametrize("alpha", ["per-record", "hierarchical"])
def test_simulated_alphas_are_new_in_every_sweep(alpha, monkeypatch):
    """The numbers of one sweep are not those of the next one, shifted."""
    model: Any = build_model("hdp", {"alpha": alpha})
    data = model.prepare(random_table())
    state = after(model, data, 2)
    seen: list[float] = []
    right = mixed_membership.mixture.impute

    def listen(*arguments: Any) -> None:
        seen.extend(arguments[5].tolist())
        right(*arguments)

    monkeypatch.setattr(mixed_membership.mixture, "impute", listen)
    for sweep in range(1, 6):
        model.simulate(Stream(3, 1, sweep), state, data, 200)
    model.simulate(Stream(3, 2, 1), state, data, 200)
    assert len(seen) == len(set(seen)) == 1200


def test_classes_need_no_known_key():
    """A file of which nothing is known leaves every model at its prior."""
    keys = [Key.of_size("A", 2), Key.of_size("B", 3)]
    table = CellTable.from_codes([[-1, -1]] * 3, keys, 50)
    for name in MODELS:
        model: Any = build_model(name, {})
        data = model.prepare(table)
        state = after(model, data, 5)
        assert (state.z == -1).all()
        cells = model.impute(Stream(3, 1, 6), state, data)
        assert cells.shape == (3, 2)
        assert ((cells >= 0) & (cells < [2, 3])).all()


@pytest.mark.statistical
@every_model
def test_predictive_probabilities_are_means_over_the_profiles(name, options):
    """The mean over 400 draws of the profiles given the components (z test, false alarm 1e-6)."""
    model = build_model(name, options)
    data = model.prepare(random_table())
    records = getattr(data, "records", data)
    state = after(model, data, 8)
    cells = np.array([[0, 0, 0, 0], [1, 2, 1, 3], [0, 2, -1, 1], [-1, -1, -1, 2]], np.int32)
    rng = np.random.default_rng(2)
    counts = np.zeros(state.theta.shape)
    rows = records.rows[records.record_cell]
    for row, component in zip(rows, np.broadcast_to(state.z, rows.shape), strict=True):
        for r, k in zip(row, component, strict=True):
            if r >= 0:
                counts[r, k] += 1
    draws = []
    for _ in range(400):
        theta = rng.gamma(state.profile[:, None] + counts) + 1e-300
        for first, last in itertools.pairwise(records.offsets):
            theta[first:last] /= theta[first:last].sum(axis=0)
        redrawn = state._replace(theta=theta.astype(np.float32))
        draws.append(model.cell_probabilities(Stream(3, 1, 9), redrawn, data, cells))
    mean = model.predictive_probabilities(Stream(3, 1, 9), state, data, cells)
    error = np.std(draws, axis=0) / np.sqrt(len(draws))
    z = (np.mean(draws, axis=0) - mean) / error
    assert (2 * stats.norm.sf(np.abs(z)) > 1e-6 / len(cells)).all(), z


@pytest.mark.parametrize("name", MODELS)
def test_a_model_that_can_compile_does_so_without_data(name: str) -> None:
    hook = getattr(build_model(name, {}), "compile", None)
    assert hook is None or hook() is None


@pytest.mark.parametrize("name", ["hdp", "latent-class"])
def test_empty_slots_keep_their_profiles_only_while_that_is_right(name):
    """Three sweeps in four, and never after a move that integrated the profiles out.

    A component that was merged away leaves a slot whose profile must become one of the prior: too
    small an error for the joint tests to see, since it lasts three sweeps.
    """
    model = build_model(name, {})
    data = model.prepare(random_table())
    state = model.init(Stream(3, 1, 0), data)
    kept = moved = 0
    for sweep in range(1, 400):
        before = {column.tobytes() for column in state.theta.T}
        state, info = model.step(Stream(3, 1, sweep), state, data, 1)
        occupied = set(state.z[state.z >= 0].tolist())
        same = {k for k, column in enumerate(state.theta.T) if column.tobytes() in before}
        assert not same & occupied
        if sweep % 4 == 0 or info.values["split_merge"]:
            assert not same
            moved += bool(sweep % 4 and info.values["split_merge"])
        else:
            kept += bool(same)
    assert kept > 100
    assert moved > 3
