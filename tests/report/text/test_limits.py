"""What a report says of the drawing of the sample: never more than the model did."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from unikat import HDP, CellTable, IndividualRisk, Key, Superpopulation1, Superpopulation2
from unikat.data.design import Sampling
from unikat.data.table import Margin
from unikat.report.facts.design import design_result, margin_results
from unikat.report.facts.result import sample_facts
from unikat.report.text import limits, overview
from unikat.spec.tables import DesignSpec


@pytest.fixture(autouse=True)
def _few_records_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables small enough to be enumerated: that a key tells the class is no chance here."""
    monkeypatch.setattr("unikat.data.sampling.NO_CHANCE", -1.0)


def table(*, key: bool, weights: bool = False) -> CellTable:
    codes = np.array([[0, 0], [0, 1], [1, 2], [1, 2], [1, 0]])
    strata = codes[:, 0] if key else np.array([0, 1, 0, 1, 1])
    sampling = Sampling(
        weights=np.array([2.0, 10.0])[strata],
        strata=strata.astype(np.int32),
        sizes=np.array([2.0, 10.0]) * np.bincount(strata),
        from_weights=weights,
    )
    size = int(sampling.sizes.sum())
    made = CellTable.from_codes(codes, [Key.of_size("A", 2), Key.of_size("B", 3)], size)
    return CellTable(**{**vars_of(made), "sampling": sampling})


def vars_of(made: CellTable) -> dict[str, Any]:
    return {name: getattr(made, name) for name in made.__dataclass_fields__}


def result(made: CellTable, model: Any, spec: DesignSpec | None = None) -> Any:
    found = design_result(made, spec or DesignSpec(strata="S", weights="W"), model)
    return SimpleNamespace(
        sample=sample_facts(made),
        design=found,
        margins=margin_results(made),
        unit=made.unit,
        households=None,
        known_exactly=False,
        sampling=None,
        tau1=SimpleNamespace(level=0.95),
        model=model.name,
        fitted_model=model.name,
    )


def test_no_design_is_a_simple_random_sample():
    plain = CellTable.from_codes([[0, 1], [1, 0]], [Key.of_size("A", 2), Key.of_size("B", 2)], 9)
    found = result(plain, HDP())
    assert found.design is None
    assert limits.design_sentences(found) == {}
    title, text = limits.design_limit(found)
    assert title == "The file is a simple random sample"
    assert "give the weights or the strata" in text


@pytest.mark.parametrize("key", [True, False])
def test_facts_of_strata(key):
    found = result(table(key=key), HDP()).design
    assert found.n_classes == 2
    assert found.classes == "strata"
    assert found.told_by == ("A" if key else None)
    assert found.lowest_fraction == pytest.approx(0.1)
    assert found.highest_fraction == pytest.approx(0.5)
    assert found.used == "classes"
    weights = table(key=key).weights
    assert found.design_effect == pytest.approx(1 + weights.var() / weights.mean() ** 2)


@pytest.mark.parametrize(
    ("model", "used", "says"),
    [
        (HDP(), "classes", "are like the records of their class"),
        (IndividualRisk(), "cells", "Weights give the sampling rate of each cell"),
        (Superpopulation2(), "cells", "Weights give the sampling rate of each cell"),
        (Superpopulation1(), "none", "The design is not used"),
        (Superpopulation1(rates="cell"), "cells", "Weights give the sampling rate of each cell"),
    ],
)
def test_what_is_assumed_is_what_the_model_does(model, used, says):
    found = result(table(key=False, weights=True), model)
    assert found.design.used == used
    title, text = limits.design_limit(found)
    assert says in title
    assert "Households and other clusters are not used" in text
    assert "drawn from 2 strata" not in text
    assert "2 classes of about the same weight" in text
    assert "10%" in text
    assert "50%" in text


@pytest.mark.parametrize("designed", [False, True])
def test_whole_households_are_told(designed):
    made = replace(table(key=True), households=np.array([0, 0, 1, 2, 2], np.int32))
    if not designed:
        made = replace(made, sampling=None)
    found = result(made, HDP())
    assert found.sample.n_households == 3
    said = "Whole households were sampled: 3 households with 5 records."
    assert limits.design_sentences(found)["sample.n_households"] == said
    # Page one says it, too.
    assert said in overview.rests_on(found)
    title, text = limits.design_limit(found)
    assert said in text
    assert "are not used" not in text
    assert "that of a sample without the other members" in text
    assert title.startswith("Units outside the file" if designed else "The households are a simple")
    found.fitted_model = "loglinear"
    text = limits.design_limit(found)[1]
    assert "takes persons as drawn one by one" in text
    assert "may be too narrow and too low" in text
    found.model, found.fitted_model = "auto", "latent-class"
    text = limits.design_limit(found)[1]
    assert "uncertainty is that of samples of households" in text
    assert "too narrow" not in text


def test_one_class_leaves_nothing_to_be_used():
    made = table(key=False)
    sampling = Sampling(
        weights=np.full(5, 2.0), strata=np.zeros(5, np.int32), sizes=np.array([10.0]),
        from_weights=True,
    )  # fmt: skip
    made = CellTable(**{**vars_of(made), "sampling": sampling, "population_size": 10})
    found = result(made, HDP())
    assert found.design.used == "none"
    assert "about the same weight" in limits.design_limit(found)[1]


def test_known_margins_are_said_with_what_they_add():
    codes = np.array([[0, 0], [0, 1], [1, 2], [1, 2], [1, 0], [1, 1], [1, -1]])
    made = CellTable.from_codes(codes, [Key.of_size("A", 2), Key.of_size("B", 3)], 100)
    margins = (
        Margin(name="a.csv", keys=(0,), counts=np.array([40, 50]), outside=10),
        Margin(name="b.csv", keys=(1,), counts=np.array([10, 50, 40])),
    )
    known = result(CellTable(**{**vars_of(made), "margins": margins}), HDP())
    first, second = known.margins
    assert (first.file, first.keys, first.n_cells, first.n_outside) == ("a.csv", ("A",), 2, 10)
    # Of the four sample uniques two are at each level: 2 and 5 of 7 records, 40 and 50 of 100.
    errors = [((1 - 7 / 100) * (1 - share) / (7 * share)) ** 0.5 for share in (0.4, 0.5)]
    assert first.standard_error == pytest.approx(np.mean(errors))
    assert first.off == pytest.approx(np.mean([1 - 2 / 7 / 0.4, 5 / 7 / 0.5 - 1]))
    assert second.n_cells == 3
    said = limits.design_sentences(known)["margins"]
    assert "by A (2 cells), B (3 cells) are held at their known values." in said
    assert "From the sample alone" in said
    assert "the number in the B cell of a typical" in said
    title, text = limits.design_limit(known)
    assert title == "Within known margins the file is a simple random sample"
    assert "that the margins do not tell apart" in text
    nobody = np.array([[0, 0], [0, 0], [1, -1]])
    made = CellTable.from_codes(nobody, [Key.of_size("A", 2), Key.of_size("B", 3)], 100)
    without = result(CellTable(**{**vars_of(made), "margins": margins[:1]}), HDP())
    assert without.margins[0].standard_error is None
    assert "From the sample alone" not in limits.design_sentences(without)["margins"]
