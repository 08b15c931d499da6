"""Samples of whole households: companions are left out wherever probabilities are asked."""

from dataclasses import replace

import numpy as np
import pytest

from unikat.data import CellTable, Key
from unikat.data.companions import Members, companions_of
from unikat.data.design import Sampling
from unikat.data.table import Margin
from unikat.inference.plan import Plan, StopRule
from unikat.models.auto import CHOOSABLE, Auto
from unikat.models.base import Stream
from unikat.models.catalogue import MODELS
from unikat.models.loglinear.empirical_bayes import ElamirSkinner
from unikat.models.mixtures import latent_class, left_out
from unikat.models.mixtures.gom import GoM
from unikat.models.mixtures.hdp import HDP
from unikat.models.mixtures.latent_class import LatentClass
from unikat.protection.recoding import parse_recoding
from unikat.protection.what_if import Posterior
from unikat.risk.by_class import Look
from unikat.risk.exposure import EqualChances, exposure_of, views
from unikat.risk.measures import RiskMeasures
from unikat.studies.fit import fit
from unikat.studies.rare_cells import RareCells
from unikat.zeros.diagram import build, possible

MIXTURES = (LatentClass(), HDP(), GoM(components=16), HDP(alpha="per-record"))
NAMES = ("latent-class", "hdp", "gom", "alpha per record")

KEYS = tuple(
    Key.of_size(name, size)
    for name, size in (("REGION", 30), ("TENURE", 5), ("AGE", 9), ("SEX", 2))
)


def town(n_homes: int = 60, missing: float = 0.0, seed: int = 1) -> CellTable:
    """Households of one to five who share region and tenure."""
    rng = np.random.default_rng(seed)
    home = np.repeat(np.arange(n_homes), rng.integers(1, 6, n_homes))
    shared = [rng.integers(0, size, n_homes)[home] for size in (30, 5)]
    own = [rng.integers(0, size, len(home)) for size in (9, 2)]
    codes = np.column_stack((*shared, *own))
    codes[rng.random(codes.shape) < missing] = -1
    # Members do not stand beside each other.
    order = rng.permutation(len(home))
    table = CellTable.from_codes(codes[order], KEYS, 4 * len(home))
    return replace(table, households=home[order].astype(np.int32))


def state_of(model, table, sweeps=40):
    data = model.prepare(table)
    state = model.init(Stream(1, 0, 0), data)
    for sweep in range(1, sweeps + 1):
        state, _ = model.step(Stream(1, 0, sweep), state, data, 1)
    return Stream(1, 0, sweeps), state, data


def of_persons(state, data):
    """The same fit as one to persons drawn one by one: all members, no households."""
    return state._replace(homes=()), data._replace(homes=None)


@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_companions_are_the_other_members_of_the_records_of_a_cell(missing):
    table = town(missing=missing)
    codes = table.cells[table.record_cell]
    patterns = np.vstack((table.cells, [[3, -1, -1, -1], [-1, -1, 4, 1]])).astype(np.int32)
    found = companions_of(table, patterns)
    assert found is not None
    for row, pattern in enumerate(patterns):
        asked = pattern >= 0
        records = np.flatnonzero((codes[:, asked] == pattern[asked]).all(axis=1))
        mine = found.records[found.starts[row] : found.starts[row + 1]]
        if len(records) > 10:
            assert not len(mine)
            continue
        homes, own = np.unique(table.households[records], return_index=True)
        expected = np.setdiff1d(np.flatnonzero(np.isin(table.households, homes)), records[own])
        assert mine.tolist() == expected.tolist()
        assert found.unit[row] == records.min()


def test_records_drawn_one_by_one_have_none():
    table = town()
    alone = replace(table, households=np.arange(table.n_records, dtype=np.int32))
    assert Members.of(alone) is None
    assert Members.of(replace(table, households=None)) is None
    measures = RiskMeasures.of(alone)
    assert measures.companions is measures.margin_companions is None


def test_completed_records_are_where_they_were_completed():
    table = town(missing=0.1)
    members = Members.of(table)
    imputed = np.zeros((len(members.incomplete), 4), np.int32)
    complete = table.cells[table.record_cell].copy()
    complete[members.incomplete] = imputed
    whole = replace(CellTable.from_codes(complete, KEYS, 9000), households=table.households)
    for mine, expected in zip(
        members.companions(whole.cells, imputed), companions_of(whole, whole.cells), strict=True
    ):
        assert mine.tolist() == expected.tolist()


