"""What is released of a sample: planted errors that no other test saw."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import unikat
from protection.test_protect import people
from protection.test_subsample import complete, crowd, halves, options  # noqa: F401
from protection.test_what_if import ALONE, SHORT, sample_of
from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.jobs.protection_target import Stages, explicit_plan, verdicts_of
from unikat.models.named import build_model
from unikat.protection.left_over import known
from unikat.protection.lost import information_lost
from unikat.protection.numeric.risk import near
from unikat.protection.recoding import parse_recoding
from unikat.protection.release import Releases
from unikat.protection.released_plans import ReleasedPlans
from unikat.protection.scenarios import Scenario, Scenarios
from unikat.protection.search import Plan, Value
from unikat.protection.subsample import Shares, table_of
from unikat.protection.what_if import Posterior
from unikat.risk.estimate import assess
from unikat.risk.limits import Measured, smallest
from unikat.spec.limits import Limit
from unikat.studies.fit import Fit, fit

KEYS = [Key.of_size("A", 2), Key.of_size("B", 2)]


def test_wildcards_of_held_records() -> None:
    table = CellTable.from_codes([[0, 0], [0, -1], [1, 1]], KEYS, 9, "wildcard")
    found = replace(table, held=np.array([False, True, False]))
    at = found.record_cell[0]
    assert found.unique[at]
    assert found.released_matches[at] == 1
    assert found.frequency[at] == 2
    assert replace(found, presence_known=True).frequency[at] == 1


def test_a_census_of_which_a_record_is_held_back() -> None:
    table = CellTable.from_codes([[0, 0], [0, 0], [1, 1]], KEYS, 3)
    found = assess(None, replace(table, held=np.array([True, False, False])))
    assert (found.tau1.mean, found.tau2.mean) == (1.0, 1.5)


def test_each_class_stands_for_its_own_units() -> None:
    frame = people().assign(weight=np.where(np.arange(400) < 100, 40.0, 10.0))
    table = unikat.read(frame, ["sex", "age"], unikat.Design(weights="weight")).tabulate()
    of = table.sampling.strata
    rows = np.sort(np.r_[np.flatnonzero(of == 0)[:10], np.flatnonzero(of == 1)[:90]])
    found = table_of(table, table.cells[table.record_cell[rows]], rows)
    for one in range(2):
        assert found.weights[found.sampling.strata == one].sum() == pytest.approx(
            table.weights[of == one].sum()
        )


@pytest.mark.parametrize("column", ["inclusion"])
def test_inclusion_probabilities_fall(column: str) -> None:
    out = unikat.protect(
        crowd().assign(p=1 / 15),
        **options(
            population_size=None, set={"design.inclusion": "p"}, subsample=0.5, perturbation_seed=1
        ),
    ).frame
    assert out["p"].unique() == pytest.approx([1 / 30])


def test_whole_households_and_even_classes_are_released() -> None:
    frame = crowd().assign(
        home=np.arange(400) // 2, weight=np.where(np.arange(400) < 40, 100.0, 10.0)
    )
    out = unikat.protect(
        frame,
        **options(
            population_size=None,
            weights="weight",
            household="home",
            subsample=0.25,
            perturbation_seed=1,
        ),
    ).frame
    assert (out.groupby("home").size() == 2).all()
    assert (out.weight == out.weight.max()).sum() == 10


@pytest.mark.parametrize(
    ("text", "inside", "ordered"),
    [
        ("tau1 <= 5", False, True),
        ("population_k >= 3", False, True),
        ("tau2 <= 5", False, False),
        ("tau2_estimate <= 5", False, False),
        ("k >= 2", False, False),
        ("tau1 <= 5", True, False),
    ],
)
def test_of_which_limits_smaller_shares_are_safer(text: Any, inside: Any, ordered: Any) -> None:
    shares = Shares.of([1.0, 0.5], 10, seed=1)
    assert shares.for_limits([(Limit.of(text), inside)]).ordered is ordered


def test_a_combination_that_is_held_back_is_none(complete: Any) -> None:  # noqa: F811
    recoding = parse_recoding(complete.table, {"A": None, "B": None})
    table = recoding.table(complete.table)
    held = table.record_cell == np.argmin(table.counts)
    limit = Limit.of("population_k >= 2")
    found = complete.measured(replace(recoding, held=held), limit, 0.95)
    assert found > 2 * np.sort(table.counts)[1]
    assert found > complete.measured(recoding, limit, 0.95)


def test_held_persons_are_known_to_be_in_the_population() -> None:
    table = CellTable.from_codes([[0]] * 3 + [[1]] * 4, [Key.of_size("A", 2)], 99)
    recoding = replace(parse_recoding(table, {}), held=np.arange(7) < 2)
    assert (
        Posterior.without_model(table).measured(recoding, Limit.of("population_k >= 2"), 0.95)
        == 3.0
    )


def test_left_columns_of_parts_of_the_file(complete: Any) -> None:  # noqa: F811
    recoding = parse_recoding(complete.table, {})
    shown = complete.table.cells[complete.table.record_cell]
    job = np.random.default_rng(1).integers(0, 3, len(shown)).astype(np.int32)
    whole = known(complete, recoding, shown, {"job": job}, 0.95)
    parts = [
        known(complete, recoding, shown, {"job": job}, 0.95, (), np.flatnonzero(~held))
        for held in halves(len(shown))
    ]
    for name in ("", "job"):
        mean = [one[name].tau1.mean for one in parts]
        assert sum(mean) == pytest.approx(whole[name].tau1.mean, rel=1e-9 if not name else 0.1)
        assert parts[0][name].n_uniques > 0
    assert sum(one["job"].n_uniques for one in parts) > whole["job"].n_uniques


def test_a_quick_look_at_tau2_counts_records_of_which_others_are_held(complete: Any) -> None:  # noqa: F811
    recoding = replace(parse_recoding(complete.table, {}), held=halves(complete.table.n_records)[0])
    limit = Limit.of("tau2_estimate <= 0.001")
    exact = complete.measured(recoding, limit, 0.95)
    assert complete.value(recoding, limit, 0.95).measure == pytest.approx(exact, rel=0.2)


def test_who_knows_no_key_sees_the_released_records(complete: Any) -> None:  # noqa: F811
    (one,) = Scenario.of("x", ("A",), ["k >= 2"], complete.table, in_sample=False)
    held = halves(complete.table.n_records)[0]
    recoding = replace(parse_recoding(complete.table, {"A": None}), held=held)
    found = Scenarios(posterior=complete, scenarios=[one], level=0.95)
    assert found.measure(one, recoding) == (~held).sum()


@pytest.fixture(scope="module")
def fitted() -> Fit:
    return fit(build_model("latent-class", {}), sample_of(), seed=1, plan=SHORT, execution=ALONE)


@pytest.fixture(scope="module")
def posterior(fitted: Fit) -> Posterior:
    return Posterior.of(fitted)


@pytest.mark.parametrize("suppressed", [False, True])
@pytest.mark.parametrize("worse", ["plan", "refit"])
def test_the_less_favourable_of_plan_and_refit(
    fitted: Any, posterior: Any, worse: Any, suppressed: Any
) -> None:
    table = posterior.table
    plan = explicit_plan(table, {"D": None}, [1.0] * 4)
    high, low = posterior.what_if({}), posterior.what_if(plan.recoding)
    assert high.tau2.upper > low.tau2.upper
    promised, refit = (high, low) if worse == "plan" else (low, high)
    (one,) = Scenario.of("all", (), ["tau2 <= 5"], table, in_sample=False)
    released = Measured.of(promised) if suppressed else None
    stages = Stages(high, promised, fitted.table, lambda: posterior, refit, released, ())
    (found,) = verdicts_of(
        0.95, Scenarios(posterior=posterior, scenarios=[one], level=0.95), plan, stages
    )
    assert found.target.value == high.tau2.upper


@pytest.mark.parametrize("text", ["k >= 2", "records(r1 > {:.6f}) <= 0"])
def test_errors_of_counted_limits(posterior: Any, text: Any) -> None:
    recoding = parse_recoding(posterior.table, {})
    r1 = np.nan_to_num(posterior.what_if(recoding).records.r1)
    text = text.format(0.7 * r1.max())
    (one,) = Scenario.of("x", (), [text], posterior.table, in_sample=False, errors=0.5)
    found = Scenarios(posterior=posterior, scenarios=[one], level=0.95)
    true = smallest(posterior.table) if one.target.measure == "k" else 0
    assert found.measure(one, recoding) == true
    quick = found.measure(one, recoding, quickly=True)
    assert one.target.met(quick) == one.target.met(true)


def test_near_is_by_the_deviation_of_what_is_released() -> None:
    found = near(np.array([0.0, 1.0, 2.0]), np.array([0.3, 1.0, 30.0]))
    assert found.deviations.tolist() == [True, True, False]


def test_suppression_and_shares_count_together(posterior: Any) -> None:
    table = posterior.table
    shares = Shares.of([0.5], table.n_records, seed=1)
    recoding = replace(parse_recoding(table, {}), held=shares.held[0])
    releases = Releases(
        posterior=posterior,
        codes=table.cells[table.record_cell],
        assessed=np.arange(table.n_records),
        level=0.95,
        weights=[1.0] * 4,
        weight_of_suppressed=2.0,
        shares=shares,
    )
    plans = ReleasedPlans(releases=releases, target=Limit.of("k >= 2"))
    found = plans._looked_at(Plan(recoding=recoding, lost=0.5, value=Value(0, 0)), {})
    codes = table.cells[table.record_cell[~shares.held[0]]]
    own = information_lost(
        codes, recoding, [1.0] * 4, suppressed=found.release.suppressed, weight_of_suppressed=2.0
    )
    assert found.release.lost == pytest.approx(1 - (1 - own) * 0.5)
    assert found.release.lost > own + 0.1


def test_a_sample_that_is_hardly_perturbed_has_the_risk_of_the_sample() -> None:
    asked = options(subsample=0.5, perturbation_seed=1)
    found = unikat.protect(crowd(), **asked).summary.chosen.risk
    other = unikat.protect(crowd(), **asked, pram={"sex": 0.99999}).summary.released
    assert other.tau2.mean == pytest.approx(found.tau2.mean)
    assert other.tau1.mean == pytest.approx(found.tau1.mean)


def test_the_weights_of_a_sample_sum_to_the_population_in_every_class() -> None:
    rare = np.arange(400) >= 390
    frame = crowd().assign(weight=np.where(rare, 200.0, 10.0))
    asked = options(population_size=None, weights="weight", subsample=0.05, perturbation_seed=1)
    out = unikat.protect(frame, **asked).frame
    assert len(out) == 20
    for few in (False, True):
        of_class = frame.weight[rare == few].sum()
        assert out.weight[(out.weight > 300.0) == few].sum() == pytest.approx(of_class)


def test_a_sample_without_uniques_of_which_records_are_held_back() -> None:
    frame = (
        crowd()
        .loc[:79, ["sex", "age"]]
        .assign(sex=["f", "m"] * 40, age=np.repeat(np.arange(20), 4))
    )
    asked = options(keys=["sex", "age"], subsample=0.5, perturbation_seed=5)
    found = unikat.protect(frame, **asked).summary
    assert found.after.n_uniques > 0
    # Each has a twin that is held back; nobody was modelled, so 1/2 bounds a match.
    assert found.chosen.risk.tau1.upper == 0.0
    assert found.chosen.risk.tau2.mean == found.chosen.risk.n_uniques / 2.0


def test_the_smallest_combination_for_who_knows_the_file(complete: Any) -> None:  # noqa: F811
    recoding = parse_recoding(complete.table, {"A": None, "B": None})
    table = recoding.table(complete.table)
    held = np.zeros(table.n_records, np.bool_)
    held[np.flatnonzero(table.record_cell == np.argmax(table.counts))[1:]] = True
    (one,) = Scenario.of("x", (), ["population_k >= 2"], complete.table, in_sample=True)
    found = Scenarios(posterior=complete, scenarios=[one], level=0.95)
    assert found.measure(one, replace(recoding, held=held)) == 1.0


@pytest.mark.parametrize("ending", ["sav", "dta"])
def test_labels_of_values_that_held_records_alone_have_are_not_released(
    tmp_path: Path, ending: str
) -> None:
    pyreadstat = pytest.importorskip("pyreadstat")
    labels = {1.0: "one", 2.0: "two", 3.0: "three", 4.0: "nobody"}
    n = 60
    frame = pd.DataFrame(
        {
            "KEY": np.arange(n) % 2 + 1.0,
            "AGE": np.arange(n) % 3 + 1.0,
            "CARD": np.where(np.arange(n) < 1, 3.0, np.arange(n) % 2 + 1.0),
        }
    )
    path = tmp_path / f"file.{ending}"
    write = pyreadstat.write_sav if ending == "sav" else pyreadstat.write_dta
    write(frame, path, variable_value_labels={"KEY": labels, "CARD": labels})

    def released(seed: int, **how: Any) -> tuple[set[float], set[float]]:
        made = unikat.protect(
            path, keys=["KEY", "AGE"], population_size=900, model="latent-class", chains=2,
            max_sweeps=20, workers=1, out=tmp_path / "out", overwrite=True, progress=False,
            columns={"CARD": "other"}, **({"perturbation_seed": seed} | how),
        )  # fmt: skip
        read = pyreadstat.read_sav if ending == "sav" else pyreadstat.read_dta
        values, meta = read(tmp_path / "out" / str(made.summary.file))
        return set(meta.variable_value_labels["CARD"]), set(values["CARD"])

    for seed in range(8):
        said, there = released(seed, subsample=0.3)
        assert said == there
        if 3.0 not in there:
            break
    else:
        raise AssertionError("the record was never held back")
    # All records are released: the labels are those of the codebook.
    said, _ = released(0, recode={"AGE": "top(2)"}, perturbation_seed=None)
    assert said == {1.0, 2.0, 3.0, 4.0}
