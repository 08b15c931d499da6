"""What a key adds to a record's risk: never below 0 or above r1, under the law of r1."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from unikat.data.design import Sampling
from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.models.base import Stream
from unikat.models.calibrated import OVERDISPERSION, SHIFTS, Calibrated
from unikat.models.catalogue import MODELS
from unikat.models.cells.superpopulation import Superpopulation1, Superpopulation2
from unikat.models.mixtures.latent_class import LatentClass
from unikat.models.named import build_model
from unikat.risk.estimate import _record_risk
from unikat.risk.exposure import views
from unikat.risk.measures import RiskMeasures
from unikat.risk.observe import observer_for

from .toy_model import Toy, ToyState

LEVELS = (2, 4, 3, 5)
KEYS = [Key.of_size(f"K{j}", n) for j, n in enumerate(LEVELS)]
N = 60


def table_of(kind: str) -> CellTable:
    """60 records of four keys: complete, with missing keys, or of three strata."""
    rng = np.random.default_rng(3)
    codes = np.column_stack([rng.choice(n, N, p=rng.dirichlet(np.ones(n))) for n in LEVELS])
    if kind != "complete" and kind != "strata":
        codes[rng.random(codes.shape) < 0.08] = -1
    table = CellTable.from_codes(
        codes, KEYS, 1500, "wildcard" if kind == "wildcard" else "integrate"
    )
    if "strata" not in kind:
        return table
    strata = rng.integers(3, size=N).astype(np.int32)
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


@pytest.mark.parametrize("kind", ["complete", "gaps", "wildcard", "strata", "strata with gaps"])
@pytest.mark.parametrize("name", [*MODELS, "auto"])
def test_no_key_takes_more_than_there_is(name, kind, monkeypatch):
    """In every draw r1 without a key is at most r1, by the law itself and not by a cut."""
    excess = []
    law = RiskMeasures._rest

    def watched(
        self: Any, look: Any, margins: Any, companions: Any, of_cell: Any, cell: Any
    ) -> Any:
        rest = law(self, look, margins, companions, of_cell, cell)
        # Where the draw's sample is not unique in the cell it is not unique in the margin.
        alone = cell.r1 > 0.0
        excess.append((rest[alone] / cell.r1[alone]).max(initial=0.0))
        return rest

    monkeypatch.setattr(RiskMeasures, "_rest", watched)
    model, table = model_of(name), table_of(kind)
    fitted, at_risk = views(model, table)
    measures = observer_for(model, RiskMeasures.of(at_risk), at_risk)
    data, totals = model.prepare(fitted), measures.start()
    for chain in range(4):
        state = model.init(Stream(7, chain, 0), data)
        for sweep in range(1, 13):
            stream = Stream(7, chain, sweep)
            state = model.step(stream, state, data, 1)[0]
            measures.observe(stream, model, state, data, totals)
    assert max(excess) <= 1.0 + 1e-9
    found = _record_risk(totals, at_risk, 0.95)
    drop, r1 = found.key_drop[at_risk.unique], found.r1[at_risk.unique][:, None]
    assert not np.isnan(drop).any()
    assert (drop >= 0.0).all()
    assert (drop <= r1).all()
    assert drop.max() > 0.0


def test_parts_that_were_not_looked_at_are_not_known():
    """And where all risk is 0 in the draws that were, none remains."""
    table = CellTable.from_codes([[i] for i in range(32)], [Key.of_size("A", 32)], 500)
    totals = RiskMeasures.of(table).start()
    totals.weight[:] = totals.r1[:] = 1.0
    totals.key_draws[:8] = 1
    totals.key_whole[:4] = 0.5
    totals.key_rest[:2] = 0.2
    drop = _record_risk(totals, table, 0.95).key_drop[:, 0]
    np.testing.assert_allclose(drop[:16], [0.6] * 2 + [1.0] * 14)
    assert np.isnan(drop[16:]).all()


TOY_LEVELS = (2, 3)
TOY_CODES = [[0, 0], [0, 1], [1, 2], [-1, 2], [0, -1]]
TOY_N = 7


def enumerated(p: Any) -> Any:
    """r1 and the falls of the complete records, by all completions and all unobserved units."""
    cells = list(itertools.product(*map(range, TOY_LEVELS)))
    complete = [tuple(code) for code in TOY_CODES if -1 not in code]
    gaps = [code for code in TOY_CODES if -1 in code]

    def fitting(code: Any) -> list[Any]:
        return [c for c in cells if all(x in (-1, y) for x, y in zip(code, c, strict=True))]

    chances = [sum(p[c] for c in fitting(code)) for code in gaps]
    risk = np.zeros((len(complete), 1 + len(TOY_LEVELS)))
    n_others = TOY_N - len(TOY_CODES)
    for filled in itertools.product(*map(fitting, gaps)):
        weight = math.prod(p[c] / total for c, total in zip(filled, chances, strict=True))
        for others in itertools.product(cells, repeat=n_others):
            chance = weight * math.prod(p[c] for c in others)
            for i, record in enumerate(complete):
                rest = [*complete[:i], *complete[i + 1 :], *filled, *others]
                for left_out in range(1 + len(TOY_LEVELS)):
                    seen = [j for j in range(len(TOY_LEVELS)) if j != left_out - 1]
                    alone = all(any(one[j] != record[j] for j in seen) for one in rest)
                    risk[i, left_out] += chance * alone
    return risk[:, 0], risk[:, :1] - risk[:, 1:]


@pytest.mark.slow
def test_falls_are_those_of_an_enumeration():
    """Missing keys elsewhere may take a record's uniqueness; bounds of 5 standard errors."""
    p = np.array([[0.30, 0.05, 0.10], [0.25, 0.10, 0.20]])
    table = CellTable.from_codes(
        TOY_CODES, [Key.of_size(f"K{j}", n) for j, n in enumerate(TOY_LEVELS)], TOY_N
    )
    model, measures = Toy(), RiskMeasures.of(table)
    data, state = model.prepare(table), ToyState(p)
    n_runs, n_sweeps = 20, 800
    falls, risks = [], []
    for chain in range(n_runs):
        totals = measures.start()
        for sweep in range(1, n_sweeps + 1):
            measures.observe(Stream(11, chain, sweep), model, state, data, totals)
        found = _record_risk(totals, table, 0.95)
        falls.append(found.key_drop[table.unique])
        risks.append(found.r1[table.unique])
    order = [TOY_CODES.index(cell.tolist()) for cell in table.cells[table.unique]]
    r1, expected = enumerated(p)
    for draws, truth in ((np.array(falls), expected[order]), (np.array(risks), r1[order])):
        error = draws.std(axis=0, ddof=1) / math.sqrt(n_runs)
        assert (np.abs(draws.mean(axis=0) - truth) <= 5.0 * error + 1e-3).all()
        assert error.max() < 0.01
    # Some keys matter more than others, and some are all that tells the record.
    assert expected.max() - expected.min() > 0.05


