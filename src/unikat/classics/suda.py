"""Special uniques: SUDA scores, DIS-SUDA scores, and what each key adds to them.

A *minimal sample unique* (MSU) of a record is a set of keys on which no other record of the sample
agrees with it, while on every smaller part of the set some other does. A record with many MSUs,
or with small ones, is unusual in more ways than that all keys together happen to single it out: it
is a *special unique*, and more likely to be unique in the population too.

Sources: Elliot, Manning and Ford (2002), *A computational algorithm for handling the special
uniques problem*, Int. J. Uncertainty, Fuzziness and Knowledge-Based Systems 10, 493-509 (SUDA
scores). Elliot, Manning, Mayes, Gurd and Bane (2005), *SUDA: a program for detecting special
uniques*, UNECE/Eurostat work session on statistical data confidentiality (DIS-SUDA). Skinner and
Elliot (2002), *A measure of disclosure risk for microdata*, J. R. Statist. Soc. B 64, 855-867 (the
file's probability of a correct match). Manning, Haglin and Keane (2008), *A recursive search
algorithm for statistical disclosure assessment*, Data Mining and Knowledge Discovery 16, 165-196
(SUDA2, another search of the same MSUs; the search here is in `unikat.kernels.suda`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np

from unikat._typing import Float64, Int32
from unikat.data.keys import MISSING
from unikat.data.table import CellTable
from unikat.errors import SpecError, suggest
from unikat.kernels.suda import minimal_uniques

Scores: TypeAlias = Literal["original", "supersets"]
"""What an MSU of k of M keys adds to a score: (M - k)! as in the paper; or the number of larger
sets that hold it over the number of sets of its size, (2^(M - k) - 1) / C(M, k)."""

Lacking: TypeAlias = Literal["matches", "differs"]
"""What a record is to others on a key it lacks: a match of any level, or none."""

MOST_KEYS = 62
"""A set of keys is the bits of one signed integer."""
MOST_WORK = 3 * 10**10
"""Sets of keys times patterns: up to about half an hour."""
MOST_FOUND = 50_000_000
"""MSUs of all records together: up to about 1.6 GB."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Suda:
    """SUDA and DIS-SUDA scores of the patterns of a table.

    Records have the values of their pattern: ``suda.score[table.record_cell]``. Patterns of several
    records have no MSU and score 0.
    """

    score: Float64
    """(n_cells,) sum over the record's MSUs, of at most `largest` keys, of what each adds."""
    dis_score: Float64
    """(n_cells,) DIS-SUDA, from 0 to 1: the probability that a unique match with the record is
    correct; 0 where the score is 0."""
    n_msu: Int32
    """(n_cells, largest) number of MSUs of 1, 2, ... keys."""
    contribution: Float64
    """(n_cells, n_keys) percent of the record's score from MSUs that hold the key; 0 where the
    score is 0. A row may sum to more than 100, since an MSU counts for each of its keys."""
    key_contribution: Float64
    """(n_keys,) the same of the sum of all scores."""
    level_contribution: tuple[Float64, ...]
    """A (n_levels,) array per key: percent of what the key adds to all scores that is in records of
    the level; not a number where the key adds nothing."""
    match_probability: float
    """DIS of the file: the probability that a match with one record alone is correct."""