@pytest.mark.parametrize("model", MIXTURES, ids=NAMES)
@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_measures_are_those_of_the_completed_sample(missing, model):
    """Who is left out of an imputed record's cell is known once it is imputed."""
    table = town(90, missing)
    stream, state, data = state_of(model, table)
    measures = RiskMeasures.of(table)
    totals = measures.start()
    found = measures.observe(stream, model, state, data, totals)
    complete = table.cells[table.record_cell].copy()
    complete[table.imputed_records] = model.impute(stream, state, data)
    whole = CellTable.from_codes(complete, KEYS, table.n_units)
    whole = replace(whole, households=table.households)
    cells = np.ascontiguousarray(whole.cells[whole.unique])
    p = model.cell_probabilities(stream, state, data, cells)
    own = model.without_companions(stream, state, data, cells, p, companions_of(whole, cells))
    expected = exposure_of(table).risk(own, np.ones(len(cells)), False)[0].sum()
    assert found["tau1_expected"] == pytest.approx(expected, rel=1e-9)


def test_a_key_left_out_leaves_them_out_too():
    table, model = town(90), LatentClass()
    _, *fitted = state_of(model, table)
    state, data = of_persons(*fitted)
    measures, rest = RiskMeasures.of(table), []
    for one in (measures, replace(measures, margin_companions=None)):
        totals = one.start()
        for sweep in range(64):
            one.observe(Stream(1, 0, sweep), model, state, data, totals)
        assert totals.key_draws.all()
        rest.append(totals.key_rest)
    assert (rest[0] >= rest[1] - 1e-9).mean() > 0.9
    # Without the age many members agree in all that is left.
    assert rest[0][:, 2].sum() > 1.1 * rest[1][:, 2].sum()


def test_what_records_show_leaves_them_out_too():
    """Probabilities of the known keys of incomplete records."""
    table, model = town(90, 0.1), LatentClass()
    stream, state, data = state_of(model, table)
    measures = RiskMeasures.of(table)
    r1 = []
    for shown in (measures.shown, replace(measures.shown, companions=None)):
        one = replace(measures, shown=shown)
        totals = one.start()
        one.observe(stream, model, *of_persons(state, data), totals)
        r1.append(totals.shown_r1)
    assert (r1[0] >= r1[1] - 1e-9).mean() > 0.9
    assert r1[0].sum() > 1.1 * r1[1].sum()


def test_any_record_of_a_cell_may_be_the_companion(monkeypatch):
    """The classes of a cell's records are stored sorted, not by record."""
    codes = [[0, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0], [2, 1, 1, 1]]
    table = replace(CellTable.from_codes(codes, KEYS, 90), households=np.array([0, 0, 1, 2, 3]))
    model, places = LatentClass(), set()
    stream, state, data = state_of(model, table)
    cells = table.cells[table.record_cell[:1]]
    p = model.cell_probabilities(stream, state, data, cells)
    monkeypatch.setattr(
        latent_class.thinning, "thin", lambda key, sweep, of, *_: places.update(of[1].tolist())
    )
    for sweep in range(60):
        at = Stream(1, 0, sweep)
        model.without_companions(at, state, data, cells, p, companions_of(table, cells))
    assert places == set(data.records.place[1:4].tolist())


def test_auto_selects_no_model_that_keeps_them():
    assert all(MODELS[name].leaves_out_companions for name in CHOOSABLE)


@pytest.mark.slow
def test_auto_leaves_them_out_with_every_model():
    """Its evidence, by rare cells, and its answer."""
    table = town(90)
    chosen, estimates = [], []
    for one in (table, replace(table, households=None)):
        auto = Auto(candidates=("hdp",), evidence_seconds=0.2)
        plan = Plan(n_chains=2, stop=StopRule(max_sweeps=200, rhat=1.5, ess=20.0))
        found = fit(auto, one, plan=plan)
        chosen.append(found.model)
        estimates.append(found.estimate().tau1.mean)
    assert [model.wrapped.name for model in chosen] == ["hdp", "hdp"]
    assert estimates[0] > 1.1 * estimates[1]


