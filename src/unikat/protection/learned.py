"""What an intruder learns about a sensitive column, beyond what everybody knows of such persons.

He knows the keys of a person of the population, finds the f records that share them, and infers the
value of a sensitive column. Of the F units of the combination n_s are known to have the value s,
from the records; a share π_s of the others have it. A unit taken at random has it with probability

    v_s = E[(n_s + M_s) / F],    M ~ Multinomial(F - f, π).

The best inference from the file is the s with the largest v_s, and it is right with that
probability. Without the records of the combination he would infer the most frequent value of
persons like these, which is right with its v_s. The difference, at least 0, is what the file adds:
its disclosure of the attribute.

π follows the records and what those of other combinations lead to expect (`shares`). F follows the
model of the keys, with its error. n_s counts records with a known value; the others of the f are
like units of the rest of the population.

From a file that was made of these records, protected or synthetic, the intruder infers the s with
the largest v_s by *its* records, as if they were real. That is right with the v_s of the original.
One who trusts a file may do worse than one who has none: what such a file adds may be below 0.

l-diversity and t-closeness (`classics.diversity`) look at the records alone: a sample unique has
one value, but whether that tells something depends on F and on what such persons are like.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from unikat._typing import Float64, Int32, Int64
from unikat.protection.left_over import looks
from unikat.protection.recoding import Recoding, parse_recoding
from unikat.protection.shares import Shares, stacked
from unikat.protection.what_if import Posterior
from unikat.risk.estimate import Summary, interval_of
from unikat.risk.law import Others, mean_inverse, others

MOST_STATES = 400
"""Of the posterior, that are looked at."""
WIDER = 1.16
"""How much wider an interval of what a file adds is than π and F say: as much as was found over 106
columns of 23 samples of twelve populations (`benchmarks/attributes.py`)."""
_FEW = 100
"""States over which E[1/F] is taken."""


class Released(NamedTuple):
    """A file that was made of the records, protected or synthetic."""

    recoding: Recoding
    """Of the keys."""
    codes: Int32
    """(n, n_recoded_keys): its records, -1 where a key is missing."""
    values: Int64
    """(n,) number of the value of each, -1 where missing."""


class Told(NamedTuple):
    """What an intruder learns from a file."""

    right: Summary
    """Number of records, for a random unit of whose combination the best inference is right."""
    gain: Summary
    """What the file adds to it."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Learned:
    """What an intruder learns about one sensitive column."""

    name: str
    n_levels: int
    n_records: int
    """Records that show all keys. The numbers below count these alone."""
    right: Summary
    """Number of these records, for a random unit of whose combination the best inference from the
    file is right."""
    before: Summary
    """The same of the inference without the records of the combination."""
    gain: Summary
    """The difference."""
    released: Told | None
    """Of the file that was made of the records, if there is one."""
    record_right: Float64 = field(repr=False)
    """(n_records of the table,) probability that the inference is right; NaN where a key is
    missing, as in the next."""
    record_gain: Float64 = field(repr=False)
    record_chosen: Int64 = field(repr=False)
    """(n_records of the table,) the value that is inferred from the file; -1 where a key is
    missing, as in the next."""
    record_usual: Int64 = field(repr=False)
    """The value that is inferred without the records of the combination."""
    record_released: Int64 | None = field(repr=False)
    """The value that is inferred from the released file."""


