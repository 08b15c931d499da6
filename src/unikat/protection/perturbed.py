"""The records of a perturbed file, and the risk of matches with it.

The owner knows the true and the published keys of every record. A record that is alone in the
published file with what it shows is a correct match only if it shows its true keys; then an
intruder who looks for one of the F persons of the population with these keys has found the right
one with probability 1/F. So

    tau2 = sum of E(1/F),    tau1 = sum of P(F = 1)

over published uniques that show their true keys, given the true sample, are the expected number of
correct matches, and of those that are certain. Nothing is assumed of how the values were changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from unikat._typing import Float64, Int32, Int64
from unikat.data.households import HouseholdLayout, agreeing_households, household_meetings
from unikat.data.keys import MISSING, Key
from unikat.data.named_levels import level_names
from unikat.data.patterns import agreeing, distinct, match_sums, summed
from unikat.data.shared_keys import known_values
from unikat.data.table import CellTable
from unikat.errors import SpecError, brief, only_keys, option, suggest
from unikat.protection.going_on import N_STATES
from unikat.protection.perturbation import check_matrix, invariant_matrix, post_randomised
from unikat.protection.recoding import Recoding
from unikat.protection.swapping import swap_records
from unikat.protection.what_if import Posterior
from unikat.risk.estimate import Summary, known
from unikat.risk.law import State
from unikat.risk.limits import Measured
from unikat.risk.predictive import Law
from unikat.spec.perturbation import Pram, Strengths
from unikat.spec.small_files import Matrix


class Perturbed(NamedTuple):
    """Perturbed records."""

    codes: Int32
    """(n, n_recoded_keys)"""
    matrices: dict[int, Float64]
    """Transition matrix of each key of PRAM, by its column."""
    n_left: int
    """Targets of swapping that found no partner."""


def perturb(
    codes: Int32,
    keys: Sequence[Key],
    *,
    pram: Pram,
    swap: Sequence[str],
    match: Sequence[str],
    targets: Float64,
    household: Int32 | None,
    seed: int,
) -> Perturbed:
    """Swap some keys of records, then replace some values of others by random ones.

    Parameters
    ----------
    codes, keys
        (n, n_keys): recoded records, -1 where missing, and their keys.
    pram
        For each key the probability of keeping a value, or a matrix by names of levels.
    swap, match
        Keys that are swapped, and in which partners agree; no `match`: all others.
    targets
        (n,): records above 0 are to be swapped.
    household
        (n,) number of the household; None: records are perturbed one by one. A key that all members
        of every household share is drawn once for each household. Members whose value is missing
        do not count, and keep it missing.
    seed
        Of all draws.
    """
    names = [key.name for key in keys]
    place = {name: j for j, name in enumerate(names)}
    n_levels = [key.n_levels for key in keys]
    matrices = {place[name]: _matrix(keys[place[name]], codes[:, place[name]], one)
                for name, one in pram.items()}  # fmt: skip
    codes = _plain(codes, keys)
    n_left, drawn = 0, codes
    if swap:
        columns = [place[name] for name in swap]
        swapped = swap_records(
            codes,
            n_levels,
            targets,
            swap=columns,
            match=[place[name] for name in match or names if name not in swap],
            seed=seed,
            household=household,
        )
        drawn, n_left = swapped.codes, int(swapped.left.sum())
    shared: list[int] = []
    if household is not None:
        member = np.unique(household, return_inverse=True)[1]
        values, differ = known_values(drawn, member)
        shared = [j for j in matrices if not differ[j]]
        by_household = {j: matrices[j] for j in shared}
        of_household = post_randomised(values, by_household, seed)[member]
    one_by_one = {j: one for j, one in matrices.items() if j not in shared}
    drawn = post_randomised(drawn, one_by_one, seed)
    if shared:
        known = drawn[:, shared] != MISSING
        drawn[:, shared] = np.where(known, of_household[:, shared], MISSING)
    for j, key in enumerate(keys):
        if key.missing_level is not None:
            drawn[drawn[:, j] == MISSING, j] = key.missing_level
    return Perturbed(drawn, matrices, n_left)


def _plain(codes: Int32, keys: Sequence[Key]) -> Int32:
    """Codes with -1 where a value is missing, if that is a level, too."""
    levels = [MISSING if key.missing_level is None else key.missing_level for key in keys]
    found: Int32 = np.where(codes == levels, MISSING, codes).astype(np.int32)
    return found


def _matrix(key: Key, column: Int32, given: float | Strengths | Path | Matrix) -> Float64:
    """Transition matrix of a key; missing values that are a level stay."""
    n = key.n_levels - (key.missing_level is not None)
    known = column[(column != MISSING) & (column < n)]
    if isinstance(given, dict):
        inner = _named_matrix(key, given)
        check_matrix(inner, f"key {brief(key.name)!r}")
    else:
        assert isinstance(given, float)
        inner = invariant_matrix(known, n, given)
    there = np.bincount(known, minlength=n) > 0
    new = (inner[there] > 0.0).any(axis=0) & ~there
    if new.any():
        raise SpecError(
            f"The transition matrix of key {brief(key.name)!r} leads to {int(new.sum())} of its "
            "levels that no record has, and a value that nobody has cannot be written. Give them "
            "the probability 0."
        )
    matrix = np.eye(key.n_levels)
    matrix[:n, :n] = inner
    return matrix


def _named_matrix(key: Key, given: Matrix) -> Float64:
    """Put a matrix in the order of the levels."""
    names = level_names(key)
    called = {name: code for code, name in enumerate(key.labels[: len(names)])}
    called |= {name: code for code, name in enumerate(names)}
    matrix = np.zeros((len(names), len(names)))
    seen = set()
    for level, row in given.items():
        for name in (level, *row):
            if name not in called:
                raise SpecError(
                    f"The transition matrix of key {brief(key.name)!r}: {brief(name)!r} is no "
                    "level of the key. Name levels by their value or label."
                    + suggest(name, [one for one in called if called[one] not in key.private])
                )
        seen.add(called[level])
        for name, probability in row.items():
            matrix[called[level], called[name]] += probability
    if missing := len(names) - len(seen):
        raise SpecError(
            f"The transition matrix of key {brief(key.name)!r} has no row for {missing} of its "
            f"{len(names)} levels; give each level a row."
        )
    return matrix


def check_perturbation(
    table: CellTable,
    *,
    pram: Pram,
    swap: Sequence[str],
    match: Sequence[str],
) -> None:
    """Refuse a perturbation of a table that cannot be done, before any work is (SpecError)."""
    names = [key.name for key in table.keys]
    for asked, given in (("pram", list(pram)), ("swap", swap), ("swap_match", match)):
        only_keys(asked, given, names)
    codes = table.cells[table.record_cell]
    for name, given_matrix in pram.items():
        j = names.index(name)
        _matrix(table.keys[j], codes[:, j], given_matrix)
    if swap and table.households is not None:
        member = np.unique(table.households, return_inverse=True)[1]
        _, differ = known_values(_plain(codes, table.keys), member)
        for name in swap:
            if differ[names.index(name)]:
                raise SpecError(
                    f"Members of a household differ in {brief(name)!r}, so whole households cannot "
                    "swap it. Swap keys that all members share, such as the area, or leave "
                    f"{option('household')} out."
                )


@dataclass(frozen=True, kw_only=True)
class CorrectMatches:
    """The risk of matches with a file of which values may be changed."""

    n_uniques: int
    """Records that are alone in the published file with what they show."""
    smallest: int
    """Records in the smallest combination of what is shown."""
    n_true: int
    """Of these, records that show their true keys."""
    tau1: Summary
    """Of these, population uniques: an intruder's match is certainly right."""
    tau2: Summary
    """Expected number of correct matches."""
    ignored: tuple[str, ...] = ()
    """Perturbed keys that the intruder leaves out who expects most correct matches."""
    tau1_bins: tuple[tuple[float, float, float], ...] = ()
    """Lower end, upper end and probability of each bar of a picture of τ1; none where it is known.
    """

    @property
    def measured(self) -> Measured:
        """The numbers that limits are judged by; those of single records are not known."""
        return Measured(tau1=self.tau1, tau2=self.tau2, smallest=float(self.smallest))


