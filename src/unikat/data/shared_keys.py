"""Keys that the members of a household share.

Where whole households were sampled, these have a law of their own (`models.mixtures.homes`), and
other members are left out of the probabilities of a record's keys (`data.companions`).
"""

from __future__ import annotations

import numpy as np

from unikat._typing import AnyArray, Bool, Int32, Int64
from unikat.data.keys import MISSING, Key
from unikat.data.table import CellTable
from unikat.errors import brief, listed, option, visible
from unikat.spec.models import HOUSEHOLDS

SHARED = 0.9
"""How much more often than by chance all members agree, of what is possible, in a shared key. In
samples of nine surveys it is 1 for what a household has, such as its region, tenure or size, and at
most 0.83 for all else, such as race or citizenship (docs/accuracy.md). Errors of coding have room.
"""
LEAST_HOUSEHOLDS, CHANCE = 10, 1e-3
"""Households with two members at least whose values are known, and the chance that so many of them
agree by chance: less is no evidence."""
MOST_TRIED = 6
"""Shared keys of the samples by which the intervals were tested (docs/accuracy.md); with more the
run warns."""


def shared_keys(table: CellTable) -> tuple[Key, ...]:
    """Find the keys that (nearly) all members of a household have alike.

    A key is shared if A, the share of the households with two or more known values in which all
    agree, is far above C, the share if each member had a value by chance: (A - C) / (1 - C) at
    least `SHARED`, and so many by chance with a probability below `CHANCE`.

    Examples
    --------
    >>> from dataclasses import replace
    >>> keys = [Key.of_size("REGION", 4), Key.of_size("SEX", 2)]
    >>> codes = [[home % 4, (home + member) % 2] for home in range(40) for member in range(3)]
    >>> table = CellTable.from_codes(codes, keys, 1000)
    >>> [key.name for key in shared_keys(table)]
    []
    >>> homes = replace(table, households=np.repeat(np.arange(40), 3).astype(np.int32))
    >>> [key.name for key in shared_keys(homes)]
    ['REGION']
    """
    if table.households is None:
        return ()
    order = np.argsort(table.households, kind="stable")
    household, cell = table.households[order], table.record_cell[order]
    found = []
    for j, key in enumerate(table.keys):
        codes = table.cells[:, j]
        known = codes >= 0
        if key.missing_level is not None:
            known &= codes != key.missing_level
        there: Bool = known[cell]
        if _is_shared(household[there], codes[cell[there]]):
            found.append(key)
    return tuple(found)


def known_values(codes: Int32, household: AnyArray) -> tuple[Int32, Bool]:
    """Find what each household has by those members whose value is known.

    Parameters
    ----------
    codes
        (n_records, n_keys), -1 where missing.
    household
        (n_records,): number of each record's household, 0 to H-1.

    Returns
    -------
    tuple
        Codes of the households, (H, n_keys), -1 where nobody's value is known; and for each key
        whether members of a household differ in it, (n_keys,).

    Examples
    --------
    >>> codes = np.array([[1, 0], [-1, 1], [-1, 0]], np.int32)
    >>> values, differ = known_values(codes, np.array([0, 0, 1]))
    >>> values[:, 0].tolist(), differ.tolist()
    ([1, -1], [False, True])
    """
    values = np.full((int(household.max(initial=-1)) + 1, codes.shape[1]), MISSING, np.int32)
    for j, column in enumerate(codes.T):
        np.maximum.at(values[:, j], household, column)
    return values, ((codes != MISSING) & (codes != values[household])).any(axis=0)


def sharing(table: CellTable) -> float:
    """How much members of a household are alike beyond chance, summed over the keys.

    s = sum over keys of (a - c) / (1 - c), a being the share of pairs of members of a household
    whose values are equal, c that of any two records. A key that all members have alike adds 1; a
    missing value counts as a value.

    Examples
    --------
    >>> from dataclasses import replace
    >>> codes = [[home % 4, (home + member) % 2] for home in range(40) for member in range(2)]
    >>> keys = [Key.of_size("REGION", 4), Key.of_size("SEX", 2)]
    >>> table = CellTable.from_codes(codes, keys, 1000)
    >>> homes = replace(table, households=np.arange(80, dtype=np.int32) // 2)
    >>> sharing(table), round(sharing(homes), 3)
    (0.0, 0.025)
    """
    if table.households is None:
        return 0.0
    n_pairs = _pairs(np.bincount(table.households))
    if not n_pairs:
        return 0.0
    total = 0.0
    for codes in table.cells[table.record_cell].T:
        alike = _pairs(np.bincount(codes + 1)) / _pairs(np.array([len(codes)]))
        _, both = np.unique(
            table.households * (codes.max() + np.int64(2)) + codes + 1, return_counts=True
        )
        if alike < 1.0:
            total += (_pairs(both) / n_pairs - alike) / (1.0 - alike)
    return float(total)


def _pairs(sizes: Int64) -> float:
    """Pairs within groups of such sizes."""
    return float((sizes * (sizes - 1)).sum()) / 2.0


def _is_shared(household: Int32, codes: Int32) -> bool:
    """Whether members agree so often; records sorted by household."""
    from scipy.stats import binom

    if not len(codes):
        return False
    first = np.flatnonzero(np.r_[True, household[1:] != household[:-1]])
    sizes: Int64 = np.diff(np.r_[first, len(household)])
    several = sizes > 1
    n = int(np.count_nonzero(several))
    if n < LEAST_HOUSEHOLDS:
        return False
    alike = np.minimum.reduceat(codes, first) == np.maximum.reduceat(codes, first)
    agree = int(np.count_nonzero(alike & several))
    shares = np.bincount(codes) / len(codes)
    times = np.bincount(sizes[several])
    chance = sum(times[size] * np.sum(shares**size) for size in np.flatnonzero(times)) / n
    if agree / n - chance < SHARED * (1.0 - chance):
        return False
    return bool(binom.sf(agree - 1, n, chance) < CHANCE)


def shared_keys_warning(table: CellTable) -> list[str]:
    """Warn of members of households who share more keys than was tried."""
    found = shared_keys(table)
    if len(found) <= MOST_TRIED:
        return []
    names = listed([visible(brief(key.name)) for key in found])
    return [
        f"Members of a household share {len(found)} of the {table.n_keys} keys ({names}), and "
        f"whole households were sampled. Intervals were tested with at most {MOST_TRIED} such "
        f"keys. Do not take a limit as met on this number. Leave shared keys out until "
        f"{MOST_TRIED} are left, or assess the risk of whole households: "
        f"{option('model', HOUSEHOLDS)}."
    ]
