"""Models under structural zeros: probabilities, imputation, simulation, impossible records."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import naive
from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.kernels.zeros import Diagram
from unikat.models.base import Stream
from unikat.models.mixtures import completions, mixed_membership, new_record, truncation
from unikat.models.named import build_model
from unikat.rng import chain_key
from unikat.zeros.zeros import Zeros

FALSE_ALARM = 1e-6
"""Of each assertion on a p-value; 13 of them."""
DOCS = Path(__file__).parents[3] / "docs"
KEYS = [Key.of_size(name, n) for name, n in (("A", 4), ("B", 3), ("C", 2), ("D", 3))]
N_LEVELS = tuple(key.n_levels for key in KEYS)
OFFSETS = np.concatenate(([0], np.cumsum(N_LEVELS)))
RULES = ["A == 0 and B >= 1", "B == 2 and C == 1", "A >= 2 and D == 2", "B == 1 and D == 0"]
CELLS = np.array(list(itertools.product(*map(range, N_LEVELS))), np.int32)
ZEROS = Zeros.of(RULES, KEYS)
POSSIBLE = ~ZEROS.forbids(CELLS)
PATTERNS = np.array(list(itertools.product(*(range(-1, n) for n in N_LEVELS))), np.int32)
MODELS: list[tuple[str, dict[str, Any]]] = [
    ("hdp", {}),
    ("hdp", {"alpha": "hierarchical"}),
    ("gom", {"components": 5, "alpha": "per-record", "split_merge": False}),
    ("latent-class", {}),
]
every_model = pytest.mark.parametrize(
    ("name", "options"), MODELS, ids=["hdp", "hdp-hierarchical", "gom-per-record", "latent-class"]
)


def random_table(n: int = 150) -> CellTable:
    """Possible records of two groups; a fifth of the keys missing, of two records all."""
    rng = np.random.default_rng(1)
    group = rng.random((4 * n, 1)) < 0.5
    codes = (rng.random((4 * n, 4)) ** np.where(group, 0.4, 2.0) * N_LEVELS).astype(int)
    codes = codes[~ZEROS.forbids(codes)][:n]
    assert len(codes) == n
    codes[rng.random(codes.shape) < 0.2] = -1
    codes[:2] = -1
    return CellTable.from_codes(codes, KEYS, population_size=10 * n, zeros=ZEROS.diagram)


def after(model: Any, data: Any, n_sweeps: int, n_threads: int = 1) -> tuple[Any, Any]:
    state, info = model.init(Stream(3, 1, 0), data), None
    for sweep in range(1, n_sweeps + 1):
        state, info = model.step(Stream(3, 1, sweep), state, data, n_threads)
    return state, info


def copies(value: Any) -> list[np.ndarray]:
    """Copies of all arrays of nested tuples."""
    if value is None:
        return []
    if isinstance(value, np.ndarray):
        return [value.copy()]
    return [array for part in value for array in copies(part)]


def assert_same(one: Any, other: Any) -> None:
    for mine, theirs in zip(copies(one), copies(other), strict=True):
        np.testing.assert_array_equal(mine, theirs)


@every_model
def test_functions_leave_their_arguments_alone(name, options):
    model: Any = build_model(name, options)
    data = model.prepare(random_table())
    state, _ = after(model, data, 3)
    before = copies((state, data))
    new, info = model.step(Stream(3, 1, 9), state, data, 2)
    model.cell_probabilities(Stream(3, 1, 9), state, data, PATTERNS)
    model.predictive_probabilities(Stream(3, 1, 9), state, data, PATTERNS)
    model.impute(Stream(3, 1, 9), state, data)
    model.simulate(Stream(3, 1, 9), state, data, 10)
    assert_same(before, (state, data))
    assert all(isinstance(value, float) for value in info.values.values())
    assert_same(new, model.step(Stream(3, 1, 9), state, data, 1)[0])


@every_model
def test_numbers_do_not_depend_on_threads(name, options):
    model: Any = build_model(name, options)
    data = model.prepare(random_table())
    ends = [after(model, data, 6, n_threads) for n_threads in (1, 2, 5)]
    for state, info in ends[1:]:
        assert_same(ends[0][0], state)
        assert ends[0][1].values == info.values


@every_model
def test_states_stay_valid(name, options):
    """Every key of every record has a component, known keys stay, what is imputed is possible.

    The tokens of the impossible records: each has one of the first layer's key, and the share of
    impossible records that is reported counts them.
    """
    model: Any = build_model(name, options)
    table = random_table()
    data = model.prepare(table)
    state, _ = after(model, data, 0)
    patterns = np.repeat(table.cells, table.counts, axis=0)
    incomplete = patterns[(patterns < 0).any(axis=1)]
    masses, imputed = [], []
    for sweep in range(1, 25):
        new, info = model.step(Stream(3, 1, sweep), state, data, 1)
        assert [(a.dtype, a.ndim) for a in copies(new)] == [
            (a.dtype, a.ndim) for a in copies(state)
        ]
        state = new
        n_slots = len(state.weights)
        assert len(state.z) == table.n_records
        assert ((state.z >= 0) & (state.z < n_slots)).all()
        assert state.theta.shape == state.impossible.shape == (OFFSETS[-1], n_slots)
        cells = model.impute(Stream(3, 1, sweep), state, data)
        assert cells.shape == incomplete.shape
        assert (cells == incomplete)[incomplete >= 0].all()
        assert not ZEROS.forbids(cells).any()
        imputed.append(cells)
        mass = info.values["impossible_mass"]
        first = ZEROS.diagram.order[0]
        tokens = state.impossible.sum(axis=1)
        n0 = tokens[OFFSETS[first] : OFFSETS[first + 1]].sum()
        by_key = np.add.reduceat(tokens, OFFSETS[:-1])[ZEROS.diagram.order]
        assert (np.diff(by_key) <= 0).all()
        np.testing.assert_allclose(mass, n0 / (n0 + model.n_possible(table.n_records)))
        masses.append(mass)
    assert np.std(masses) > 0.0
    assert all(not np.array_equal(*pair) for pair in itertools.pairwise(imputed))


@every_model
def test_probabilities_are_those_of_possible_individuals(name, options):
    """Impossible cells have none; a pattern has those of its completions.

    What does not depend on the normalising constant is exact; that constant is in the next test.
    """
    model: Any = build_model(name, options)
    data = model.prepare(random_table())
    state, _ = after(model, data, 5)
    where = Stream(3, 1, 5)
    p = model.cell_probabilities(where, state, data, CELLS)
    assert (p[~POSSIBLE] == 0.0).all()
    assert (p[POSSIBLE] > 0.0).all()
    got = model.cell_probabilities(where, state, data, PATTERNS)
    expected = [p[((row < 0) | (row == CELLS)).all(axis=1)].sum() for row in PATTERNS]
    np.testing.assert_allclose(got, np.minimum(expected, 1.0), rtol=1e-5)
    assert model.cell_probabilities(where, state, data, CELLS[:0]).shape == (0,)


@every_model
def test_probabilities_add_up(name, options):
    """To one: the possible cells one by one are as likely as the products that make them up."""
    model: Any = build_model(name, options)
    data = model.prepare(random_table())
    state, _ = after(model, data, 5)
    alphas = [1e-9, 0.3, 30.0] if name != "latent-class" and len(state.alpha) == 1 else [None]
    for alpha in alphas:
        given = state if alpha is None else state._replace(alpha=np.array([alpha]))
        p = model.cell_probabilities(Stream(3, 1, 5), given, data, CELLS)
        np.testing.assert_allclose(p.sum(), 1.0, rtol=2e-6)


@every_model
def test_probabilities_add_up_where_the_possible_ones_are_drawn(name, options, monkeypatch):
    """To one: exactly where all keys come from one component, on average otherwise.

    t test of the normalising constants of 60 sweeps; beside it a fifth of a per cent, which the
    rounding of draws per quadrature node may cost.
    """
    monkeypatch.setattr(new_record, "possible_products", lambda *_: None)
    model: Any = build_model(name, options)
    data = model.prepare(random_table())
    state, _ = after(model, data, 5)
    if name == "latent-class":
        p = model.cell_probabilities(Stream(3, 1, 5), state, data, CELLS)
        np.testing.assert_allclose(p.sum(), 1.0, rtol=1e-12)
        return
    if options.get("alpha") is None:
        alone = state._replace(alpha=np.array([1e-9]))
        p = model.cell_probabilities(Stream(3, 1, 5), alone, data, CELLS)
        np.testing.assert_allclose(p.sum(), 1.0, rtol=1e-5)
        # Many components in every record.
        state = state._replace(alpha=np.array([30.0]))
    sums = [
        model.cell_probabilities(Stream(3, 1, sweep), state, data, CELLS).sum()
        for sweep in range(60)
    ]
    constants = 1.0 / np.array(sums)
    assert 0.0 < constants.std() < 0.02
    error = constants.std(ddof=1) / np.sqrt(len(sums))
    off = max(abs(constants.mean() - 1.0) - (0.002 if "alpha" in options else 1e-5), 0.0)
    assert 2 * stats.t.sf(off / error, len(sums) - 1) > FALSE_ALARM


@every_model
def test_a_lost_normalising_constant_is_seen(name, options, monkeypatch):
    """The planted bug: probabilities of cells without truncation."""
    monkeypatch.setattr(new_record, "possible_mass", lambda *_: 1.0)
    right = truncation.chances
    monkeypatch.setattr(truncation, "chances", lambda *given: np.ones_like(right(*given)))
    with pytest.raises(AssertionError):
        test_probabilities_add_up(name, options)
    with pytest.raises(AssertionError):
        test_probabilities_add_up_where_the_possible_ones_are_drawn(name, options, monkeypatch)


@pytest.mark.statistical
@every_model
def test_simulated_individuals_are_possible_and_have_the_cell_probabilities(name, options):
    """Chi-square of 30,000 over the possible cells."""
    model: Any = build_model(name, options)
    data = model.prepare(random_table())
    state, _ = after(model, data, 20)
    n = 15_000
    draws = [model.simulate(Stream(3, 1, sweep), state, data, n) for sweep in (20, 21)]
    assert not np.array_equal(*draws)
    np.testing.assert_array_equal(draws[0], model.simulate(Stream(3, 1, 20), state, data, n))
    # The first of them do not depend on how many are wanted.
    few = model.simulate(Stream(3, 1, 20), state, data, 7)
    np.testing.assert_array_equal(few, draws[0][:7])
    drawn = np.concatenate(draws)
    assert drawn.shape == (2 * n, 4)
    assert drawn.dtype == np.int32
    assert not ZEROS.forbids(drawn).any()
    expected = model.cell_probabilities(Stream(3, 1, 20), state, data, CELLS[POSSIBLE])
    expected *= 2 * n / expected.sum()
    observed = np.bincount(np.ravel_multi_index(tuple(drawn.T), N_LEVELS), minlength=len(CELLS))
    observed = observed[POSSIBLE]
    common = expected >= 8.0
    f_obs = np.append(observed[common], observed[~common].sum())
    f_exp = np.append(expected[common], expected[~common].sum())
    keep = f_exp > 0.0
    assert stats.chisquare(f_obs[keep], f_exp[keep]).pvalue > FALSE_ALARM


@every_model
def test_predictive_probabilities_count_all_tokens(name, options):
    """They are those of the profiles' means, the imputed and the impossible tokens among them."""
    model: Any = build_model(name, options)
    data = model.prepare(random_table())
    records = getattr(data, "records", data)
    state, _ = after(model, data, 6)
    counts = state.impossible.astype(float) + state.profile[:, None]
    gaps = iter(state.imputed)
    for i, z in enumerate(np.broadcast_to(state.z, (len(state.z), 4))):
        row = records.rows[records.record_cell[i]]
        for r, k in zip(next(gaps) if (row < 0).any() else row, z, strict=True):
            counts[r, k] += 1
    for first, last in itertools.pairwise(OFFSETS):
        counts[first:last] /= counts[first:last].sum(axis=0)
    where = Stream(3, 1, 6)
    expected = model.cell_probabilities(
        where, state._replace(theta=counts.astype(np.float32)), data, PATTERNS
    )
    p = model.predictive_probabilities(where, state, data, PATTERNS)
    np.testing.assert_allclose(p, expected, rtol=1e-5)
    alone = model.predictive_probabilities(where, state, data, CELLS)
    assert (alone[~POSSIBLE] == 0.0).all()
    np.testing.assert_allclose(alone.sum(), 1.0, atol=0.03)