def learned(
    posterior: Posterior,
    name: str,
    values: Int64,
    level: float,
    seed: int = 1,
    released: Released | None = None,
) -> Learned | None:
    """Tell what an intruder learns about a sensitive column.

    Parameters
    ----------
    posterior
        Of the keys.
    name, values
        The column; (n,) number of the value of each record from 0, -1 where missing.
    level
        Probability of the intervals.
    seed
        Of the draws of π and M.
    released
        A file that was made of these records.

    Returns
    -------
    Learned or None
        None where no value, or no record with all keys, is known, or no state tells the risk.
    """
    table = posterior.table
    complete = ~table.incomplete[table.record_cell]
    known = complete & (values >= 0)
    if not known.any() or (not posterior.states and table.n_units > table.n_records):
        return None
    cells = np.flatnonzero(~table.incomplete)
    places = np.full(table.n_cells, -1)
    places[cells] = np.arange(len(cells))
    place = places[table.record_cell]
    counts = table.counts[cells].astype(np.float64)
    n_levels = int(values.max()) + 1
    if released is not None:
        n_levels = max(n_levels, int(released.values.max(initial=-1)) + 1)
    shares = Shares.of(values[known], n_levels, place[known], table.cells[cells], seed)
    unchanged = parse_recoding(table, {})
    laws = list(laws_of(posterior, unchanged, table.cells[cells], counts))
    inverse = _inverse(laws, counts)
    inferred = [shares.usual(), shares.inferred(inverse)]
    if released is not None:
        inferred.append(_from_released(posterior, released, cells, n_levels, seed))
    totals = counts @ _drawn(shares, inferred, laws, counts, seed).swapaxes(1, 2)
    usual_v, best_v = (shares.right(one, inverse) for one in inferred[:2])
    gains = totals - totals[0]
    as_shown, share = None, 0.0
    if released is not None:
        coarse = released.recoding.columns(table).codes(table.cells[cells])
        if len(np.unique(coarse, axis=0)) < len(cells):
            as_shown = Shares.of(
                values[known], n_levels, place[known], table.cells[cells], seed, coarse
            )
    if as_shown is not None:
        # π by the nearest of all keys takes the value that a coarse file leads to for too rare, and
        # π by those who look the same there for too frequent. How many cells follow the latter is
        # told by the records on the average alone.
        share = stacked(*(one.outside(values[known], place[known]) for one in (shares, as_shown)))
        second = counts @ _drawn(as_shown, inferred, laws, counts, seed).swapaxes(1, 2)
        gains[2] += _shares_about(share, len(laws), seed) * (second[2] - second[0] - gains[2])
        totals[2] = totals[0] + gains[2]
    expected = gains.mean(axis=1, keepdims=True)
    gains = expected + WIDER * (gains - expected)
    # How often b is right of the population is known from these records: an error of all together.
    left = 1.0 - table.n_records / table.n_units
    others = np.maximum(usual_v * (1.0 - usual_v), 0.0)
    totals += _sampled((counts * others).sum() * left, len(laws), seed, 2)
    if released is not None:
        # So is the difference where a released file leads to neither of the original's values.
        v = shares.right(inferred[2], inverse)
        if as_shown is not None:
            v += share * (as_shown.right(inferred[2], inverse) - v)
        apart = (inferred[2] != inferred[0]) & (inferred[2] != inferred[1])
        both = np.where(apart, v + usual_v - (v - usual_v) ** 2, 0.0)
        error = _sampled((counts * both).sum() * left, len(laws), seed, 3)
        totals[2] += error
        gains[2] += error
    totals = np.clip(totals, 0.0, counts.sum())

    def of_records(found: Int64) -> Int64:
        return np.where(complete, found[place], -1)

    told = [
        Told(summarised(one, level), summarised(gain, level))
        for one, gain in zip(totals, gains, strict=True)
    ]
    return Learned(
        name=name,
        n_levels=n_levels,
        n_records=int(complete.sum()),
        right=told[1].right,
        before=told[0].right,
        gain=told[1].gain,
        released=None if released is None else told[2],
        record_right=np.where(complete, best_v[place], np.nan),
        record_gain=np.where(complete, np.maximum(best_v - usual_v, 0.0)[place], np.nan),
        record_chosen=of_records(inferred[1]),
        record_usual=of_records(inferred[0]),
        record_released=None if released is None else of_records(inferred[2]),
    )


def _shares_about(share: float, n: int, seed: int) -> Float64:
    """Draw shares about a known one, (n,), as little as one share can be known."""
    if share in (0.0, 1.0):
        return np.full(n, share)
    return np.random.default_rng([seed, 4]).beta(2.0 * share, 2.0 * (1.0 - share), n)


def _sampled(variance: float, n: int, seed: int, number: int) -> Float64:
    """Draw an error of the sample, (n,), of mean 0."""
    found: Float64 = np.random.default_rng([seed, number]).standard_normal(n)
    found -= found.mean()
    return found * float(np.sqrt(variance))


def summarised(draws: Float64, level: float) -> Summary:
    """Summarise predictive draws, (n_draws,)."""
    so_far = interval_of(draws, level)._asdict()
    return Summary(mean=float(draws.mean()), **so_far, rhat=None, ess_bulk=None, ess_tail=None)


