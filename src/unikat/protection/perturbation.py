"""Post-randomisation (PRAM) of keys, and the risk of a match where keys may have been changed.

PRAM replaces each value of a key by a draw from a row of a transition matrix, independently between
records and keys (Gouweleeuw, Kooiman, Willenborg and de Wolf 1998, *Post randomisation for
statistical disclosure control*, J. Official Statistics 14, 463-478). It is *invariant* if the
expected shares of the levels stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from unikat._typing import AnyArray, Float64, Int32
from unikat.data.keys import MISSING
from unikat.errors import SpecError
from unikat.rng import check_seed

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

    Raises
    ------
    SpecError
        If `keep` is out of range, or no record has the key.

    Examples
    --------
    >>> invariant_matrix(np.array([0, 0, 0, 1]), 2, 0.8)
    array([[0.95, 0.05],
           [0.15, 0.85]])
    """
    if not 0.0 <= keep <= 1.0:
        raise SpecError(f"keep is {keep!r}; it must be from 0 to 1, such as 0.8.")
    codes = np.asarray(codes)
    counts = np.bincount(codes[codes != MISSING], minlength=n_levels)
    if not counts.sum():
        raise SpecError("No record has the key, so it cannot be perturbed. Leave it out.")
    matrix: Float64 = keep * np.eye(n_levels) + (1.0 - keep) * counts / counts.sum()
    return matrix


def check_matrix(matrix: AnyArray, n_levels: int, name: str) -> Float64:
    """Return a transition matrix if it is one (SpecError); `name` is what messages call its key."""
    found = np.asarray(matrix, np.float64)
    if found.shape != (n_levels, n_levels):
        raise SpecError(
            f"The transition matrix of {name} has the shape {found.shape}; the key has {n_levels} "
            f"levels, so it must be ({n_levels}, {n_levels})."
        )
    if not (found >= 0.0).all() or np.abs(found.sum(axis=1) - 1.0).max() > _ROUNDING:
        raise SpecError(
            f"The transition matrix of {name} must have no negative entries and rows that add up "
            "to 1: row i has the probabilities of what level i becomes."
        )
    return found


def post_randomised(codes: AnyArray, matrices: Mapping[int, AnyArray], seed: int) -> Int32:
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

    Raises
    ------
    SpecError
        If a matrix is none, or the seed is not a whole number from 0 on.

    Examples
    --------
    >>> post_randomised([[0, 1], [1, 1]], {0: [[0, 1], [1, 0]]}, seed=1).tolist()
    [[1, 1], [0, 1]]
    """
    check_seed(seed)
    codes = np.asarray(codes, np.int32)
    drawn = codes.copy()
    for j, given in matrices.items():
        column = codes[:, j]
        matrix = check_matrix(given, max(len(given), int(column.max(initial=0)) + 1), f"key {j}")
        generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(j,)))
        uniform = generator.random(len(codes))
        for level, row in enumerate(matrix):
            at = np.flatnonzero(column == level)
            # Rounding must not end in a level of probability 0.
            last = np.flatnonzero(row)[-1]
            found = np.searchsorted(np.cumsum(row), uniform[at], side="right")
            drawn[at, j] = np.minimum(found, last)
    return drawn


def correct_match(
    published: AnyArray,
    cells: AnyArray,
    population: AnyArray,
    matrices: Sequence[AnyArray | None],
    fraction: float,
    *,
    others: AnyArray | None = None,
) -> Float64:
    r"""Probability that a match with a published sample unique is correct, where keys were changed.

    An intruder knows the true keys j of a person and finds one published record with them. Each
    unit is in the sample with probability pi, and one that is truly in cell k is then published in
    cell j with probability M_kj. With F_k units in cell k, the match is correct with probability

    .. math::
        \frac{M_{jj} / (1 - \pi M_{jj})}{\sum_k F_k M_{kj} / (1 - \pi M_{kj})},

    the odds of this unit over those of all units (Shlomo and Skinner 2010, *Assessing the
    protection provided by misclassification-based disclosure limitation methods for survey
    microdata*, Annals of Applied Statistics 4, 1291-1310). Without perturbation it is 1/F_j.

    Parameters
    ----------
    published
        (m, n_keys) cells that are unique in the published sample, no key missing.
    cells
        (n_cells, n_keys) distinct cells of the population. Of a cell j that is not among them F_j
        is 0 or in `others`.
    population
        (n_cells,) units F_k, or their expected number; or (n_draws, n_cells) posterior draws, of
        which the mean probability is returned.
    matrices
        For each key its transition matrix, None where it is not perturbed. Keys are perturbed
        independently: M_kj is the product.
    fraction
        pi, above 0, below 1.
    others
        (m,) the sum of F_k M_kj / (1 - pi M_kj) over cells that are not listed; 0 by default.

    Returns
    -------
    Float64
        (m,) from 0 to 1. At least one unit is truly in the cell, the intruder's: an F_j below 1
        counts as 1.

    Raises
    ------
    SpecError
        If an argument is out of range.

    Examples
    --------
    Two of three units truly in the cell, and nothing perturbed; then one value in ten changed.

    >>> correct_match([[0]], [[0], [1]], [2, 1], [None], 0.1)
    array([0.5])
    >>> changed = [[0.9, 0.1], [0.1, 0.9]]
    >>> correct_match([[0]], [[0], [1]], [2, 1], [changed], 0.1).round(4)
    array([0.4757])
    """
    published, cells = np.asarray(published, np.int64), np.asarray(cells, np.int64)
    draws = np.atleast_2d(np.asarray(population, np.float64))
    if not 0.0 < fraction < 1.0:
        raise SpecError(f"fraction is {fraction!r}; it must be above 0 and below 1.")
    if (published < 0).any() or (cells < 0).any():
        raise SpecError("The risk after perturbation is that of cells: no key may be missing.")
    shape = published.shape[1], cells.shape[1], draws.shape[1]
    if shape != (len(matrices), len(matrices), len(cells)) or (draws < 0.0).any():
        raise SpecError(
            "cells and published must have a column for each matrix, and population a number from "
            "0 on for each cell."
        )
    levels = 1 + np.concatenate([published, cells]).max(axis=0, initial=0)
    checked = [
        None if one is None else check_matrix(one, max(len(one), int(n)), f"key {j}")
        for j, (one, n) in enumerate(zip(matrices, levels, strict=True))
    ]
    unlisted = np.zeros(len(published)) if others is None else np.asarray(others, np.float64)
    found = np.empty(len(published))
    for place, target in enumerate(published):
        moved, stays, same = np.ones(len(cells)), 1.0, np.ones(len(cells), np.bool_)
        for j, matrix in enumerate(checked):
            alike = cells[:, j] == target[j]
            same &= alike
            moved *= alike if matrix is None else matrix[cells[:, j], target[j]]
            stays *= 1.0 if matrix is None else float(matrix[target[j], target[j]])
        odds = moved / (1.0 - fraction * moved)
        own = stays / (1.0 - fraction * stays)
        lacking = np.maximum(1.0 - draws[:, same].sum(axis=1), 0.0) * own
        total = draws @ odds + lacking + unlisted[place]
        # Where a level never stays as it is nobody is found.
        found[place] = np.mean(own / total) if own > 0.0 else 0.0
    return found
