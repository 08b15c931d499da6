"""The Dirichlet-multinomial model: its laws from the equations, its sampler, and planted bugs."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy import integrate, special, stats

from models.contract import after, random_table
from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.models.base import Stream
from unikat.models.cells import dirichlet
from unikat.models.cells.dirichlet import DirichletData, DirichletMultinomial
from unikat.models.cells.superpopulation import Superpopulation1
from unikat.models.named import build_model
from unikat.studies.fit import fit

LEVELS = (2, 3)
CELLS = np.array(list(itertools.product(*map(range, LEVELS))), np.int32)
KEYS = [Key.of_size(f"K{j}", n) for j, n in enumerate(LEVELS)]
BASE = np.array([0.3, 0.2, 0.1, 0.1, 0.1, 0.2])


def table_of(counts: Any, missing: Any = (), population_size: int = 400) -> CellTable:
    codes = np.concatenate((np.repeat(CELLS, counts, axis=0), np.reshape(missing, (-1, 2))))
    return CellTable.from_codes(codes.astype(int), KEYS, population_size)


def log_likelihood(a: float, counts: Any, base: Any) -> float:
    """Log P(f | A) of a sequence of records, from the equation."""
    n, gammaln = float(np.sum(counts)), special.gammaln
    cells = gammaln(a * base + counts) - gammaln(a * base)
    return float(gammaln(a) - gammaln(a + n) + cells.sum())


def test_the_density_of_the_concentration_is_that_of_the_equation() -> None:
    counts = np.array([7, 0, 1, 1, 3, 0])
    seen = counts > 0
    places = np.linspace(-6.0, 6.0, 25)
    ours = [dirichlet.log_posterior(x, counts[seen] * 1.0, BASE[seen], 12.0) for x in places]
    # Of log(A / n) where n / (n + A) is uniform: the logistic distribution.
    theirs = [
        log_likelihood(12.0 * math.exp(x), counts, BASE) + stats.logistic.logpdf(x) for x in places
    ]
    np.testing.assert_allclose(
        np.subtract(ours, ours[0]), np.subtract(theirs, theirs[0]), rtol=1e-9
    )
    # Far away the likelihood is that of the base measure and keeps its digits; then it ends.
    far = dirichlet.log_posterior(39.0, counts[seen] * 1.0, BASE[seen], 12.0)
    near = dirichlet.log_posterior(30.0, counts[seen] * 1.0, BASE[seen], 12.0)
    assert far - near == pytest.approx(-9.0, abs=1e-6)
    assert dirichlet.log_posterior(41.0, counts[seen] * 1.0, BASE[seen], 12.0) == -math.inf


@pytest.mark.statistical
def test_a_tiny_table_has_the_enumerated_posterior() -> None:
    """Six records, two of them with a missing key; means of w, counts and p (1e-6 each)."""
    table = table_of([2, 0, 0, 1, 1, 0], [[-1, 2], [0, -1]])
    model = DirichletMultinomial(terms="none")
    data = model.prepare(table)
    n, sizes, weighted = 6, [], []
    for one, other in itertools.product((2, 5), (0, 1, 2)):
        counts = data.known.copy()
        counts[one] += 1
        counts[other] += 1

        def weight(w: float, power: int, counts: Any = counts) -> float:
            a = n * (1.0 - w) / w
            return w**power * math.exp(log_likelihood(a, counts, data.base))

        parts = [integrate.quad(weight, 1e-9, 1.0 - 1e-9, args=(k,))[0] for k in (0, 1)]
        weighted.append(parts)
        sizes.append(counts)
    total = sum(part[0] for part in weighted)
    mean_w = sum(part[1] for part in weighted) / total
    mean_counts = sum(part[0] * c for part, c in zip(weighted, sizes, strict=True)) / total
    # E(p | w, f) = w f / n + (1 - w) q.
    mean_p = (
        sum(
            part[1] * c / n + (part[0] - part[1]) * data.base
            for part, c in zip(weighted, sizes, strict=True)
        )
        / total
    )
    draws = []
    for chain in range(4):
        state = model.init(Stream(8, chain, 0), data)
        for sweep in range(1, 5_001):
            state, _ = model.step(Stream(8, chain, sweep), state, data, 1)
            if sweep > 100:
                w = n / (n + state.concentration)
                draws.append([w, *state.counts, *state.probabilities])
    batches = np.array(draws).reshape(70, -1, 13).mean(axis=1)
    error = batches.std(axis=0, ddof=1) / math.sqrt(len(batches)) + 1e-12
    z = (batches.mean(axis=0) - [mean_w, *mean_counts, *mean_p]) / error
    assert (2 * stats.t.sf(np.abs(z), 69) > 1e-6).all(), z


def joint_draws(model: DirichletMultinomial, seed: int, n_runs: int = 3_000) -> dict[str, float]:
    """P-values that a sweep keeps the joint law of A, p and the data (Geweke).

    Every run starts from the prior, data included: A, p, 8 records of which some lack the first
    key. After three sweeps the law of w is still uniform, and p and the counts have the moments of
    fresh draws.
    """
    rng = np.random.default_rng(seed)
    n = 8
    grid = model.prepare(table_of([1] * 6)).grid
    patterns = np.array([[-1, 0], [-1, 1], [-1, 2]], np.int32)

    def drawn() -> tuple[Any, ...]:
        w = rng.uniform(0.02, 0.98) if model.concentration is None else 0.5
        a = n * (1.0 - w) / w if model.concentration is None else model.concentration
        p = rng.dirichlet(a * BASE)
        counts = rng.multinomial(n, p)
        lost = rng.binomial(counts, 0.3)
        return a, np.maximum(p, 1e-300), counts, lost

    before, after_ = [], []
    for run in range(n_runs):
        before.append(measures(n, *drawn()[:3]))
        a, p, counts, lost = drawn()
        times = np.array([lost[[j, j + 3]].sum() for j in range(3)])
        data = DirichletData(grid, BASE, counts - lost, patterns, times, n)
        state = dirichlet.DirichletState(counts, a, p)
        for sweep in (1, 2, 3):
            state, _ = model.step(Stream(seed, run, sweep), state, data, 1)
        after_.append(measures(n, state.concentration, state.probabilities, state.counts))
    old, new = np.array(before), np.array(after_)
    names = ("w", "p", "p squared", "counts", "both", "largest")
    return {
        name: stats.ks_2samp(old[:, i], new[:, i]).pvalue
        if i < 3
        else stats.ttest_ind(old[:, i], new[:, i], equal_var=False).pvalue
        for i, name in enumerate(names)
    }


def measures(n: int, a: float, p: Any, counts: Any) -> list[float]:
    return [n / (n + a), p[0], (p**2).sum(), (counts**2).sum(), (p * counts).sum(), counts.max()]


PRIOR = dirichlet.log_posterior


@pytest.fixture
def bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The prior of w cut to (0.02, 0.98), as `joint_draws` has it, so that p has moments."""
    bound = math.log(0.98 / 0.02)

    def cut(position: float, counts: Any, base: Any, n: float) -> float:
        return PRIOR(position, counts, base, n) if abs(position) < bound else -math.inf

    monkeypatch.setattr(dirichlet, "log_posterior", cut)


