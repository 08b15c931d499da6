"""The risk of continuous variables: how near released values are, and whose record is nearest.

Both are about persons of the file whose true values an intruder looks for. They are shares of the
records, not probabilities in the population: they take it as known who is in the file, which is the
safe side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from unikat._typing import AnyArray, Bool, Float64, Int64
from unikat.protection.numeric.microaggregation import unit_of

WITHIN = 0.05
"""Half width of an interval in standard deviations of the released column, as dRisk of sdcMicro has
it, and as a share of the true value."""
WITHIN_RANKS = 0.01
"""Half width of an interval of ranks, as a share of the records."""
DIGITS = (None, 2, 1)
"""Digits that count of what the intruder knows; None: all."""
MOST_TARGETS = 20_000
"""Records that are looked for, at most: every so-manieth one of a larger file."""
_APART = 1e6
"""Between records of different keys, in standard deviations."""
_MOST_TIED = 16
"""Different released points at the same distance that are told apart."""
_ROUNDING = 1e-9


class Near(NamedTuple):
    """Which released values are near the true ones, (n,) each; of values that are there."""

    deviations: Bool
    """Within 0.05 standard deviations."""
    share: Bool
    """Within 5% of the true value: what the p% rule of business statistics takes for disclosed."""
    ranks: Bool
    """The true value lies within 1% of the records from the rank of the released one."""


def near(true: Float64, released: Float64) -> Near:
    """Say which released values are near the true ones.

    Parameters
    ----------
    true, released
        (n,) of a column, finite.

    Examples
    --------
    >>> found = near(np.array([0.0, 10.0, 20.0]), np.array([0.0, 10.3, 15.0]))
    >>> found.deviations.tolist(), found.share.tolist()
    ([True, True, False], [True, True, False])
    """
    away = np.abs(true - released)
    ordered = np.sort(true)
    first = np.searchsorted(ordered, true, "left"), np.searchsorted(ordered, released, "left")
    last = np.searchsorted(ordered, true, "right"), np.searchsorted(ordered, released, "right")
    # Equal values share their ranks; the nearest ones of both count.
    apart = np.maximum(np.maximum(first[0] - last[1], first[1] - last[0]) + 1, 0)
    spread = released.std(ddof=1) if len(released) > 1 else 0.0
    return Near(
        away <= WITHIN * spread,
        away <= WITHIN * np.abs(true),
        (away == 0.0) | (apart <= WITHIN_RANKS * len(true)),
    )


@dataclass(frozen=True, kw_only=True)
class Linkage:
    """What an intruder links who knows a person's keys and values, and that he is in the file."""

    digits: int | None
    """Digits that count of the values that he knows; None: all."""
    before: float
    """Share of the records that he expects to find: one over the number of nearest records that
    show the person's keys, if the person's own is one of them."""
    after: float


@dataclass(frozen=True, kw_only=True)
class NumericRisk:
    """The risk of the continuous variables of a file."""

    n_records: int
    """With at least one value."""
    near_in_all: float
    """Share of the records all of whose values lie within 0.05 standard deviations of the released
    ones: dRisk of sdcMicro."""
    n_targets: int
    """Records that were looked for."""
    keys_before: float
    """Share that an intruder finds who knows the keys alone: one over the records with them."""
    keys_after: float
    linkage: tuple[Linkage, ...]


def risk_of(
    true: Float64, released: Float64, keys_before: AnyArray, keys_after: AnyArray
) -> NumericRisk:
    """Measure the risk of changed columns.

    Parameters
    ----------
    true, released
        (n, n_columns), NaN where missing.
    keys_before, keys_after
        (n,): number of what a record shows of its keys, in the original and the released file.
    """
    known = np.isfinite(true) & np.isfinite(released)
    every = np.ones(len(true), np.bool_)
    for column, own, has in zip(true.T, released.T, known.T, strict=True):
        every[has] &= near(column[has], own[has]).deviations
    rows = np.flatnonzero(known.any(axis=1))
    targets = rows[:: -(-len(rows) // MOST_TARGETS)] if len(rows) else rows
    before, after = _Records.of(true, true, keys_before), _Records.of(released, true, keys_after)
    return NumericRisk(
        n_records=len(rows),
        near_in_all=float(every[rows].mean()) if len(rows) else 0.0,
        n_targets=len(targets),
        keys_before=before.by_keys(targets),
        keys_after=after.by_keys(targets),
        linkage=tuple(
            Linkage(
                digits=digits,
                before=before.found(_digits(true, digits), targets),
                after=after.found(_digits(true, digits), targets),
            )
            for digits in DIGITS
        ),
    )


def _digits(values: Float64, n: int | None) -> Float64:
    """Values to so many digits that count.

    Examples
    --------
    >>> _digits(np.array([1234.0, -0.0567, 0.0, np.nan]), 2).tolist()
    [1200.0, -0.057, 0.0, nan]
    """
    if n is None:
        return values
    sizes = np.where(np.isfinite(values) & (values != 0.0), np.abs(values), 1.0)
    unit = 10.0 ** (np.floor(np.log10(sizes)) + 1 - n)
    return np.asarray(np.rint(values / unit) * unit)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Records:
    """Released records as points: equal ones are one point, and other keys are far away."""

    scale: Float64
    group: Int64
    """(n,): of the keys and of which values are there."""
    sizes: Int64
    """(n,): records of the group of each."""
    tree: cKDTree
    place: Int64
    """(n,): point of each record."""
    counts: Int64
    """Records of each point."""

    @classmethod
    def of(cls, released: Float64, true: Float64, keys: AnyArray) -> _Records:
        """Take the records, in standard deviations of the true values."""
        known = np.isfinite(released)
        scale = unit_of(true)
        pattern = known @ (1 << np.arange(known.shape[1]))
        _, group, sizes = np.unique(
            np.column_stack((keys, pattern)), axis=0, return_inverse=True, return_counts=True
        )
        points = cls._points(released / scale, group.ravel())
        distinct, place, counts = np.unique(points, axis=0, return_inverse=True, return_counts=True)
        return cls(
            scale=scale,
            group=group.ravel(),
            sizes=sizes[group.ravel()],
            tree=cKDTree(distinct),
            place=place.ravel(),
            counts=counts,
        )

    @staticmethod
    def _points(values: Float64, group: Int64) -> Float64:
        return np.column_stack((group * _APART, np.where(np.isfinite(values), values, 0.0)))

    def by_keys(self, targets: Int64) -> float:
        """Share of the targets that are found by their keys and by which values are there."""
        return float((1.0 / self.sizes[targets]).mean()) if len(targets) else 0.0

    def found(self, values: Float64, targets: Int64) -> float:
        """Share of the targets that are found by these values of them, (n, n_columns)."""
        if not len(targets):
            return 0.0
        points = self._points(values / self.scale, self.group)[targets]
        n_near = min(_MOST_TIED, self.tree.n)
        distance, nearest = self.tree.query(points, k=np.arange(1, n_near + 1))
        tied = distance <= distance[:, :1] + _ROUNDING
        own = (nearest == self.place[targets][:, None]) & tied
        share = own.any(axis=1) / (tied * self.counts[nearest]).sum(axis=1)
        return float(share.mean())
