"""Recoded households from the states of a fit, against the sum over all households."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from statistical import nested
from statistical.test_nested import ROLES, RULED, with_roles
from unikat.data.design import Sampling
from unikat.data.households import HouseholdLayout
from unikat.data.sampling import telling_key
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.inference.backends import Workers
from unikat.inference.plan import Plan, StopRule
from unikat.models.base import Stream
from unikat.models.households import grouped
from unikat.models.households.nested import NestedHouseholds
from unikat.protection.recoding import Recoding, level_counts, parse_recoding, recodable
from unikat.protection.what_if import Posterior
from unikat.risk.by_class import Look
from unikat.risk.exposure import exposure_of, fitted_table
from unikat.studies.auto import Execution
from unikat.studies.fit import fit

WHERE = Stream(3, 1, 9)
WIDE = nested.Prior((3, 2), (3, 2, 2), 60)
THREE = [[1, 0, 0], [1, 1, 0], [1, 0, 1], [0, 1, 1], [1, 1, 1]]


class HeadsPrior(nested.Prior):
    """With the first key of the head as a key of the household."""

    @property
    def layout(self) -> HouseholdLayout:
        layout = super().layout
        size, own = layout.household_keys
        return replace(layout, household_keys=(size, replace(own, name="head.P1")))


HEADS = HeadsPrior((3, 3), (2, 3), 60, head_apart=True)
PRIORS = {
    "plain": WIDE,
    "head-apart": HEADS,
    "roles": with_roles(WIDE, THREE),
    "rules": RULED._replace(n=60),
    "roles, rules": ROLES["rules"]._replace(n=60),
}
RULES: dict[str, list[dict[str, Any]]] = {
    "plain": [
        {},
        {"P0": [[0, 2]]},
        {"P1": None, "P0": [[2, 1]]},
        {"H1": None, "P2": None},
        {"P0": None, "P1": None, "P2": None},
    ],
    "head-apart": [{"P1": [[0, 2]]}, {"P1": None}, {"P0": None}],
    "roles": [{"P0": [[0, 2]]}, {"P0": [[2, 1]], "P1": None}, {"P0": None}, {"P1": None}],
    "rules": [
        {"P0": [[0, 2]]},
        {"P1": None},
        {"P2": None},
        {"P0": None, "P1": None},
        {"H1": None, "P0": [[1, 2]]},
    ],
    "roles, rules": [{"P0": [[0, 2]]}, {"P0": [[2, 1]], "P1": None}, {"P0": None, "H1": None}],
}
CASES = [(name, rules) for name, each in RULES.items() for rules in each]


def fitted(prior: nested.Prior, hidden: float = 0.0) -> tuple[Posterior, Any]:
    """States of a model of a drawn sample of households; the state that is looked at."""
    rng = np.random.default_rng(8)
    rows = nested.draw_rows(rng, prior, nested.draw_state(rng, prior))
    table = nested.tabulate(prior, rows, nested.masks(rng, prior, rows, hidden))
    model = nested.model_of(prior)
    data = model.prepare(table)
    state = model.init(Stream(3, 1, 0), data)
    for sweep in range(1, 6):
        state, _ = model.step(Stream(3, 1, sweep), state, data, 1)
    return Posterior(table=table, fitted=table, model=model, data=data, states=()), state


def census(prior: nested.Prior, recoding: Recoding) -> tuple[np.ndarray, CellTable]:
    """All households, and their table after recoding."""
    cells = nested.all_cells(prior)
    fine = CellTable.from_codes(cells, prior.layout.columns, len(cells), layout=prior.layout)
    return cells, recoding.table(fine)


@pytest.mark.parametrize(("name", "rules"), CASES)
def test_a_recoded_household_has_the_probability_of_its_households(
    name: str, rules: dict[str, Any]
) -> None:
    prior = PRIORS[name]
    posterior, state = fitted(prior)
    recoding = parse_recoding(posterior.table, rules)
    cells, coarse = census(prior, recoding)
    # Under rules 1 - p0 is estimated by the same simulated households.
    p = posterior.model.cell_probabilities(WHERE, state, posterior.data, cells)
    model = posterior.recoded(recoding, coarse)
    found = model.cell_probabilities(WHERE, state, posterior.data, coarse.cells)
    expected = np.bincount(coarse.record_cell, p, minlength=coarse.n_cells)
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-12)
    assert (coarse.n_cells < len(cells)) == bool(rules)


@pytest.mark.parametrize("name", ["rules", "roles, rules"])
def test_households_that_are_drawn_have_the_share_that_is_possible(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Where too many would be listed; 60 estimates of each cell, false alarm 1e-6 in all."""
    # Of all households, not of possible ones, which is estimated too.
    monkeypatch.setattr(NestedHouseholds, "_chance", lambda *_: 1.0)
    prior = PRIORS[name]
    posterior, state = fitted(prior)
    recoding = parse_recoding(posterior.table, RULES[name][0] | {"P1": None})
    cells, coarse = census(prior, recoding)
    p = posterior.model.cell_probabilities(WHERE, state, posterior.data, cells)
    expected = np.bincount(coarse.record_cell, p, minlength=coarse.n_cells)
    asked, expected = coarse.cells[expected > 0.0], expected[expected > 0.0]
    # One of which a household key is missing: the first kind or the second.
    size = asked[:, 0] == 1
    kinds, place = np.unique(
        asked[size][:, [0, *range(2, asked.shape[1])]], axis=0, return_inverse=True
    )
    joined = np.insert(kinds, 1, -1, axis=1).astype(np.int32)
    expected = np.append(expected, np.bincount(place.ravel(), expected[size]))
    asked = np.concatenate((asked, joined))
    monkeypatch.setattr(grouped, "MOST_BLOCKS", 0)
    monkeypatch.setattr(grouped, "COMPLETIONS", 16)
    model = posterior.recoded(recoding, coarse)
    found = np.array(
        [
            model.cell_probabilities(WHERE._replace(sweep=sweep), state, posterior.data, asked)
            for sweep in range(60)
        ]
    )
    varies = found.std(axis=0) > 1e-9 * expected
    assert varies.sum() > 5
    p_values = stats.ttest_1samp(found[:, varies], expected[varies]).pvalue
    assert (p_values > 1e-6 / varies.sum()).all()
    np.testing.assert_allclose(found[:, ~varies].mean(axis=0), expected[~varies], rtol=2e-5)


