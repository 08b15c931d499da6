from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np
import pytest

from risk.toy_model import Toy
from unikat.data.checks import table_warnings
from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.errors import OutputError, SpecError
from unikat.inference.backends import Workers
from unikat.inference.chains import sample
from unikat.inference.checkpoint import FILE_NAME
from unikat.inference.plan import Plan, StopRule
from unikat.models.mixtures.hdp import HDP
from unikat.risk.estimate import assess
from unikat.risk.measures import RiskMeasures
from unikat.studies import compare as module
from unikat.studies.compare import Candidate, ComparisonSettings, compare
from unikat.studies.predictive import CheckedMeasures
from unikat.studies.store import FINISHED, FitStore

KEYS = [Key.of_size("A", 12), Key.of_size("B", 12)]
HERE = Workers(n_workers=1, n_threads=1)
RIGHT = Candidate(label="right", model=Toy(prior=0.3))
WRONG = Candidate(label="wrong", model=Toy(prior=0.3, independent=True))
SETTINGS = ComparisonSettings(
    seed=1, plan=Plan(n_chains=2, stop=StopRule(ess=60, rhat=1.5, max_sweeps=2000))
)


def some_table(n=150, holes=False):
    rng = np.random.default_rng(3)
    a = np.minimum(rng.geometric(0.25, n) - 1, 11)
    codes = np.column_stack([a, (a + rng.integers(0, 3, n)) % 12])
    if holes:
        codes[:7, 1] = -1
    return CellTable.from_codes(codes, KEYS, 1500)


def content(comparison):
    """Everything but times."""
    found = []
    for model in comparison.models:
        values = asdict(model)
        values["risk"]["sampling"].pop("seconds")
        if values["held_out"]:
            values["held_out"]["sampling"].pop("seconds")
        found.append(values)
    return found


def same(one, other):
    np.testing.assert_equal(content(one), content(other))


@pytest.fixture(scope="module")
def plain():
    return compare([WRONG, RIGHT], some_table(), SETTINGS, workers=HERE)


def test_models_side_by_side(plain):
    assert plain.converged
    assert not plain.interrupted
    wrong, right = plain.models
    assert [wrong.label, right.label] == ["wrong", "right"]
    assert (wrong.best, right.best) == (False, True)
    assert wrong.difference.mean < 0.0 == right.difference.mean
    table = some_table()
    assert wrong.risk.checks[0].observed == table.n_uniques
    # Independent keys spread the records over too many cells.
    assert wrong.risk.checks[0].p_value < 0.01
    assert wrong.risk.checks[0].lower > table.n_uniques
    # As often as the checks are cheap, in each of the two chains and of two epochs.
    every = CheckedMeasures.of(table).skipped(WRONG.model, WRONG.model.prepare(table))
    draws = wrong.risk.sampling.n_draws
    assert draws / every > 10
    assert draws / every <= wrong.risk.n_simulated <= draws / every + 4


def test_the_risk_is_that_of_an_assessment(plain):
    table = some_table()
    draws = sample(
        RIGHT.model, table, RiskMeasures.of(table), seed=1, plan=SETTINGS.plan, workers=HERE
    )
    estimate = assess(draws, table)
    risk = plain.models[1].risk
    assert (risk.tau1, risk.tau2) == (estimate.tau1, estimate.tau2)
    assert risk.tau1_deviation == pytest.approx(draws.retained("tau1").std())


def test_an_identifier_is_warned_of_under_every_model():
    keys = [Key.of_size("ID", 90), KEYS[1]]
    table = CellTable.from_codes([[i % 90, i % 12] for i in range(100)], keys, 1500)
    found = compare([RIGHT], table, replace(SETTINGS, held_out=0.0), workers=HERE)
    said = [text for text in found.models[0].risk.warnings if "identifier" in text]
    assert said == list(table_warnings(table)) != []


def test_numbers_do_not_depend_on_workers(plain):
    same(plain, compare([WRONG, RIGHT], some_table(), SETTINGS, workers=Workers(n_workers=2)))


def test_without_records_left_out():
    settings = replace(SETTINGS, held_out=0.0)
    found = compare([RIGHT], some_table(holes=True), settings, workers=HERE)
    assert found.converged
    model = found.models[0]
    assert (model.held_out, model.difference, model.best) == (None, None, False)