@pytest.mark.statistical
@pytest.mark.parametrize("concentration", [None, 5.0])
def test_the_sampler_keeps_the_joint_law(bounded: None, concentration: float | None) -> None:
    """False alarm 1e-5 each."""
    p = joint_draws(DirichletMultinomial(terms="none", concentration=concentration), 1)
    if concentration is not None:
        del p["w"]
    assert min(p.values()) > 1e-5 / len(p), p


@pytest.mark.statistical
@pytest.mark.parametrize("bug", ["prior", "likelihood", "counts"])
def test_planted_bugs_are_caught(bounded: None, monkeypatch: pytest.MonkeyPatch, bug: str) -> None:
    right = dirichlet.log_posterior
    if bug == "prior":
        # Flat in log A: the Jacobian is forgotten.
        monkeypatch.setattr(
            dirichlet, "log_posterior",
            lambda x, f, q, n: right(x, f, q, n) - stats.logistic.logpdf(x),
        )  # fmt: skip
    elif bug == "likelihood":
        # One record more than there is.
        monkeypatch.setattr(
            dirichlet, "log_posterior", lambda x, f, q, n: right(x, f + 1.0, q, n + len(f))
        )
    else:
        # Incomplete records are counted in no cell when p is drawn.
        monkeypatch.setattr(
            DirichletMultinomial, "_completed", lambda self, stream, data, mass: data.known.copy()
        )
    p = joint_draws(DirichletMultinomial(terms="none"), 2)
    assert min(p.values()) < 1e-7, p