@pytest.mark.parametrize("name", ["head-apart", "roles, rules"])
def test_missing_keys_of_households_are_imputed_as_before_and_recoded(name: str) -> None:
    prior = PRIORS[name]
    posterior, state = fitted(prior, hidden=0.2)
    table = posterior.table
    recoding = parse_recoding(table, {"P1": None, "P0": [[0, 1]]})
    coarse = recoding.table(table)
    model = posterior.recoded(recoding, coarse)
    found = model.impute(WHERE, state, posterior.data)
    assert len(found) == int(coarse.counts[coarse.incomplete].sum()) > 5
    assert coarse.layout is not None
    np.testing.assert_array_equal(found, coarse.layout.canonical(found))
    # Each as the model completes it, in the order of the patterns of the recoded table.
    whole = posterior.model.impute(WHERE, state, posterior.data)
    records = np.flatnonzero(table.incomplete[table.record_cell])
    records = records[np.argsort(table.record_cell[records], kind="stable")]
    own = CellTable.from_codes(whole, table.keys, table.n_units, layout=table.layout)
    recoded = recoding.table(own)
    cell_of = dict(zip(records.tolist(), recoded.cells[recoded.record_cell], strict=True))
    still = np.flatnonzero(coarse.incomplete[coarse.record_cell])
    still = still[np.argsort(coarse.record_cell[still], kind="stable")]
    np.testing.assert_array_equal(found, [cell_of[record] for record in still.tolist()])


