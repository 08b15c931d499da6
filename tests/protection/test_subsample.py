"""A sample of the records as protection, against the parts it is made of, and files."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import unikat
from protection.test_protect import people
from protection.test_what_if import ALONE, SHORT, sample_of
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.models.named import build_model
from unikat.protection.hierarchies import choices
from unikat.protection.recoding import Recoding, parse_recoding
from unikat.protection.search import Search, Value
from unikat.protection.subsample import Shares, table_of
from unikat.protection.what_if import Posterior
from unikat.risk.limits import smallest
from unikat.spec.limits import Limit
from unikat.studies.fit import fit


def posterior_of(table: CellTable) -> Posterior:
    return Posterior.of(
        fit(build_model("latent-class", {}), table, seed=1, plan=SHORT, execution=ALONE)
    )


@pytest.fixture(scope="module")
def complete() -> Posterior:
    return posterior_of(sample_of())


@pytest.fixture(scope="module")
def incomplete() -> Posterior:
    return posterior_of(sample_of(missing=0.06))


def halves(n: int) -> tuple[Any, Any]:
    held = np.random.default_rng(5).random(n) < 0.4
    return held, ~held


RULES: list[dict[str, Any]] = [{}, {"D": [[0, 1], [2]]}]


@pytest.mark.parametrize("rules", RULES, ids=["as it is", "recoded"])
def test_each_part_has_its_own_sample_uniques(complete: Posterior, rules: dict[str, Any]) -> None:
    recoding = parse_recoding(complete.table, rules)
    table = recoding.table(complete.table)
    whole = complete.what_if(recoding)
    assert table.n_uniques
    assert (table.counts == 2).any()
    for held in halves(table.n_records):
        found = complete.what_if(replace(recoding, held=held))
        shown = np.bincount(table.record_cell[~held], minlength=table.n_cells)
        certain, unique = (table.counts == 1) & (shown == 1), shown == 1
        assert found.table.n_uniques == unique.sum() > certain.sum()
        assert found.tau1.mean == pytest.approx(whole.records.r1[certain].sum())
        # E 1/F of a cell of several records does not depend on who of them is released.
        r2 = whole.records.r2[unique & ~certain].sum()
        matches = complete.what_if(replace(recoding, held=None)).records.r2[certain].sum()
        assert found.tau2.mean == pytest.approx(r2 + matches, rel=1e-3)
        assert smallest(found.table) == shown[shown > 0].min()
        for limit in ("r1 <= 0.1", "records(r1 > 0.1) <= 3", "tau1 <= 5", "tau2 <= 5"):
            quick = complete.value(replace(recoding, held=held), Limit.of(limit), 0.95)
            closely = complete.measured(replace(recoding, held=held), Limit.of(limit), 0.95)
            assert Limit.of(limit).met(quick.measure) == Limit.of(limit).met(closely)


@pytest.mark.parametrize("kind", ["complete", "incomplete"])
def test_population_uniques_are_shared_by_the_parts(
    kind: str, request: pytest.FixtureRequest
) -> None:
    posterior: Posterior = request.getfixturevalue(kind)
    for rules in RULES:
        recoding = parse_recoding(posterior.table, rules)
        whole = posterior.what_if(recoding)
        parts = [
            posterior.what_if(replace(recoding, held=held))
            for held in halves(posterior.table.n_records)
        ]
        # Of every population unique one part has the record.
        assert sum(one.tau1.mean for one in parts) == pytest.approx(whole.tau1.mean)
        if kind == "incomplete":
            shown = [one.tau1_shown for one in (*parts, whole)]
            assert all(shown)
            means = [one.mean for one in shown if one is not None]
            assert sum(means[:2]) == pytest.approx(means[2])
        assert sum(one.tau2.mean for one in parts) > whole.tau2.mean


def test_what_the_states_say_is_what_populations_show(complete: Posterior) -> None:
    """Of populations drawn from the states: who is alone in the released file, and in all."""
    recoding = parse_recoding(complete.table, {})
    table, held = complete.table, halves(complete.table.n_records)[0]
    found = complete.what_if(replace(recoding, held=held))
    shown = np.bincount(table.record_cell[~held], minlength=table.n_cells)
    rng, tau1, tau2 = np.random.default_rng(3), [], []
    unobserved = table.n_units - table.n_records
    for chain in complete.states:
        for stream, state in chain[::4]:
            p = complete.model.cell_probabilities(stream, state, complete.data, table.cells)
            for _ in range(5):
                counts = table.counts + rng.multinomial(unobserved, [*p, 1.0 - p.sum()])[:-1]
                tau1.append((counts[shown == 1] == 1).sum())
                tau2.append((1.0 / counts[shown == 1]).sum())
    for drawn, one in ((tau1, found.tau1), (tau2, found.tau2)):
        error = np.std(drawn) / np.sqrt(len(drawn) / 5)
        assert abs(np.mean(drawn) - one.mean) < 4.0 * error
        assert np.mean((np.array(drawn) >= one.lower) & (np.array(drawn) <= one.upper)) > 0.9


def test_who_knows_who_is_in_the_file_finds_every_sample_unique(
    complete: Posterior, incomplete: Posterior
) -> None:
    recoding = parse_recoding(complete.table, {})
    held = halves(complete.table.n_records)[0]
    found = complete.within_sample.what_if(replace(recoding, held=held))
    assert found.tau1.mean == found.tau2.mean == found.table.n_uniques
    assert found.tau1.mean > complete.what_if(replace(recoding, held=held)).tau1.mean
    within = incomplete.within_sample.what_if(replace(recoding, held=held))
    # Complete records that are alone in the file are so unless one with missing keys joins them.
    assert within.tau1.mean == pytest.approx(within.tau2.mean)
    assert 0.5 * within.table.n_uniques < within.tau1.mean


def test_the_smallest_combination_counts_held_records(complete: Posterior) -> None:
    recoding = parse_recoding(complete.table, {"A": None, "B": None, "C": None})
    held = np.ones(complete.table.n_records, np.bool_)
    held[:40] = False
    limit = Limit.of("population_k >= 2")
    whole = complete.measured(recoding, limit, 0.95)
    table = recoding.table(complete.table)
    assert complete.measured(replace(recoding, held=held), limit, 0.95) >= whole > 40
    assert smallest(replace(table, held=held)) < table.counts.min() <= whole


def test_samples_are_nested_and_take_as_much_of_every_class() -> None:
    rng = np.random.default_rng(2)
    classes = rng.choice(4, 1_000, p=[0.5, 0.3, 0.19, 0.01]).astype(np.int32)
    found = Shares.of([0.1, 1.0, 0.5, 0.25], 1_000, classes=classes, seed=7)
    assert found.shares == (1.0, 0.5, 0.25, 0.1)
    assert found.held[0] is None
    held = [one for one in found.held if one is not None]
    for share, one in zip(found.shares[1:], held, strict=True):
        assert (~one).sum() == round(share * 1_000)
        sizes, taken = np.bincount(classes), np.bincount(classes[~one], minlength=4)
        assert (np.abs(taken - share * sizes) < 2.0).all()
        assert taken.min() >= 1
    assert not (~held[1] & held[0]).any()
    assert not (~held[2] & held[1]).any()
    again = Shares.of([0.5], 1_000, classes=classes, seed=7).held[0]
    other = Shares.of([0.5], 1_000, classes=classes, seed=8).held[0]
    assert np.array_equal(again, held[0])
    assert not np.array_equal(other, held[0])
    household = np.repeat(np.arange(250), 4)
    whole = Shares.of([0.5], 1_000, household=household.astype(np.int32), seed=1).held[0]
    assert whole is not None
    assert set(whole.reshape(250, 4).sum(axis=1).tolist()) == {0, 4}
    assert whole.sum() == 500


@pytest.mark.parametrize("measure", ["tau1_estimate", "r1", "tau2_estimate", "k"])
@pytest.mark.parametrize("cost", [0.3, 1.0])
def test_the_search_finds_the_cheapest_of_all_plans(
    complete: Posterior, measure: str, cost: float
) -> None:
    goal = Limit.of("k >= 2")
    if measure != "k":
        recoding, limit = parse_recoding(complete.table, {}), Limit.of(f"{measure} <= 0.5")
        whole = complete.measured(recoding, limit, 0.95)
        goal = Limit.of(f"{measure} <= {0.4 * whole:.4f}")
    parts = choices(
        complete.table,
        given={"A": ([[0, 1], [2, 3]],), "B": ([[0, 1], [2]],), "C": (), "D": (None,)},
    )
    shares = Shares.of([1.0, 0.6, 0.3], complete.table.n_records, cost=cost, seed=4)
    shares = shares.for_limits([(goal, False)])

    def evaluate(recoding: Recoding) -> Value:
        return Value(complete.measured(recoding, goal, 0.95), np.nan)

    search = Search.of(parts, evaluate, shares=shares)
    found = search.best(goal)
    every = list(product(*map(range, search.lost.shape)))
    reach = [at for at in every if goal.met(evaluate(search.recoding(at)).measure)]
    assert 0 < len(reach) < len(every)
    assert found is not None
    assert found.lost == min(search.lost[at] for at in reach)
    assert len(search.seen) < len(every)
    at = search.place(found.recoding)
    each = [one.lost[i] / one.entropy for one, i in zip(parts, at, strict=False)]
    lost = np.sqrt(np.mean(np.square(each)))
    share = shares.shares[search.place(found.recoding)[-1]]
    assert found.lost == pytest.approx(1.0 - (1.0 - lost) * share**cost)


def options(**more: Any) -> dict[str, Any]:
    return {
        "keys": ["sex", "age", "area"], "population_size": 6_000, "max_sweeps": 3_000, "chains": 2,
        "workers": 1, "seed": 3, "progress": False, "model": "latent-class", **more,
    }  # fmt: skip


def crowd() -> pd.DataFrame:
    rng = np.random.default_rng(9)
    return people().assign(area=rng.choice(list("abcdefgh"), 400, p=np.arange(8, 0, -1) / 36.0))


def test_a_protected_file_with_half_of_the_records(tmp_path: Path) -> None:
    frame = crowd().assign(weight=15.0)
    frame.to_csv(tmp_path / "people.csv", index=False)
    found = unikat.protect(
        tmp_path / "people.csv",
        **options(population_size=None, weights="weight", subsample=0.5, perturbation_seed=11),
        out=tmp_path / "out",
    )
    out = pd.read_csv(tmp_path / "out" / "protected.csv")
    assert len(out) == 200
    assert out["weight"].unique().tolist() == [30.0]
    rows = frame.merge(out[["sex", "age"]].drop_duplicates(), on=["sex", "age"])
    assert set(out.columns) == set(frame.columns) - {"id"}
    assert len(rows) >= 200
    summary = found.summary
    assert (summary.share, summary.n_released) == (0.5, 200)
    assert summary.after.tau1.mean < summary.before.tau1.mean
    assert summary.lost == pytest.approx(0.5)
    assert found.plan.also == ("sampled",)
    again = unikat.protect(
        frame,
        **options(population_size=None, weights="weight", subsample="50%", perturbation_seed=11),
    )
    assert again.frame["age"].tolist() == out["age"].tolist()
    assert again.summary.after == summary.after


def test_a_target_is_reached_with_fewer_records_where_that_costs_less() -> None:
    frame = crowd()
    asked = options(target="tau1 <= 5")
    whole = unikat.protect(frame, **asked)
    asked |= {"perturbation_seed": 5}
    found = unikat.protect(frame, **asked, subsample="0.1,0.5,1", weight_of_records=0.01)
    assert found.verdict == whole.verdict == "met"
    assert found.summary.share < 1.0
    assert found.summary.lost < whole.summary.lost
    assert len(found.frame) == found.summary.n_released < len(frame)
    shares = {plan.share for plan in found.summary.plans}
    assert 1.0 in shares
    assert found.summary.share in shares
    both = unikat.protect(frame, **asked, subsample=0.5, suppress="k >= 2", pram={"sex": 0.9})
    assert both.summary.n_released == 200 == len(both.frame)
    assert both.summary.perturbation is not None
    assert both.summary.suppression is not None


def test_the_table_of_the_released_file_stands_for_the_population() -> None:
    frame = people().assign(weight=np.where(np.arange(400) < 100, 40.0, 10.0))
    table = unikat.read(frame, ["sex", "age"], unikat.Design(weights="weight")).tabulate()
    assert table.sampling is not None
    shares = Shares.of([0.3], 400, classes=table.sampling.strata, seed=1)
    rows = np.flatnonzero(~np.asarray(shares.held[0]))
    found = table_of(table, table.cells[table.record_cell[rows]], rows)
    assert found.n_records == len(rows)
    assert found.n_units == table.n_units
    assert found.weights.sum() == pytest.approx(table.weights.sum())


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"subsample": "0.5,half", "target": "k >= 2"}, "'half' is no share; write 0.5 or 50%"),
        ({"subsample": 1.5}, "subsample"),
        ({"subsample": [0.5, 0.25]}, "name one, or add --target"),
        ({"subsample": "0.5,50%", "target": "k >= 2"}, "names a share twice"),
        ({"weight_of_records": 2.0, "target": "k >= 2"}, "belongs to"),
    ],
)
def test_what_cannot_be_asked(more: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError) as caught:
        unikat.protect(people(), **options(**more))
    assert said in str(caught.value)


@pytest.mark.parametrize("share", [0, 2, -0.5, "nan", "0.5,2"])
def test_shares_that_are_none_are_named(share: object) -> None:
    with pytest.raises(SpecError, match=r"--subsample \S+ is no share of the records"):
        unikat.protect(crowd(), **options(subsample=share))