def suda2(
    table: CellTable,
    *,
    largest: int | None = None,
    dis_fraction: float = 0.01,
    scores: Scores = "original",
    lacking: Lacking | None = None,
) -> Suda:
    r"""Find all minimal sample uniques, and score the records by them.

    With M keys, an MSU of k keys adds (M - k)! to its record's score (see `Scores` for the other
    rule). With U records alone in their cell, P records in pairs, and the fraction pi of the units
    that are in both files of an intrusion experiment,

    .. math::
        \mathrm{DIS} = \frac{\pi U}{\pi U + (1 - \pi) P}, \qquad
        \frac{d_i}{1 - d_i} = \frac{\mathrm{DIS}}{1 - \mathrm{DIS}}\,
            s_i^{\,e} \, \overline{s^{-e}}, \qquad e = 1 + \frac{8 - M}{20},

    where the bar is the mean over the records whose score s is above 0, so that the harmonic mean
    of their d is DIS. This is how sdcMicro spreads the file's DIS over the records; beyond 28 keys,
    where e would be negative, it is 0.

    A missing key (-1) is never part of a record's own MSUs: nobody can find a record by what the
    file does not tell. What it is to other records is `lacking`:

    - ``"differs"``: on a key that a record lacks nobody agrees with it. A record is unique if no
      other is *seen* to share its levels. This is cautious, but to suppress a value can make others
      unique.
    - ``"matches"``: the record may have any level there, so it stands in the way of the uniqueness
      of all it may agree with, and to suppress a value raises nobody's score (under
      ``"original"``). A record has an MSU just if it matches no other
      (:attr:`~unikat.data.table.CellTable.matches`).

    In DIS, U and P count patterns of one and two records under ``"differs"``, and records that
    match one (their own) and two under ``"matches"``. Where missing values are a level, a missing
    value is a level like others.

    Parameters
    ----------
    table
        Tabulated sample. Its sampling weights and structural zeros have no part.
    largest
        Most keys of an MSU, at least 1; all keys by default. What an MSU adds does not depend on
        it: a score is the part of the full one that such MSUs make up.
    dis_fraction
        pi, above 0, at most 1.
    scores
        What an MSU adds. Under ``"supersets"`` one of all keys adds nothing.
    lacking
        What a missing key is to others; by default ``"matches"`` if the table's `missing` is
        ``"wildcard"``, else ``"differs"``.

    Raises
    ------
    SpecError
        If an option is out of range, or there are too many sets of keys or too many MSUs to end.

    Notes
    -----
    There are sum_{k <= largest} C(M, k) sets of keys; the work is at most that number times the
    number of patterns, and much less where small sets single many records out. Memory: 16 to 32
    bytes for each MSU, and for each pattern some 50 bytes per key.

    Examples
    --------
    The third record is alone with level 1 of A; the last two are told apart by B.

    >>> from unikat.data.keys import Key
    >>> keys = [Key.of_size("A", 3), Key.of_size("B", 2)]
    >>> table = CellTable.from_codes([[0, 0], [0, 0], [1, 0], [2, 0], [2, 1]], keys, 100)
    >>> found = suda2(table)
    >>> found.n_msu[table.record_cell].tolist()
    [[0, 0], [0, 0], [1, 0], [0, 1], [1, 0]]
    >>> found.score[table.record_cell].tolist()
    [0.0, 0.0, 1.0, 1.0, 1.0]
    """
    n_keys = table.n_keys
    largest = _checked(table, largest, dis_fraction, scores, lacking)
    if lacking is None:
        lacking = "matches" if table.missing == "wildcard" else "differs"
    weights = np.array([_weight(n_keys, k, scores) for k in range(1, largest + 1)])
    # The key with most levels splits first: its branch has half of all sets.
    order = np.argsort([key.n_levels for key in table.keys], kind="stable")
    codes = np.ascontiguousarray(table.cells.T[order])
    n_msu = np.zeros((table.n_cells, largest), dtype=np.int32)
    key_score = np.zeros((table.n_cells, n_keys))
    found = minimal_uniques(
        codes,
        _numbered_rests(codes),
        max(table.n_levels),
        table.counts == 1,
        lacking == "matches",
        weights,
        MOST_FOUND,
        n_msu,
        key_score,
    )
    if found < 0:
        raise SpecError(
            f"The {table.n_cells:,} patterns have more than {MOST_FOUND:,} minimal sample uniques "
            f"in the {n_sets(n_keys, largest):,} sets of at most {largest} of {n_keys} keys, which "
            f"is more than fits in memory. Set largest below {largest}, or name fewer keys."
        )
    key_score = key_score[:, np.argsort(order)]
    score = n_msu @ weights
    scored = score > 0.0
    contribution = np.zeros_like(key_score)
    contribution[scored] = 100.0 * key_score[scored] / score[scored, None]
    totals = key_score.sum(axis=0)
    alike = table.matches if lacking == "matches" else table.counts
    alone = dis_fraction * table.counts[alike == 1].sum()
    paired = (1.0 - dis_fraction) * table.counts[alike == 2].sum()
    match_probability = float(alone / (alone + paired)) if alone else 0.0
    return Suda(
        score=score,
        dis_score=_dis(score, match_probability, n_keys),
        n_msu=n_msu,
        contribution=contribution,
        key_contribution=100.0 * totals / score.sum() if scored.any() else totals,
        level_contribution=tuple(
            _by_level(table.cells[:, j], key_score[:, j], key.n_levels)
            for j, key in enumerate(table.keys)
        ),
        match_probability=match_probability,
    )


