"""What a published file shows of incomplete records: by enumeration, by simulation, by hand."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

from unikat.data.design import Sampling
from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.inference.backends import Workers
from unikat.inference.plan import Plan, StopRule
from unikat.models.base import Stream
from unikat.models.calibrated import OVERDISPERSION, SHIFTS, Calibrated
from unikat.models.catalogue import MODELS
from unikat.models.loglinear.conditional import LogLinear
from unikat.models.mixtures.latent_class import LatentClass
from unikat.models.named import build_model
from unikat.risk import shown
from unikat.risk.bootstrap import Bootstrapped
from unikat.risk.by_class import Look
from unikat.risk.estimate import RecordRisk, _record_risk
from unikat.risk.exposure import views
from unikat.risk.measures import RiskMeasures
from unikat.risk.observe import observer_for
from unikat.studies.auto import Execution
from unikat.studies.fit import fit

from .toy_model import Toy, ToyState

LEVELS = (2, 3)
KEYS = [Key.of_size(f"K{j}", n) for j, n in enumerate(LEVELS)]
CODES = [[0, 0], [0, 1], [1, 2], [-1, 2], [0, -1], [1, -1]]
P = np.array([[0.30, 0.05, 0.10], [0.25, 0.10, 0.20]])
N = 8


@dataclass(frozen=True, kw_only=True)
class PoissonToy(Toy):
    population: ClassVar[str] = "poisson"


def agrees(code: Any, cell: Any) -> bool:
    return all(x in (-1, y) for x, y in zip(code, cell, strict=True))


def enumerated(codes: Any, size: int, p: Any) -> Any:
    """r1 and r2 of what is shown of every record, by all completions and all unobserved units.

    And tau1, tau2: those of records that are alone in the completed sample.
    """
    cells = list(itertools.product(*map(range, p.shape)))
    fitting = [[c for c in cells if agrees(code, c)] for code in codes]
    risk, taus = np.zeros((len(codes), 2)), np.zeros(2)
    for filled in itertools.product(*fitting):
        weight = math.prod(
            p[c] / sum(p[x] for x in fit) for c, fit in zip(filled, fitting, strict=True)
        )
        here = np.array([sum(agrees(code, c) for c in filled) for code in codes])
        for others in itertools.product(cells, repeat=size - len(codes)):
            chance = weight * math.prod(p[c] for c in others)
            units = here + np.array([sum(agrees(code, c) for c in others) for code in codes])
            risk += chance * np.stack((units == 1, 1.0 / units), axis=1)
            taus += chance * np.array([(units == 1).sum(), (1.0 / units)[here == 1].sum()])
    return risk, taus


def told(measures: RiskMeasures, table: CellTable, model: Any, p: Any, n: int) -> Any:
    """Means over n draws by a law that is known: records, and draws of the scalars."""
    data, totals = model.prepare(table), measures.start()
    drawn = [
        measures.observe(Stream(11, 0, sweep), model, ToyState(p), data, totals)
        for sweep in range(1, n + 1)
    ]
    scalars = {name: np.array([draw[name] for draw in drawn]) for name in shown.SHOWN}
    return _record_risk(totals, table, 0.95), scalars


@pytest.mark.statistical
@pytest.mark.parametrize("codes", [CODES, [*CODES, [0, -1]]], ids=["single", "twice"])
def test_shown_risks_are_those_of_an_enumeration(codes: Any) -> None:
    """Means of 6,000 draws within 5 standard errors of them (a false alarm in 10^5 runs).

    A margin that leaves out who else was imputed, and the risk of the complete combination, are
    refuted.
    """
    table = CellTable.from_codes(codes, KEYS, N)
    n = 6000
    found, scalars = told(RiskMeasures.of(table), table, Toy(), P, n)
    risk, taus = enumerated(codes, N, P)
    for name, column in (("r1_shown", 0), ("r2_shown", 1)):
        means = getattr(found, name)[table.record_cell]
        np.testing.assert_allclose(means, risk[:, column], atol=5.0 * 0.5 / math.sqrt(n))
    for name, truth in zip(shown.SHOWN, taus, strict=True):
        error = scalars[name].std() / math.sqrt(n)
        assert abs(scalars[name].mean() - truth) < 5.0 * error, name
    gaps = table.incomplete[table.record_cell]
    # The complete combination is unique far more often than what is shown of it.
    assert (found.r1[table.record_cell] - risk[:, 0])[gaps].max() > 0.2
    np.testing.assert_array_equal(found.r1_shown[~table.incomplete], found.r1[~table.incomplete])
    np.testing.assert_array_equal(found.r2_shown[~table.incomplete], found.r2[~table.incomplete])
    # All records that may agree do where missing keys are wildcards: a lower bound.
    any_ = replace(table, missing="wildcard")
    model, lower = Toy(), RiskMeasures.of(any_)
    totals = lower.start()
    lower.observe(Stream(1, 0, 1), model, ToyState(P), model.prepare(table), totals)
    least = np.where(any_.unique, totals.r1 / np.maximum(totals.weight, 1.0), 0.0)
    possible = ~np.isnan(found.r1_shown)
    assert (least[possible] <= found.r1_shown[possible] + 0.02).all()
    assert (least[possible] < found.r1_shown[possible] - 0.05).any()
    # A mistake that is made on purpose is seen: other imputed records are not looked for.
    alone = RiskMeasures.of(table)
    sums = shown.summed
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shown, "summed", lambda *args: np.minimum(sums(*args), 1.0))
        wrong, _ = told(alone, table, Toy(), P, 600)
    assert np.abs(wrong.r1_shown[table.record_cell] - risk[:, 0]).max() > 0.1


@pytest.mark.parametrize("model", [Toy(), PoissonToy()])
def test_shown_risks_by_hand(model: Any) -> None:
    """The margin of a record that nobody joins has the chance of its cells together."""
    table = CellTable.from_codes([[0, 0], [0, 0], [1, -1]], KEYS, 23)
    found, _ = told(RiskMeasures.of(table), table, model, P, 3)
    margin, rest = P[1].sum(), 20
    r1, r2 = (1.0 - margin) ** rest, (1.0 - (1.0 - margin) ** (rest + 1)) / ((rest + 1) * margin)
    if model.population == "poisson":
        r1, r2 = math.exp(-rest * margin), -math.expm1(-rest * margin) / (rest * margin)
    (gap,) = np.flatnonzero(table.incomplete)
    np.testing.assert_allclose([found.r1_shown[gap], found.r2_shown[gap]], [r1, r2], rtol=1e-9)
    assert found.r1[gap] > 2.0 * r1
    assert found.r1_shown_lower[gap] <= found.r1_shown[gap] <= found.r1_shown_upper[gap]


FOUR = (2, 4, 3, 5)


def table_of(kind: str) -> CellTable:
    """60 records of four keys with gaps, drawn by equal chances or from three strata."""
    rng = np.random.default_rng(3)
    codes = np.column_stack([rng.choice(n, 60, p=rng.dirichlet(np.ones(n))) for n in FOUR])
    if kind != "complete":
        codes[rng.random(codes.shape) < 0.08] = -1
    missing: Any = kind if kind in ("wildcard", "level") else "integrate"
    if kind == "level":
        codes = codes + 1
        keys = [Key.of_size(f"K{j}", n + 1) for j, n in enumerate(FOUR)]
    else:
        keys = [Key.of_size(f"K{j}", n) for j, n in enumerate(FOUR)]
    table = CellTable.from_codes(codes, keys, 1500, missing)
    if kind != "strata":
        return table
    strata = rng.integers(3, size=60).astype(np.int32)
    sizes = np.array([800.0, 500.0, 200.0])
    weights = (sizes / np.bincount(strata))[strata]
    return replace(
        table, sampling=Sampling(weights=weights, strata=strata, sizes=sizes, from_weights=False)
    )


def model_of(name: str) -> Any:
    if name != "auto":
        return build_model(name, {})
    weights = np.zeros((len(OVERDISPERSION), len(SHIFTS)))
    weights[10:16, 8:18] = 1.0
    return Calibrated(wrapped=LatentClass(), weights=tuple(weights.ravel()), asked=None)


def observed(name: str, kind: str) -> tuple[RecordRisk, CellTable, list[Any]]:
    """Twelve sweeps of four chains."""
    model, table = model_of(name), table_of(kind)
    fitted, at_risk = views(model, table)
    measures = observer_for(model, RiskMeasures.of(at_risk), at_risk)
    data, totals = model.prepare(fitted), measures.start()
    drawn = []
    for chain in range(4):
        state = model.init(Stream(7, chain, 0), data)
        for sweep in range(1, 13):
            stream = Stream(7, chain, sweep)
            state = model.step(stream, state, data, 1)[0]
            drawn.append(measures.observe(stream, model, state, data, totals))
    return _record_risk(totals, at_risk, 0.95), at_risk, drawn


@pytest.mark.parametrize("kind", ["gaps", "strata"])
@pytest.mark.parametrize("name", [*MODELS, "auto"])
def test_what_is_shown_is_at_most_what_is_known(name, kind, monkeypatch):
    """In every draw the margin is at most as often empty as the cell, by the law itself."""
    excess = []
    law = shown.Shown._risk

    def watched(self: Any, look: Any, margin: Any, records: Any, alone: Any, sample: Any) -> Any:
        r1, r2 = law(self, look, margin, records, alone, sample)
        of_cell = sample.r1
        if of_cell is None:
            of_cell = self.exposure.risk(sample.q, sample.counts, look.poisson)[0]
        known = alone & (of_cell[sample.own] > 0.0)
        excess.append((r1[known] / of_cell[sample.own[known]]).max(initial=0.0))
        assert (r2 > 0.0).all()
        assert (r2 <= 1.0 / records + 1e-12).all()
        return r1, r2

    monkeypatch.setattr(shown.Shown, "_risk", watched)
    monkeypatch.setattr(shown, "MOST_SKIPPED", 1)
    found, table, drawn = observed(name, kind)
    assert max(excess) <= 1.0 + 1e-3
    assert found.r1_shown is not None
    assert found.r2_shown is not None
    possible = ~np.isnan(found.r1)
    assert (found.r1_shown[possible] <= found.r1[possible]).all()
    assert (found.r2_shown <= found.r2).all()
    # It imputes cells of complete records alone, so a record is unique where none agrees with it.
    less = found.r1_shown[table.incomplete] < 0.9 * found.r1[table.incomplete]
    assert less.any() == (name != "individual-risk")
    for end in ("", "_lower", "_upper"):
        for measure in ("r1", "r2"):
            whole, seen = getattr(found, measure + end), getattr(found, f"{measure}_shown{end}")
            np.testing.assert_array_equal(seen[~table.incomplete], whole[~table.incomplete])
    if model_of(name).uncertainty != "bootstrap":
        assert all(0.0 <= draw["tau1_shown"] <= draw["tau2_shown"] for draw in drawn)


@pytest.mark.parametrize("kind", ["complete", "wildcard", "level"])
def test_files_in_which_nothing_is_imputed_have_no_second_risk(kind):
    found, _, drawn = observed("latent-class", kind)
    assert found.r1_shown is found.r2_shown is found.r1_shown_lower is None
    assert found.r1_published is found.r1
    assert not set(drawn[0]) & set(shown.SHOWN)


@pytest.mark.statistical
def test_shown_risks_of_blanked_samples_count_units_that_agree():
    """Populations whose law is known, a third of the values of their samples blanked at random.

    The truth counts the units that agree with what is shown: the record alone among those of the
    population in its margin, and of a complete record in its cell. The errors of tau1 and tau2
    have mean 0: |z| below 4, a false alarm in 16,000. tau1 of the complete records is refuted,
    and so are wildcards, which give a lower bound.
    """
    rng, n, size, levels = np.random.default_rng(9), 10, 25, (2, 3, 2)
    errors, whole, bound = [], [], []
    for sweep in range(600):
        p = rng.dirichlet(np.full(math.prod(levels), 0.7)).reshape(levels)
        drawn = rng.choice(p.size, size, p=p.ravel())
        population = np.column_stack(np.unravel_index(drawn, levels))
        sample = population[:n]
        codes = np.where(rng.random(sample.shape) < 1.0 / 3.0, -1, sample).astype(np.int32)
        keys = [Key.of_size(f"K{j}", k) for j, k in enumerate(levels)]
        table, model = CellTable.from_codes(codes, keys, size), Toy()
        measures, stream = RiskMeasures.of(table), Stream(5, 0, sweep)
        tau = measures.observe(stream, model, ToyState(p), model.prepare(table), measures.start())
        units = np.array([[agrees(code, c) for c in population] for code in codes.tolist()])
        alone = units[:, :n].sum(axis=1) == 1
        truth = units.sum(axis=1)[alone]
        true = (truth == 1).sum(), (1.0 / truth).sum()
        errors.append([tau[name] - value for name, value in zip(shown.SHOWN, true, strict=True)])
        whole.append(tau["tau1"] - true[0])
        any_ = replace(table, missing="wildcard")
        lower = RiskMeasures.of(any_)
        least = lower.observe(stream, model, ToyState(p), model.prepare(table), lower.start())
        bound.append(least["tau1"] - true[0])

    def z(values: Any) -> Any:
        return np.mean(values, axis=0) / np.std(values, axis=0) * math.sqrt(len(values))

    assert (np.abs(z(errors)) < 4.0).all()
    assert z(whole) > 4.0
    assert z(bound) < -4.0


@pytest.mark.parametrize("kind", ["gaps", "strata"])
def test_a_models_error_is_that_of_every_cell_of_a_margin(kind: str) -> None:
    """Against a sum over cells: those with records by their records, the others by the mean."""

    def factor(counts: Any) -> Any:
        return np.where(np.asarray(counts) > 0, 1.0 + 0.3 * np.asarray(counts), 0.8)

    @dataclass(frozen=True, kw_only=True)
    class Erring(Toy):
        def risk_probabilities(
            self, stream: Any, data: Any, p: Any, counts: Any, *_: Any, **__: Any
        ) -> Any:
            return p * factor(counts)

    model, table = Erring(), table_of(kind)
    fitted, _ = views(model, table)
    measures, data = RiskMeasures.of(table), model.prepare(fitted)
    state, stream, seen = model.init(Stream(1, 0, 0), data), Stream(1, 0, 1), []
    looked = shown.Shown._risk

    def watched(self: Any, look: Any, margin: Any, records: Any, alone: Any, sample: Any) -> Any:
        seen.append((margin, records, sample))
        return looked(self, look, margin, records, alone, sample)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shown.Shown, "_risk", watched)
        measures.observe(stream, model, state, data, measures.start())
    ((margin, records, sample),) = seen
    found = measures.exposure.means(margin)
    every = np.array(list(itertools.product(*map(range, FOUR))), np.int32)
    plain = measures.exposure.means(
        measures.exposure.chances(Look(stream, model, state, data), every)
    )
    counts = {tuple(c): f for c, f in zip(sample.cells.tolist(), sample.counts, strict=True)}
    here = np.array([counts.get(tuple(cell), 0.0) for cell in every.tolist()])
    for pattern, mean, f in zip(measures.shown.patterns.tolist(), found, records, strict=True):
        within = np.array([agrees(pattern, cell) for cell in every.tolist()])
        assert f == here[within].sum()
        assert mean == pytest.approx((plain * factor(here))[within].sum(), rel=1e-9)


def test_draws_that_cost_much_are_looked_at_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others have no number, the same in every chain, and the estimate leaves them out."""
    monkeypatch.setattr(shown, "_AGREEMENT_COST", 1e9)
    table = table_of("gaps")
    stop = StopRule(rhat=1.0 + 1e-9, ess=1e9, max_sweeps=64)
    plan = Plan(n_chains=2, stop=stop, thin=1)
    found = fit(
        LatentClass(), table, plan=plan, seed=3, execution=Execution(workers=Workers(n_workers=1))
    ).estimate()
    draws = found.draws
    assert draws is not None
    assert found.tau1_shown is not None
    known = ~np.isnan(draws.retained("tau1_shown"))
    assert (known[0] == known[1]).all()
    assert 0 < known[0].sum() <= 1 + draws.retained("tau1").shape[1] / shown.MOST_SKIPPED * 2
    assert found.tau1_shown.mean == draws.retained("tau1_shown")[known].mean()
    assert not np.isnan(draws.retained("tau1")).any()


def test_a_bootstrap_has_no_tau_of_what_is_shown() -> None:
    """Its error is not known; the records' risks are there."""
    found, _, drawn = observed("loglinear", "gaps")
    assert found.r1_shown is not None
    model = LogLinear(interval="bootstrap")
    table = table_of("gaps")
    boot = observer_for(model, RiskMeasures.of(table), table)
    assert isinstance(boot, Bootstrapped)
    data = model.prepare(table)
    state = model.init(Stream(1, 0, 0), data)
    draw = boot.observe(Stream(1, 0, 1), model, state, data, boot.start())
    assert set(shown.SHOWN) <= set(drawn[0])
    assert not set(draw) & set(shown.SHOWN)
