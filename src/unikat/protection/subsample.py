"""A sample of the records as protection: who is held back, and the shares that a search has.

A record that is held back stays in the population. What is known of it stays known: a released
record whose cell it shares is no population unique, and F counts it. So the risk of a released
sample is that of its own sample uniques under the same states of the one fit, with F = f + X, where
f counts the held records too, and X the units that nobody observed. No other fit is made.

The samples of all shares are nested: every record (or household) has a place in one random order,
and a share takes the first of them. The order spreads the records of each class of a design evenly,
and begins with one of each. So the smaller of two samples has

- no more population uniques, and no more records with a high r1: a plan with it is safer for
  `tau1`, `tau1_estimate`, `r1`, `records` and `population_k`;
- perhaps more sample uniques, so `tau2` and `k` may be less favourable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from unikat._typing import Bool, Float64, Int32, Int64
from unikat.data.keys import Key
from unikat.data.patterns import distinct
from unikat.data.table import CellTable
from unikat.errors import DataError
from unikat.spec.limits import Limit

FALLS_WITH_RECORDS = ("tau1", "tau1_estimate", "r1", "records", "population_k")
"""Measures of which a smaller sample is never less favourable."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Shares:
    """Shares of the records that may be released, the largest first. Made by :meth:`of`."""

    shares: tuple[float, ...]
    held: tuple[Bool | None, ...] = field(repr=False)
    """(n_records,) of each: records of the file that are held back; None: none."""
    cost: float = 1.0
    """A share q of the records has q to the power of it of their information."""
    ordered: bool = True
    """A smaller share is never less favourable for what has to be reached."""

    @classmethod
    def of(
        cls,
        shares: Sequence[float],
        n_records: int,
        *,
        household: Int32 | None = None,
        classes: Int32 | None = None,
        cost: float = 1.0,
        seed: int,
    ) -> Shares:
        """Draw who is released.

        Parameters
        ----------
        shares
            Above 0 and at most 1.
        n_records
            Of the file.
        household
            (n_records,): its number; whole households are released. None: single records are.
        classes
            (n_records,): class of a design, of which each share takes about as many; None: one.
        cost
            As the attribute.
        seed
            Of the order.

        Examples
        --------
        >>> found = Shares.of([0.5, 1.0], 6, seed=1)
        >>> found.shares, int(found.held[1].sum()), found.held[0] is None
        ((1.0, 0.5), 3, True)
        """
        unit = np.arange(n_records)
        if household is not None:
            unit = np.unique(household, return_inverse=True)[1].ravel()
        n_units = int(unit.max(initial=-1)) + 1
        of = np.zeros(n_units, np.int64)
        if classes is not None:
            # A household is in the class of its last record.
            of[unit] = classes
        place = _order(of, seed)
        ranked = tuple(sorted(set(shares), reverse=True))
        held = [
            None if share >= 1.0 else (place >= max(round(share * n_units), of.max() + 1))[unit]
            for share in ranked
        ]
        return cls(shares=ranked, held=tuple(held), cost=cost)

    def assessed(self, rows: Int64) -> Shares:
        """The same of some records of the file: those that are assessed, in their order."""
        return replace(self, held=tuple(None if one is None else one[rows] for one in self.held))

    def for_limits(self, limits: Sequence[tuple[Limit, bool]]) -> Shares:
        """The same for a search: whether smaller shares are safer for all limits.

        Each limit comes with whether the intruder knows who is in the file: then held records hide
        nobody.
        """
        ordered = all(
            limit.measure in FALLS_WITH_RECORDS and not in_sample for limit, in_sample in limits
        )
        return replace(self, ordered=ordered)

    def share_of(self, held: Bool | None) -> float:
        """The share that holds back these records, one of `held`."""
        return next(share for share, one in zip(self.shares, self.held, strict=True) if one is held)

    def lost(self, lost: float, share: float) -> float:
        """Share of the information that is lost where the released records have lost some."""
        return float(1.0 - (1.0 - lost) * share**self.cost)

    @property
    def kept(self) -> Float64:
        """Share of the information of all records that is left, (n_shares,)."""
        return np.array(self.shares) ** self.cost

    @property
    def coarser(self) -> Bool:
        """(n, n): whether the first share is at least as safe as the second."""
        n = len(self.shares)
        return np.tri(n, dtype=bool) if self.ordered else np.eye(n, dtype=bool)


def _order(classes: Int64, seed: int) -> Int64:
    """Place of each unit in a random order in which classes are spread evenly, (n_units,)."""
    rng = np.random.default_rng(seed)
    within = rng.permutation(len(classes))
    order = np.lexsort((within, classes))
    sizes = np.bincount(classes) if len(classes) else np.zeros(0, np.int64)
    sizes = sizes[sizes > 0]
    starts = np.cumsum(sizes) - sizes
    rank = np.arange(len(classes)) - np.repeat(starts, sizes)
    at = (rank + np.repeat(rng.random(len(sizes)), sizes)) / np.repeat(sizes, sizes)
    # One of each class comes first, so that the fit of the released file knows all classes.
    at[rank == 0] = -1.0
    place = np.empty(len(classes), np.int64)
    place[order[np.argsort(at, kind="stable")]] = np.arange(len(classes))
    return place


def stands_for(table: CellTable, rows: Int64) -> Float64:
    """How many times as many units each released record stands for as before, (n_released,).

    The released records of a class of the design stand for all of it, by their weights.
    """
    if table.sampling is None:
        return np.full(len(rows), table.n_records / max(len(rows), 1))
    strata, weights, n = table.sampling.strata, table.sampling.weights, table.sampling.n_strata
    before = np.bincount(strata, weights, minlength=n)
    after = np.bincount(strata[rows], weights[rows], minlength=n)
    found: Float64 = np.divide(before, after, out=np.ones(n), where=after > 0.0)[strata[rows]]
    return found


def table_of(
    table: CellTable, codes: Int32, rows: Int64, keys: Sequence[Key] | None = None
) -> CellTable:
    """The table of records that are released, as they show themselves.

    Parameters
    ----------
    table
        Of the sample.
    codes
        (n_released, n_keys): what they show, -1 where a value is missing.
    rows
        (n_released,): their numbers in the sample.
    keys
        Of the codes; None: those of the table.
    """
    keys = table.keys if keys is None else tuple(keys)
    found = distinct(codes, [key.n_levels for key in keys])
    sampling = None if table.sampling is None else table.sampling.taken(rows)
    if sampling is not None:
        sampling = replace(sampling, weights=sampling.weights * stands_for(table, rows))
    if sampling is not None and not sampling.n_sampled.all():
        raise DataError(
            "Some classes of the design (strata, or records of about the same weight) have no "
            "record in the protected file, so nothing would be known of their units. Leave the "
            "design out, and give the population size."
        )
    return replace(
        table,
        keys=keys,
        cells=np.ascontiguousarray(codes[found.first], np.int32),
        counts=found.counts,
        record_cell=found.place.astype(np.int32),
        sampling=sampling,
        households=None if table.households is None else table.households[rows],
        held=None,
        clues=(),
    )
