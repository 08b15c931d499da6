"""Microaggregation: values become means of groups of at least k records."""

from __future__ import annotations

import numpy as np

from unikat._typing import Float64, Int64
from unikat.kernels.microaggregation import best_on_line, mdav


def unit_of(values: Float64) -> Float64:
    """Standard deviations of columns, (n_columns,); 1 where all values are equal.

    Examples
    --------
    >>> unit_of(np.array([[1.0, 5.0], [3.0, np.nan], [np.nan, np.nan]])).tolist()
    [1.0, 1.0]
    """
    known = [column[np.isfinite(column)] for column in values.T]
    return np.array([one.std() if len(one) and np.ptp(one) else 1.0 for one in known])


def groups(points: Float64, k: int) -> Int64:
    """Group complete points by MDAV, numbers of one column optimally.

    Parameters
    ----------
    points
        (n, n_columns), in units in which distances mean something.
    k
        Points of a group, at least; groups have at most 2 k - 1 (n >= k).

    Returns
    -------
    Int64
        (n,) group of each point, from 0.

    Examples
    --------
    >>> groups(np.array([[0.0], [9.0], [1.0], [8.0], [10.0]]), 2).tolist()
    [0, 1, 0, 1, 1]
    """
    if points.shape[1] > 1:
        found: Int64 = mdav(np.ascontiguousarray(points), k)
        return found
    order = np.argsort(points[:, 0], kind="stable")
    found = np.empty(len(points), np.int64)
    found[order] = best_on_line(np.ascontiguousarray(points[order, 0]), k)
    return found


def microaggregated(values: Float64, k: int, by: Int64) -> Float64:
    """Replace values by the means of their groups.

    Records are grouped among those that have the same columns and the same group of `by`; columns
    count by their standard deviations. Where these are fewer than k, records of all groups of `by`
    are taken together. What is left takes the means of the nearest record that has its columns; and
    where there is none, which needs fewer than k records with such columns in the file, is missing.

    Parameters
    ----------
    values
        (n, n_columns), NaN where missing.
    k
        Records of a group, at least.
    by
        (n,): groups that are not mixed.

    Returns
    -------
    Float64
        (n, n_columns).

    Examples
    --------
    >>> values = np.array([[1.0], [2.0], [10.0], [np.nan], [14.0]])
    >>> microaggregated(values, 2, np.zeros(5, int))[:, 0].tolist()
    [1.5, 1.5, 12.0, nan, 12.0]
    """
    known = np.isfinite(values)
    if not known.any():
        return values
    unit = unit_of(values)
    points = values / unit
    pattern = known @ (1 << np.arange(values.shape[1]))
    found = np.full_like(values, np.nan)
    left = np.flatnonzero(pattern)
    for alike in (np.column_stack((pattern, by)), pattern[:, None]):
        _, block = np.unique(alike[left], axis=0, return_inverse=True)
        sizes = np.bincount(block.ravel())
        starts = np.cumsum(sizes)[:-1]
        few = []
        for rows in np.split(left[np.argsort(block.ravel(), kind="stable")], starts):
            if len(rows) < k:
                few.append(rows)
                continue
            columns = np.flatnonzero(known[rows[0]])
            group = groups(points[np.ix_(rows, columns)], k)
            counts = np.bincount(group)
            for j in columns:
                found[rows, j] = (np.bincount(group, values[rows, j]) / counts)[group]
        left = np.concatenate([np.empty(0, np.int64), *few])
    done = np.isfinite(found)
    for i in left:
        columns = np.flatnonzero(known[i])
        others = np.flatnonzero(done[:, columns].all(axis=1))
        if len(others):
            away = (found[np.ix_(others, columns)] - values[i, columns]) / unit[columns]
            found[i, columns] = found[others[np.argmin((away**2).sum(axis=1))]][columns]
    return found