def test_an_imputed_record_in_the_margin_takes_all_of_the_risk():
    """By hand: what remains without a key is 0 in the draws that put a record there."""
    table = CellTable.from_codes(TOY_CODES, [Key.of_size("A", 2), Key.of_size("B", 3)], 30)

    class Told(Toy):
        def impute(self, stream: Stream, state: Any, data: Any) -> Any:
            # In the order of the patterns: [-1, 2], [0, -1].
            return np.array([[0, 2], [0, 1 if stream.sweep % 2 else 2]], np.int32)

    p = np.array([[0.30, 0.05, 0.10], [0.25, 0.10, 0.20]])
    measures = RiskMeasures.of(table)
    data = Told().prepare(table)
    for sweep in range(1, 60):
        totals = measures.start()
        measures.observe(Stream(1, 0, sweep), Told(), ToyState(p), data, totals)
        at = {tuple(c): u for u, c in enumerate(table.cells[table.unique].tolist())}
        whole, rest = totals.key_whole, totals.key_rest
        odd = sweep % 2 == 1
        # (0, 1) has company in odd sweeps; without A too; without B always.
        if whole[at[0, 1]] > 0.0:
            assert not odd
            assert rest[at[0, 1]].tolist() == [pytest.approx(0.85**25), 0.0]
        # (1, 2) is alone, not without A: (0, 2) is there; without B it is.
        if whole[at[1, 2]] > 0.0:
            assert whole[at[1, 2]] == pytest.approx(0.80**25)
            assert rest[at[1, 2]].tolist() == [0.0, pytest.approx(0.45**25)]
    assert odd


@pytest.mark.parametrize(
    "model",
    [Superpopulation1(alpha=0.05, a=0.86, b=20), Superpopulation2(alpha=0.1, a=80, gamma=0.7)],
)
def test_empty_cells_of_a_superpopulation_have_nobody_by_their_own_law(model):
    """Against drawn rates of each empty cell of a margin; z tests of 4,000 sweeps, 5 errors."""
    codes = [[0, 0], [0, 0], [1, 2], [1, 3]]
    table = CellTable.from_codes(codes, [Key.of_size("A", 2), Key.of_size("B", 5)], 60)
    data = model.prepare(table)
    state = model.init(Stream(1, 0, 0), data)
    cell = np.array([[1, 2]], np.int32)
    margin = np.array([[-1, 2]], np.int32)
    chance = model.empty_rest(state, data, margin, cell)[0]
    rates = np.array(
        [
            model.cell_probabilities(Stream(5, 0, sweep), state, data, np.array([[0, 2]], np.int32))
            for sweep in range(4000)
        ]
    )
    alone = np.exp(-56.0 * rates[:, 0])
    assert abs(alone.mean() - chance) <= 5.0 * alone.std() / math.sqrt(len(alone))
    # The mean rate would say much less.
    assert math.exp(-56.0 * rates.mean()) < 0.9 * chance
    # Nothing joins where no key is left out, and 4 independent cells do for the other key.
    assert model.empty_rest(state, data, cell, cell)[0] == 1.0
    np.testing.assert_allclose(
        model.empty_rest(state, data, np.array([[0, -1]], np.int32), np.array([[0, 0]], np.int32)),
        chance**4,
    )