@pytest.mark.statistical
def test_risk_of_a_sample_unique_is_beta_binomial() -> None:
    """Given A, F - f is beta-binomial: P(F = 1) and E(1/F) of 20,000 states (1e-6 each)."""
    table = table_of([4, 1, 0, 1, 2, 1], population_size=60)
    model = DirichletMultinomial(terms="none", concentration=6.0)
    data = model.prepare(table)
    n, m, a = 9, 51, 2.0
    law, more = stats.betabinom(m, a, 6.0 + n - a), np.arange(m + 1)
    state = model.init(Stream(3, 0, 0), data)
    draws = []
    for sweep in range(1, 20_001):
        state, _ = model.step(Stream(3, 0, sweep), state, data, 1)
        p = model.cell_probabilities(Stream(3, 0, sweep), state, data, table.cells[table.unique])
        chances = stats.binom.pmf(more, m, p[0])
        draws.append([*(1.0 - p) ** m, (chances / (1.0 + more)).sum()])
    found = np.array(draws)
    expected = [*[law.pmf(0)] * 3, (law.pmf(more) / (1.0 + more)).sum()]
    z = (found.mean(axis=0) - expected) / (found.std(axis=0) / math.sqrt(len(found)))
    assert (2 * stats.norm.sf(np.abs(z)) > 1e-6).all(), z


@pytest.mark.statistical
def test_risks_are_those_of_a_superpopulation_with_one_sampling_rate() -> None:
    """Gamma rates of cells over their sum are Dirichlet: K alpha is the concentration."""
    rng = np.random.default_rng(4)
    cells = np.array(list(itertools.product(range(8), range(8), range(8))))
    keys = [Key.of_size(f"K{j}", 8) for j in range(3)]
    counts = rng.multinomial(500, rng.dirichlet(np.full(512, 0.5)))
    table = CellTable.from_codes(np.repeat(cells, counts, axis=0), keys, 5_000)
    own = fit(DirichletMultinomial(terms="none", concentration=256.0), table, seed=1).estimate()
    other = Superpopulation1(alpha=0.5, a=1_000.0, b=9_000.0)
    theirs = fit(other, table, seed=1).estimate()
    assert own.tau1_expected.mean == pytest.approx(theirs.tau1_expected.mean, rel=0.05)
    assert own.tau2_expected.mean == pytest.approx(theirs.tau2_expected.mean, rel=0.05)


def test_the_base_is_the_fit_of_its_terms_and_a_large_concentration_leaves_it() -> None:
    table = random_table(missing=0.0)
    cells = np.array(list(itertools.product(range(2), range(3), range(2), range(4))), np.int32)
    model: Any = DirichletMultinomial(terms="K0:K1 + K2", concentration=1e9)
    data = model.prepare(table)
    state = after(model, data, 3)
    where = Stream(1, 0, 4)
    loglinear: Any = build_model("loglinear", {"terms": "K0:K1 + K2", "tolerance": 1e-6})
    fitted = loglinear.prepare(table)
    mean = loglinear.predictive_probabilities(where, loglinear.init(where, fitted), fitted, cells)
    np.testing.assert_allclose(
        model.predictive_probabilities(where, state, data, cells), mean, rtol=1e-5, atol=1e-7
    )
    np.testing.assert_allclose(
        model.cell_probabilities(where, state, data, cells), mean, rtol=0.01, atol=1e-6
    )
    # A small one leaves the records.
    model = DirichletMultinomial(concentration=0.001)
    data = model.prepare(table)
    p = model.predictive_probabilities(where, after(model, data, 3), data, table.cells)
    np.testing.assert_allclose(p, table.counts / table.n_records, rtol=1e-4)


def test_a_state_of_another_table_does_not_fit() -> None:
    model = DirichletMultinomial()
    data = model.prepare(table_of([2, 0, 0, 1, 1, 1], [[-1, 2]]))
    state = model.init(Stream(1, 0, 0), data)
    assert model.state_fits(state, data, state)
    for bad in (
        {"counts": state.counts + 1},
        {"counts": state.counts[:-1]},
        {"concentration": -1.0},
        {"probabilities": np.zeros(6)},
    ):
        assert not model.state_fits(state._replace(**bad), data, state)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"terms": "select"}, "terms is 'select'; write none, independence"),
        ({"terms": " "}, "terms"),
        ({"concentration": 0.0}, "concentration is 0"),
        ({"concentration": "learned"}, "concentration is 'learned'"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        build_model("dirichlet-multinomial", options)


def test_unknown_keys_and_too_many_cells_are_refused() -> None:
    with pytest.raises(SpecError, match="AGE"):
        DirichletMultinomial(terms="AGE:K1").check_keys(["K0", "K1"])
    DirichletMultinomial(terms="none").check_keys(["K0", "K1"])
    keys = [Key.of_size(f"K{j}", 60) for j in range(4)]
    table = CellTable.from_codes([[0, 0, 0, 0]], keys, 100)
    with pytest.raises(SpecError, match="dirichlet-multinomial lists them all"):
        DirichletMultinomial().prepare(table)
