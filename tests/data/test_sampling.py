"""Weights, inclusion probabilities and strata: what each record stands for, and what is refused."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest

from unikat.data import CellTable, Design, Key, read
from unikat.data.design import Sampling
from unikat.data.sampling import MOST_CLASSES, sampling_of, telling_key
from unikat.errors import DataError, SpecError

N = 400


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    """Records of three strata, with weights that go with the stratum and some that do not."""
    rng = np.random.default_rng(1)
    strata = np.repeat(["b", "a", "c"], [100, 200, 100])
    return pd.DataFrame(
        {
            "A": rng.integers(0, 3, N),
            "B": rng.integers(0, 4, N),
            "S": strata,
            "W": pd.Series(strata).map({"a": 10.0, "b": 2.5, "c": 1.0}),
            "P": 1.0 / pd.Series(strata).map({"a": 10.0, "b": 2.5, "c": 1.0}),
            "V": rng.lognormal(2.0, 1.0, N),
        }
    )


def table(frame: Any, **design: Any) -> CellTable:
    return read(frame, ["A", "B"], Design(**design)).tabulate()


def test_sizes_of_strata(frame):
    found = table(frame, strata="S", stratum_sizes={"c": 100, "a": 2000, "b": 250})
    assert found.population_size == 2350
    assert found.sampling is not None
    assert found.sampling.sizes.tolist() == [2000.0, 250.0, 100.0]
    assert found.sampling.n_sampled.tolist() == [200.0, 100.0, 100.0]
    assert not found.sampling.from_weights
    assert found.weights[:100].tolist() == [2.5] * 100
    assert found.cell_weights.sum() == pytest.approx(2350)
    expected = pd.Series(found.weights).groupby(found.record_cell).sum()
    np.testing.assert_allclose(found.cell_weights, expected)


@pytest.mark.parametrize("column", [{"weights": "W"}, {"inclusion": "P"}])
def test_weights_of_strata_make_classes_of_them(frame, column):
    found = table(frame, strata="S", **column)
    assert found.population_size == 2350
    assert found.sampling is not None
    np.testing.assert_allclose(found.sampling.sizes, [2000.0, 250.0, 100.0])
    assert not found.sampling.from_weights
    # Without the strata the weights tell the same classes, in order of weight.
    alone = table(frame, **column).sampling
    assert alone is not None
    np.testing.assert_allclose(alone.sizes, [100.0, 250.0, 2000.0])
    assert alone.from_weights


def test_a_file_has_the_design_of_a_frame(frame, tmp_path):
    path = tmp_path / "survey.csv"
    frame.to_csv(path, index=False)
    here, there = table(frame, strata="S", weights="W"), table(path, strata="S", weights="W")
    assert here.fingerprint == there.fingerprint
    assert here.fingerprint != table(frame, population_size=2350).fingerprint


def test_a_stratum_may_be_a_key(frame):
    found = read(frame, ["A", "S"], Design(strata="S", weights="W")).tabulate()
    assert found.n_keys == 2
    assert found.sampling is not None
    np.testing.assert_allclose(found.sampling.sizes, [2000.0, 250.0, 100.0])


def test_numbers_name_strata_as_they_are_written(frame, tmp_path):
    """1 in a column of floats is the stratum 1 of the sizes."""
    numbered = frame.assign(S=frame["S"].map({"a": 1.0, "b": 2.0, "c": 10.0}))
    sizes = {"1": 2000, "2": 250, "10": 100}
    found = table(numbered, strata="S", stratum_sizes=sizes)
    assert found.sampling is not None
    assert found.sampling.sizes.tolist() == [2000.0, 250.0, 100.0]


def test_weights_that_differ_within_strata_go_before_them(frame):
    total = round(frame["V"].sum())
    found = table(frame, strata="S", weights="V", population_size=total).sampling
    assert found is not None
    assert found.from_weights
    assert found.n_strata == 4
    np.testing.assert_allclose(found.sizes.sum(), total)


def test_classes_of_weights_hold_neighbours():
    rng = np.random.default_rng(2)
    weights = rng.lognormal(3.0, 1.0, 5000)
    found = sampling_of(weights, 200_000)
    assert found.n_strata == MOST_CLASSES
    np.testing.assert_allclose(found.weights.sum(), 200_000)
    np.testing.assert_allclose(found.sizes, np.bincount(found.strata, found.weights))
    ends = [
        (weights[found.strata == h].min(), weights[found.strata == h].max())
        for h in range(found.n_strata)
    ]
    assert all(before[1] < after[0] for before, after in pairwise(ends))
    assert found.n_sampled.min() > 400


def test_many_strata_that_no_key_tells_are_joined(frame):
    """Forty strata of two sampling fractions: two classes, unless the stratum is a key."""
    many = frame.assign(S=np.arange(N) % 40)
    sizes = {str(s): 100 if s < 10 else 1000 for s in range(40)}
    found = table(many, strata="S", stratum_sizes=sizes)
    assert found.sampling is not None
    assert found.sampling.sizes.tolist() == [1000.0, 30_000.0]
    assert found.sampling.n_sampled.tolist() == [100.0, 300.0]
    assert found.sampling.from_weights
    keyed = read(many, ["A", "S"], Design(strata="S", stratum_sizes=sizes)).tabulate()
    assert keyed.sampling is not None
    assert keyed.sampling.n_strata == 40
    # Few strata stay as they are, whether a key tells them or not.
    few = many.assign(S=many["S"] % 20)
    kept = table(few, strata="S", stratum_sizes={str(s): 1000 + s for s in range(20)}).sampling
    assert kept is not None
    assert kept.n_strata == 20


def test_few_records_with_many_weights_make_two_classes():
    rng = np.random.default_rng(4)
    assert sampling_of(rng.lognormal(2.0, 1.0, 60), 600).n_sampled.tolist() == [30.0, 30.0]


def test_equal_weights_are_one_class():
    assert sampling_of(np.full(50, 3.0), 150).n_strata == 1
    # Rounding errors are no difference.
    assert sampling_of(0.1 * np.array([3.0, 1.0 + 1.0 + 1.0, 3.0000000001]), 9).n_strata == 1
    # Weights within a twentieth of each other neither.
    assert sampling_of(np.linspace(1.0, 1.04, 300), 300).n_strata == 1


def test_relative_weights_are_scaled(frame):
    halved = frame.assign(W=frame["W"] / 1000)
    found = table(halved, weights="W", relative_weights=True, population_size=2350)
    np.testing.assert_allclose(found.cell_weights.sum(), 2350)


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (-1.0, "3 of 400 values are negative (rows 11, 12, 13)"),
        (0.0, "3 of 400 values are 0 (rows 11, 12, 13)"),
        (np.nan, "3 of 400 values are missing (rows 11, 12, 13)"),
        (np.inf, "3 of 400 values are infinite (rows 11, 12, 13)"),
        ("3,5", "3 of 400 values are no numbers (rows 11, 12, 13)"),
        ("heavy", "3 of 400 values are no numbers (rows 11, 12, 13)"),
    ],
)
@pytest.mark.parametrize("as_file", [False, True])
def test_weights_that_are_refused(frame, tmp_path, value, what, as_file):
    bad = frame.assign(W=frame["W"].astype(object if isinstance(value, str) else float))
    bad.loc[10:12, "W"] = value
    bad["W"] = bad["W"].astype(str) if isinstance(value, str) else bad["W"]
    data: Any = bad
    if as_file:
        data = tmp_path / "survey.csv"
        bad.to_csv(data, index=False)
    with pytest.raises(DataError) as caught:
        table(data, weights="W")
    assert what in str(caught.value)
    assert "'W'" in str(caught.value)
    # Never the value itself.
    assert "heavy" not in str(caught.value)
    assert "3,5" not in str(caught.value)


@pytest.mark.parametrize(
    ("design", "error", "says"),
    [
        ({"weights": "W", "population_size": 9_999}, DataError, "sum to 2,350, but the population"),
        ({"weights": "one", "population_size": 9_999}, DataError, "relative weights: say so"),
        ({"weights": "W", "inclusion": "P"}, SpecError, "give one of the two"),
        ({"weights": "nothing"}, DataError, "no column 'nothing'"),
        ({"inclusion": "W"}, DataError, "300 of 400 values are above 1"),
        ({"strata": "S"}, SpecError, "not how many units"),
        ({"strata": "S", "population_size": 5000}, SpecError, "not how many units"),
        ({"stratum_sizes": {"a": 1}}, SpecError, "no column of strata"),
        (
            {"strata": "S", "weights": "W", "stratum_sizes": {"a": 1}},
            SpecError,
            "may contradict each other",
        ),
        ({"strata": "S", "stratum_sizes": {"a": 2000, "b": 250}}, SpecError, "have no size"),
        (
            {"strata": "S", "stratum_sizes": {"a": 2000, "b": 250, "c": 100, "d": 5}},
            DataError,
            "have no record",
        ),
        (
            {"strata": "S", "stratum_sizes": {"a": 20, "b": 250, "c": 100}},
            DataError,
            "more records than units",
        ),
        (
            {
                "strata": "S",
                "stratum_sizes": {"a": 2000, "b": 250, "c": 100},
                "population_size": 5000,
            },
            SpecError,
            "sum to 2,350, but the population size is given as 5,000",
        ),
        ({"relative_weights": True, "population_size": 9}, SpecError, "no column of weights"),
        ({"weights": "W", "relative_weights": True}, SpecError, "population size is needed"),
        ({}, SpecError, "population size is needed"),
    ],
)
def test_designs_that_are_refused(frame, design, error, says):
    with pytest.raises(error) as caught:
        table(frame.assign(one=1.0), **design)
    assert says in str(caught.value)


def test_a_missing_stratum_is_refused(frame):
    holes = frame.copy()
    holes.loc[4, "S"] = None
    with pytest.raises(DataError, match="1 of 400 values are missing"):
        table(holes, strata="S", weights="W")


def test_any_column_is_coded(frame):
    microdata = read(frame.assign(H=np.arange(N) // 4), ["A", "B"], Design(population_size=9999))
    codes, values = microdata.codes("H")
    assert codes.tolist() == (np.arange(N) // 4).tolist()
    assert values[:3] == ["0", "1", "2"]
    with pytest.raises(DataError, match="no column 'h'"):
        microdata.codes("h")


def test_the_records_of_a_table_keep_their_weights(frame):
    """`taken` is what leaving out records does to a sampling."""
    found = table(frame, strata="S", weights="W").sampling
    assert found is not None
    part = found.taken(np.array([0, 150, 399]))
    assert part.weights.tolist() == pytest.approx([2.5, 10.0, 1.0])
    assert part.sizes is found.sizes
    assert part.digest != found.digest


def test_arrays_may_have_a_sampling_too():
    codes = np.array([[0, 1], [1, 1]])
    made = CellTable.from_codes(codes, [Key.of_size("A", 2), Key.of_size("B", 2)], 10)
    assert made.weights.tolist() == [5.0, 5.0]
    assert made.cell_weights.tolist() == [5.0, 5.0]


def test_identifiers_that_are_no_numbers_stay_apart():
    frame = pd.DataFrame({"SEX": [1, 2] * 3, "AGE": [1, 2, 3] * 2,
                          "HID": ["1_23", "12_3", "123", "1e2", "100", "100.0"]})  # fmt: skip
    codes, values = read(frame, ["SEX", "AGE"], Design(population_size=99)).codes("HID")
    assert set(values) == {"1_23", "12_3", "123", "1e2", "100"}
    assert [values[code] for code in codes] == ["1_23", "12_3", "123", "1e2", "100", "100"]


def test_a_key_with_levels_that_occur_once_tells_nothing():
    """Nearly every record has a level of its own: that they agree with the strata is chance."""
    strata = np.repeat([0, 1], [380, 20]).astype(np.int32)
    sizes = np.array([38_000.0, 100.0])
    sampling = Sampling(
        weights=(sizes / [380, 20])[strata], strata=strata, sizes=sizes, from_weights=False
    )
    detailed = np.arange(400)
    detailed[1:30] = 0
    codes = np.column_stack((detailed, np.arange(400) % 3, strata))
    keys = [Key.of_size("JOB", 400), Key.of_size("B", 3), Key.of_size("REGION", 2)]
    table = CellTable.from_codes(codes[:, :2], keys[:2], 38_100)
    assert telling_key(sampling, table) is None
    # The stratum itself does.
    assert telling_key(sampling, CellTable.from_codes(codes, keys, 38_100)) == 2
