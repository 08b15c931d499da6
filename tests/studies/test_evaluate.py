from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

from risk.toy_model import Toy
from studies.test_designs import people
from unikat.errors import SpecError, UnikatError
from unikat.inference.backends import Workers
from unikat.inference.chains import sample
from unikat.inference.plan import Plan, StopRule
from unikat.inference.progress import Watcher
from unikat.models.households.nested import NestedHouseholds
from unikat.risk.estimate import assess
from unikat.risk.measures import RiskMeasures
from unikat.studies.designs import chain_seed, draw_units
from unikat.studies.evaluate import Study, evaluate
from unikat.studies.scores import Fit

PLAN = Plan(n_chains=2, stop=StopRule(max_sweeps=60))
HERE = Workers(n_workers=1)


class Memory:
    """A store that also counts."""

    def __init__(self) -> None:
        self.kept: dict[Fit, Any] = {}
        self.found = 0

    def load(self, fit: Fit) -> Any:
        self.found += fit in self.kept
        return self.kept.get(fit)

    def save(self, score: Any) -> None:
        self.kept[Fit(model=score.model, n=score.n, repeat=score.repeat)] = score


@dataclass(frozen=True, kw_only=True)
class Refusing(Toy):
    name: ClassVar[str] = "refusing"
    population: ClassVar[str] = "multinomial"
    uncertainty: ClassVar[str] = "posterior"

    def prepare(self, table: Any) -> Any:
        if table.n_records == 12:
            raise UnikatError("This model needs other records.")
        if table.n_records == 20:
            raise ValueError("a record's value")
        return super().prepare(table)


def study(**changes: Any) -> Study:
    return replace(Study(sizes=(20, 12), repeats=3, seed=5, plan=PLAN), **changes)


def numbers(evaluation: Any) -> list[Any]:
    found = []
    for score in evaluation.scores:
        arrays = score.records and [getattr(score.records, n).tolist() for n in ("unique", "r1")]
        found.append((replace(score, seconds=None, records=None), arrays))
    return found


def test_each_fit_is_that_of_its_sample_alone():
    population = people(60, seed=1)
    found = evaluate(population, {"toy": Toy(), "free": Toy(independent=True)}, study(),
                     workers=HERE)  # fmt: skip
    assert found.complete
    assert [(s.n, s.model, s.repeat) for s in found.scores] == [
        (n, model, repeat) for n in (12, 20) for model in ("toy", "free") for repeat in (1, 2, 3)
    ]
    score = found.scores[4]
    drawn = population.sample(draw_units(population, 12, 2, seed=5))
    model = Toy(independent=True)
    draws = sample(model, drawn.table, RiskMeasures.of(drawn.table), workers=HERE,
                   seed=chain_seed(5, 12, 2), plan=PLAN)  # fmt: skip
    estimate = assess(draws, drawn.table)
    assert (score.tau1_true, score.tau2_true) == (drawn.tau1, drawn.tau2)
    assert (score.tau1, score.tau2_expected) == (estimate.tau1, estimate.tau2_expected)
    assert score.n_drawn == 12
    assert score.records is not None
    assert score.records.r1[:, 0].sum() == score.n_uniques == drawn.table.n_uniques
    np.testing.assert_allclose(
        score.records.r2[:, 1].sum(), estimate.records.r2[drawn.table.unique].sum()
    )
    # The truth is the same for all models.
    truth = {(s.n, s.repeat, s.tau1_true, s.tau2_true, s.n_uniques) for s in found.scores}
    assert len(truth) == 6


def test_neither_workers_nor_other_models_nor_more_repeats_move_a_number():
    population = people(60, seed=1)
    alone = evaluate(population, {"toy": Toy()}, study(repeats=2), workers=HERE)
    two = evaluate(
        population,
        {"free": Toy(independent=True), "toy": Toy()},
        study(sizes=(12, 20), repeats=3),
        workers=Workers(n_workers=2),
    )
    kept = [pair for pair in numbers(two) if pair[0].model == "toy" and pair[0].repeat < 3]
    assert kept == numbers(alone)


def test_a_failure_is_recorded_and_the_rest_goes_on():
    models = {"toy": Toy(), "refusing": Refusing()}
    events: list[Any] = []
    found = evaluate(
        people(60), models, study(repeats=1), workers=HERE, watcher=Watcher(progress=events.append)
    )
    errors = {(score.model, score.n): score.error for score in found.scores}
    assert errors[("toy", 12)] is errors[("toy", 20)] is None
    assert errors[("refusing", 12)] == "This model needs other records."
    hidden = errors[("refusing", 20)]
    assert hidden is not None
    assert hidden.startswith("ValueError at test_evaluate.py:")
    assert "record's value" not in hidden
    failed = next(score for score in found.scores if score.error)
    assert failed.tau1 is None
    assert failed.n_uniques > 0
    assert (events[0].done, events[0].time_left) == (0, None)
    assert (events[-1].done, events[-1].total, events[-1].failed) == (4, 4, 2)