def test_under_mixed_membership_a_companion_is_the_record_itself(monkeypatch):
    """Whose keys have components of their own, that are read with its keys."""
    table, model = town(missing=0.1), HDP()
    stream, *fitted = state_of(model, table, 5)
    state, data = of_persons(*fitted)
    cells = table.cells[table.unique]
    companions, seen = companions_of(table, cells), []
    thin = left_out.thinning.thin_memberships

    def watched(key, sweep, of, drawn, *rest):
        seen.extend((of, drawn))
        thin(key, sweep, of, drawn, *rest)

    monkeypatch.setattr(left_out.thinning, "thin_memberships", watched)
    p = model.cell_probabilities(stream, state, data, cells)
    model.without_companions(stream, state, data, cells, p, companions)
    of, drawn = seen
    codes = table.cells[table.record_cell[companions.records]]
    rows = drawn.rows[of.records]
    np.testing.assert_array_equal(np.where(rows < 0, -1, rows - data.offsets[:-1]), codes)
    # Components are numbered again, without those that do not matter.
    pairs = np.unique(np.stack((drawn.z, state.z), axis=-1).reshape(-1, 2), axis=0)
    assert len(pairs) == len(np.unique(pairs[:, 0])) == len(np.unique(pairs[:, 1]))
    for k, before in pairs[pairs[:, 0] >= 0]:
        assert drawn.weights[k] == state.weights[before]
        # The first token of a component in a record opens a table.
        records = (state.z == before).any(axis=1).sum()
        assert records <= drawn.tables[k] <= (state.z == before).sum()
        np.testing.assert_array_equal(drawn.theta[:, k], state.theta[:, before])
    assert (drawn.counts.sum(axis=1) == data.frequencies).all()


def test_more_keys_than_are_summed_are_estimated():
    rng = np.random.default_rng(2)
    table = town(40)
    codes = table.cells[table.record_cell]
    more = rng.integers(0, 2, (table.n_records, 9))
    keys = [*KEYS, *(Key.of_size(f"K{j}", 2) for j in range(9))]
    wide = CellTable.from_codes(np.column_stack((codes, more)), keys, table.n_units)
    wide = replace(wide, households=table.households)
    model = HDP()
    stream, state, data = state_of(model, wide, 60)
    cells = np.where(np.arange(13) < 4, wide.cells, -1).astype(np.int32)
    companions = companions_of(wide, wide.cells)
    p = model.cell_probabilities(stream, state, data, wide.cells)
    q = model.without_companions(stream, state, data, wide.cells, p, companions)
    alone = model.cell_probabilities(stream, *of_persons(state, data), wide.cells)
    assert np.median((q / alone)[companions.some]) < 0.95
    # Of few keys, of which the same companions are left out, it is exact; both add up.
    few = model.without_companions(stream, state, data, cells, p, companions)
    half = [np.where(np.arange(13) == 4, level, cells).astype(np.int32) for level in (0, 1)]
    parts = [model.without_companions(stream, state, data, one, p, companions) for one in half]
    some = companions.some
    np.testing.assert_allclose(sum(parts)[some], few[some], rtol=1e-6)
    assert (q[some] < few[some]).all()


@pytest.mark.parametrize("model", MIXTURES, ids=NAMES)
def test_members_of_one_are_bit_identical_and_others_are_rarer(model):
    table = town()
    stream, state, data = state_of(model, table)
    cells = table.cells[table.unique]
    companions = companions_of(table, cells)
    p = model.cell_probabilities(stream, state, data, cells)
    q = model.without_companions(stream, state, data, cells, p, companions)
    some = companions.some
    assert 0 < some.sum() < len(some)
    np.testing.assert_array_equal(p[~some], q[~some])
    # Others of the household make its region look frequent; less so where keys of one record have
    # components of their own.
    most = 0.8 if isinstance(model, LatentClass) else 0.9
    alone = model.cell_probabilities(stream, *of_persons(state, data), cells)
    assert np.median(q[some] / alone[some]) < most
    again = model.without_companions(stream, state, data, cells, p, companions)
    np.testing.assert_array_equal(q, again)
    margin = cells.copy()
    margin[:, 2] = -1
    whole = model.cell_probabilities(stream, state, data, margin)
    assert (model.without_companions(stream, state, data, margin, whole, companions) >= q).all()


def test_the_order_of_the_input_does_not_matter_to_who_is_left_out():
    table = town()
    model = LatentClass()
    stream, state, data = state_of(model, table)
    cells = table.cells[table.unique]
    p = model.cell_probabilities(stream, state, data, cells)
    turned = CellTable.from_codes(table.cells[table.record_cell][::-1], KEYS, table.n_units)
    turned = replace(turned, households=table.households[::-1].copy())
    companions = companions_of(turned, cells)
    q = model.without_companions(stream, state, model.prepare(turned), cells, p, companions)
    expected = model.without_companions(stream, state, data, cells, p, companions_of(table, cells))
    # The same law, other random numbers: equal where nobody is left out.
    np.testing.assert_array_equal(q == p, expected == p)


