"""Whether a control file has records of the original, or of a synthetic file.

A control file holds records that the generator never saw. Of two independent files of one size, a
combination of values that two records have is split between the files with probability
2 p q / (p + q)^2, at most 1/2, p and q its probabilities in either, whatever these are. So the
number of split pairs is binomial, or smaller. Records that both files have make split pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.stats import binomtest

from unikat._typing import Int64
from unikat.data.microdata import Microdata
from unikat.data.patterns import numbered
from unikat.errors import DataError, listed
from unikat.synthesis.attacks.files import Files, Named

CHANCE = 1e-6
"""Probability, at most, that a control file of other records is refused."""
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


def same_records(one: Int64, other: Int64) -> bool:
    """Whether two files have the same combinations equally often."""
    return len(one) == len(other) and bool((np.sort(one) == np.sort(other)).all())


def check_control(
    files: Files, original: Opened, synthetic: Sequence[Opened], control: Opened, seed: int
) -> None:
    """Refuse a control file that has records of the original, or is a synthetic file.

    Raises
    ------
    DataError
        If it has; the message names columns and counts.
    """
    used = np.concatenate([files.original, files.control])
    n = len(files.original)
    codes = numbered(used, used[:0], files.n_levels)[0].astype(np.int64)
    compared = [(files.names, codes[:n], codes[n:])]
    if (more := _by_shared_columns(original.rows, control.rows)) is not None:
        compared.append(more)
    names, ours, theirs = compared[-1]
    said = f"{control.named.name} is no control file: "
    remedy = (
        " A control file holds records that the generator never saw. Split the data at random "
        "before you make synthetic files, give the generator one part alone, and name the other "
        "as the control file."
    )
    if same_records(ours, theirs):
        raise DataError(f"{said}it has the same records as {original.named.name}.{remedy}")
    for made in synthetic:
        both = _by_shared_columns(made.rows, control.rows)
        if both is not None and same_records(both[1], both[2]):
            raise DataError(f"{said}it has the same records as {made.named.name}.{remedy}")
    for names, ours, theirs in compared:
        found = pairs_of(ours, theirs, seed)
        if found.probability < CHANCE / len(compared):
            raise DataError(
                f"{said}it has records of {original.named.name}. {found.n:,} combinations of "
                f"{listed(names, _SHOWN)} belong to two records of both files together. In "
                f"{found.n_split:,} of them each file has one of the two; in files without common "
                f"records at most half, and as many as here with a probability below {CHANCE:g}."
                f"{remedy}"
            )


def _by_shared_columns(
    one: Microdata, other: Microdata
) -> tuple[tuple[str, ...], Int64, Int64] | None:
    """Number the records of two files by the columns that both have; None if there are none.

    Columns in which all records of a file differ are left out: they may number its rows. Keys come
    first, then the other columns in their order.
    """
    keys = [key.name for key in one.keys]
    shared = [name for name in one.source.columns if name in {*other.source.columns}]
    names = list(dict.fromkeys([*(name for name in keys if name in shared), *shared]))
    n, used = one.n_records, []
    ids = np.zeros(n + other.n_records, np.int64)
    for name in names[:MOST_COLUMNS]:
        codes = _coded(one, other, name)
        if any(len(np.unique(part)) == len(part) > 1 for part in (codes[:n], codes[n:])):
            continue
        used.append(name)
        ids = np.unique(ids * (int(codes.max()) + 1) + codes, return_inverse=True)[1]
    return (tuple(used), ids[:n], ids[n:]) if used else None


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
