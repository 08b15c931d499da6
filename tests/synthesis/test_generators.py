"""Generators of synthetic files side by side: scores against twins that count by hand."""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.errors import DataError, SpecError, UnikatError
from unikat.inference.backends import Workers
from unikat.inference.plan import Plan, StopRule
from unikat.studies.designs import Population, Sample, draw_units, second_sample
from unikat.studies.evaluate import Study, evaluate
from unikat.studies.scores import FitScore
from unikat.studies.side_by_side import summarise_synthetic
from unikat.studies.synthesizers import SyntheticScore
from unikat.synthesis import generators as module
from unikat.synthesis.generators import (
    ByModel,
    Made,
    Measured,
    Training,
    cart,
    generators,
    independence,
)
from unikat.synthesis.told import score_files, split_files
from unikat.synthesis.utility import margin_distances

LEVELS = (3, 4, 2)
KEYS = [Key.of_size(name, n) for name, n in zip("ABC", LEVELS, strict=True)]
PLAN = Plan(n_chains=2, stop=StopRule(max_sweeps=60))


def persons(n: int, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    first = rng.choice(3, n, p=[0.6, 0.3, 0.1])
    second = (first + rng.choice(4, n, p=[0.7, 0.1, 0.1, 0.1])) % 4
    return np.column_stack((first, second, rng.choice(2, n, p=[0.8, 0.2]))).astype(np.int32)


def population(n: int = 60, seed: int = 1) -> Population:
    return Population.of(CellTable.from_codes(persons(n, seed), KEYS, population_size=n))


def drawn(whole: Population, n: int, repeat: int = 1) -> tuple[Sample, Sample]:
    one = whole.sample(draw_units(whole, n, repeat, seed=5))
    return one, second_sample(whole, one, n, repeat, 5)


def training(sample: Sample, second: Sample, seed: int = 3) -> Training:
    return Training(sample.table, second.table, seed, PLAN, 1)


def rows(table: CellTable) -> list[tuple[int, ...]]:
    return [tuple(row) for row in table.cells[table.record_cell].tolist()]


def twin(everybody: list[Any], sample: list[Any], made: list[Any]) -> dict[str, Any]:
    """Count all that a score holds, record by record."""
    whole, there, file = Counter(everybody), Counter(sample), Counter(made)
    unique = [one for one in sample if there[one] == 1]
    distances = []
    for order in (1, 2, 3):
        found = []
        for keys in itertools.combinations(range(3), order):
            parts = [
                Counter(tuple(row[j] for j in keys) for row in records)
                for records in (everybody, made)
            ]
            cells = set(parts[0]) | set(parts[1])
            found.append(
                sum(abs(parts[0][c] / len(everybody) - parts[1][c] / len(made)) for c in cells) / 2
            )
        distances.append(sum(found) / len(found))
    rates = []
    for target in range(3):
        known = [j for j in range(3) if j != target]
        for person in unique:
            apart = [sum(row[j] != person[j] for j in known) for row in made]
            near = [row for row, far in zip(made, apart, strict=True) if far == min(apart)]
            rates.append(sum(row[target] == person[target] for row in near) / len(near))
    return {
        "n_records": len(made),
        "distances": pytest.approx(tuple(distances)),
        "reproduced": sum(file[one] > 0 for one in unique),
        "reproduced_alone": sum(file[one] > 0 and whole[one] == 1 for one in unique),
        "claims": sum(file[one] == 1 for one in made),
        "true_claims": sum(file[one] == 1 and whole[one] == 1 and there[one] > 0 for one in made),
        "apart": None,
        "inferred": pytest.approx(sum(rates) / len(rates)),
    }


@pytest.mark.parametrize("seed", range(4))
def test_a_score_is_what_a_slow_twin_counts(seed: int) -> None:
    whole = population(40, seed)
    sample, second = drawn(whole, 12, seed + 1)
    scorer = Measured.of(independence, whole)
    for codes in (persons(12, seed + 50), second.table.cells[second.table.record_cell]):
        found = scorer.scored(sample, codes)
        wanted = twin(rows(whole.table), rows(sample.table), [tuple(r) for r in codes.tolist()])
        assert {name: getattr(found, name) for name in wanted} == wanted


def test_a_planted_claim_that_forgets_the_sample_is_found(monkeypatch: Any) -> None:
    """A claim about a population unique who is not in the sample is not true."""
    whole = population(40, 2)
    sample, second = drawn(whole, 15)
    codes = second.table.cells[second.table.record_cell]
    alone = whole.table.cells[whole.table.counts == 1]
    # What a score that forgot the sample would say: the others' population uniques are claims too.
    forgetful = module.is_in(alone, codes, LEVELS).sum()
    assert forgetful > 0
    assert Measured.of(independence, whole).scored(sample, codes).true_claims == 0


def test_the_second_sample_is_of_others_and_its_own_address() -> None:
    whole = population(50)
    sample, second = drawn(whole, 20)
    assert len(second.units) == 20
    assert not set(sample.units.tolist()) & set(second.units.tolist())
    assert second_sample(whole, sample, 20, 1, 5).units.tolist() == second.units.tolist()
    assert second_sample(whole, sample, 20, 2, 5).units.tolist() != second.units.tolist()
    # Everybody else has the same chance.
    counts = np.zeros(50)
    for repeat in range(1, 1001):
        counts[second_sample(whole, sample, 20, repeat, 5).units] += 1
    others = np.setdiff1d(np.arange(50), sample.units)
    assert counts[sample.units].sum() == 0
    expected = 1000 * 20 / 30
    assert ((counts[others] - expected) ** 2 / (expected / 3)).sum() < 60


def test_independence_keeps_margins_and_loses_what_joins_the_keys() -> None:
    whole = population(8_000)
    sample, second = drawn(whole, 4_000)
    made = independence(training(sample, second)).codes
    codes = sample.table.cells[sample.table.record_cell]
    for j, n_levels in enumerate(LEVELS):
        shares = [np.bincount(one[:, j], minlength=n_levels) / 4_000 for one in (codes, made)]
        assert np.abs(shares[0] - shares[1]).max() < 0.04
    joint = np.bincount(made[:, 0] * 4 + made[:, 1], minlength=12).reshape(3, 4) / 4_000
    product = joint.sum(axis=1)[:, None] * joint.sum(axis=0)
    assert np.abs(joint - product).max() < 0.02


def _two_keys(n: int) -> tuple[Sample, Sample]:
    """A population whose second key is told by the first in two cases of three."""
    rng = np.random.default_rng(8)
    first = rng.integers(0, 3, 2 * n)
    second = np.where(first == 2, rng.integers(2, 4, 2 * n), first)
    codes = np.column_stack((first, second, np.zeros(2 * n, int)))
    whole = Population.of(CellTable.from_codes(codes, KEYS, population_size=2 * n))
    return drawn(whole, n)


def _is_the_law_of_leaves(made: Made) -> bool:
    """Whether the second key follows the first as in `_two_keys`."""
    first, second = made.codes[:, 0], made.codes[:, 1]
    told = (second == first)[first < 2].all()
    shares = np.bincount(second[first == 2], minlength=4) / max((first == 2).sum(), 1)
    return bool(told and np.abs(shares - [0, 0, 0.5, 0.5]).max() < 0.06)


def test_cart_draws_from_the_leaf_and_a_planted_bug_does_not(monkeypatch: Any) -> None:
    pytest.importorskip("sklearn")
    sample, second = _two_keys(3_000)
    made = cart(training(sample, second))
    assert _is_the_law_of_leaves(made)
    assert (made.codes[:, 2] == 0).all()
    again = cart(training(sample, second))
    assert (made.codes == again.codes).all()
    assert (made.codes != cart(training(sample, second, seed=4)).codes).any()

    def from_all(leaves: Any, values: Any, wanted: Any, rng: Any) -> Any:
        return values[rng.integers(0, len(values), len(wanted))]

    monkeypatch.setattr(module, "_from_leaves", from_all)
    assert not _is_the_law_of_leaves(cart(training(sample, second)))


def test_splits_that_correct_nothing_are_taken_back(monkeypatch: Any) -> None:
    """As rpart does: the commonest value is 0 in both groups, so the tree is its root."""
    pytest.importorskip("sklearn")
    rng = np.random.default_rng(3)
    known = np.repeat([0, 1], 4_000)[:, None].astype(np.int32)
    values = (rng.random(8_000) < np.where(known[:, 0] == 0, 0.1, 0.3)).astype(np.int32)

    def shares() -> Any:
        made = module.cart_values(known, values, known, np.random.default_rng(4))
        return made[:4_000].mean(), made[4_000:].mean()

    assert shares() == pytest.approx((0.2, 0.2), abs=0.03)
    monkeypatch.setattr(module, "_pruned", lambda leaves, values, left, right: np.arange(len(left)))
    assert shares() == pytest.approx((0.1, 0.3), abs=0.03)


def test_leaves_are_drawn_by_their_records() -> None:
    rng = np.random.default_rng(2)
    leaves = np.array([7, 2, 7, 2, 7, 4])
    values = np.array([0, 1, 0, 3, 2, 9], np.int32)
    found = module._from_leaves(leaves, values, np.repeat([7, 2, 4], 6_000), rng)
    of_seven, of_two, of_four = np.split(found, 3)
    assert np.bincount(of_seven, minlength=4)[[0, 2]] / 6_000 == pytest.approx(
        [2 / 3, 1 / 3], abs=0.03
    )
    assert set(of_seven) == {0, 2}
    assert np.bincount(of_two, minlength=4)[[1, 3]] / 6_000 == pytest.approx([0.5, 0.5], abs=0.03)
    assert set(of_four) == {9}


def test_a_machine_without_scikit_learn_says_what_to_install(monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.tree", None)
    sample, second = drawn(population(), 10)
    with pytest.raises(UnikatError, match=r"unikat\[cart\]"):
        cart(training(sample, second))


def test_the_files_of_a_model_are_those_of_its_chains() -> None:
    whole = population(400)
    sample, second = drawn(whole, 80)
    ours = generators(["latent-class"])["latent-class"]
    made = ours(training(sample, second))
    assert made.codes.shape == (80, 3)
    assert (made.codes == ours(training(sample, second)).codes).all()
    assert (made.codes < np.array(LEVELS)).all()


def test_generators_by_name() -> None:
    found = generators(["gom:components=20", "independence", "independence"])
    assert list(found) == ["gom:components=20", "independence", "second-sample"]
    assert isinstance(found["gom:components=20"], ByModel)
    assert list(generators(["second-sample", "independence"])) == ["second-sample", "independence"]
    with pytest.raises(SpecError, match="componets"):
        generators(["gom:componets=20"])
    with pytest.raises(SpecError, match="has no options"):
        generators(["independence:leaf=2"])


def study(**changes: Any) -> Study:
    return replace(Study(sizes=(20, 12), repeats=3, seed=5, plan=PLAN), **changes)


def test_a_study_of_generators_alone() -> None:
    whole = population(200)
    measured = {
        label: Measured.of(one, whole) for label, one in generators(["independence"]).items()
    }
    found = evaluate(whole, {}, study(), synthesizers=measured, workers=Workers(n_workers=1))
    assert not found.scores
    assert found.synthesizers == ("independence", "second-sample")
    assert [(one.n, one.model, one.repeat) for one in found.synthetic] == [
        (n, label, repeat) for n in (12, 20) for label in measured for repeat in (1, 2, 3)
    ]
    for one in found.synthetic:
        sample, second = drawn(whole, one.n, one.repeat)
        assert one.n_uniques == sample.table.n_uniques
        if one.model == "second-sample":
            codes = second.table.cells[second.table.record_cell]
            assert one.synthetic == Measured.of(independence, whole).scored(sample, codes)
    with pytest.raises(SpecError, match="half of the population"):
        evaluate(whole, {}, study(sizes=(101,)), synthesizers=measured)


def a_score(model: str, repeat: int, distance: float, reproduced: int, **changes: Any) -> FitScore:
    score = SyntheticScore(
        n_records=10,
        distances=(0.1, distance),
        reproduced=reproduced,
        reproduced_alone=0,
        claims=0,
        true_claims=0,
        apart=None,
        inferred=None,
    )
    values: dict[str, Any] = {
        "model": model,
        "n": 10,
        "repeat": repeat,
        "n_drawn": 10,
        "n_uniques": 5,
        "tau1_true": 0.0,
        "tau2_true": 1.0,
        "converged": True,
        "synthetic": score,
    }
    return FitScore(**{**values, **changes})


def test_means_and_differences_over_the_samples() -> None:
    scores = [a_score("mine", r, d, k) for r, d, k in ((1, 0.4, 3), (2, 0.6, 5), (3, 0.9, 0))]
    scores[2] = replace(scores[2], synthetic=None, error="failed")
    scores += [a_score("second-sample", r, 0.25, k) for r, k in ((1, 1), (2, 2), (3, 5))]
    mine, second = summarise_synthetic(scores, "second-sample", 0.95)
    assert (mine.n_samples, mine.n_failed) == (2, 1)
    assert mine.distances[1].mean == pytest.approx(0.5)
    assert mine.distance == pytest.approx(2.0)
    assert mine.reproduced is not None
    assert mine.reproduced.mean == pytest.approx(0.8)
    # Differences 0.4 and 0.6: mean 0.5, standard error 0.1, t of one degree 12.706.
    assert mine.reproduced.difference == pytest.approx(0.5)
    assert mine.reproduced.upper == pytest.approx(0.5 + 1.2706, abs=1e-3)
    assert mine.reproduced.lower == pytest.approx(0.5 - 1.2706, abs=1e-3)
    assert mine.true_claims is mine.reproduced_alone is mine.inferred is None
    assert second.distance == 1.0


def test_files_of_others_are_scored_like_ours() -> None:
    whole = population(200)
    measured = {label: Measured.of(one, whole) for label, one in generators([]).items()}
    parts, names, sizes, repeats = [], [], [], []
    for n, repeat in ((12, 1), (20, 3)):
        sample, _ = drawn(whole, n, repeat)
        parts.append(sample.table.cells[sample.table.record_cell])
        names += ["copy"] * n
        sizes += [n] * n
        repeats += [repeat] * n
    files = split_files(np.concatenate(parts), names, sizes, repeats)
    for one, (n, repeat) in zip(
        score_files(whole, study(), files, measured), ((12, 1), (20, 3)), strict=True
    ):
        assert (one.model, one.n, one.repeat) == ("copy", n, repeat)
        assert one.synthetic is not None
        assert one.synthetic.reproduced == one.n_uniques
        assert one.synthetic.reproduced_alone == one.synthetic.true_claims == one.tau1_true
    with pytest.raises(DataError, match="no sample of this study"):
        list(score_files(whole, study(repeats=2), files, measured))
    with pytest.raises(DataError, match="is run here"):
        list(score_files(whole, study(), files, {**measured, "copy": measured["second-sample"]}))
    with pytest.raises(DataError, match="whole numbers"):
        split_files(parts[0], names[:12], [1.5] * 12, repeats[:12])


def test_margins_of_two_keys_have_two_orders() -> None:
    codes = persons(30, 1)[:, :2]
    assert len(margin_distances(codes, np.ones(30, np.int64), codes, LEVELS[:2])) == 2
