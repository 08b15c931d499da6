"""PRAM against its matrix, and the risk of a match against simulated samples."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from naive import correct_match
from unikat.errors import SpecError
from unikat.protection.perturbation import (
    check_matrix,
    invariant_matrix,
    post_randomised,
)

THREE = np.array([[0.7, 0.2, 0.1], [0.0, 0.5, 0.5], [0.3, 0.3, 0.4]])


@pytest.mark.parametrize("keep", [0.0, 0.35, 1.0])
def test_an_invariant_matrix_keeps_the_shares(keep):
    codes = np.array([0, 0, 2, 3, 3, 3, -1, 2])
    shares = np.bincount(codes[codes >= 0], minlength=5) / 7
    matrix = invariant_matrix(codes, 5, keep)
    check_matrix(matrix, "K")
    np.testing.assert_allclose(shares @ matrix, shares, atol=1e-15)
    # Nobody gets a level that no record has.
    assert (np.delete(matrix[:, 1], 1) == 0.0).all()
    np.testing.assert_allclose(np.diag(matrix), keep + (1 - keep) * shares, atol=1e-15)


@pytest.mark.statistical
def test_values_are_drawn_from_the_row_of_their_level():
    n = 60_000
    codes = np.column_stack([np.repeat([0, 1, 2, -1], n // 4), np.tile([0, 1], n // 2)])
    drawn = post_randomised(codes, {0: THREE}, seed=4)
    assert (drawn[:, 1] == codes[:, 1]).all()
    assert (drawn[codes[:, 0] < 0, 0] == -1).all()
    # Nine frequencies; the bound of 4.5 standard errors fails by chance in 1 of 16,000 cases.
    for level, row in enumerate(THREE):
        share = np.bincount(drawn[codes[:, 0] == level, 0], minlength=3) / (n / 4)
        assert (np.abs(share - row) <= 4.5 * np.sqrt(row * (1 - row) / (n / 4))).all()


def test_the_draws_of_a_key_depend_on_the_seed_and_the_key_alone():
    codes = np.tile([0, 1, 2], (3, 200)).T.astype(np.int32)
    both = post_randomised(codes, {0: THREE, 2: THREE}, seed=7)
    alone = post_randomised(codes, {2: THREE}, seed=7)
    assert (both[:, 2] == alone[:, 2]).all()
    assert (both[:, 0] != both[:, 2]).any()
    assert (post_randomised(codes, {2: THREE}, seed=8) != alone).any()


def simulated(population: Any, matrix: Any, fraction: float, repeats: int, seed: int) -> Any:
    """Count matches with the published uniques of two-key cells, and how many are correct."""
    rng = np.random.default_rng(seed)
    units = np.repeat(np.arange(len(population)), population)
    shares = np.cumsum(matrix, axis=1)
    matches, correct = np.zeros(len(population)), np.zeros(len(population))
    for _ in range(repeats):
        chosen = np.flatnonzero(rng.random(len(units)) < fraction)
        seen = (rng.random(len(chosen))[:, None] > shares[units[chosen]]).sum(axis=1)
        counts = np.bincount(seen, minlength=len(population))
        for cell in np.flatnonzero(counts == 1):
            # The intruder's target is a random one of those who are truly in the cell.
            matches[cell] += 1
            found = units[chosen[seen == cell][0]]
            correct[cell] += (found == cell) / population[cell]
    return matches, correct


@pytest.mark.statistical
def test_the_probability_of_a_correct_match_is_that_of_simulated_samples():
    second = np.array([[0.8, 0.2], [0.1, 0.9]])
    cells = np.array(list(itertools.product(range(3), range(2))))
    population = np.array([1, 3, 2, 1, 4, 2])
    fraction = 0.3
    expected = correct_match(cells, cells, population, [THREE, second], fraction)
    whole = np.kron(THREE, second)
    matches, correct = simulated(population, whole, fraction, 30_000, 1)
    # A match is correct for one of F_j targets: a mean of values from 0 to 1 / F_j.
    error = np.sqrt(expected * (1.0 / population - expected) / matches)
    assert matches.min() > 3_000
    # Six cells; 4.5 standard errors fail by chance in 1 of 24,000 cases.
    assert (np.abs(correct / matches - expected) <= 4.5 * error).all()
    # Planted: without the sampling fraction in the odds it is another number.
    naive = np.diag(whole) / (population @ whole)
    assert (np.abs(correct / matches - naive) > 4.5 * error).any()


def test_the_probability_of_a_correct_match_in_fractions():
    pi, stay, move = Fraction(1, 4), Fraction(9, 10), Fraction(1, 5)
    own, other = stay / (1 - pi * stay), move / (1 - pi * move)
    matrix = [[0.9, 0.1], [0.2, 0.8]]
    draws = [[1, 0], [2, 3], [5, 1]]
    exact = [own / (a * own + b * other) for a, b in draws]
    for numbers, expected in zip(draws, exact, strict=True):
        found = correct_match([[0]], [[0], [1]], numbers, [matrix], 0.25)
        assert found[0] == pytest.approx(float(expected), rel=1e-13)
    mean = correct_match([[0]], [[0], [1]], draws, [matrix], 0.25)
    assert mean[0] == pytest.approx(float(sum(exact)) / 3, rel=1e-13)
    # What is not listed counts by `others`, and the intruder's own unit always.
    parts = correct_match([[0]], [[0]], [2], [matrix], 0.25, others=[float(3 * other)])
    assert parts[0] == pytest.approx(float(exact[1]), rel=1e-13)
    unseen = correct_match([[0]], [[1]], [3], [matrix], 0.25)
    assert unseen[0] == pytest.approx(float(own / (own + 3 * other)), rel=1e-13)


def test_without_perturbation_it_is_one_over_the_number_of_units():
    cells = np.array([[0, 0], [0, 1], [1, 1]])
    found = correct_match(cells, cells, [4, 1, 10], [None, np.eye(2)], 0.01)
    np.testing.assert_allclose(found, [0.25, 1.0, 0.1], rtol=1e-14)


def test_a_level_that_never_stays_is_never_found():
    assert correct_match([[0]], [[0], [1]], [1, 1], [[[0, 1], [1, 0]]], 0.1).tolist() == [0.0]


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[0.5, 0.4], [0.5, 0.5]], "add up to 1"),
        ([[1.5, -0.5], [0.5, 0.5]], "no negative entries"),
        ([[np.nan, 1.0], [0.5, 0.5]], "no negative entries"),
    ],
)
def test_a_wrong_matrix_is_refused(matrix, message):
    with pytest.raises(SpecError, match=message):
        check_matrix(np.array(matrix), "K")


def test_a_key_that_no_record_has_is_refused():
    with pytest.raises(SpecError, match="No record has the key"):
        invariant_matrix(np.array([-1]), 2, 0.5)