def rare_table(chance: float) -> tuple[Any, Diagram, np.ndarray, np.ndarray]:
    """Two components of equal profiles; a record is possible with probability `chance`."""
    keys = [Key.of_size("A", 2), Key.of_size("B", 2)]
    zeros = Zeros.of(["A == 0"], keys)
    table = CellTable.from_codes([[1, 0], [1, 1]], keys, 50, zeros=zeros.diagram)
    data = build_model("hdp", {}).prepare(table)
    theta = np.array([[1.0 - chance] * 8, [chance] * 8, [0.5] * 8, [0.5] * 8], np.float32)
    return data, zeros.diagram, theta, np.full(8, 1.0 / 8.0)


def simulate(which: str, sweep: int, target: int, chance: float, n_threads: int = 1) -> Any:
    data, diagram, theta, weights = rare_table(chance)
    given = chain_key(5, 0), sweep, diagram, data, target
    if which == "classes":
        return truncation.simulate_classes(*given, weights, theta, n_threads)
    return truncation.simulate_memberships(*given, np.array([1.4, 2.0]), weights, theta, n_threads)


@pytest.mark.statistical
@pytest.mark.parametrize("which", ["classes", "memberships"])
@pytest.mark.parametrize(("target", "chance"), [(3, 0.5), (64, 0.0625), (50, 0.9)])
def test_impossible_records_are_negative_binomial(which, target, chance):
    """Their number over 400 sweeps (chi-square in deciles): more than fit at first, few, none."""
    found = [simulate(which, sweep, target, chance) for sweep in range(400)]
    counts = np.array([len(one.rows) for one in found])
    law = stats.nbinom(target, chance)
    edges = np.unique(law.ppf(np.linspace(0.1, 0.9, 9)))
    expected = np.diff(np.concatenate(([0.0], law.cdf(edges), [1.0])))
    observed = np.bincount(np.searchsorted(edges, counts), minlength=len(expected))
    assert stats.chisquare(observed, 400 * expected).pvalue > FALSE_ALARM
    for one in found:
        # Of the beginnings only the key that makes them impossible is left.
        assert (one.rows[:, 0] == 0).all()
        assert (one.rows[:, 1] == -1).all()
        assert one.z.shape == (len(one.rows), 1 if which == "classes" else 2)
        assert one.z.dtype == np.int16
        assert one.alpha.shape == (0 if which == "classes" else len(one.rows),)
    assert_same(found[7], simulate(which, 7, target, chance, n_threads=3))