def most_matches(
    posterior: Posterior,
    recoding: Recoding,
    published: Int32,
    level: float,
    perturbed: Sequence[str],
    rows: Int64 | None = None,
    unsuppressed: Int32 | None = None,
    *,
    n_states: int = N_STATES,
) -> CorrectMatches:
    """Find what the intruder reaches who does best: by all keys, or without perturbed ones.

    A key that shows other values for many records misleads an intruder, and he has more correct
    matches without it. So each perturbed key is left out by itself, and all of them are; τ1 and τ2
    are the largest.
    """
    best = correct_matches(
        posterior, recoding, published, level, rows, unsuppressed, n_states=n_states
    )
    names = [recoding.keys[j].name for j in recoding.kept]
    hidden = [name for name in perturbed if name in names]
    for ignored in dict.fromkeys([*((name,) for name in hidden), tuple(hidden)]):
        keys = tuple(one.left_out() if one.name in ignored else one for one in recoding.keys)
        margin = replace(recoding, keys=keys)
        if not ignored or not margin.kept:
            continue
        left = [name not in ignored for name in names]
        shown = np.ascontiguousarray(published[:, left])
        whole = None if unsuppressed is None else np.ascontiguousarray(unsuppressed[:, left])
        found = correct_matches(posterior, margin, shown, level, rows, whole, n_states=n_states)
        more = found.tau2.mean > best.tau2.mean
        best = replace(
            best,
            tau1=_larger(best.tau1, found.tau1),
            tau2=_larger(best.tau2, found.tau2),
            ignored=ignored if more else best.ignored,
            tau1_bins=max(best, found, key=lambda one: one.tau1.mean).tau1_bins,
        )
    return best


