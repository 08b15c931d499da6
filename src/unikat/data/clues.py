"""Clues that columns give which are no keys: whole households were sampled, or were copied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from unikat._typing import Bool, Int64
from unikat.errors import brief, option, visible

if TYPE_CHECKING:
    import pyarrow as pa

MOST_ROWS, MOST_COLUMNS = 20_000, 500
"""What is looked at: the first rows of the first columns."""
LEAST_ROWS = 100
LEAST_MEAN, MOST_MEAN, MOST_MEMBERS = 1.2, 8.0, 40
"""Records of a household: the mean, and the most that one has."""
MOST_RUNS = 1.25
"""Runs of equal values for each value of a household's number; in its rows it is one run."""
MOST_MISSING = 0.1
"""Share of missing values up to which a column is looked at."""
LEAST_DIFFERENCE, LEAST_SCORE = 0.05, 5.0
"""How much more or less often neighbouring rows agree in another column if they are of one
household: in shares, and in standard errors."""
COPY_MEMBERS = (3, 12)
"""Members of households that are compared with each other."""
FINE_LEVELS, FINE_MODE, FINE_TOGETHER = 40, 0.1, 0.3
"""A column, such as age, in which two households hardly agree by chance: its levels at least; and
at most the share of the commonest, and of the neighbouring members who agree."""
COARSE_LEVELS, COMMON_LEVELS = 4, 100
"""Levels at most of a column that members must have alike too: of persons, of households."""
MOST_FINE, MOST_COARSE = 4, 30
REAL_SHARE, LEAST_COPIES, CHANCE = 0.15, 5, 1e-4
"""Share of the pairs of households agreeing in all but one value at most that agree in it too: in
whole real files at most 0.1. And when copies are told of: how many there are at least, and the
chance of a false alarm, for all columns of a file together, if the share were 0.15."""


class Copies(NamedTuple):
    """Pairs of households that agree in two columns, or in all but one value of the first."""

    columns: tuple[str, ...]
    n_same: int
    n_near: int


