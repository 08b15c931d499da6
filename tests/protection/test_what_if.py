"""Recoded keys from the states of a fit, against enumeration of the cells they are made of."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

import unikat
from protection.test_protect import KEYS as COLUMNS
from protection.test_protect import people
from unikat.data.design import Sampling
from unikat.data.keys import Key
from unikat.data.margins import margin_cell
from unikat.data.sampling import telling_key
from unikat.data.table import CellTable, Margin
from unikat.errors import SpecError
from unikat.inference.backends import Workers
from unikat.inference.plan import Plan, StopRule
from unikat.models.auto import Auto
from unikat.models.base import Stream
from unikat.models.calibrated import Calibrated
from unikat.models.groups import Groups
from unikat.models.named import build_model
from unikat.protection import what_if
from unikat.protection.decided import told
from unikat.protection.recoded_law import recoded_exposure
from unikat.protection.recoding import Recoding, parse_recoding
from unikat.protection.what_if import Posterior
from unikat.risk.by_class import Look
from unikat.risk.exposure import BySampling, exposure_of, fitted_table
from unikat.risk.law import Others, others
from unikat.risk.limits import Measured
from unikat.risk.margins import ByMargins
from unikat.risk.measures import RiskMeasures
from unikat.spec.limits import Limit
from unikat.studies.auto import Execution
from unikat.studies.fit import Fit, fit
from unikat.zeros.zeros import Zeros

KEYS = tuple(Key.of_size(name, n) for name, n in (("A", 4), ("B", 3), ("C", 2), ("D", 3)))
N_LEVELS = tuple(key.n_levels for key in KEYS)
CELLS = np.array(list(itertools.product(*map(range, N_LEVELS))), np.int32)
ZEROS = Zeros.of(["A == 0 and B >= 1", "B == 2 and C == 1", "A >= 2 and D == 2"], KEYS)
MODELS: list[tuple[str, dict[str, Any]]] = [
    ("hdp", {}),
    ("hdp", {"alpha": "hierarchical"}),
    ("gom", {"components": 4}),
    ("latent-class", {}),
]
SHORT = Plan(n_chains=2, stop=StopRule(max_sweeps=120))
ALONE = Execution(workers=Workers(n_workers=1))


def sample_of(n: int = 150, *, zeros: bool = False, missing: float = 0.0) -> CellTable:
    rng = np.random.default_rng(1)
    group = rng.random((6 * n, 1)) < 0.5
    codes = (rng.random((6 * n, 4)) ** np.where(group, 0.4, 2.0) * N_LEVELS).astype(int)
    if zeros:
        codes = codes[~ZEROS.forbids(codes)]
    codes = codes[:n]
    codes[rng.random(codes.shape) < missing] = -1
    return CellTable.from_codes(
        codes, KEYS, population_size=12 * n, zeros=ZEROS.diagram if zeros else None
    )


def state_of(model: Any, table: CellTable) -> tuple[Any, Any]:
    data = model.prepare(table)
    state = model.init(Stream(3, 1, 0), data)
    for sweep in range(1, 16):
        state, _ = model.step(Stream(3, 1, sweep), state, data, 1)
    return state, data


@pytest.mark.parametrize("zeros", [False, True], ids=["all-possible", "zeros"])
@pytest.mark.parametrize(("name", "options"), MODELS)
def test_a_cell_of_groups_has_the_probability_of_its_cells(
    name: str, options: dict[str, Any], zeros: bool
) -> None:
    model = build_model(name, options)
    state, data = state_of(model, sample_of(zeros=zeros))
    stream = Stream(3, 1, 15)
    p = model.cell_probabilities(stream, state, data, CELLS)
    # Groups that overlap, an empty one, and keys that are left out.
    members = [
        np.array([[1, 1, 0, 0], [0, 0, 1, 1], [0, 1, 1, 0], [0, 0, 0, 0]], bool),
        np.array([[1, 0, 1], [0, 1, 0]], bool),
        np.eye(2, dtype=bool),
        np.array([[1, 0, 0], [0, 1, 1], [1, 1, 1]], bool),
    ]
    asked = np.array(list(itertools.product(*(range(-1, len(part)) for part in members))), np.int32)
    found = model.grouped_probabilities(stream, state, data, Groups.of(members), asked)
    expected = np.zeros(len(asked))
    for j, part in enumerate(members):
        inside = np.vstack((part, np.ones((1, part.shape[1]), bool)))[asked[:, j]][:, CELLS[:, j]]
        expected = inside if j == 0 else expected & inside
    np.testing.assert_allclose(found, expected @ p, rtol=2e-5, atol=1e-9)


def test_keys_as_they_are_have_the_risk_of_the_fit() -> None:
    table = sample_of()
    found = fit(build_model("latent-class", {}), table, plan=SHORT, execution=ALONE)
    posterior = Posterior.of(found, n_states=10)
    draws = posterior.look(parse_recoding(table, {}))
    assert draws is not None
    measures = RiskMeasures.of(table)
    for chain, states in enumerate(posterior.states):
        for place, (stream, state) in enumerate(states):
            own = measures.observe(stream, posterior.model, state, posterior.data, measures.start())
            for name in ("tau1", "tau2", "tau1_expected", "tau2_expected"):
                assert draws.scalars[name][chain, place] == pytest.approx(own[name], rel=1e-12)


@pytest.mark.parametrize("told", [False, True], ids=["appended", "told-by-a-key"])
@pytest.mark.parametrize("rules", [{"A": [[0, 2], [1, 3]]}, {"A": None}, {"D": None}])
def test_classes_of_a_design_keep_their_chances(told: bool, rules: dict[str, Any]) -> None:
    table = sample_of(240)
    a = table.cells[table.record_cell, 0]
    strata = (a >= 2) if told else np.arange(len(a)) % 3 == 0
    strata = strata.astype(np.int32)
    table = replace(
        table,
        population_size=1_200,
        sampling=Sampling(
            weights=np.where(strata == 0, 3.0, 8.0),
            strata=strata,
            sizes=np.array([3.0 * (strata == 0).sum(), 8.0 * (strata == 1).sum()]),
            from_weights=False,
        ),
    )
    assert table.sampling is not None
    assert (telling_key(table.sampling, table) is not None) == told
    model = build_model("latent-class", {})
    fitted = fitted_table(table)
    state, data = state_of(model, fitted)
    stream = Stream(3, 1, 15)
    recoding = parse_recoding(table, rules)
    coarse = recoding.table(table)
    posterior = Posterior(table=table, fitted=fitted, model=model, data=data, states=())
    seen = posterior.recoded(recoding, coarse)
    exposure, fine = exposure_of(coarse), exposure_of(table)
    assert isinstance(exposure, BySampling)
    found = exposure.chances(Look(stream, seen, state, data), coarse.cells)
    of_cells = fine.chances(Look(stream, model, state, data), CELLS)
    groups = recoding.codes(CELLS)
    expected = [of_cells.sample[(groups == cell).all(axis=1)].sum() for cell in coarse.cells]
    # Profiles are in single precision, so levels of a key that is left out sum to 1 about so well.
    np.testing.assert_allclose(found.sample, expected, rtol=1e-6)
    means = fine.means(of_cells)
    expected = [means[(groups == cell).all(axis=1)].sum() for cell in coarse.cells]
    np.testing.assert_allclose(exposure.means(found), expected, rtol=1e-6)


@pytest.mark.parametrize("zeros", [False, True])
def test_missing_keys_are_imputed_as_before_and_recoded(zeros: bool) -> None:
    table = sample_of(missing=0.15, zeros=zeros)
    model = build_model("hdp", {})
    state, data = state_of(model, table)
    recoding = parse_recoding(table, {"A": [[0, 1], [2, 3]], "B": None})
    coarse = recoding.table(table)
    posterior = Posterior(table=table, fitted=table, model=model, data=data, states=())
    seen = posterior.recoded(recoding, coarse)
    stream = Stream(3, 1, 15)
    found = seen.impute(stream, state, data)
    patterns = np.flatnonzero(coarse.incomplete)
    shown = coarse.cells[np.repeat(patterns, coarse.counts[patterns])]
    assert found.shape == shown.shape
    # What is known of a record stays, and nothing is left missing.
    np.testing.assert_array_equal(found[shown >= 0], shown[shown >= 0])
    assert (found >= 0).all()
    # Those that lacked nothing but the key that is left out are complete now.
    assert len(found) < (table.cells[table.record_cell] < 0).any(axis=1).sum()


def test_one_fit_agrees_with_fits_of_the_recoded_files() -> None:
    table = sample_of(400)
    plan = Plan(n_chains=2, stop=StopRule(max_sweeps=1500))
    model = build_model("latent-class", {})
    posterior = Posterior.of(fit(model, table, plan=plan, execution=ALONE), n_states=200)
    for rules in ({"A": [[0, 1], [2, 3]]}, {"B": None}, {"A": [[1, 2]], "D": None}):
        recoding = parse_recoding(table, rules)
        again = fit(model, recoding.table(table), plan=plan, execution=ALONE).estimate()
        found = posterior.what_if(rules)
        assert found.table.fingerprint == again.table.fingerprint
        spread = again.tau1.upper - again.tau1.lower
        assert abs(found.tau1.mean - again.tau1.mean) <= max(0.25 * spread, 0.3), rules


def test_numbers_do_not_depend_on_threads() -> None:
    table = sample_of(60)
    found = fit(build_model("hdp", {}), table, plan=SHORT, execution=ALONE)
    one, four = (Posterior.of(found, n_states=12, n_threads=n) for n in (1, 4))
    for n, posterior in ((1, one), (4, four)):
        draws = posterior.look(parse_recoding(table, {"D": [[0, 1]]}), n_threads=n)
        assert draws is not None
        if n == 1:
            first = draws
    for name, values in first.scalars.items():
        np.testing.assert_array_equal(values, draws.scalars[name])


def test_the_model_error_of_auto_is_in_the_interval() -> None:
    table = sample_of(100)
    found = fit(
        Auto(candidates=("latent-class",), evidence_seconds=1.0),
        table,
        plan=SHORT,
        execution=ALONE,
    )
    assert found.model.uncertainty == "calibrated"
    draws = Posterior.of(found, n_states=40).look(parse_recoding(table, {"B": [[0, 1]]}))
    assert draws is not None
    assert {"tau1", "tau1_model"} <= set(draws.scalars)
    assert (draws.scalars["tau1"] != draws.scalars["tau1_model"]).any()


def test_fits_that_do_not_tell_are_refused() -> None:
    table = sample_of()
    found = fit(build_model("loglinear", {}), table, execution=ALONE)
    with pytest.raises(SpecError, match="loglinear does not tell what recoded keys"):
        Posterior.of(found)
    census = replace(table, population_size=table.n_records)
    # Known exactly: nothing is drawn, and no model needed.
    exact = Posterior.of(Fit(table=census, model=build_model("hdp", {}), draws=None))
    assert exact.what_if({"A": None}).tau1.mean == exact.what_if({"A": None}).table.n_uniques


def test_risk_of_a_margin_is_the_mean_over_drawn_errors() -> None:
    table = sample_of(100)
    auto = Auto(candidates=("latent-class",), evidence_seconds=1.0)
    found = fit(auto, table, plan=SHORT, execution=ALONE)
    posterior = Posterior.of(found, n_states=4)
    assert isinstance(found.model, Calibrated)
    stream, state = posterior.states[0][0]
    p = found.model.cell_probabilities(stream, state, posterior.data, CELLS[:12])
    unobserved = float(table.n_units - table.n_records)
    look = Look(stream, found.model, state, posterior.data)
    exact = others(look, exposure_of(table), p, np.ones(len(p))).alone
    # The same cells many times over have as many draws of their errors.
    many = np.tile(p, 20_000)
    drawn = found.model.risk_probabilities(stream, posterior.data, many, np.ones(len(many)))
    mean = np.exp(-unobserved * drawn).reshape(-1, len(p)).mean(axis=0)
    np.testing.assert_allclose(exact, mean, atol=0.012)
    order = np.argsort(p)
    assert (np.diff(exact[order]) <= 0.0).all()
    # What is asked of one pattern does not depend on what is asked of others.
    risk = posterior.margin_risk(parse_recoding(table, {}))
    np.testing.assert_array_equal(risk(CELLS[:9])[::-1], risk(CELLS[:9][::-1]))
    wider = CELLS[:9].copy()
    wider[:, 1] = -1
    assert (risk(wider) <= risk(CELLS[:9])).all()


@pytest.mark.parametrize("model", ["latent-class", "auto"])
def test_search_and_page_have_the_same_numbers(model: str) -> None:
    """By all states and to the digit: r1 and the upper ends, with and without a model error."""
    table = replace(sample_of(70), population_size=200)
    chosen: Any = (
        Auto(candidates=("latent-class",), evidence_seconds=1.0)
        if model == "auto"
        else build_model(model, {})
    )
    posterior = Posterior.of(fit(chosen, table, plan=SHORT, execution=ALONE), n_states=60)
    recoding = parse_recoding(table, {"D": [[0, 1]]})
    whole = posterior.what_if(recoding)
    measured = Measured.of(whole)
    assert whole.tau1.mean > 0.5
    assert whole.tau2.upper >= whole.tau1.upper
    by_uniques = posterior.law(recoding, recoding.table(table), 60)
    assert by_uniques.tau1(0.95) == whole.tau1
    np.testing.assert_allclose(by_uniques.tau2(0.95).interval, whole.tau2.interval, rtol=1e-6)
    # Without the law of τ2, which limits of τ1 and r1 do not ask for.
    of_tau1 = posterior.law(recoding, recoding.table(table), 60, of_sums=False)
    np.testing.assert_allclose(of_tau1.means, by_uniques.means, rtol=1e-12)
    assert of_tau1.tau1(0.95).interval == whole.tau1.interval
    assert np.isnan(of_tau1.cumulants).all()
    for text in ("tau1 <= ", "tau2 <= ", "tau1_estimate <= ", "r1 <= ", "records(r1 > 0.2) <= "):
        number = measured.value(Limit.of(f"{text}0.5"))
        assert number is not None
        # By all states, as where few leave a doubt; a limit has as many digits as the number.
        limit = Limit.of(f"{text}{number:.15f}")
        _, whole_value = told(by_uniques, limit, 0.95, every=True)
        assert posterior.measured(recoding, limit, 0.95) == number
        assert whole_value.measure == pytest.approx(number, rel=1e-6), text
        assert whole_value.tau1 == pytest.approx(whole.tau1.mean, rel=1e-9)
        for factor in (0.3, 3.0):
            bound = min(
                max(round(factor * number), factor * number), 0.9 if "r1 <=" in text else 99
            )
            limit = Limit.of(f"{text}{bound:.10f}")
            assert limit.met(posterior.value(recoding, limit, 0.95).measure) == limit.met(number)


def test_plans_that_share_cells_have_the_same_numbers_for_them() -> None:
    """No number of a cell depends on which other cells are looked at."""
    table = replace(sample_of(70), population_size=200)
    auto = Auto(candidates=("latent-class",), evidence_seconds=1.0)
    posterior = Posterior.of(fit(auto, table, plan=SHORT, execution=ALONE), n_states=20)
    assert isinstance(posterior.model, Calibrated)
    recoding = parse_recoding(table, {})
    cells, n = table.cells[table.unique], int(table.unique.sum())
    some = np.random.default_rng(1).permutation(n)[: n // 2]
    every = posterior.moments(recoding, table, cells, np.ones(n), 20)
    fewer = posterior.moments(recoding, table, cells[some], np.ones(len(some)), 20)
    for one, other in zip(every, fewer, strict=True):
        for of_every, of_some in zip(one, other, strict=True):
            np.testing.assert_allclose(of_every[some], of_some, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_the_laws_are_those_of_the_drawn_populations(missing: float) -> None:
    """τ1 and τ2 of a fit with a model error: laws beside populations drawn state by state."""
    table = replace(sample_of(120, missing=missing), population_size=600)
    auto = Auto(candidates=("latent-class",), evidence_seconds=1.0)
    posterior = Posterior.of(fit(auto, table, plan=SHORT, execution=ALONE), n_states=400)
    recoding = parse_recoding(table, {})
    draws, found = posterior.look(recoding), posterior.what_if(recoding)
    assert draws is not None
    for name in ("tau1", "tau2", *(("tau1_shown", "tau2_shown") if missing else ())):
        summary, drawn = getattr(found, name), draws.retained(name).ravel()
        drawn = drawn[~np.isnan(drawn)]
        error = 5.0 * drawn.std() / np.sqrt(len(drawn))
        assert abs(summary.mean - drawn.mean()) <= error, name
        # Of 400 draws a share of 0.025 has a standard error of 0.008.
        assert (drawn < summary.lower - 1e-9).mean() <= 0.025 + 0.04, name
        assert (drawn > summary.upper + 1e-9).mean() <= 0.025 + 0.04, name
        assert (drawn <= summary.lower + 1.0).mean() >= 0.025 - 0.024, name
        assert (drawn >= summary.upper - 1.0).mean() >= 0.025 - 0.024, name


def test_the_smallest_combination_of_the_population_has_its_law() -> None:
    table = sample_of(150)
    model = build_model("latent-class", {})
    posterior = Posterior.of(fit(model, table, plan=SHORT, execution=ALONE), n_states=100)
    recoding = parse_recoding(table, {"C": None, "D": [[0, 1]]})
    recoded = recoding.table(table)
    groups, means = recoding.codes(CELLS), []
    for chain in posterior.states:
        for stream, state in chain:
            p = model.cell_probabilities(stream, state, posterior.data, CELLS)
            means.append([p[(groups == cell).all(axis=1)].sum() for cell in recoded.cells])
    others = np.array(means) * (table.n_units - table.n_records)

    def at_least(k: int) -> float:
        """Probability that every combination has k persons at least, over the states."""
        below = stats.poisson.cdf(k - recoded.counts - 1, others).sum(axis=1)
        return float(np.maximum(1.0 - below, 0.0).mean())

    for level in (0.2, 0.5, 0.9):
        found = posterior.measured(recoding, Limit.of("population_k >= 1"), level)
        tail = (1.0 - level) / 2.0
        # Binomial counts of 1,650 unobserved units are nearly Poisson.
        assert 1.0 - at_least(int(found)) <= tail + 1e-3
        assert 1.0 - at_least(int(found) + 1) >= tail - 1e-3
        for bound in (1, int(found), int(found) + 1, 3 * int(found)):
            limit = Limit.of(f"population_k >= {bound}")
            quick = posterior.value(recoding, limit, level).measure
            assert limit.met(quick) == (found >= bound)


def test_two_combinations_share_the_population() -> None:
    """The smaller of two halves has at most half of the persons."""
    table = sample_of(150)
    posterior = Posterior.of(
        fit(build_model("latent-class", {}), table, plan=SHORT, execution=ALONE), n_states=100
    )
    recoding = parse_recoding(table, {"A": None, "B": None, "D": None})
    assert len(recoding.table(table).cells) == 2
    found = posterior.measured(recoding, Limit.of("population_k >= 1"), 0.95)
    assert found <= table.n_units / 2


def test_no_more_of_the_smallest_combination_is_computed_than_a_limit_asks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = sample_of(150)
    posterior = Posterior.of(
        fit(build_model("latent-class", {}), table, plan=SHORT, execution=ALONE), n_states=40
    )
    asked: list[int] = []
    law = what_if.smallest_at_least

    def counted(one: Others, counts: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
        asked.append(len(thresholds))
        return law(one, counts, thresholds)

    monkeypatch.setattr(what_if, "smallest_at_least", counted)
    coarse = parse_recoding(table, {"A": None, "B": None, "D": None})
    least = int(recoding_smallest(table, coarse))
    assert posterior.value(coarse, Limit.of(f"population_k >= {least}"), 0.95).measure == least
    assert not asked
    posterior.value(coarse, Limit.of(f"population_k >= {least + 50}"), 0.95)
    assert set(asked) == {1}
    # The number itself, among 1,800: some probabilities for each state.
    asked.clear()
    posterior.measured(coarse, Limit.of("population_k >= 2"), 0.95)
    assert sum(asked) <= 40 * 40


def recoding_smallest(table: CellTable, recoding: Recoding) -> float:
    return float(recoding.table(table).matches.min())


def test_risk_of_a_margin_without_an_error_is_that_of_its_probability() -> None:
    table = sample_of(100)
    model = build_model("latent-class", {})
    posterior = Posterior.of(fit(model, table, plan=SHORT, execution=ALONE), n_states=6)
    patterns = np.array([[0, -1, 1, -1], [3, 2, -1, -1], [-1, 1, 0, 2]], np.int32)
    inside = [((patterns[i] < 0) | (patterns[i] == CELLS)).all(axis=1) for i in range(3)]
    unobserved = table.n_units - table.n_records
    expected = np.mean(
        [
            (1.0 - np.array(inside) @ model.cell_probabilities(*at, posterior.data, CELLS))
            ** unobserved
            for chain in posterior.states
            for at in chain
        ],
        axis=0,
    )
    found = posterior.margin_risk(parse_recoding(table, {}))(patterns)
    np.testing.assert_allclose(found, expected, rtol=1e-3)


def with_known_margins(table: CellTable, *keys: tuple[int, ...], others: int = 240) -> CellTable:
    """With margins of a population of which the table is the first records."""
    rng = np.random.default_rng(5)
    more = CELLS[rng.choice(len(CELLS), others)]
    every = np.concatenate((table.cells[table.record_cell], more))
    margins = []
    for own in keys:
        place = margin_cell(every, own, N_LEVELS)
        counts = np.bincount(place, minlength=math.prod(N_LEVELS[j] for j in own))
        margins.append(Margin(name="census", keys=own, counts=counts.astype(np.int64)))
    return replace(table, population_size=len(every), margins=tuple(margins))


@pytest.mark.parametrize("zeros", [False, True], ids=["all-possible", "zeros"])
@pytest.mark.parametrize("known", [((0,),), ((0, 3),), ((0,), (1, 3)), ((0, 1), (1, 2))])
@pytest.mark.parametrize(
    "rules",
    [
        {"A": [[0, 2], [1, 3]]},
        {"A": None, "D": [[0, 1]]},
        {"C": None},
        {"A": None, "B": None, "D": None},
    ],
)
def test_known_margins_are_those_of_the_keys_as_they_were(
    rules: dict[str, Any], known: tuple[tuple[int, ...], ...], zeros: bool
) -> None:
    table = with_known_margins(sample_of(60, zeros=zeros), *known)
    model = build_model("latent-class", {})
    state, data = state_of(model, table)
    stream = Stream(3, 1, 15)
    recoding = parse_recoding(table, rules)
    posterior = Posterior(table=table, fitted=table, model=model, data=data, states=())
    coarse = recoding.table(table)
    seen = posterior.recoded(recoding, coarse)
    fine, exposure = exposure_of(table), recoded_exposure(table, recoding, coarse)
    assert isinstance(fine, ByMargins)
    of_cells = fine.chances(Look(stream, model, state, data), CELLS)
    found = exposure.chances(Look(stream, seen, state, data), coarse.cells)
    groups = recoding.codes(CELLS)
    inside = np.array([(groups == cell).all(axis=1) for cell in coarse.cells])
    for of in ("means", "probabilities"):
        expected = inside @ getattr(fine, of)(of_cells)
        np.testing.assert_allclose(getattr(exposure, of)(found), expected, rtol=2e-5, atol=1e-9)
    # Within a class unobserved units are multinomial over the cells; the classes are independent.
    given = np.zeros((len(CELLS), len(fine.sizes)))
    np.add.at(given, (np.arange(len(CELLS))[:, None], of_cells.of), of_cells.p)
    alone = np.prod((1.0 - np.minimum(inside @ given, 1.0)) ** fine.unobserved, axis=1)
    np.testing.assert_allclose(exposure.alone(found, False), alone, rtol=1e-3, atol=1e-9)
    # A fit of the recoded file has the margins of its keys.
    for margin in coarse.margins:
        assert margin.total == table.n_units
        places = margin_cell(coarse.cells, margin.keys, coarse.n_levels)
        assert (np.bincount(places, coarse.counts, len(margin.counts)) <= margin.counts).all()


@pytest.mark.slow
def test_what_if_with_known_margins_agrees_with_a_fit_of_the_recoded_file() -> None:
    table = with_known_margins(sample_of(70), (0, 3), (1,), others=70)
    plan = Plan(n_chains=2, stop=StopRule(max_sweeps=800))
    model = build_model("latent-class", {})
    fitted = fit(model, table, plan=plan, execution=ALONE)
    posterior = Posterior.of(fitted, n_states=200)
    rules = {"D": [[0, 1]]}
    recoding = parse_recoding(table, rules)
    again = fit(model, recoding.table(table), plan=plan, execution=ALONE).estimate()
    found = posterior.what_if(rules)
    assert again.tau1.mean > 1.0
    assert abs(found.tau1.mean - again.tau1.mean) <= 0.25 * (again.tau1.upper - again.tau1.lower)
    as_it_is, own = posterior.what_if({}), fitted.estimate()
    assert abs(as_it_is.tau2.mean - own.tau2.mean) <= 0.1 * (own.tau2.upper - own.tau2.lower)
    assert found.tau1.mean == pytest.approx(found.tau1_expected.mean, rel=1e-9)
    law = posterior.law(recoding, recoding.table(table), 200)
    assert law.tau1(0.95).mean == pytest.approx(found.tau1.mean, rel=1e-9)


@pytest.mark.slow
def test_few_states_reject_no_plan_that_all_states_accept() -> None:
    """A plan that few states accept is looked at by all before it is taken: they may err there."""
    frame = people(250)
    result = unikat.assess(
        frame, keys=COLUMNS, population_size=20_000, model="latent-class", max_sweeps=200, chains=2,
        workers=1, progress=False,
    )  # fmt: skip
    assert result.estimate is not None
    posterior, table = result._posterior, result.estimate.table
    seen = set()
    rules: list[dict[str, Any]] = [
        {"age": f"width({width})", **dict.fromkeys(names)}
        for width in (2, 5, 10, 40)
        for names in ((), ("education",), ("region", "education"))
    ]
    for rule in rules:
        recoding = parse_recoding(table, rule)
        whole = posterior.what_if(recoding)
        # At the upper end itself, just below it, and around it.
        for bound in {whole.tau1.upper, whole.tau1.upper - 1.0, 0.0, 1.0, 5.0, 20.0}:
            limit = Limit("tau1", bound)
            quick = posterior.value(recoding, limit, 0.95)
            if limit.met(whole.tau1.upper):
                assert limit.met(quick.measure), (rule, bound)
            seen.add((limit.met(quick.measure), whole.tau1.upper < whole.tau1.mean))
    # The upper end of an interval is below the mean where τ1 is nearly always 0.
    assert {(True, True), (True, False), (False, False)} <= seen
