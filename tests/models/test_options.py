"""Options of every model: refused with their range, or taken and finished."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.inference.backends import Workers
from unikat.inference.chains import sample
from unikat.inference.plan import Plan, StopRule
from unikat.models import options
from unikat.models.auto import Auto
from unikat.models.catalogue import MODELS
from unikat.models.mixtures.gom import GoM
from unikat.models.options import check_memory, check_numbers, memory
from unikat.risk.measures import RiskMeasures

HOSTILE: tuple[Any, ...] = (
    0, -1, 1e-320, 1e308, float("inf"), float("nan"), 10**30, -(10**30), 10**5000, "", "text",
    "1", b"1", [], [1.0], {}, {"a": 1}, True, False, None, 1j, "\x00", "a" * 10_000,
)  # fmt: skip
NUMBERS = [
    (name, field.name)
    for name, model in MODELS.items()
    for field in fields(model)
    if any(kind in str(field.type) for kind in ("int", "float"))
]
KINDS: dict[str, Any] = {**MODELS, Auto.name: Auto}


def table() -> CellTable:
    rng = np.random.default_rng(1)
    keys = [Key.of_size(name, size) for name, size in (("A", 6), ("B", 3), ("C", 4))]
    codes = np.stack([rng.integers(0, key.n_levels, 60) for key in keys], axis=1)
    codes[::9, 2] = -1
    return CellTable.from_codes(codes, keys, population_size=900)


def finishes(model: Any) -> None:
    """Hold a short run to numbers that are numbers."""
    what = table()
    draws = sample(
        model,
        what,
        RiskMeasures.of(what),
        seed=1,
        plan=Plan(n_chains=2, thin=1, stop=StopRule(max_sweeps=4)),
        workers=Workers(n_workers=1, n_threads=1),
    )
    assert draws.n_sweeps == 4
    assert all(np.isfinite(values).all() for values in draws.scalars.values())


@pytest.mark.parametrize("name", KINDS)
def test_hostile_values_are_refused_in_one_message_or_within_the_range(name: str) -> None:
    kind = KINDS[name]
    for field in fields(kind):
        told = []
        for value in HOSTILE:
            try:
                kind(**{field.name: value})
            except SpecError as error:
                told.append(str(error))
        assert all(len(message) < 400 for message in told)
        # What is no model is told by the catalogue.
        assert field.name == "candidates" or all(field.name in message for message in told)
        # Texts such as terms are checked where the keys are known.
        assert len(told) >= 10, field.name


@pytest.mark.parametrize("name", MODELS)
def test_the_ends_of_every_range_are_taken_and_a_run_with_them_finishes(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranges: dict[str, tuple[float, float]] = {}
    check = options.check_numbers

    def noted(model: object, asked: dict[str, tuple[float, float]], also: str = "") -> None:
        ranges.update(asked)
        check(model, asked, also)

    for module in {kind.__module__ for kind in MODELS[name].__mro__[:-1]}:
        if module.startswith("unikat.models"):
            monkeypatch.setattr(f"{module}.check_numbers", noted, raising=False)
    given = {field: 0.5 for _, field in NUMBERS if _ == name}
    for field in given:
        try:
            MODELS[name](**{field: 0.5})
        except SpecError:
            assert field in ("components", "n_cells")
    monkeypatch.undo()
    for field, ends in ranges.items():
        for end in ends:
            finishes(MODELS[name](**{field: end}))
            with pytest.raises(SpecError, match=field):
                MODELS[name](**{field: np.nextafter(end, -1 if end == ends[0] else np.inf)})
    assert set(ranges) >= set(given) - {"components", "n_cells"}


def test_a_range_is_told() -> None:
    with pytest.raises(SpecError) as told:
        MODELS["mixed-effects"](effect_variance=1e-320)
    assert str(told.value) == (
        "model option effect_variance is 1e-320; it must be a number from 0.001 to 10,000."
    )
    with pytest.raises(SpecError, match=r"profile_shape is 1e\+308; .* from 1e-06 to 1,000,000\."):
        MODELS["hdp"](profile_shape=1e308)
    with pytest.raises(SpecError, match=r"is a whole number of about 5,00. digits; .*'learned'"):
        MODELS["hdp"](profile_concentration=10**5000)


def test_a_number_is_no_truth_value() -> None:
    class Options:
        share = True

    with pytest.raises(SpecError, match="share is true"):
        check_numbers(Options(), {"share": (0.0, 1.0)})


def test_what_does_not_fit_into_memory_is_refused_before_it_is_allocated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    available = memory()
    assert available is None or available > 2**27
    monkeypatch.setattr(options, "memory", lambda: 2**30)
    check_memory(2**30, "This", "Less.")
    with pytest.raises(SpecError, match=r"This would take about 3 GiB .* has 1 GiB. Less\."):
        check_memory(3 * 2**30, "This", "Less.")
    plan = Plan(n_chains=1024, stop=StopRule(max_sweeps=4))
    with pytest.raises(SpecError, match=r"1,024 chains of the model gom would take about"):
        sample(GoM(components=10_000), table(), RiskMeasures.of(table()), seed=1, plan=plan)
    monkeypatch.setattr(options, "memory", lambda: None)
    check_memory(2**80, "This", "Less.")