def codes_of_column(column: pa.ChunkedArray) -> Int64 | None:
    """Code a column of whole numbers or texts, -1 where missing; None for one of another kind."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
        column = column.cast(kind)
    if pa.types.is_floating(kind):
        # Whole numbers of which some are missing.
        column = pc.if_else(pc.is_nan(column), None, column)
        whole = pc.all(pc.equal(pc.floor(column), column)).as_py()
        if not whole:
            return None
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        column = pc.if_else(pc.equal(column, ""), None, column)
    elif not pa.types.is_integer(kind):
        return None
    found = column.combine_chunks().dictionary_encode()
    return np.asarray(pc.fill_null(found.indices, -1), dtype=np.int64)


def joined(columns: Sequence[Int64]) -> Int64:
    """Number the households that several columns identify together, -1 where one is missing."""
    if not columns:
        return np.zeros(0, np.int64)
    codes = np.stack(columns)
    numbers = np.unique(codes, axis=1, return_inverse=True)[1].ravel().astype(np.int64)
    return np.where((codes < 0).any(axis=0), -1, numbers)


def household_columns(columns: Mapping[str, Int64], unused: Sequence[str]) -> list[str]:
    """Name the columns among `unused` whose values look like numbers of households.

    Values repeat as often as households have members, almost always in neighbouring rows; and in
    some other column neighbouring rows of one value agree clearly more or less often than those
    of two. So a file that is sorted by an income has no such column.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> hid = np.repeat(np.arange(200), rng.integers(1, 5, 200))
    >>> region = rng.integers(0, 9, 200)[hid]
    >>> household_columns({"HID": hid, "REGION": region}, ["HID", "REGION"])
    ['HID']
    """
    found = [name for name in unused if _repeats_like_households(columns[name])]
    others = [
        codes for name, codes in columns.items() if name not in found and not _in_order(codes)
    ]
    return [name for name in found if any(_tells(columns[name], other) for other in others)]


def find_copies(household: Int64, columns: Mapping[str, Int64]) -> Copies | None:
    """Find households that agree with others as copies do; None if there are none.

    Two real households of three members or more that agree in the ages and sexes of all members,
    but for one age at most, seldom agree in this one too. Copies do. Ages stand for any column
    with many levels in which members differ.

    Parameters
    ----------
    household
        (n_records,) number of each record's household, -1 for a record without one.
    columns
        Codes (n_records,) of the other columns by name, -1 for missing.
    """
    from scipy.stats import binom

    tried = agreements(household, columns)
    best: tuple[float, Copies] | None = None
    for used, redundant, same, near in tried:
        p = float(binom.sf(redundant - 1, redundant + near, REAL_SHARE))
        if redundant >= LEAST_COPIES and p < CHANCE / len(tried) and (best is None or p < best[0]):
            best = (p, Copies(used, same, near))
    return None if best is None else best[1]


def agreements(
    household: Int64, columns: Mapping[str, Int64]
) -> list[tuple[tuple[str, ...], int, int, int]]:
    """Count households that agree in a fine column alone, or in another one too.

    Returns
    -------
    list
        The names of the columns; households beyond the first of those that agree in all values;
        pairs of them; and pairs that agree in all but one value of the fine column.
    """
    household, rows = _homes(household)
    columns = {name: codes[rows] for name, codes in columns.items()}
    if not len(rows):
        return []
    together = household[1:] == household[:-1]
    fine = sorted(
        (name for name, codes in columns.items() if _is_fine(codes, together)),
        key=lambda name: int(columns[name].max()),
    )[:MOST_FINE]
    coarse = [name for name, codes in columns.items() if _is_coarse(codes, together)][:MOST_COARSE]
    found: list[tuple[tuple[str, ...], int, int, int]] = []
    for name in fine:
        found.append(((name,), *_pairs(household, columns[name], np.zeros_like(household))))
        for second in coarse:
            found.append(((name, second), *_pairs(household, columns[name], columns[second])))
    return found


COPIES = "The file seems to hold copies of households"
"""Beginning of the sentence on them."""


def clues(columns: Mapping[str, Int64], unused: Sequence[str], named: Int64 | None) -> list[str]:
    """Say what columns tell that are no keys: a sentence or two each, with what to do.

    Parameters
    ----------
    columns
        Codes (n_records,) of all columns by name, -1 for missing.
    unused
        Names of the columns that neither the keys nor the design use.
    named
        (n_records,) number of the household, where the design names it; else None.
    """
    said = []
    if named is None:
        found = household_columns(columns, unused)
        if found:
            said.append(_households_sentence(found))
            named = columns[found[0]]
            columns = {name: codes for name, codes in columns.items() if name not in found}
    if named is not None and (copies := find_copies(named, columns)) is not None:
        said.append(_copies_sentence(copies))
    return said


def _households_sentence(names: Sequence[str]) -> str:
    shown = [visible(brief(name)) for name in names[:3]]
    which = f"{' and '.join(shown)} look like numbers of households"
    if len(shown) == 1:
        which = f"{shown[0]} looks like the number of a household"
    return (
        f"{which}. If whole households were sampled, say so: "
        f"{option('household', shown[0])}. Else the interval may be too narrow and too low."
    )


def _copies_sentence(found: Copies) -> str:
    total, fine = found.n_same + found.n_near, visible(brief(found.columns[0]))
    alike = " and ".join(visible(brief(name)) for name in found.columns)
    return (
        f"{COPIES}, as simulated or imputed populations do, and "
        f"files with repeated interviews: {total:,} pairs of households agree in {alike} of all "
        f"members, but for one {fine} at most, and {found.n_same:,} of them agree in this one too. "
        "τ1 and τ2 may be far too high, and the interval does not cover this. Find out how the "
        "file was made."
    )


def _repeats_like_households(codes: Int64) -> bool:
    known = codes[codes >= 0]
    if len(known) < max(LEAST_ROWS, (1.0 - MOST_MISSING) * len(codes)):
        return False
    counts = np.bincount(known)
    counts = counts[counts > 0]
    if counts.max() > MOST_MEMBERS or not LEAST_MEAN <= counts.mean() <= MOST_MEAN:
        return False
    return _runs(known) <= MOST_RUNS * len(counts)


def _in_order(codes: Int64) -> bool:
    """Whether equal values follow each other, as in a file that is sorted by the column."""
    return _runs(codes) <= MOST_RUNS * len(np.unique(codes))


def _runs(codes: Int64) -> int:
    return 1 + int(np.count_nonzero(codes[1:] != codes[:-1]))


def _tells(household: Int64, other: Int64) -> bool:
    """Whether neighbouring rows of one household agree more or less often than those of two."""
    known = (household >= 0) & (other >= 0)
    both = known[1:] & known[:-1]
    same = (household[1:] == household[:-1])[both]
    agree = (other[1:] == other[:-1])[both]
    n_same, n_other = int(same.sum()), int((~same).sum())
    if not n_same or not n_other:
        return False
    difference = abs(float(agree[same].mean()) - float(agree[~same].mean()))
    share = float(agree.mean())
    error = np.sqrt(share * (1.0 - share) * (1.0 / n_same + 1.0 / n_other))
    return bool(difference >= LEAST_DIFFERENCE and difference >= LEAST_SCORE * error)


def _homes(household: Int64) -> tuple[Int64, Int64]:
    """Rows of the households that are compared, sorted by household, and its number for each."""
    rows = np.flatnonzero(household >= 0)
    numbers = np.unique(household[rows], return_inverse=True)[1].astype(np.int64)
    sizes = np.bincount(numbers, minlength=1)[numbers]
    kept = (sizes >= COPY_MEMBERS[0]) & (sizes <= COPY_MEMBERS[1])
    rows, numbers = rows[kept], numbers[kept]
    order = np.argsort(numbers, kind="stable")
    return numbers[order], rows[order]


def _is_fine(codes: Int64, together: Bool) -> bool:
    if (codes < 0).mean() > MOST_MISSING:
        return False
    counts = np.bincount(codes[codes >= 0])
    if np.count_nonzero(counts) < FINE_LEVELS or counts.max() > FINE_MODE * len(codes):
        return False
    return bool((codes[1:] == codes[:-1])[together].mean() <= FINE_TOGETHER)


def _is_coarse(codes: Int64, together: Bool) -> bool:
    levels = len(np.unique(codes))
    if not 2 <= levels <= COMMON_LEVELS:
        return False
    return levels <= COARSE_LEVELS or bool((codes[1:] == codes[:-1])[together].all())


def _pairs(household: Int64, fine: Int64, coarse: Int64) -> tuple[int, int, int]:
    # A household is the sum of its members' random numbers: whatever their order.
    levels = int(coarse.max()) + 2
    member = _scattered(fine * levels + coarse)
    home = np.cumsum(np.r_[0, household[1:] != household[:-1]])
    whole = np.zeros(int(home[-1]) + 1, np.uint64)
    np.add.at(whole, home, member)
    rest = whole[home] - member + _scattered(-3 * levels - coarse)
    but_one = np.unique(np.stack([rest, home.astype(np.uint64)]), axis=1)
    values = np.bincount(but_one[1].astype(np.int64), minlength=len(whole))
    _, first, counts = np.unique(whole, return_index=True, return_counts=True)
    same = counts * (counts - 1) // 2
    _, alike = np.unique(but_one[0], return_counts=True)
    near = int((alike * (alike - 1) // 2).sum()) - int((same * values[first]).sum())
    return int((counts - 1).sum()), int(same.sum()), near


def _scattered(codes: Int64) -> np.ndarray[tuple[int, ...], np.dtype[np.uint64]]:
    """Random 64-bit numbers, one for each code (the finalizer of splitmix64)."""
    z = (codes.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