@pytest.mark.parametrize("which", ["classes", "memberships"])
def test_too_many_impossible_records_are_refused(which):
    with pytest.raises(SpecError, match="zeros_tempering"):
        simulate(which, 1, 64, 1e-6)


@pytest.mark.parametrize("which", ["classes", "memberships"])
def test_impossible_records_that_cannot_come(which):
    """No component has a probability above 0 of any impossible level."""
    found = simulate(which, 1, 64, 1.0)
    assert found.rows.shape == (0, 2)
    assert len(found.z) == 0


def test_the_prior_of_the_possible_cells_ends_the_simulation_early():
    """n - round(tempering n) possible ones, but one at least."""
    for tempering, n, expected in ((0.0, 50, 50), (0.02, 150, 147), (0.02, 10, 10), (0.9, 1, 1)):
        model: Any = build_model("hdp", {"zeros_tempering": tempering})
        assert model.n_possible(n) == expected
    for bad in (-0.1, 1, True, "0.1", float("nan")):
        for name in ("hdp", "gom", "latent-class"):
            with pytest.raises(SpecError, match="zeros_tempering"):
                build_model(name, {"zeros_tempering": bad})


@pytest.mark.parametrize("name", ["hdp", "gom", "latent-class"])
def test_the_default_of_that_prior_is_the_documented_one(name):
    """c is 2% of the records."""
    model: Any = build_model(name, {})
    assert model.zeros_tempering == 0.02
    assert model.n_possible(10_000) == 9_800
    documented = (DOCS / "models.md").read_text(encoding="utf-8")
    assert f"| `zeros_tempering` | {model.zeros_tempering}, or" in documented


