"""Attacks on synthetic files of any generator: each gives what every record contributes.

Each attack is tried on the records of the original, and on those of a control file if there is one.
A *contribution* is a number for a record whose mean over the records is the success rate, so that
records are the units of every interval.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from unikat._typing import AnyArray, Bool, Float64, Int32, Int64
from unikat.data.patterns import distinct, pattern_ids
from unikat.kernels.nearest import linked, nearest
from unikat.models.records import in_parts
from unikat.synthesis.attacks.files import Files
from unikat.synthesis.attacks.rates import AnyHousehold

SEVERAL = 3
"""Keys of a predicate of several keys, as in Giomi et al. (2023)."""
MOST_SETS = 200
"""Sets of keys that are tried; of more, so many are drawn."""
_DIRECT = 2**22
"""Cells that are counted in an array; more are sorted."""


class Tried(NamedTuple):
    """What one attack with one synthetic file gave."""

    n: int
    """Guesses that the intruder made."""
    own: Float64
    """(n_targets,): contributions of the original's records."""
    same_size: Float64
    """(n_targets,): the same, were the original as large as the smaller of it and the control file;
    `own` where the size does not matter."""
    control: Float64
    """(n_control_targets,): contributions of the control file's records, likewise."""
    guess: Float64 | None = None
    """(n_targets,): contributions of an intruder who takes the most frequent value instead."""
    of_guesses: bool = False
    """The success is a share of the guesses, not of the records."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Setting:
    """The files, and how they are attacked."""

    files: Files
    original: Int64
    """Records of the original that are attacked one by one."""
    control: Int64
    """Records of the control file that are attacked one by one."""
    n_threads: int

    @property
    def common_size(self) -> int:
        """Records of the smaller of the original and the control file."""
        return min(len(self.files.original), len(self.files.control) or len(self.files.original))

    def household(self, n: int, *, control: bool = False) -> AnyHousehold:
        """Household of each of n records: of all, or of those that are attacked one by one."""
        found = self.files.control_household if control else self.files.household
        if found is None or n == len(found):
            return found
        return found[self.control if control else self.original]


Attack = Callable[[Setting, Int32], Tried]
"""An attack with one synthetic file."""


def replicated_uniques(setting: Setting, synthetic: Int32) -> Tried:
    """Find the original's uniques that are uniques of the synthetic file too.

    repU = #{cells: d = 1 and s = 1} / n, with d and s the records of the original and of the
    synthetic file (Raab, Nowok and Dibben 2024).
    """
    ids = _numbered(setting.files, synthetic, range(setting.files.n_keys))
    return Tried(int(ids.alone.sum()), *_isolated(setting, ids))


def singling_out(n_keys: int) -> Attack:
    """Make the attack by predicates that single out a synthetic record.

    A predicate gives each of `n_keys` keys a value. All predicates that hold for one synthetic
    record are tried; one succeeds if it holds for one record of the original (Giomi et al. 2023).
    """

    def attack(setting: Setting, synthetic: Int32) -> Tried:
        n_predicates = 0
        totals: list[Float64] = []
        for keys in _sets(setting.files.n_keys, min(n_keys, setting.files.n_keys)):
            ids = _numbered(setting.files, synthetic, keys)
            n_predicates += int(ids.alone.sum())
            found = _isolated(setting, ids)
            totals = [a + b for a, b in zip(totals, found, strict=True)] if totals else [*found]
        # Successes of each predicate among so many records, as a mean over the records.
        sizes = (len(totals[0]), setting.common_size, setting.common_size)
        own, same_size, control = (
            one * (n / max(n_predicates, 1)) for one, n in zip(totals, sizes, strict=True)
        )
        return Tried(n_predicates, own, same_size, control, of_guesses=True)

    return attack


def linkability(first: Sequence[int], second: Sequence[int]) -> Attack:
    """Make the attack that links two sources of a person, which have some of the keys each.

    The intruder looks for the record nearest to either part. He links the parts if he finds the
    same record (Giomi et al. 2023). Where several are nearest, he draws one of them at random in
    each search.
    """

    def attack(setting: Setting, synthetic: Int32) -> Tried:
        used = [*first, *second]
        cells, counts = cells_of(setting.files, synthetic[:, used], used)
        split = len(first)
        columns = [np.ascontiguousarray(part.T) for part in (cells[:, :split], cells[:, split:])]

        def links(records: Int32) -> Float64:
            parts = [
                np.ascontiguousarray(records[:, list(keys)]).astype(cells.dtype)
                for keys in (first, second)
            ]
            share = np.empty(len(records))

            def work(_: int, start: int, stop: int) -> None:
                linked(parts[0], columns[0], parts[1], columns[1], counts, start, stop, share)

            in_parts(work, len(records), setting.n_threads)
            return share

        own = links(setting.files.original[setting.original])
        return Tried(len(own), own, own, links(setting.files.control[setting.control]))

    return attack


def disclosive(target: int) -> Attack:
    """Make the attack on an attribute that all synthetic records with a person's keys share.

    DiSCO: the share of the original's records whose keys occur in the synthetic file with one value
    of the attribute alone, and it is theirs (Raab, Nowok and Dibben 2024). Beside it: the same
    guesses, with the most frequent value.
    """

    def attack(setting: Setting, synthetic: Int32) -> Tried:
        files = setting.files
        ids = _numbered(files, synthetic, _known(files, target))
        low, high = np.full(ids.n, np.iinfo(np.int32).max), np.full(ids.n, -1)
        np.minimum.at(low, ids.synthetic, synthetic[:, target])
        np.maximum.at(high, ids.synthetic, synthetic[:, target])
        sure = low == high
        own, control = (
            (sure[where] & (low[where] == records[:, target])).astype(np.float64)
            for where, records in ((ids.original, files.original), (ids.control, files.control))
        )
        guess = sure[ids.original] & _most_frequent(files, target)
        n_guesses = int(sure[ids.original].sum())
        return Tried(n_guesses, own, own, control, guess.astype(np.float64))

    return attack


def inference(target: int) -> Attack:
    """Make the attack on an attribute by the synthetic records nearest in the known keys.

    The guess is the value of a nearest record, drawn at random among them (Giomi et al. 2023).
    Beside it: the most frequent value as the guess.
    """

    def attack(setting: Setting, synthetic: Int32) -> Tried:
        files = setting.files
        known = _known(files, target)
        own, control = (
            _nearest(setting, synthetic, records, known, target)[1]
            for records in (files.original[setting.original], files.control[setting.control])
        )
        guess = _most_frequent(files, target)[setting.original].astype(np.float64)
        return Tried(len(own), own, own, control, guess)

    return attack


def distances(setting: Setting, synthetic: Int32) -> tuple[Float64, Float64]:
    """Find the number of keys by which each target differs from the nearest synthetic record."""
    files = setting.files
    keys = list(range(files.n_keys))
    own, control = (
        _nearest(setting, synthetic, records, keys, 0)[0]
        for records in (files.original[setting.original], files.control[setting.control])
    )
    return own, control


def shuffled(files: Files, n_records: int, generator: np.random.Generator) -> Int32:
    """Make the file of an intruder who knows nothing but the margins: each column by itself."""
    columns = [generator.choice(column, n_records) for column in files.original.T]
    return np.stack(columns, axis=1)


class _Numbered(NamedTuple):
    """Records by their cell over some keys."""

    original: Int64
    synthetic: Int64
    control: Int64
    n: int
    """Numbers of cells, from 0 to n-1."""

    @property
    def alone(self) -> Bool:
        """Whether one synthetic record is in each cell, (n,)."""
        alone: Bool = np.bincount(self.synthetic, minlength=self.n) == 1
        return alone


def _numbered(files: Files, synthetic: Int32, keys: Sequence[int]) -> _Numbered:
    keys = list(keys)
    records = np.concatenate([one[:, keys] for one in (files.original, synthetic, files.control)])
    n_levels = [files.n_levels[j] for j in keys]
    n = math.prod(n_levels)
    if n <= _DIRECT:
        ids = np.ravel_multi_index(tuple(records.T), n_levels).astype(np.int64, copy=False)
    else:
        values, ids = np.unique(pattern_ids(records, n_levels), return_inverse=True)
        n = len(values)
    ends = np.cumsum([len(files.original), len(synthetic)])
    original, made, control = np.split(ids, ends)
    return _Numbered(original, made, control, n)


def _isolated(setting: Setting, ids: _Numbered) -> tuple[Float64, Float64, Float64]:
    """Contributions to the cells with one synthetic record that have one record of a file.

    Of the original, of the original at the common size, and of the control file at that size.
    """
    alone = ids.alone
    size = setting.common_size
    return (
        _alone(ids.original, ids.n, len(ids.original)) * alone[ids.original],
        _alone(ids.original, ids.n, size) * alone[ids.original],
        _alone(ids.control, ids.n, size) * alone[ids.control],
    )


def _alone(ids: Int64, n_ids: int, size: int) -> Float64:
    """Probability that each record is alone in its cell among `size` of them drawn with it, (n,).

    C(n - d, size - 1) / C(n - 1, size - 1) for a record in a cell of d.
    """
    n = len(ids)
    counts = np.bincount(ids, minlength=n_ids)[ids]
    if size == n:
        single: Float64 = (counts == 1).astype(np.float64)
        return single
    left = n - counts
    found = np.exp(
        gammaln(left + 1.0)
        - gammaln(np.maximum(left - size + 1, 0) + 1.0)
        - gammaln(n)
        + gammaln(n - size + 1.0)
    )
    alone: Float64 = np.where(left >= size - 1, found, 0.0)
    return alone


def _sets(n_keys: int, size: int) -> list[tuple[int, ...]]:
    """Sets of keys of a size, in order; if there are many, some that do not depend on the data."""
    n = math.comb(n_keys, size)
    if n <= MOST_SETS:
        return list(itertools.combinations(range(n_keys), size))
    generator = np.random.default_rng(n_keys)
    found = {
        tuple(sorted(generator.choice(n_keys, size, replace=False).tolist()))
        for _ in range(MOST_SETS)
    }
    return sorted(found)


def _known(files: Files, target: int) -> list[int]:
    """Keys that the intruder knows who wants to learn a column."""
    return [j for j in range(files.n_keys) if j != target]


def _most_frequent(files: Files, target: int) -> Bool:
    """Whether each record of the original has the column's most frequent value, (n,)."""
    column = files.original[:, target]
    frequent: Bool = column == np.bincount(column).argmax()
    return frequent


def cells_of(files: Files, codes: Int32, columns: Sequence[int]) -> tuple[AnyArray, Int64]:
    """Distinct rows of some columns, in the smallest type that holds every code, and counts."""
    n_levels = [files.n_levels[j] for j in columns]
    found = distinct(codes, n_levels)
    small = np.uint8 if max(n_levels) <= 256 else np.int32
    return codes[found.first].astype(small), found.counts


def _nearest(
    setting: Setting, synthetic: Int32, records: Int32, known: Sequence[int], target: int
) -> tuple[Float64, Float64]:
    """Distance of the nearest synthetic records, and the share of them with the target's value."""
    used = [*known, target]
    cells, counts = cells_of(setting.files, synthetic[:, used], used)
    columns = np.ascontiguousarray(cells[:, :-1].T)
    values = np.ascontiguousarray(cells[:, -1])
    targets = np.ascontiguousarray(records[:, list(known)]).astype(cells.dtype)
    secrets = records[:, target].astype(cells.dtype)
    distance, share = np.empty(len(records)), np.empty(len(records))

    def work(_: int, start: int, stop: int) -> None:
        nearest(targets, columns, counts, secrets, values, start, stop, distance, share)

    in_parts(work, len(records), setting.n_threads)
    return distance, share
