"""Columns of a design: what is read, what is refused, and the classes that are made of weights."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unikat.data import Design, Microdata, read
from unikat.data.sampling import LEAST_RECORDS, MOST_CLASSES, SAME_WEIGHT, sampling_of
from unikat.errors import DataError, SpecError
from unikat.spec.assessment import AssessmentSpec


def microdata(design: Design, **columns: Any) -> Microdata:
    n = len(next(iter(columns.values())))
    frame = pd.DataFrame({"A": np.arange(n) % 2, "B": np.arange(n) % 3, **columns})
    return read(frame, ["A", "B"], design)


def sampling(design: Design, **columns: Any) -> Any:
    table = microdata(design, **columns).tabulate()
    return table.sampling, table.population_size


@pytest.mark.parametrize(
    ("design", "column", "words"),
    [
        (Design(weights="W"), [1.0, None, 2.0], r"1 of 3 values are missing \(rows 2\)"),
        (Design(weights="W"), [1.0, np.nan, 2.0], "are missing"),
        (Design(weights="W"), ["1.5", "x", "2,5"], r"2 of 3 values are no numbers \(rows 2, 3\)"),
        (Design(weights="W"), ["1", " ", "2"], "are missing"),
        (Design(weights="W"), [1.0, -1.0, 2.0], "are negative"),
        (Design(weights="W"), [1.0, 0.0, 2.0], "are 0"),
        (Design(weights="W"), [1.0, np.inf, 2.0], "are infinite"),
        (Design(weights="W"), [True, False, True], "are no numbers"),
        (Design(inclusion="W"), [0.5, 1.5, 1.0], "are above 1"),
        (Design(weights="W", population_size=100), [1.0, 1.0, 1.0], "--relative-weights"),
        (Design(weights="W", population_size=100), [200.0, 1.0, 1.0], "sum to 202"),
        # Sums that are no size of a population, or no number at all.
        (Design(weights="W"), [1e300, 1.0, 1.0], "which is no size of a population"),
        (Design(weights="W"), [1e308, 1e308, 1e308], "sum to inf"),
        (Design(weights="W", population_size=9), [1e308, 1e308, 1e308], "sum to inf"),
        (
            Design(weights="W", population_size=9, relative_weights=True),
            [1e308, 1e308, 1e308],
            "sum to inf",
        ),
        (Design(inclusion="W"), [1e-310, 1.0, 1.0], "sum to inf"),
        (Design(strata="W", stratum_sizes={"1": 9, "2": 9}), [1, 2, None], "are missing"),
        (Design(strata="W", stratum_sizes={"1": 1, "2": 9}), [1, 2, 1], "more records"),
        (Design(strata="W", stratum_sizes={"1": 9, "2": 9}), [1, 1, 1], "have no record"),
    ],
)
def test_columns_that_cannot_be_used(design: Design, column: Any, words: str) -> None:
    with pytest.raises(DataError, match=words) as caught:
        sampling(design, W=column)
    assert "202.0" not in str(caught.value)


@given(st.integers(1, 900), st.integers(0, 10**6), st.sampled_from([0.01, 0.3, 2.0]))
@settings(deadline=None, max_examples=60)
def test_classes_of_weights(n, seed, spread):
    """Every class has a record, and the weights of a class lie between those of its neighbours."""
    rng = np.random.default_rng(seed)
    weights = np.exp(spread * rng.normal(size=n))
    if seed % 3 == 0:
        weights = np.round(weights, 1) + 0.1
    found = sampling_of(weights, 10 * n)
    assert found.weights.sum() == pytest.approx(10 * n)
    np.testing.assert_allclose(found.weights / weights, 10 * n / weights.sum())
    assert found.n_sampled.min() >= 1
    assert found.n_strata <= MOST_CLASSES
    np.testing.assert_allclose(found.sizes, np.bincount(found.strata, found.weights))
    ends = [found.weights[found.strata == h] for h in range(found.n_strata)]
    for lower, upper in itertools.pairwise(ends):
        assert lower.max() < upper.min() * (1.0 + 1e-6)
    few = len(np.unique(np.round(np.log(weights) / np.log(SAME_WEIGHT), 6))) <= MOST_CLASSES
    assert few or found.n_strata <= max(2, n // LEAST_RECORDS)


def test_weights_that_are_the_same_are_one_class():
    assert sampling_of(np.array([3.0, 3.1, 3.05]), 30).n_strata == 1
    rounded = np.array([0.1 + 0.2, 0.3, 0.3, 0.6])
    assert sampling_of(rounded, 30).strata.tolist() == [0, 0, 0, 1]


def test_codes_of_long_identifiers():
    """Households numbered by more digits than a float or 64 bits hold stay apart."""
    design = Design(population_size=9)
    names = ["10000000000000001", "10000000000000002", "3", "10000000000000001"]
    codes, values = microdata(design, HH=names).codes("HH")
    assert codes.tolist() == [1, 2, 0, 1]
    long = ["100000000000000000000001", "100000000000000000000002", "7", "7.0"]
    codes, values = microdata(design, HH=long).codes("HH")
    assert codes.tolist() == [1, 2, 0, 0]
    assert values == ["7", *long[:2]]
    assert microdata(design, HH=["b", None, "", " a "]).codes("HH")[0].tolist() == [1, -1, -1, 0]


def test_numbers_of_any_column(tmp_path: Path):
    path = tmp_path / "firms.csv"
    path.write_text("A,B,STAFF\n1,1,12\n1,2,7.5\n2,1,1e3\n")
    firms = read(path, "A,B", Design(population_size=9))
    assert firms.numbers("STAFF").tolist() == [12.0, 7.5, 1000.0]
    assert firms.numbers("B").tolist() == [1.0, 2.0, 1.0]
    # Other columns than the keys, before and after the keys.
    assert firms.tabulate().n_records == 3
    assert firms.codes("STAFF")[0].tolist() == [1, 0, 2]
    assert firms.tabulate().cells.tolist() == [[0, 0], [0, 1], [1, 0]]
    with pytest.raises(DataError, match="Did you mean 'STAFF'"):
        firms.numbers("STAF")
    path.write_text("A,B,STAFF\n1,1,12\n")
    with pytest.raises(DataError, match="has changed"):
        firms.numbers("STAFF")


def test_a_key_may_not_have_the_name_of_the_class():
    frame = pd.DataFrame({"A": [1, 2], "sampling class": [1, 2]})
    with pytest.raises(SpecError, match="rename the column"):
        read(frame, ["A", "sampling class"], Design(population_size=9))


@pytest.mark.parametrize("name", ["weights", "inclusion", "strata"])
@pytest.mark.parametrize("values", [pd.Series([0.5, 1.0]), np.array([0.5, 1.0]), [0.5, 1.0], 3])
def test_columns_are_named_and_not_handed_over(name: str, values: Any):
    with pytest.raises(SpecError) as caught:
        Design(population_size=9, **{name: values})
    message = str(caught.value)
    assert message.startswith(f"{name} must be the name of a column of the data, and is a ")
    assert type(values).__name__ in message
    assert f"frame['{name}'] = values" in message
    assert "0.5" not in message
    if not isinstance(values, int):
        with pytest.raises(SpecError) as again:
            AssessmentSpec.parse({"keys": ["A", "B"], "design": {name: values}})
        assert str(again.value) == message