@pytest.mark.parametrize("name", ["hdp", "gom", "latent-class"])
def test_ridges_condition_on_the_sample_and_the_mixed_records(name, monkeypatch):
    """What the moves are given, counted once more from the records.

    The impossible records of one component come with as many others, after the moves.
    """
    options = {"components": 5} if name == "gom" else {}
    model: Any = build_model(name, {"split_merge": False, **options})
    data = model.prepare(random_table())
    records = getattr(data, "records", data)
    state, _ = after(model, data, 6)
    if name != "latent-class":
        # Many mixed records.
        state = state._replace(alpha=np.array([3.0]))
    seen: dict[str, list[Any]] = {}

    def copied(value: Any) -> Any:
        if isinstance(value, tuple):
            parts = [copied(part) for part in value]
            return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
        return value.copy() if isinstance(value, np.ndarray) else value

    def spy(module: Any, function: str) -> None:
        right = getattr(module, function)

        def wrapped(*given: Any) -> Any:
            before = copied(given)
            found = right(*given)
            seen.setdefault(function, []).append((before, found))
            return found

        monkeypatch.setattr(module, function, wrapped)

    for function in ("along_ridges", "simulate_memberships", "simulate_classes", "completed"):
        spy(truncation, function)
    spy(mixed_membership.weight_kernels, "draw_tables")
    spy(type(model), "_refresh")
    model.step(Stream(3, 1, 7), state, data, 1)
    given = seen["along_ridges"][0][0]
    rows = records.rows[records.record_cell]
    rows[truncation.incomplete(records)] = seen["completed"][0][1]
    n = len(rows)
    z = np.broadcast_to(seen["_refresh"][0][0][3].z[:n], rows.shape)
    n_mixed = 0
    whole_z = z
    if name != "latent-class":
        mixed = seen["simulate_memberships"][0][1]
        n_mixed = len(mixed.rows)
        assert n_mixed > 10
        assert all(len(set(one)) > 1 for one in mixed.z.tolist())
        rows, whole_z = np.concatenate((rows, mixed.rows)), np.concatenate((z, mixed.z))
    counts = np.zeros(state.theta.shape, int)
    np.add.at(counts, (rows[rows >= 0], whole_z[rows >= 0]), 1)
    np.testing.assert_array_equal(given[4].counts, counts)
    tables = given[4].tables
    if name == "latent-class":
        np.testing.assert_array_equal(tables, np.bincount(z[:, 0], minlength=len(tables)))
    else:
        # Stacks: how many tokens have so many before them of their record and component.
        stacks = np.zeros((4, len(tables)), int)
        for one in whole_z.tolist():
            for j, k in enumerate(one):
                stacks[one[:j].count(k), k] += 1
        drawn = seen["draw_tables"][0][0]
        np.testing.assert_array_equal(drawn[3], stacks)
        assert drawn[2] == state.alpha[0]
        assert (tables >= stacks[0]).all()
        assert (tables <= stacks.sum(axis=0)).all()
    share, rest = (1.0, 5.0) if name == "gom" else (0.0, float(state.top[0]))
    prior = given[5]
    assert (prior.share, prior.total_exponent) == (share, tables.sum() + rest)
    assert given[4].n_seen == model.n_possible(n) + n_mixed
    assert prior.alpha == (0.0 if name == "latent-class" else state.alpha[0])
    np.testing.assert_array_equal(prior.profile, state.profile)
    np.testing.assert_array_equal(given[6], state.theta)
    np.testing.assert_array_equal(given[7], state.weights)
    theta, weights = seen["along_ridges"][0][1]
    together = weights
    if name != "latent-class":
        together = truncation.chances_of_one(weights, state.alpha, rows.shape[1])
    then = seen["simulate_classes"][0][0]
    assert then[4] == model.n_possible(n) + n_mixed
    np.testing.assert_array_equal(then[5], together)
    np.testing.assert_array_equal(then[6], theta)


