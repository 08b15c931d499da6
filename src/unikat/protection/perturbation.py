"""Post-randomisation (PRAM) of keys, and the risk of a match where keys may have been changed.

PRAM replaces each value of a key by a draw from a row of a transition matrix, independently between
records and keys (Gouweleeuw, Kooiman, Willenborg and de Wolf 1998, *Post randomisation for
statistical disclosure control*, J. Official Statistics 14, 463-478). It is *invariant* if the
expected shares of the levels stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from unikat._typing import AnyArray, Float64, Int32
from unikat.data.keys import MISSING
from unikat.errors import SpecError

_ROUNDING = 1e-9
"""By which the sum of a row may differ from 1."""


def invariant_matrix(codes: AnyArray, n_levels: int, keep: float) -> Float64:
    r"""Transition matrix of a key that leaves the expected shares of its levels as they are.

    With the shares p of the levels among the records that have the key,

    .. math:: P = k I + (1 - k) 1 p', \qquad p' P = p'.

    Parameters
    ----------
    codes
        (n,) codes of the key, -1 where missing.
    n_levels
        Levels of the key.
    keep
        k, from 0 to 1: probability that a value is kept without a draw. A drawn value can be the
        old one.

    Returns
    -------
    Float64
        (n_levels, n_levels), row: the true level.

    Examples
    --------
    >>> invariant_matrix(np.array([0, 0, 0, 1]), 2, 0.8)
    array([[0.95, 0.05],
           [0.15, 0.85]])
    """
    codes = np.asarray(codes)
    counts = np.bincount(codes[codes != MISSING], minlength=n_levels)
    if not counts.sum():
        raise SpecError("No record has the key, so it cannot be perturbed. Leave it out.")
    matrix: Float64 = keep * np.eye(n_levels) + (1.0 - keep) * counts / counts.sum()
    return matrix


def wrong_matrix(codes: AnyArray, n_levels: int, wrong: float) -> Float64:
    """Transition matrix of a key whose values are wrong with a probability.

    A wrong value is another level, drawn by the shares of the other levels among the records.

    Parameters
    ----------
    codes, n_levels
        As of `invariant_matrix`.
    wrong
        From 0 to 1. A level that all records have is never wrong.

    Returns
    -------
    Float64
        (n_levels, n_levels), row: the true level.

    Examples
    --------
    >>> wrong_matrix(np.array([0, 0, 0, 1, 2]), 3, 0.1)
    array([[0.9  , 0.05 , 0.05 ],
           [0.075, 0.9  , 0.025],
           [0.075, 0.025, 0.9  ]])
    """
    codes = np.asarray(codes)
    counts = np.bincount(codes[codes != MISSING], minlength=n_levels).astype(np.float64)
    matrix = np.tile(counts, (n_levels, 1))
    np.fill_diagonal(matrix, 0.0)
    rest = matrix.sum(axis=1, keepdims=True)
    found: Float64 = wrong * np.divide(matrix, rest, out=np.zeros_like(matrix), where=rest > 0.0)
    np.fill_diagonal(found, 1.0 - found.sum(axis=1))
    return found


def check_matrix(matrix: Float64, name: str) -> None:
    """Refuse a transition matrix that is none (SpecError); messages call its key `name`."""
    if not (matrix >= 0.0).all() or np.abs(matrix.sum(axis=1) - 1.0).max() > _ROUNDING:
        raise SpecError(
            f"The transition matrix of {name} must have no negative entries and rows that add up "
            "to 1: row i has the probabilities of what level i becomes."
        )


def post_randomised(codes: AnyArray, matrices: Mapping[int, Float64], seed: int) -> Int32:
    """Draw each value of some keys from the row of its level.

    Parameters
    ----------
    codes
        (n, n_keys), -1 where missing; a missing value stays missing.
    matrices
        (n_levels, n_levels) transition matrix of each key that is perturbed, by its column.
    seed
        Each key has random numbers of its own, so a key is perturbed alike whichever others are.

    Returns
    -------
    Int32
        (n, n_keys).

    Examples
    --------
    >>> other = np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> post_randomised([[0, 1], [1, 1]], {0: other}, seed=1).tolist()
    [[1, 1], [0, 1]]
    """
    codes = np.asarray(codes, np.int32)
    drawn = codes.copy()
    for j, matrix in matrices.items():
        column = codes[:, j]
        generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(j,)))
        uniform = generator.random(len(codes))
        for level, row in enumerate(matrix):
            at = np.flatnonzero(column == level)
            # Rounding must not end in a level of probability 0.
            last = np.flatnonzero(row)[-1]
            found = np.searchsorted(np.cumsum(row), uniform[at], side="right")
            drawn[at, j] = np.minimum(found, last)
    return drawn