def _from_released(
    posterior: Posterior, released: Released, cells: Int64, n_levels: int, seed: int
) -> Int64:
    """The value that is inferred from a released file for each cell of the original."""
    table = posterior.table
    ours = released.recoding.columns(table).codes(table.cells[cells])
    there = (released.codes >= 0).all(axis=1) & (released.values >= 0)
    if not there.any():
        # Nothing is told: whatever is inferred is a guess.
        return np.zeros(len(cells), np.int64)
    codes = np.vstack((ours, released.codes[there])).astype(np.int32)
    distinct, place = np.unique(codes, axis=0, return_inverse=True)
    place = place.ravel()
    asked, theirs = place[: len(cells)], place[len(cells) :]
    shares = Shares.of(released.values[there], n_levels, theirs, distinct, seed)
    recoded = np.unique(asked)
    sums = np.bincount(asked, table.counts[cells], len(distinct))
    counts = sums[recoded].astype(np.float64)
    laws = list(laws_of(posterior, released.recoding, distinct[recoded], counts, _FEW))
    inverse = np.zeros(len(distinct))
    # A synthetic file may have more records of a combination than there are units.
    inverse[recoded] = _inverse(laws, counts)
    inverse = np.minimum(inverse, 1.0 / np.maximum(shares.known, 1.0))
    return shares.inferred(inverse)[asked]


def _inverse(laws: list[Others], counts: Float64) -> Float64:
    """E[1/F] of cells, (n_cells,)."""
    some = laws[:: -(-len(laws) // _FEW)]
    found: Float64 = np.mean([mean_inverse(law, counts) for law in some], axis=0)
    return found


def _drawn(
    shares: Shares,
    inferred: list[Int64],
    laws: list[Others],
    counts: Float64,
    seed: int,
) -> Float64:
    """Share of the F units that has each of the values inferred of a cell, in drawn populations.

    Returns
    -------
    Float64
        (n_inferences, n_laws, n_cells).
    """
    n = np.stack([shares.records(values) for values in inferred])
    parts = np.stack([shares.parts(values) for values in inferred])
    # A value that is inferred twice is drawn once.
    first = [
        np.argmax([(one == other) for other in inferred[: i + 1]], axis=0)
        for i, one in enumerate(inferred)
    ]
    cells = np.arange(shares.n_cells)
    found = np.empty((len(inferred), len(laws), shares.n_cells))
    n_alphas = shares.alphas.shape[1]
    for d in sorted(range(len(laws)), key=lambda d: d % n_alphas):
        law, generator = laws[d], np.random.default_rng([seed, d])
        if d < n_alphas:
            alpha = shares.alpha(shares.alphas[:, d])
            chances = shares.weights(alpha).cumsum(axis=0)
        part = (generator.random(shares.n_cells) * chances[-1] >= chances).sum(axis=0)
        part = np.minimum(part, len(chances) - 1)
        unseen = law.drawn(generator).astype(np.float64)
        units = counts + unseen
        rest = (units - shares.known).astype(np.int64)
        whole = shares.known + alpha
        for i, of_value in enumerate(n):
            # One value after the other: a share of what the ones before have left.
            fresh = first[i] == i
            ours = np.where(fresh, of_value + alpha * parts[i, part, cells], 0.0)
            share = _beta(ours, np.maximum(whole - ours, 0.0), generator)
            taken = generator.binomial(rest, share)
            found[i, d] = np.where(fresh, of_value + taken, 0.0) / units
            for j in range(i):
                found[i, d] = np.where(first[i] == j, found[j, d], found[i, d])
            whole, rest = whole - ours, rest - taken
    return found


def _beta(a: Float64, b: Float64, generator: np.random.Generator) -> Float64:
    """Draw Beta(a, b), 0 where a is 0 and 1 where only b is."""
    one, other = generator.standard_gamma(a), generator.standard_gamma(b)
    return one / np.maximum(one + other, 1e-300)


def laws_of(
    posterior: Posterior,
    recoding: Recoding,
    rows: Int32,
    counts: Float64,
    most: int = MOST_STATES,
) -> Iterator[Others]:
    """The law of the unobserved units of (n_cells, n_keys) cells of the recoded table, by state."""
    table = posterior.table
    if table.n_units == table.n_records:
        nothing = np.zeros(len(rows))
        yield Others(nothing, nothing, nothing)
        return
    for _, look, exposure, chances in looks(posterior, recoding, np.ascontiguousarray(rows), most):
        yield others(look, exposure, chances, counts, by_mean=True)