@pytest.mark.parametrize("alpha", [1e-3, 0.4, 20.0])
def test_the_chance_of_a_possible_record_is_enumerated(alpha, monkeypatch):
    """Sum over all component vectors and possible cells; drawn, to five standard errors."""
    rng = np.random.default_rng(3)
    theta = [rng.dirichlet(np.ones(n), 3).T for n in N_LEVELS]
    weights = np.array([0.5, 0.3, 0.2])
    table = random_table()
    data = build_model("hdp", {}).prepare(table)
    record = new_record.NewRecord(
        np.concatenate(theta).astype(np.float32), weights, np.array([alpha]), np.ones(1),
        np.ones(3, bool),
    )  # fmt: skip
    ok = POSSIBLE.reshape(N_LEVELS)
    exact = sum(
        mass * naive.cell_law(theta, z)[ok].sum()
        for z, mass in naive.urn_law(4, weights, alpha).items()
    )
    key = chain_key(1, 0)
    np.testing.assert_allclose(new_record.possible_mass(key, 1, record, data), exact, rtol=2e-6)
    monkeypatch.setattr(new_record, "possible_products", lambda *_: None)
    mass = [new_record.possible_mass(key, sweep, record, data) for sweep in range(40)]
    error = np.std(mass, ddof=1) / np.sqrt(40)
    assert abs(np.mean(mass) - exact) < 5.0 * error + 1e-6
    assert np.std(mass) < 0.01 * exact