def n_sets(n_keys: int, largest: int) -> int:
    """Number of sets of 1 to `largest` of the keys."""
    return sum(math.comb(n_keys, k) for k in range(1, largest + 1))


def _checked(
    table: CellTable, largest: int | None, dis_fraction: float, scores: str, lacking: str | None
) -> int:
    """Refuse options that are wrong and work without end; return the most keys of an MSU."""
    n_keys = table.n_keys
    if largest is not None and (
        not isinstance(largest, (int, np.integer)) or isinstance(largest, bool) or largest < 1
    ):
        raise SpecError(
            f"largest is {largest!r}; it must be a whole number, at least 1, such as 3."
        )
    if not 0.0 < dis_fraction <= 1.0:
        raise SpecError(
            f"dis_fraction is {dis_fraction!r}; it must be above 0 and at most 1, such as 0.01."
        )
    for name, given, choices in (
        ("scores", scores, get_args(Scores)),
        ("lacking", lacking or "differs", get_args(Lacking)),
    ):
        if given not in choices:
            raise SpecError(
                f"{name}={given!r} is not known; use one of {', '.join(map(repr, choices))}."
                + suggest(str(given), choices)
            )
    if n_keys > MOST_KEYS:
        raise SpecError(f"SUDA takes at most {MOST_KEYS} keys; there are {n_keys}. Name fewer.")
    size = n_keys if largest is None else min(int(largest), n_keys)
    if n_sets(n_keys, size) * table.n_cells > MOST_WORK:
        feasible = [k for k in range(1, size) if n_sets(n_keys, k) * table.n_cells <= MOST_WORK]
        remedy = f"Set largest to {feasible[-1]} or less, or name" if feasible else "Name"
        raise SpecError(
            f"{n_keys} keys have {n_sets(n_keys, size):,} sets of at most {size} keys, to be "
            f"looked at for {table.n_cells:,} patterns: that would not end. {remedy} fewer keys."
        )
    return size


def _weight(n_keys: int, k: int, scores: str) -> float:
    """What an MSU of k keys adds to a score (see `Scores`)."""
    if scores == "original":
        return float(math.factorial(n_keys - k))
    return float((2 ** (n_keys - k) - 1) / math.comb(n_keys, k))


def _numbered_rests(codes: Int32) -> Int32:
    """Row j: number of each pattern's codes on the keys before j, 0 where all are missing."""
    rests = np.empty_like(codes)
    ids = np.zeros(codes.shape[1], dtype=np.int64)
    for j, code in enumerate(codes):
        rests[j] = ids
        ids = ids * (int(code.max()) + 2) + code + 1
        known = ids.min() > 0
        _, ids = np.unique(ids, return_inverse=True)
        ids += known
    return rests


def _dis(score: Float64, match_probability: float, n_keys: int) -> Float64:
    """DIS-SUDA: the odds of the file's DIS, times s^e over the harmonic mean of s^e."""
    dis: Float64 = np.zeros_like(score)
    scored = score > 0.0
    if scored.any():
        powers = score[scored] ** max(0.0, 1.0 + (8 - n_keys) / 20)
        relative = powers * np.mean(1.0 / powers) * match_probability
        dis[scored] = relative / (relative + (1.0 - match_probability))
    return dis


def _by_level(codes: Int32, key_score: Float64, n_levels: int) -> Float64:
    total = key_score.sum()
    known = codes != MISSING
    sums = np.bincount(codes[known], key_score[known], minlength=n_levels).astype(np.float64)
    return 100.0 * sums / total if total > 0.0 else np.full(n_levels, np.nan)