def test_finished_fits_are_taken_from_the_store(plain, tmp_path, monkeypatch):
    store = FitStore(folder=tmp_path / "fits")
    same(plain, compare([WRONG, RIGHT], some_table(), SETTINGS, workers=HERE, store=store))
    files = sorted(path.name for path in store.folder.rglob("*") if path.is_file())
    assert files == [FINISHED] * 4
    assert all(p.stat().st_mode & 0o777 == 0o600 for p in store.folder.rglob("*") if p.is_file())

    def fail(*_, **__):
        raise AssertionError("sampled again")

    monkeypatch.setattr(module, "sample", fail)
    again = FitStore(folder=store.folder, resume=True)
    same(plain, compare([WRONG, RIGHT], some_table(), SETTINGS, store=again))
    # Any other order, or a part of the models.
    assert compare([RIGHT], some_table(), SETTINGS, store=again).models[0].best
    with pytest.raises(OutputError, match=r"belongs to another run .*seed"):
        compare([RIGHT], some_table(), replace(SETTINGS, seed=2), store=again)
    with pytest.raises(OutputError, match=r"belongs to another run .*table"):
        compare([RIGHT], some_table(n=140), SETTINGS, store=again)
    with pytest.raises(AssertionError, match="sampled again"):
        compare([RIGHT], some_table(), SETTINGS, store=store)
    again.clear()
    assert not store.folder.exists()


def test_records_in_another_order_are_another_comparison(tmp_path):
    """The fingerprint of the table is the same, the records left out are not."""
    table = some_table()
    turned = CellTable.from_codes(table.cells[table.record_cell][::-1], KEYS, 1500)
    assert turned.fingerprint == table.fingerprint
    store = FitStore(folder=tmp_path, resume=True)
    compare([RIGHT], table, SETTINGS, workers=HERE, store=store)
    with pytest.raises(OutputError, match=r"belongs to another run .*measures"):
        compare([RIGHT], turned, SETTINGS, workers=HERE, store=store)


def test_an_unfinished_fit_goes_on_where_it_was(plain, tmp_path):
    short = replace(SETTINGS, plan=replace(SETTINGS.plan, thin=3, stop=StopRule(max_sweeps=90)))
    long = replace(SETTINGS, plan=replace(SETTINGS.plan, thin=3))
    store = FitStore(folder=tmp_path / "fits", resume=True)
    early = compare([RIGHT], some_table(), short, workers=HERE, store=store)
    assert not early.converged
    assert early.models[0].risk.sampling.stop_reason == "sweep limit"
    assert len(list(store.folder.rglob(FILE_NAME))) == 2
    late = compare([RIGHT], some_table(), long, workers=HERE, store=store)
    assert not list(store.folder.rglob(FILE_NAME))
    same(late, compare([RIGHT], some_table(), long, workers=HERE))


def test_an_interrupt_keeps_what_is_done(plain, tmp_path, monkeypatch):
    real, calls = module.sample, 0

    def interrupted(*arguments, **options):
        nonlocal calls
        calls += 1
        draws = real(*arguments, **options)
        return replace(draws, stop_reason="interrupted") if calls == 3 else draws

    monkeypatch.setattr(module, "sample", interrupted)
    store = FitStore(folder=tmp_path / "fits", resume=True)
    found = compare([WRONG, RIGHT], some_table(), SETTINGS, workers=HERE, store=store)
    assert found.interrupted
    assert not found.converged
    assert [model.label for model in found.models] == ["wrong"]
    assert len(list(store.folder.rglob(FINISHED))) == 2
    found = compare([WRONG, RIGHT], some_table(), SETTINGS, workers=HERE, store=store)
    assert calls == 5
    same(plain, found)


def test_a_fit_can_be_ended_after_so_many_sweeps(tmp_path):
    limited = replace(SETTINGS, limits={"right": {"risk": 40}})
    model = compare([RIGHT], some_table(), limited, workers=HERE).models[0]
    assert model.risk.sampling.n_sweeps <= 40
    assert model.held_out.sampling.converged
    assert not model.converged


def test_refusals():
    table = some_table()
    with pytest.raises(SpecError, match="no model"):
        compare([], table, SETTINGS)
    twice = Candidate(label="hdp:alpha=shared", model=HDP(alpha="shared"))
    with pytest.raises(SpecError, match="are the same"):
        compare([Candidate(label="hdp", model=HDP()), twice], table, SETTINGS)
    with pytest.raises(SpecError, match="nothing to compare"):
        compare([RIGHT], replace(table, population_size=table.n_records), SETTINGS)