def test_possible_cells_that_are_too_many_products_are_drawn(monkeypatch):
    """The ways through the diagram are counted before any is laid out."""
    data = build_model("hdp", {}).prepare(random_table())
    found = completions.possible_products(data.zeros, data.offsets)
    assert found is not None
    covered = np.zeros(len(CELLS), int)
    for row in found.rows:
        inside = np.ones(len(CELLS), bool)
        for j in np.flatnonzero(row >= 0):
            levels = data.offsets[j] + CELLS[:, j]
            single = row[j] < data.offsets[-1]
            inside &= (
                levels == row[j] if single else found.sets[row[j] - data.offsets[-1], levels] > 0
            )
        covered += inside
    # Disjoint, and together what is possible.
    np.testing.assert_array_equal(covered, POSSIBLE.astype(int))
    monkeypatch.setattr(completions, "_MOST_PRODUCTS", len(found.rows) - 1)
    assert completions.possible_products(data.zeros, data.offsets) is None
    monkeypatch.setattr(completions, "_MOST_PATHS", 1)
    monkeypatch.setattr(completions, "completions", None)
    assert completions.possible_products(data.zeros, data.offsets) is None


@every_model
def test_everything_missing_and_everything_possible(name, options):
    """A file of which nothing is known; and one whose zeros forbid nothing that occurs."""
    model: Any = build_model(name, options)
    table = CellTable.from_codes([[-1] * 4] * 5, KEYS, 50, zeros=ZEROS.diagram)
    data = model.prepare(table)
    state, info = after(model, data, 5)
    assert not ZEROS.forbids(model.impute(Stream(3, 1, 5), state, data)).any()
    assert 0.0 <= info.values["impossible_mass"] < 1.0