def _larger(one: Summary, other: Summary) -> Summary:
    """The one with the larger mean, and the larger upper end: a limit is of either."""
    more = max(one, other, key=lambda each: (each.mean, each.upper))
    return replace(more, upper=max(one.upper, other.upper))


def correct_matches(
    posterior: Posterior,
    recoding: Recoding,
    published: Int32,
    level: float,
    rows: Int64 | None = None,
    unsuppressed: Int32 | None = None,
    *,
    n_states: int = N_STATES,
) -> CorrectMatches:
    """Estimate how many matches with the uniques of a published file are correct.

    Parameters
    ----------
    posterior
        States of a model of the original file.
    recoding
        Of its keys.
    published
        (n_published, n_recoded_keys) codes of the recoded keys as they are published, in the order
        of the table; -1 where a value is missing or suppressed. Codes beyond the levels of a key
        are values that no record truly has. Of households rows of the recoded table, each whole
        (`HouseholdLayout.is_whole`).
    level
        Probability of the intervals.
    rows
        (n_published,): records of the table that are published, in the order of `published`; None:
        all.
    unsuppressed
        (n_published, n_recoded_keys): what the records would show if no value were suppressed;
        None: their true values. Columns as those of `published`.
    n_states
        By which the risk is computed, spread over the chains.
    """
    table = recoding.table(posterior.table)
    sample = table.cells[table.record_cell]
    true = sample if rows is None else sample[rows]
    n_levels = np.maximum(table.n_levels, published.max(axis=0, initial=0) + 1).tolist()
    # A suppressed value of another record is what it was: it does not make two records alike.
    behind = true if unsuppressed is None else unsuppressed
    layout = table.layout
    if layout is None:
        whole = np.where(published == MISSING, behind, published).astype(np.int32)
        shown = np.where(published == MISSING, MISSING, true)
    else:
        whole, shown = behind, layout.hiding(true, layout.unknown(published))
    alone = _agreeing(published, whole, n_levels, layout) == 1.0
    if table.missing == "wildcard":
        alone &= _matching(published, n_levels, layout) == 1
    shows = alone & (published == shown).all(axis=1)
    patterns = np.ascontiguousarray(published[shows], np.int32)
    frequency = _agreeing(patterns, sample, n_levels, layout)
    certain = frequency == 1.0
    if posterior.states and len(patterns):
        found = posterior.moments(recoding, table, patterns, frequency, n_states)
        law = Law([State(one.r1[certain], one.cumulants) for one in found])
        tau1, tau2, bars = law.tau1(level), law.tau2(level), law.bins()
    else:
        bars = ()
        # Nobody is unobserved; or no record was alone, and more persons than records share a cell.
        tau1 = known(float(certain.sum()), level)
        tau2 = known(float((1.0 / frequency).sum()), level)
    return CorrectMatches(
        n_uniques=int(alone.sum()),
        smallest=int(_matching(published, n_levels, layout).min(initial=len(published))),
        n_true=int(shows.sum()),
        tau1=tau1,
        tau2=tau2,
        tau1_bins=bars,
    )