@pytest.mark.parametrize("model", MIXTURES, ids=NAMES)
def test_zeros_keep_probabilities_of_possible_cells(model):
    impossible = np.zeros((1, 46), bool)
    # The first regions have nobody of the last age.
    impossible[0, [0, 1, 2, *range(30, 35), 43, 44, 45]] = True
    diagram = build(impossible, [0, 30, 35, 44, 46])
    everybody = town(missing=0.05)
    codes = everybody.cells[everybody.record_cell]
    stays = possible(diagram, np.maximum(codes, 0).astype(np.int32))
    table = replace(
        CellTable.from_codes(codes[stays], KEYS, 9000, zeros=diagram),
        households=everybody.households[stays],
    )
    stream, state, data = state_of(model, table)
    cells = table.cells[~table.incomplete]
    companions = companions_of(table, cells)
    if not isinstance(model, LatentClass):
        # A component opens a table at its first token of a record, and at others at random.
        first = int(data.offsets[1])
        assert (state.impossible_tables >= state.impossible[:first].sum(axis=0)).all()
        assert (state.impossible_tables <= state.impossible.sum(axis=0)).all()
        assert state.impossible_tables.sum() > 0
    p = model.cell_probabilities(stream, state, data, cells)
    q = model.without_companions(stream, state, data, cells, p, companions)
    assert np.isfinite(q).all()
    assert (q >= 0.0).all()
    assert (q <= 1.0).all()
    alone = model.cell_probabilities(stream, *of_persons(state, data), cells)
    assert q[companions.some].sum() < alone[companions.some].sum()


@pytest.mark.parametrize("model", MIXTURES[:2], ids=NAMES[:2])
def test_measures_evidence_and_what_if_leave_them_out(model):
    table = town(90)
    persons = replace(table, households=None)
    plan = Plan(n_chains=2, stop=StopRule(max_sweeps=300, rhat=1.5, ess=20.0))
    found = fit(model, table, plan=plan)
    one_by_one = fit(model, persons, plan=plan)
    mine, other = found.estimate().tau1.mean, one_by_one.estimate().tau1.mean
    assert mine > 1.2 * other
    posterior = Posterior.of(found, 40)
    same = posterior.what_if({}).tau1.mean
    assert same == pytest.approx(mine, rel=0.1)
    joined = posterior.what_if({"AGE": None}).tau1.mean
    assert joined < same
    rare = RareCells.of(table)
    homes = [len(set(table.households[table.record_cell == c].tolist()))
             for c in range(table.n_cells)]  # fmt: skip
    assert sorted(rare.counts.tolist()) == sorted(n for n in homes if n <= 3)
    assert rare.companions is not None


def test_models_that_cannot_leave_them_out_return_what_they_were_given():
    table, model = town(), ElamirSkinner()
    stream, state, data = state_of(model, table, 5)
    cells = table.cells[table.unique]
    p = model.cell_probabilities(stream, state, data, cells)
    chances = EqualChances(unobserved=100.0).chances(
        Look(stream, model, state, data), cells, companions_of(table, cells)
    )
    np.testing.assert_array_equal(chances, p)


