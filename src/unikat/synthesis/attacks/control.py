"""Whether a control file has records of the original, or of a synthetic file.

A control file holds records that the generator never saw. Of two independent files of one size, a
combination of values that two records have is split between the files with probability
2 p q / (p + q)^2, at most 1/2, p and q its probabilities in either, whatever these are. So the
number of split pairs is binomial, or smaller. Records that both files have make split pairs. The
same holds without any one column, whose values may have been renamed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln
from scipy.stats import binomtest

from unikat._typing import Int32, Int64, UInt64
from unikat.data.microdata import Microdata
from unikat.errors import DataError, listed
from unikat.synthesis.attacks.files import Files, Named

CHANCE = 1e-6
"""Probability, at most, that a control file of other records is refused."""
_ROUNDS = 3
"""In which records are told by their values, and values by their records."""
MOST_COLUMNS = 60
"""Columns of both files that are compared, at most."""
_SHOWN = 8


class Opened(NamedTuple):
    """A file of the attack as it was opened."""

    named: Named
    rows: Microdata
    path: Path | None
    """None of a frame."""


class Pairs(NamedTuple):
    """Combinations of values that two records of both files together have."""

    n: int
    n_split: int
    """Those with one record in each file."""

    @property
    def probability(self) -> float:
        """Probability of as many split pairs or more, if no record is in both files; or a bound."""
        if not self.n:
            return 1.0
        return float(binomtest(self.n_split, self.n, alternative="greater").pvalue)


def pairs_of(one: Int64, other: Int64, seed: int) -> Pairs:
    """Count pairs in two files of numbered combinations; of the larger one, as many are drawn."""
    generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(4,)))
    size = min(len(one), len(other))
    one, other = (
        part if len(part) == size else generator.choice(part, size, replace=False)
        for part in (one, other)
    )
    n = int(max(one.max(initial=-1), other.max(initial=-1))) + 1
    counts = [np.bincount(part, minlength=n) for part in (one, other)]
    twice = counts[0] + counts[1] == 2
    return Pairs(int(twice.sum()), int((twice & (counts[0] == 1)).sum()))


def same_records(one: Int64 | UInt64, other: Int64 | UInt64) -> bool:
    """Whether two files have the same combinations equally often."""
    return len(one) == len(other) and bool((np.sort(one) == np.sort(other)).all())


@dataclass(frozen=True)
class Compared:
    """Records of two files by the same columns, coded alike."""

    names: tuple[str, ...]
    ours: Int32
    """(n_ours, n_columns)"""
    theirs: Int32
    """(n_theirs, n_columns)"""

    def numbered(self, without: int | None = None) -> tuple[Int64, Int64]:
        """Number the combinations of values, of all columns or without one."""
        found = self._sums
        if without is not None:
            found = found - self._scattered(without)
        ids = np.unique(found, return_inverse=True)[1].astype(np.int64)
        return ids[: len(self.ours)], ids[len(self.ours) :]

    @cached_property
    def _sums(self) -> UInt64:
        """Numbers that records with the same values share."""
        found = np.zeros(len(self.ours) + len(self.theirs), np.uint64)
        for j in range(len(self.names)):
            found += self._scattered(j)
        return found

    def _scattered(self, j: int) -> UInt64:
        both = np.concatenate([self.ours[:, j], self.theirs[:, j]])
        return scattered(both.astype(np.uint64), j)


def scattered(numbers: UInt64, salt: int) -> UInt64:
    """Scatter numbers over all of 64 bits, the same ones alike (splitmix64)."""
    found = numbers + np.uint64((salt + 1) * 0x9E3779B97F4A7C15 % 2**64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        found = (found ^ (found >> np.uint64(shift))) * np.uint64(factor)
    return found ^ (found >> np.uint64(31))


def same_but_for_names(found: Compared) -> bool:
    """Whether two files have the same records once the values of every column are renamed.

    Values are told by the records that have them, and these by their values, three times over, so
    that names are no matter. What files of few combinations have by chance does not count: the
    probability of the counts of the combinations, as often as there are renamings.
    """
    if len(found.ours) != len(found.theirs):
        return False
    counts = np.bincount(found.numbered()[0])
    counts = counts[counts > 0]
    n_levels = [len(np.unique(column)) for column in found.ours.T]
    of_counts = gammaln(counts.sum() + 1) + np.sum(
        counts * np.log(counts / counts.sum()) - gammaln(counts + 1)
    )
    if of_counts + np.sum(gammaln(np.array(n_levels) + 1)) > np.log(CHANCE):
        return False
    return same_records(_without_names(found.ours), _without_names(found.theirs))


def _without_names(codes: Int32) -> UInt64:
    """Number records by what they have in common with others, whatever their values are called."""
    levels = [np.full(column.max() + 1, j, np.uint64) for j, column in enumerate(codes.T)]
    records = np.zeros(len(codes), np.uint64)
    for _ in range(_ROUNDS):
        records = np.zeros(len(codes), np.uint64)
        for j, column in enumerate(codes.T):
            records += scattered(levels[j], j)[column]
        records = scattered(records, 0)
        for j, column in enumerate(codes.T):
            levels[j] = np.zeros_like(levels[j])
            np.add.at(levels[j], column, records)
    return records


def check_control(
    files: Files, original: Opened, synthetic: Sequence[Opened], control: Opened, seed: int
) -> None:
    """Refuse a control file that has records of the original, or is a synthetic file.

    Raises
    ------
    DataError
        If it has; the message names columns and counts.
    """
    compared = [Compared(files.names, files.original, files.control)]
    if (more := _by_shared_columns(original.rows, control.rows)) is not None:
        compared.append(more)
    said = f"{control.named.name} is no control file: "
    remedy = (
        " A control file holds records that the generator never saw. Split the data at random "
        "before you make synthetic files, give the generator one part alone, and name the other "
        "as the control file."
    )
    theirs = (_by_shared_columns(made.rows, control.rows) for made in synthetic)
    for found, other in zip([compared[-1], *theirs], [original, *synthetic], strict=True):
        if found is None:
            continue
        if same_records(*found.numbered()):
            raise DataError(f"{said}it has the same records as {other.named.name}.{remedy}")
        if same_but_for_names(found):
            raise DataError(
                f"{said}it has the same records as {other.named.name}, but for the names of "
                f"values of {listed(found.names, _SHOWN)}.{remedy}"
            )
    # Without each column too, whose values may have other names.
    last = compared[-1]
    tried: list[tuple[Compared, int | None]] = [(one, None) for one in compared]
    if len(last.names) > 1:
        tried += [(last, j) for j in range(len(last.names))]
    for one, without in tried:
        pairs = pairs_of(*one.numbered(without), seed)
        if pairs.probability < CHANCE / len(tried):
            names = [name for j, name in enumerate(one.names) if j != without]
            raise DataError(
                f"{said}it has records of {original.named.name}. {pairs.n:,} combinations of "
                f"{listed(names, _SHOWN)} belong to two records of both files together. In "
                f"{pairs.n_split:,} of them each file has one of the two; in files without common "
                f"records at most half, and as many as here with a probability below {CHANCE:g}."
                f"{remedy}"
            )


def _by_shared_columns(one: Microdata, other: Microdata) -> Compared | None:
    """Code the records of two files by the columns that both have; None if there are none.

    Columns in which all records of a file differ are left out: they may number its rows. Keys come
    first, then the other columns in their order.
    """
    keys = [key.name for key in one.keys]
    shared = [name for name in one.source.columns if name in {*other.source.columns}]
    names = list(dict.fromkeys([*(name for name in keys if name in shared), *shared]))
    n, used, taken = one.n_records, [], []
    for name in names[:MOST_COLUMNS]:
        codes = _coded(one, other, name)
        if any(len(np.unique(part)) == len(part) > 1 for part in (codes[:n], codes[n:])):
            continue
        used.append(name)
        taken.append(codes.astype(np.int32))
    if not used:
        return None
    both = np.stack(taken, axis=1)
    return Compared(tuple(used), both[:n], both[n:])


def _coded(one: Microdata, other: Microdata, name: str) -> Int64:
    """Code a column of two files alike; texts that are numbers are these numbers."""
    found = [file.codes(name) for file in (one, other)]
    number: dict[str | float, int] = {}
    codes = []
    for file_codes, values in found:
        told = [number.setdefault(_value(value), len(number)) for value in values]
        codes.append(np.array([*told, -1], np.int64)[file_codes])
    return np.concatenate(codes) + 1


def _value(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text