@pytest.mark.parametrize("told", [False, True], ids=["appended", "told-by-a-key"])
def test_classes_of_a_design_of_households_keep_their_chances(told: bool) -> None:
    """Of households drawn by strata; the key that tells them is left out."""
    prior = PRIORS["plain"]._replace(n=90)
    posterior, _ = fitted(prior)
    table = posterior.table
    strata = np.arange(table.n_records) % 3 == 0
    if told:
        strata = table.cells[table.record_cell, 1] == 1
    strata = strata.astype(np.int32)
    chances = np.array([3.0, 8.0])
    table = replace(
        table,
        population_size=1_000,
        sampling=Sampling(
            weights=chances[strata],
            strata=strata,
            sizes=chances * np.bincount(strata),
            from_weights=False,
        ),
    )
    assert table.sampling is not None
    assert (telling_key(table.sampling, table) is not None) == told
    fitted_to = fitted_table(table)
    model = posterior.model
    data = model.prepare(fitted_to)
    state = model.init(Stream(3, 1, 0), data)
    recoding = parse_recoding(table, {"H1": None, "P0": [[0, 2]]})
    coarse = recoding.table(table)
    after = Posterior(table=table, fitted=fitted_to, model=model, data=data, states=())
    seen = after.recoded(recoding, coarse)
    cells, every = census(prior, recoding)
    exposure, fine = exposure_of(coarse), exposure_of(table)
    found = exposure.chances(Look(WHERE, seen, state, data), every.cells)
    of_cells = fine.chances(Look(WHERE, model, state, data), cells)
    for mine, theirs in (
        (found.sample, of_cells.sample),
        (exposure.means(found), fine.means(of_cells)),
    ):
        expected = np.bincount(every.record_cell, theirs, minlength=every.n_cells)
        np.testing.assert_allclose(mine, expected, rtol=2e-5)


@pytest.mark.slow
def test_one_fit_of_households_agrees_with_fits_of_the_recoded_file() -> None:
    prior = nested.Prior((3, 3), (4, 5), 100)
    table = replace(fitted(prior)[0].table, population_size=250)
    plan = Plan(n_chains=2, stop=StopRule(max_sweeps=300))
    alone = Execution(workers=Workers(n_workers=1))
    model = NestedHouseholds(calibrate=False)
    posterior = Posterior.of(fit(model, table, plan=plan, execution=alone), n_states=100)
    rules = {"P0": [[0, 2]], "H1": None}
    recoding = parse_recoding(table, rules)
    again = fit(model, recoding.table(table), plan=plan, execution=alone).estimate()
    found = posterior.what_if(rules)
    assert found.table.n_uniques == again.table.n_uniques
    assert again.tau1.mean > 5.0
    for mine, its in ((found.tau1, again.tau1), (found.tau2, again.tau2)):
        assert abs(mine.mean - its.mean) <= 0.25 * (its.upper - its.lower)
    assert abs(posterior.tau1(recoding) - found.tau1.mean) <= 0.1 * found.tau1.mean


def test_sizes_and_heads_are_not_recoded_by_themselves() -> None:
    """A key of members is that of the head, too; the size of a household stays known."""
    table = fitted(HEADS)[0].table
    assert [key.name for key in recodable(table)] == ["P0", "P1"]
    for name in ("H0", "head.P1", "1.P0"):
        with pytest.raises(SpecError, match="is none of the keys: P0, P1"):
            parse_recoding(table, {name: None})
    recoded = parse_recoding(table, {"P1": [[0, 2]]}).table(table)
    assert [key.name for key in recoded.keys][:4] == ["H0", "head.P1", "1.P0", "1.P1"]
    # Two groups, and no such member.
    assert recoded.n_levels[:4] == (3, 2, 3, 3)
    assert recoded.n_records == table.n_records
    # Levels are counted of all persons whose key is known, the heads included.
    n_persons = int((table.cells[table.record_cell, 0] + 1).sum())
    assert [int(counts.sum()) for counts in level_counts(table)] == [
        n_persons - table.n_records,
        n_persons,
    ]