def _agreeing(
    patterns: Int32, records: Int32, n_levels: Sequence[int], layout: HouseholdLayout | None
) -> Float64:
    """Records that agree with what each pattern shows, itself among them, (n,)."""
    asked, cells = distinct(patterns, n_levels), distinct(records, n_levels)
    some, others = patterns[asked.first], records[cells.first]
    pairs = (
        agreeing(some, others, n_levels)
        if layout is None
        else agreeing_households(layout, some, others)
    )
    sums = summed(pairs, cells.counts[:, None].astype(np.float64), len(some))
    found: Float64 = np.maximum(sums[asked.place, 0], 1.0)
    return found


def _matching(codes: Int32, n_levels: Sequence[int], layout: HouseholdLayout | None) -> Int64:
    """Records that match each one where a missing key matches any level, (n,)."""
    found = distinct(codes, n_levels)
    patterns, counts = codes[found.first], found.counts[:, None]
    if layout is None:
        sums = match_sums(patterns, counts, n_levels)
    else:
        of_homes = summed(
            household_meetings(layout, patterns), counts.astype(np.float64), len(patterns)
        )
        sums = of_homes.astype(np.int64)
    matching: Int64 = sums[found.place, 0]
    return matching


_LINKED = 100
"""States by which links are looked at."""


@dataclass(frozen=True, kw_only=True)
class Links:
    """What an intruder can say of a match after PRAM, who knows the matrices and the population."""

    mean: float
    """Probability that a match with a unique record is correct, in the mean over these records."""
    largest: float
    """The largest of these probabilities."""
    bounded: bool
    """Others who are drawn into a cell could not be counted: the probabilities are bounds."""


def links(
    posterior: Posterior, recoding: Recoding, published: Int32, matrices: Mapping[int, Float64]
) -> Links | None:
    r"""Estimate the probability that a match with a published unique is correct, after PRAM.

    An intruder looks for a person of whom he knows that the true keys are j, and finds one
    published record with them. With F_j persons in the cell, this one among them, and matrices M,

    .. math:: E \frac{1}{F_j + R_j / M_{jj}}, \qquad R_j = \sum_{k \ne j} F_k M_{kj},

    which is the measure of Shlomo and Skinner (2010, *Assessing the protection provided by
    misclassification-based disclosure limitation methods for survey microdata*, Annals of Applied
    Statistics 4, 1291-1310) for a small sampling fraction π. With it M is M / (1 - π M), so
    that the probability is larger where values are more likely kept than drawn into the cell:
    by a factor of at most 1 / (1 - π M_jj). F_j - 1 is Poisson, and R_j its expectation under
    each state.

    Parameters
    ----------
    posterior, recoding, published
        As for `correct_matches`, all records being published.
    matrices
        Transition matrix of each perturbed key, by its column.

    Returns
    -------
    Links or None
        None if no complete record is alone.
    """
    from scipy.special import hyp1f1

    table = recoding.table(posterior.table)
    found = distinct(published, table.n_levels)
    cells = published[found.first]
    cells = np.ascontiguousarray(cells[(found.counts == 1) & (cells != MISSING).all(axis=1)])
    if not len(cells):
        return None
    stays = np.ones(len(cells))
    for column, matrix in matrices.items():
        stays *= np.diag(matrix)[cells[:, column]]
    states = posterior.arrivals(recoding, table, matrices, cells, _LINKED)
    bounded = states is None
    if states is None:
        # Nobody else is drawn into the cell: the matches are those of true keys.
        zeros = np.zeros(len(cells), np.float64)
        frequency = np.ones(len(cells))
        found_states = (
            posterior.moments(recoding, table, cells, frequency, _LINKED)
            if posterior.states
            else ()
        )
        total = sum((one.r2 for one in found_states), zeros)
        n = min(_LINKED, sum(map(len, posterior.states)))
        p = total / n if n else np.ones(len(cells))
    else:
        parts = []
        for others, arrive in states:
            with np.errstate(divide="ignore"):
                more = 1.0 + arrive / stays
            # E 1 / (more + X), X being Poisson.
            finite = np.where(np.isfinite(more), more, 1.0)
            value = hyp1f1(1.0, finite + 1.0, -others) / finite
            parts.append(np.where(np.isfinite(more), value, 0.0))
        p = np.mean(parts, axis=0)
    p = np.where(stays > 0.0, p, 0.0)
    return Links(mean=float(p.mean()), largest=float(p.max()), bounded=bounded)
