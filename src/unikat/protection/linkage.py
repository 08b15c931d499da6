"""How many records an intruder links correctly whose keys have errors (docs/design/linkage.md).

He has one record of every person of the population, in which key j is missing with probability μ_j
and else wrong with probability e_j, and links a sample unique in cell x to the person with the
largest match weight (Fellegi and Sunter 1969). Each key that agrees adds log (1 - e_j) / q_j to it,
each that differs log e_j / (1 - q_j), q_j being the share of the record's level in his file. With
the pattern γ of keys that agree, differ or are missing in the right person's record, A others who
have a larger weight and T who have the same,

    P(right) = sum over γ of P(γ) E[1{A = 0} / (1 + T)].

Others who are truly in x are those of τ2, each with pattern γ' with probability P(γ'); those of
other cells are Poisson, with what the model expects of erring records. Without errors it is τ2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, combinations
from math import comb
from typing import NamedTuple

import numpy as np

from unikat._typing import Bool, Float64, Int32, Int64
from unikat.data.table import CellTable
from unikat.errors import SpecError, option
from unikat.protection.left_over import looks
from unikat.protection.perturbation import wrong_matrix
from unikat.protection.recoding import parse_recoding
from unikat.protection.what_if import Posterior
from unikat.risk.by_class import Look
from unikat.risk.estimate import Summary
from unikat.risk.exposure import BySampling, EqualChances, Exposure, exposure_of
from unikat.risk.law import Moments, Others, State, moments, moments_of, others
from unikat.risk.predictive import Law, poisson_binomial
from unikat.spec.key_errors import Rates

MOST_STATES = 100
"""Of the posterior, that are looked at."""
_LEAST_STATES = 20
_MOST_CELLS = 5_000_000
"""Cells that a model is asked for, beyond which fewer states are looked at."""
_BLOCK = 1 << 20
"""Cells that it is asked for at a time, and patterns of records that are in memory."""
MOST_SETS = 4_096
"""Sets of keys that may be wrong or missing."""
_LEFT_OUT = 0.001
"""Probability that a record has more wrong and missing keys than are looked at, at most."""
_NEGLIGIBLE = 1e-6
"""Probability of a pattern without competitors, below which it adds nothing."""
_CROWD = 1_000.0
"""Persons who agree outside a set of keys, beyond which nobody is found who differs in them."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Linkage:
    """Links of an intruder whose keys have errors."""

    rates: tuple[Rates, ...]
    """Of each key."""
    n_uniques: int
    """Complete sample uniques; the numbers below are of them."""
    correct: Summary
    """Links that are correct."""
    exact: Summary
    """Of these, links to a record that agrees in all keys."""
    without_errors: Summary
    """The same if no key had errors: τ2 of these records."""
    record_correct: Float64 = field(repr=False)
    """(n_records of the table,) probability that the link is correct; NaN where it is not looked
    at."""


def check_linkage(table: CellTable, rates: Sequence[Rates]) -> None:
    """Refuse a table whose links cannot be told (SpecError)."""
    why = None
    exposure = exposure_of(table)
    if table.layout is not None:
        why = "households are the units"
    elif table.zeros is not None:
        why = "some combinations are impossible (--zeros)"
    elif table.n_units == table.n_records:
        why = "the file holds the whole population"
    elif not isinstance(exposure, EqualChances) and not (
        isinstance(exposure, BySampling) and exposure.appended
    ):
        why = "margins are known, or a key tells how records were sampled"
    if why is not None:
        raise SpecError(
            f"{option('key_errors')} cannot be used where {why}. Leave it out, and hold τ2 for the "
            "number of correct links: errors can only lower it."
        )
    _Patterns.of(rates)


