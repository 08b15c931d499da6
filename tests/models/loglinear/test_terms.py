"""Terms: what is read, what is maximal, and which models are decomposable, by all of four keys."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import naive
from unikat.errors import SpecError
from unikat.models.loglinear.terms import (
    all_interactions,
    elimination,
    maximal,
    parse_terms,
    write_terms,
)

NAMES = ["AGE", "SEX", "RACE", "K4"]
SUBSETS = [frozenset(one) for size in range(1, 5) for one in itertools.combinations(range(4), size)]


def every_model() -> list[tuple[tuple[int, ...], ...]]:
    """All sets of generators over four keys that name each key: the antichains that cover them."""
    found = []
    for mask in range(1, 1 << len(SUBSETS)):
        sets = [one for i, one in enumerate(SUBSETS) if mask >> i & 1]
        if any(a < b for a in sets for b in sets) or frozenset().union(*sets) != frozenset(
            range(4)
        ):
            continue
        found.append(tuple(sorted(tuple(sorted(one)) for one in sets)))
    return found


MODELS = every_model()


@pytest.mark.parametrize(
    ("text", "generators"),
    [
        ("independence", ((0,), (1,), (2,), (3,))),
        ("two-way", tuple(itertools.combinations(range(4), 2))),
        ("three-way", tuple(itertools.combinations(range(4), 3))),
        ("AGE", ((0,), (1,), (2,), (3,))),
        ("AGE:SEX", ((0, 1), (2,), (3,))),
        (" SEX : AGE+K4", ((0, 1), (2,), (3,))),
        ("AGE:SEX + SEX:RACE:K4 + RACE:K4", ((0, 1), (1, 2, 3))),
        ("AGE:AGE:RACE", ((0, 2), (1,), (3,))),
        ("AGE:SEX:RACE:K4", ((0, 1, 2, 3),)),
    ],
)
def test_terms_that_are_read(text, generators):
    assert parse_terms(text, NAMES) == generators
    assert parse_terms(write_terms(generators, NAMES), NAMES) == generators


@pytest.mark.parametrize("text", ["", "AGE:", "AGE + ", "AGE*SEX", "age", "four-way", "AGE::SEX"])
def test_terms_that_are_refused(text):
    with pytest.raises(SpecError, match="there is no key"):
        parse_terms(text, NAMES)


def test_short_names_with_few_keys():
    """All pairs of two keys are the one pair; of a key alone, the key."""
    assert parse_terms("three-way", ["A", "B"]) == parse_terms("two-way", ["A", "B"]) == ((0, 1),)
    assert parse_terms("two-way", ["A"]) == ((0,),)
    assert write_terms(((0, 1),), ["A", "B"]) == "two-way"
    assert write_terms(((0,),), ["A"]) == "independence"


def test_there_are_as_many_models_of_four_keys_as_there_should_be():
    """Antichains that cover four elements: 114 of them (OEIS A006126)."""
    assert len(MODELS) == len(set(MODELS)) == 114


@pytest.mark.parametrize("generators", MODELS, ids=str)
def test_every_model_of_four_keys(generators):
    """It is written and read back, is what is maximal of all its parts, and in `elimination` if
    and only if it is decomposable by Lauritzen's recursive definition."""
    assert parse_terms(write_terms(generators, NAMES), NAMES) == generators
    parts = [
        one
        for generator in generators
        for size in range(1, len(generator) + 1)
        for one in itertools.combinations(generator, size)
    ]
    assert maximal(parts) == maximal(reversed(parts)) == generators
    order = elimination(generators, 4)
    assert (order is not None) == naive.is_decomposable([frozenset(one) for one in generators])
    if order is None:
        return
    assert sorted(key for key, _ in order) == [0, 1, 2, 3]
    for place, (key, parents) in enumerate(order):
        assert set(parents) <= {earlier for earlier, _ in order[:place]}
        assert any({key, *parents} <= set(one) for one in generators)
    # The product of the conditionals is the maximum likelihood estimate.
    observed = np.random.default_rng(1).integers(1, 9, (2, 3, 2, 2)).astype(float)
    product = np.ones_like(observed)
    for key, parents in order:
        both, above = ((*parents, key), parents)
        product *= observed.sum(
            axis=tuple(j for j in range(4) if j not in both), keepdims=True
        ) / observed.sum(axis=tuple(j for j in range(4) if j not in above), keepdims=True)
    fitted = naive.proportional_fitting(observed, generators, tolerance=1e-11)
    np.testing.assert_allclose(product * observed.sum(), fitted, rtol=1e-11)


def test_all_interactions_of_more_keys_than_there_are():
    assert all_interactions(2, 3) == ((0, 1),)