def test_every_question_of_a_plan_leaves_them_out():
    """Laws, r1 for suppression, and the smallest combination: all at the same probabilities."""
    table, model = town(90), LatentClass()
    plan = Plan(n_chains=2, stop=StopRule(max_sweeps=120, rhat=1.5, ess=20.0))
    posterior = Posterior.of(fit(model, table, plan=plan), 20)
    recoding = parse_recoding(table, {})
    cells = np.ascontiguousarray(table.cells[table.unique])
    companions = companions_of(table, cells)
    exposure = exposure_of(table)
    r1 = []
    for look in posterior._looks(posterior.recoded(recoding, table), 20):
        stream, _, state, data = look
        p = model.cell_probabilities(stream, state, data, cells)
        own = model.without_companions(stream, state, data, cells, p, companions)
        assert (own != p).any()
        r1.append(exposure.risk(own, np.ones(len(cells)), False)[0])
    told = [one.r1 for one in posterior.moments(recoding, table, cells, np.ones(len(cells)), 20)]
    np.testing.assert_allclose(told, r1, rtol=1e-9)
    np.testing.assert_allclose(
        posterior.margin_risk(recoding, 20)(cells), np.mean(r1, axis=0), rtol=1e-6
    )
    # PRAM: the persons truly in a cell without them, those who are put there with all.
    stay = {3: np.array([[0.9, 0.1], [0.2, 0.8]])}
    data, states = posterior.data, []
    for chain in posterior.states:
        states.append(tuple((at, of_persons(state, data)[0]) for at, state in chain))
    all_members = replace(posterior, table=replace(table, households=None))
    persons = replace(all_members, data=data._replace(homes=None), states=tuple(states))
    arrivals = [
        list(one.arrivals(recoding, one.table, stay, cells, 20))
        for one in (posterior, all_members, persons)
    ]
    for (own, others), (with_all, all_others), (all_own, _) in zip(*arrivals, strict=True):
        assert (own[~companions.some] == with_all[~companions.some]).all()
        assert np.median(own[companions.some] / all_own[companions.some]) < 0.95
        np.testing.assert_array_equal(others, all_others)
    # Whoever is unique makes the smallest combination one of a single person.
    large = replace(table, population_size=10_000 * table.n_records)
    low, high = (
        replace(posterior, table=one)._smallest(recoding, one, 20, np.array([9.0]))[:, 0]
        for one in (large, replace(large, households=None))
    )
    assert (low <= high + 1e-12).all()
    assert low.sum() < high.sum()


@pytest.mark.parametrize("model", MIXTURES[:2], ids=NAMES[:2])
@pytest.mark.parametrize("kind", ["strata", "margins"])
def test_classes_leave_them_out(kind, model):
    table = town(90)
    stratum = (table.cells[table.record_cell, 0] + table.households) % 3
    if kind == "strata":
        sampling = Sampling(
            weights=np.full(table.n_records, 4.0),
            strata=stratum.astype(np.int32),
            sizes=4.0 * np.bincount(stratum),
            from_weights=False,
        )
        table = replace(table, sampling=sampling)
    else:
        n = np.bincount(table.cells[table.record_cell, 3], minlength=2)
        table = replace(table, margins=(Margin(name="sex", keys=(3,), counts=4 * n),))
    fitted, at_risk = views(model, table)
    stream, state, data = state_of(model, fitted)
    cells = np.ascontiguousarray(at_risk.cells[at_risk.unique])
    exposure, companions = exposure_of(at_risk), companions_of(at_risk, cells)
    persons = of_persons(state, data)
    all_members = exposure.means(exposure.chances(Look(stream, model, *persons), cells))
    without = exposure.means(exposure.chances(Look(stream, model, state, data), cells, companions))
    some = companions.some
    with_all = exposure.means(exposure.chances(Look(stream, model, state, data), cells))
    np.testing.assert_allclose(without[~some], with_all[~some], rtol=1e-12)
    assert np.median(without[some] / all_members[some]) < 0.95


def test_records_are_imputed_in_the_order_of_the_fitted_table():
    """With a design records of one pattern come class by class."""
    rng = np.random.default_rng(3)
    codes = np.column_stack((rng.integers(0, 2, 80), rng.integers(-1, 2, 80)))
    table = CellTable.from_codes(codes, [Key.of_size(name, 2) for name in "AB"], 320)
    table = replace(table, households=(np.arange(80) // 2).astype(np.int32))
    strata = rng.integers(0, 3, table.n_records).astype(np.int32)
    sampling = Sampling(
        weights=np.full(table.n_records, 4.0),
        strata=strata,
        sizes=4.0 * np.bincount(strata),
        from_weights=False,
    )
    table = replace(table, sampling=sampling)
    fitted, _ = views(LatentClass(), table)
    assert fitted.n_keys == table.n_keys + 1
    assert table.imputed_records.tolist() == fitted.imputed_records.tolist()
    # By the patterns, then by the input, where they are one class.
    plain = replace(table, sampling=None).imputed_records
    assert sorted(plain) == sorted(table.imputed_records)
    assert plain.tolist() != table.imputed_records.tolist()
    data = LatentClass().prepare(fitted).records
    incomplete = (data.rows < 0).any(axis=1)[data.record_cell]
    places = data.place[table.imputed_records]
    assert places.tolist() == np.flatnonzero(incomplete).tolist()