def linkage(posterior: Posterior, rates: Sequence[Rates], level: float) -> Linkage | None:
    """Tell how many sample uniques are linked correctly.

    Parameters
    ----------
    posterior
        Of the keys, of a table that `check_linkage` accepts.
    rates
        Errors of each key in the intruder's file.
    level
        Probability of the intervals.

    Returns
    -------
    Linkage or None
        None where no state tells the risk: no record is unique.
    """
    table = posterior.table
    which = np.flatnonzero(table.unique & ~table.incomplete)
    if not posterior.states or not len(which):
        return None
    patterns = _Patterns.of(rates)
    # In parts, so that memory does not grow with records times patterns.
    n_parts = -(-len(which) * len(patterns.differs) // _BLOCK)
    n_states: int | None = None
    found: list[list[list[Moments]]] = []
    record = np.full(table.n_cells, np.nan)
    for some in np.array_split(which, n_parts):
        looking = _Looking.of(posterior, rates, patterns, np.ascontiguousarray(table.cells[some]))
        n_states = n_states or looking.affordable(n_parts)
        states = list(looking.states(n_states))
        record[some] = np.mean([one[0].r2 for one in states], axis=0)
        found.append([[one[place] for one in states] for place in range(3)])
    laws = [
        Law([State.of(*of_state) for of_state in zip(*(one[place] for one in found), strict=True)])
        for place in range(3)
    ]
    return Linkage(
        rates=tuple(rates),
        n_uniques=len(which),
        correct=laws[0].tau2(level),
        exact=laws[1].tau2(level),
        without_errors=laws[2].tau2(level),
        record_correct=record[table.record_cell],
    )


_BEYOND = 1e9
"""Stands for more persons than can be told."""


class _Patterns(NamedTuple):
    """Patterns of keys that differ and are missing, all with few of them; the first has none."""

    sets: Bool
    """(n_sets, n_keys): keys of each set that are left out."""
    differs: Bool
    """(n_patterns, n_keys)"""
    missing: Bool
    """(n_patterns, n_keys)"""
    signs: Float64
    """(n_sets, n_patterns): by which persons who agree outside the sets add up to those with a
    pattern, if no key were missing."""

    @classmethod
    def of(cls, rates: Sequence[Rates]) -> _Patterns:
        """Find them; refuse too many (SpecError)."""
        bad = np.array([one.missing + (1.0 - one.missing) * one.wrong for one in rates])
        erring = np.flatnonzero(bad).tolist()
        beyond = 1.0 - poisson_binomial([bad])[:, 0]
        most = int(np.argmax(beyond <= _LEFT_OUT)) if len(erring) else 0
        if sum(comb(len(erring), size) for size in range(most + 1)) > MOST_SETS:
            raise SpecError(
                f"With these {option('key_errors')} a record has often {most} wrong or missing "
                "keys, and there are too many ways to have so many. Give lower rates, or rates of "
                "fewer keys."
            )
        sets = [set(some) for size in range(most + 1) for some in combinations(erring, size)]
        place = {frozenset(one): number for number, one in enumerate(sets)}
        wrong = [one.wrong > 0.0 for one in rates]
        lost = [one.missing > 0.0 for one in rates]
        pairs = [
            (frozenset(differs), one - frozenset(differs))
            for one in place
            for differs in _subsets(sorted(one))
            if all(wrong[j] for j in differs) and all(lost[j] for j in one - frozenset(differs))
        ]
        signs = np.zeros((len(sets), len(pairs)))
        for column, (differs, missing) in enumerate(pairs):
            for agrees in _subsets(sorted(differs)):
                signs[place[missing | differs - set(agrees)], column] += (-1.0) ** len(agrees)
        keys = range(len(rates))
        return cls(
            sets=np.array([[j in one for j in keys] for one in sets], bool),
            differs=np.array([[j in one for j in keys] for one, _ in pairs], bool),
            missing=np.array([[j in one for j in keys] for _, one in pairs], bool),
            signs=signs,
        )


def _subsets(items: Sequence[int]) -> chain[tuple[int, ...]]:
    return chain.from_iterable(combinations(items, size) for size in range(len(items) + 1))


@dataclass(frozen=True, kw_only=True, eq=False)
class _Looking:
    """What all states share: the patterns of each record, in falling order of their weight."""

    posterior: Posterior = field(repr=False)
    cells: Int32
    """(n, n_keys): complete sample uniques."""
    matrices: dict[int, Float64]
    """Of keys with wrong values."""
    patterns: _Patterns
    there: Float64
    """(n_patterns,): probability that the keys that should be are missing, and no others."""
    probability: Float64
    """(n, n_patterns) of the right person's record, in falling order of the weight, as follows."""
    order: Int64
    """Number of the pattern."""
    first: Int64
    """Place of the first pattern with the same weight."""
    last: Int64
    """That of the last one."""

    @classmethod
    def of(
        cls, posterior: Posterior, rates: Sequence[Rates], patterns: _Patterns, cells: Int32
    ) -> _Looking:
        """Order the patterns."""
        table = posterior.table
        codes = table.cells[table.record_cell]
        matrices, agree, weight = {}, np.ones(cells.shape), np.zeros((2, *cells.shape))
        for j, (rate, key) in enumerate(zip(rates, table.keys, strict=True)):
            matrix = wrong_matrix(codes[:, j], key.n_levels, rate.wrong)
            known = codes[:, j][codes[:, j] >= 0]
            share = np.bincount(known, minlength=key.n_levels) / len(known) @ matrix
            agree[:, j] = np.diag(matrix)[cells[:, j]]
            with np.errstate(divide="ignore"):
                weight[0, :, j] = np.log(agree[:, j] / share[cells[:, j]])
                chance = np.maximum(1.0 - share[cells[:, j]], 1e-300)
                weight[1, :, j] = np.log((1.0 - agree[:, j]) / chance)
            if rate.wrong:
                matrices[j] = matrix
        lost = np.array([one.missing for one in rates])
        there = np.where(patterns.missing, lost, 1.0 - lost).prod(axis=1)
        agrees = ~patterns.differs & ~patterns.missing
        score, probability = np.empty((2, len(cells), len(there)))
        for place, (same, differs) in enumerate(zip(agrees, patterns.differs, strict=True)):
            score[:, place] = weight[0][:, same].sum(axis=1) + weight[1][:, differs].sum(axis=1)
            of_keys = agree[:, same].prod(axis=1) * (1.0 - agree[:, differs]).prod(axis=1)
            probability[:, place] = there[place] * of_keys
        order = np.argsort(-score, axis=1, kind="stable")
        score = np.take_along_axis(score, order, axis=1)
        new = np.ones(score.shape, bool)
        with np.errstate(invalid="ignore"):
            new[:, 1:] = score[:, :-1] - score[:, 1:] > 1e-9
        places = np.arange(len(there))
        first = np.maximum.accumulate(np.where(new, places, 0), axis=1)
        ends = np.where(np.roll(new, -1, axis=1) | (places == places[-1]), places, len(places))
        last = np.minimum.accumulate(ends[:, ::-1], axis=1)[:, ::-1]
        return cls(
            posterior=posterior,
            cells=cells,
            matrices=matrices,
            patterns=patterns,
            there=there,
            probability=np.take_along_axis(probability, order, axis=1),
            order=order,
            first=first,
            last=last,
        )

    @cached_property
    def asked(self) -> Bool:
        """Sets of keys outside of which few persons agree with each record, (n, n_sets)."""
        recoding = parse_recoding(self.posterior.table, {})
        _, look, exposure, _ = next(looks(self.posterior, recoding, self.cells, 1))
        return self._few(look, exposure)

    def affordable(self, n_parts: int) -> int:
        """States that are looked at, if there are so many parts like this one."""
        n_states = _MOST_CELLS // (int(self.asked.sum()) * n_parts)
        return min(max(n_states, _LEAST_STATES), MOST_STATES)

    def states(self, n_states: int) -> Iterator[tuple[Moments, Moments, Moments]]:
        """What states say of correct links, of exact ones, and of τ2."""
        recoding = parse_recoding(self.posterior.table, {})
        ones, nothing = np.ones(len(self.cells)), np.zeros(len(self.cells))
        for _, look, exposure, chances in looks(self.posterior, recoding, self.cells, n_states):
            law, plain = (
                others(look, exposure, chances, ones),
                moments(look, exposure, chances, ones),
            )
            sums = self._sums(law, self._expected(look, exposure, self.asked))
            base = moments_of(law, ones)
            # As factors: a population of known size is not quite Poisson.
            factor = np.stack(plain[1:4]) / np.stack(base[1:4])
            correct, exact = (part * factor for part in sums)
            yield Moments(nothing, *correct), Moments(nothing, *exact), plain

    def _few(self, look: Look, exposure: Exposure) -> Bool:
        """Sets of keys outside of which few persons agree with each record, (n, n_sets)."""
        sets = self.patterns.sets
        size, asked = sets.sum(axis=1), np.ones((len(self.cells), len(sets)), bool)
        for some in range(1, int(size.max()) + 1):
            larger = np.flatnonzero(size == some)
            smaller = np.flatnonzero(size == some - 1)
            within = (~sets[smaller][:, None] | sets[larger][None]).all(axis=2)
            crowded = self._agreeing(look, exposure, asked & (size == some - 1)) > _CROWD
            crowded |= ~asked
            asked[:, larger] = ~(crowded[:, smaller] @ within)
        return asked

    def _agreeing(self, look: Look, exposure: Exposure, asked: Bool) -> Float64:
        """Persons whose erring record agrees with a record outside of sets, (n, n_sets).

        0 where `asked`, (n, n_sets), is not so.
        """
        posterior = self.posterior
        recoding = parse_recoding(posterior.table, {})
        drawn = posterior.recoded(recoding, posterior.table, self.matrices)
        rows, places = np.nonzero(asked)
        found = np.zeros(asked.shape)
        for start in range(0, len(rows), _BLOCK):
            some, of = rows[start : start + _BLOCK], places[start : start + _BLOCK]
            cells = np.where(self.patterns.sets[of], -1, self.cells[some]).astype(np.int32)
            found[some, of] = self._present(look._replace(model=drawn), exposure, cells)
        return found

    def _present(self, look: Look, exposure: Exposure, cells: Int32) -> Float64:
        """Persons of the population expected in cells, (n,)."""
        chances = exposure.chances(look, cells)
        sampled = exposure.probabilities(chances) * self.posterior.table.n_records
        found: Float64 = exposure.means(chances) + sampled
        return found

    def _expected(self, look: Look, exposure: Exposure, asked: Bool) -> Float64:
        """Others expected with each pattern who are truly in another cell, (n, n_patterns)."""
        signs = self.patterns.signs
        whole = self._agreeing(look, exposure, asked) @ signs * self.there
        # A pattern's own set is the last of its sets: all others are within it.
        whole[~asked[:, len(signs) - 1 - np.argmax(signs[::-1] != 0.0, axis=0)]] = _BEYOND
        whole = np.take_along_axis(whole, self.order, axis=1)
        own = self._present(look, exposure, self.cells)
        found: Float64 = np.maximum(whole - own[:, None] * self.probability, 0.0)
        return found

    def _sums(self, own: Others, expected: Float64) -> tuple[Float64, Float64]:
        """E of 1{A = 0} / (1 + T) and powers, (3, n), of all patterns and of the first alone."""
        better, same = self._before_and_beside(expected)
        own_better, own_same = self._before_and_beside(self.probability)
        steady, shape, scale = (part[:, None] for part in own)
        alone = np.exp(-better - steady * own_better - shape * np.log1p(scale * own_better))
        weight = self.probability * alone
        row, place = np.nonzero(weight > _NEGLIGIBLE)
        at = row, place
        law = Others(
            same[at] + steady[row, 0] * own_same[at],
            shape[row, 0],
            scale[row, 0] * own_same[at] / (1.0 + scale[row, 0] * own_better[at]),
        )
        powers = np.stack(moments_of(law, np.ones(len(row)))[1:4]) * weight[at]
        first = self.order[at] == 0
        every, exact = np.zeros((2, 3, len(self.cells)))
        for power, one in enumerate(powers):
            np.add.at(every[power], row, one)
            np.add.at(exact[power], row[first], one[first])
        return every, exact

    def _before_and_beside(self, numbers: Float64) -> tuple[Float64, Float64]:
        """Sums over patterns with a larger weight, and over those with the same."""
        up_to = np.cumsum(numbers, axis=1)
        up_to = np.concatenate((np.zeros((len(numbers), 1)), up_to), axis=1)
        before = np.take_along_axis(up_to, self.first, axis=1)
        return before, np.take_along_axis(up_to, self.last + 1, axis=1) - before