def test_what_is_stored_is_not_fitted_again():
    store, population = Memory(), people(60)
    first = evaluate(population, {"toy": Toy()}, study(repeats=2), workers=HERE, store=store)
    assert len(store.kept) == 4
    again = evaluate(population, {"toy": Toy()}, study(), workers=HERE, store=store)
    assert store.found == 4
    assert len(store.kept) == 6
    assert all(score in again.scores for score in first.scores)


def test_ctrl_c_keeps_what_is_done():
    store, population = Memory(), people(60)

    def stop_after_two(event: Any) -> None:
        if event.done == 2:
            raise KeyboardInterrupt

    found = evaluate(population, {"toy": Toy()}, study(), workers=HERE, store=store,
                     watcher=Watcher(progress=stop_after_two))  # fmt: skip
    assert not found.complete
    assert len(found.scores) == len(store.kept) == 2
    rest = evaluate(population, {"toy": Toy()}, study(), workers=HERE, store=store)
    assert rest.complete
    assert numbers(rest) == numbers(evaluate(population, {"toy": Toy()}, study(), workers=HERE))

    def stop_at_once(event: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate(
            population,
            {"toy": Toy()},
            study(),
            workers=HERE,
            watcher=Watcher(progress=stop_at_once),
        )


def test_an_interrupt_within_a_fit_is_no_result(monkeypatch):
    def interrupted(*arguments: Any, **options: Any) -> Any:
        return replace(sample(*arguments, **options), stop_reason="interrupted")

    monkeypatch.setattr("unikat.studies.fit.sample", interrupted)
    with pytest.raises(KeyboardInterrupt):
        evaluate(people(60), {"toy": Toy()}, study(), workers=HERE)


@pytest.mark.slow
@pytest.mark.parametrize(
    "how", [{"design": "stratified", "allocation": "equal"}, {"design": "pps"}]
)
def test_neither_workers_nor_repeats_move_a_sample_of_unequal_chances(how):
    population = people(60, seed=1)
    alone = evaluate(population, {"toy": Toy()}, study(repeats=2, **how), workers=HERE)
    more = evaluate(
        population, {"toy": Toy()}, study(repeats=3, **how), workers=Workers(n_workers=2)
    )
    kept = [pair for pair in numbers(more) if pair[0].repeat < 3]
    assert kept == numbers(alone)
    assert all(score.error is None for score in alone.scores)
    equal = evaluate(population, {"toy": Toy()}, study(repeats=2), workers=HERE)
    assert [s.tau1_true for s in alone.scores] != [s.tau1_true for s in equal.scores]


def test_the_whole_population_is_known():
    population = people(40)
    found = evaluate(population, {"toy": Toy()}, study(sizes=(40,), repeats=1), workers=HERE)
    (score,) = found.scores
    assert score.tau1 is not None
    assert score.tau1.mean == score.tau1_true == score.n_uniques
    assert score.stop_reason == "known exactly"
    assert found.converged


def test_an_empty_sample_is_told():
    tiny = study(sizes=(1,), repeats=12, design="bernoulli")
    found = evaluate(people(40), {"toy": Toy()}, tiny, workers=HERE)
    drawn = [score.n_drawn for score in found.scores]
    assert 0 in drawn
    assert max(drawn) > 0
    for score in found.scores:
        assert (score.error is not None) == (score.n_drawn == 0)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sizes": ()}, "No sample size"),
        ({"sizes": (0,)}, "at least 1"),
        ({"sizes": (5, 5)}, "more than once"),
    ],
)
def test_impossible_studies_are_refused(changes, words):
    with pytest.raises(SpecError, match=words):
        study(**changes)


def test_studies_that_do_not_fit_the_population_are_refused():
    population = people(40)
    for choice, changes, models, words in (
        (population, {}, {"a": Toy(), "b": Toy()}, "'a' and 'b' are the same"),
        (population, {"sizes": (41,)}, {"toy": Toy()}, "larger than the population"),
        (population, {}, {}, "No model"),
        (population, {}, {"ties": NestedHouseholds(ties="head")}, "ties is for synthetic"),
        (
            population,
            {"design": "stratified", "allocation": "equal", "sizes": (2, 9)},
            {"toy": Toy()},
            "sample size 2 is smaller than the number of strata, 3",
        ),
    ):
        with pytest.raises(SpecError, match=words):
            evaluate(choice, models, study(**changes), workers=HERE)
