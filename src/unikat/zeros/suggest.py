"""Candidates for structural zeros: combinations that do not occur but are expected often."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from math import exp, log, prod

import numpy as np

from unikat._typing import Bool, Float64
from unikat.data.keys import MISSING
from unikat.data.named_levels import Levels
from unikat.data.structure import order_of
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.zeros.conditions import Layout
from unikat.zeros.disjoint_conditions import covers
from unikat.zeros.writing import rule_text
from unikat.zeros.zeros import Rule, Zeros

MOST_COMBINATIONS = 1_000_000
"""Keys whose levels combine to more than this are not looked at together."""
_SWEEPS = 200
_TOLERANCE = 1e-6
_MOST_SEEDS = 2_000
"""Most groups that are grown from the combinations of the same keys."""
_LONG_LIST = 12
"""Keys with an order and more levels than this enter a rule with a stretch of it, not a list."""


@dataclass(frozen=True, kw_only=True)
class Suggestion:
    """A combination of levels that no record has, with the evidence that it is no chance."""

    rule: str
    """It as a rule, for :meth:`Zeros.of`."""
    keys: tuple[str, ...]
    expected: float
    """Records expected to have it, were it as frequent as its margins say."""
    expected_if_rare: float
    """Records expected to have it, were it as rare as the rarest combinations of the same levels
    that do occur; of a sample of households, households. See :func:`suggest`."""
    n_cells: int
    """Combinations of levels of these keys in it."""
    bound: float
    """Bound of the probability to see such a group empty by chance anywhere in the table: the
    number of groups looked at times exp(-expected_if_rare), at most 1."""


def suggest(
    table: CellTable,
    zeros: Zeros | None = None,
    *,
    n_keys: int = 3,
    level: float = 0.01,
    most: int = 100,
) -> tuple[Suggestion, ...]:
    """Find combinations of levels that never occur although expected often.

    For two keys, a count is expected from the two margins under independence; for three keys, from
    the three two-way margins without a three-factor interaction (iterative proportional fitting),
    where all three pairs do occur. Combinations that are impossible already are left out of the
    fit.

    What is possible can still be far rarer than its margins say, as widows of 20 are. So E is the
    expected count times the smallest ratio of seen to expected among the combinations that occur
    and differ in one level, at most 1. Along a key whose levels are ordered, the ratio goes on
    falling as it falls up to the last level that occurs. Where E records are expected, none is seen
    with probability about exp(-E). A combination counts as beyond chance if exp(-E) times the
    number of combinations looked at is below `level`.
    Persons of a household are alike: where households were drawn, E is divided by the mean number
    of records in the household of a record, as if they all were the same.
    For two keys whose levels are numbers, the empty ends, such as the youngest ages that are never
    widowed, are looked at as a whole as well. What is beyond chance is united to products of level
    sets, as large as they go, and left out if it follows from others with more evidence.

    Keys whose levels combine to more than a million are not looked at together
    (:func:`not_looked_at` names them).

    A suggestion is evidence for a person to judge: something rare or excluded by the way the
    sample was drawn is not impossible.

    Parameters
    ----------
    table
        The sample. Records with one of the keys missing say nothing of their combination.
    zeros
        What is known to be impossible; not suggested again.
    n_keys
        2 or 3: how many keys are looked at together, at most.
    level
        Probability, between 0 and 1, of suggesting anything where the model of the expected counts
        holds.
    most
        Most suggestions to return.

    Returns
    -------
    tuple of Suggestion
        The most surprising absence first, by E. No record of the table breaks any.

    Examples
    --------
    >>> from unikat.data.keys import Key
    >>> keys = [Key.of_size("AGE", 4), Key.of_size("MARRIED", 2)]
    >>> codes = [[age, married] for age in range(4) for married in (0, age >= 2)] * 20
    >>> table = CellTable.from_codes(np.array(codes, dtype=int), keys, population_size=1000)
    >>> [(found.rule, round(found.expected)) for found in suggest(table)]
    [('AGE < 2 and MARRIED == 1', 20)]
    """
    _check(table, zeros, n_keys, level, most)
    looks = [
        _Expected(table, zeros, keys) for n in range(2, n_keys + 1) for keys in _sets(table, n)
    ]
    n_looked = sum(look.n_looked for look in looks)
    if not n_looked:
        return ()
    enough = log(n_looked / level)
    found: list[Suggestion] = []
    for look in looks:
        for sets, expected, if_rare in look.groups(enough):
            text = rule_text(table.keys, dict(zip(look.keys, sets, strict=True)))
            if text is None:
                continue
            found.append(
                Suggestion(
                    rule=text,
                    keys=tuple(table.keys[j].name for j in look.keys),
                    expected=expected,
                    expected_if_rare=if_rare,
                    n_cells=prod(map(len, sets)),
                    bound=min(1.0, exp(log(n_looked) - if_rare)),
                )
            )
    found.sort(key=lambda one: (-one.expected_if_rare, len(one.keys), one.rule))
    return _not_implied(found, table, zeros, most)


def not_looked_at(table: CellTable, n_keys: int = 3) -> tuple[tuple[str, ...], ...]:
    """Return the names of keys that :func:`suggest` does not look at together.

    Their levels combine to more than :data:`MOST_COMBINATIONS`.

    Examples
    --------
    >>> from unikat.data.keys import Key
    >>> keys = [Key.of_size("AGE", 1500), Key.of_size("JOB", 900), Key.of_size("SEX", 2)]
    >>> table = CellTable.from_codes([[0, 0, 0]], keys, population_size=10)
    >>> not_looked_at(table)
    (('AGE', 'JOB'), ('AGE', 'JOB', 'SEX'))
    """
    names = [key.name for key in table.keys]
    return tuple(
        tuple(names[j] for j in keys)
        for n in range(2, n_keys + 1)
        for keys in combinations(range(table.n_keys), n)
        if prod(table.n_levels[j] for j in keys) > MOST_COMBINATIONS
    )


def _not_implied(
    found: Sequence[Suggestion], table: CellTable, zeros: Zeros | None, most: int
) -> tuple[Suggestion, ...]:
    """Leave out what follows from known zeros and from suggestions that come first."""
    layout = Layout(n_levels=table.n_levels)
    known = [] if zeros is None else layout.to_bits(zeros.conditions)
    kept: list[Suggestion] = []
    for one in found:
        if len(kept) == most:
            break
        rule = Rule.of(one.rule, table.keys)
        boxes = layout.to_bits(rule.conditions)
        if all(covers(known, box, layout) for box in boxes):
            continue
        # Levels that fill a gap have no record, but an incomplete one might be forbidden.
        if rule.forbids(table.cells).any():
            continue
        known += boxes
        kept.append(one)
    return tuple(kept)


def _check(table: CellTable, zeros: Zeros | None, n_keys: int, level: float, most: int) -> None:
    if n_keys not in (2, 3):
        raise SpecError(f"n_keys={n_keys} must be 2 or 3: how many keys are looked at together.")
    if not 0 < level < 1:
        raise SpecError(f"level={level} must be a probability between 0 and 1, such as 0.01.")
    if most < 1:
        raise SpecError(f"most={most} must be at least 1, such as 100.")
    if zeros is not None and zeros.keys != table.keys:
        raise SpecError("zeros were read for other keys; read them with the keys of the table.")


def _sets(table: CellTable, n: int) -> Iterator[tuple[int, ...]]:
    """Sets of keys whose levels do not combine to too many."""
    for keys in combinations(range(table.n_keys), n):
        if prod(table.n_levels[j] for j in keys) <= MOST_COMBINATIONS:
            yield keys


class _Expected:
    """What is seen and expected of the combinations of two or three keys."""

    def __init__(self, table: CellTable, zeros: Zeros | None, keys: tuple[int, ...]) -> None:
        self.table, self.keys = table, keys
        self.levels = [Levels(key=table.keys[j]) for j in keys]
        all_orders = [order_of(levels.key) for levels in self.levels]
        self.ranks = [None if order is None else np.argsort(order) for order in all_orders]
        self.orders = [order if len(keys) == 2 else None for order in all_orders]
        shape = tuple(levels.n_named for levels in self.levels)
        codes = table.cells[:, list(keys)]
        seen = ((codes != MISSING) & (codes < np.array(shape))).all(axis=1)
        # The codes of the level for missing values are cut off: it is no value.
        places = np.ravel_multi_index(tuple(codes[seen].T), shape)
        counts = np.bincount(places, table.counts[seen].astype(float), prod(shape))
        self.seen: Float64 = counts.astype(np.float64).reshape(shape)
        allowed = np.ones(shape, dtype=np.bool_)
        if zeros is not None:
            allowed = ~_impossible(zeros, keys, shape)
        self.expected = fitted(self.seen, allowed)
        self.if_rare = self.expected * least_ratio(self.seen, self.expected, all_orders)
        if table.households is not None:
            together = np.bincount(table.households[seen[table.record_cell]])
            self.if_rare *= together.sum() / max(int(together @ together), 1)
        self.used: list[Bool] = [
            np.asarray(self.seen.any(axis=_others(d, self.seen.ndim)))
            for d in range(self.seen.ndim)
        ]
        n_used = int(np.count_nonzero(self.expected))
        self.n_looked = n_used * (1 + 2 * sum(order is not None for order in self.orders))

    def groups(self, enough: float) -> Iterator[tuple[list[list[int]], float, float]]:
        """Level sets, one per key, of which nothing is seen, and what is expected, also if rare.

        Of each `enough` is expected, even if it is rare.
        """
        flagged = self.flagged(enough)
        left = flagged.copy()
        for _ in range(_MOST_SEEDS):
            if not left.any():
                return
            seed = np.unravel_index(np.argmax(np.where(left, self.if_rare, -1.0)), left.shape)
            best: tuple[float, tuple[Bool, ...]] | None = None
            for order in permutations(range(left.ndim)):
                sets = self.grown(flagged, [int(place) for place in seed], order)
                gain = float((self.if_rare * left)[np.ix_(*sets)].sum())
                if best is None or gain > best[0]:
                    best = gain, sets
            assert best is not None
            sets = best[1]
            left[np.ix_(*sets)] = False
            expected, if_rare = (
                float(of[np.ix_(*sets)].sum()) for of in (self.expected, self.if_rare)
            )
            if if_rare >= enough:
                yield [self.filled(d, one) for d, one in enumerate(sets)], expected, if_rare

    def flagged(self, enough: float) -> Bool:
        """Combinations that are empty beyond chance, alone or as a part of an empty end."""
        empty = (self.seen == 0) & (self.expected > 0)
        flagged: Bool = empty & (self.if_rare >= enough)
        for axis, order in enumerate(self.orders):
            if order is None:
                continue
            for directed in (order, order[::-1]):
                seen = np.take(self.seen, directed, axis=axis)
                end = np.cumsum(seen, axis=axis) == 0
                expected = np.where(end, np.take(self.if_rare, directed, axis=axis), 0.0)
                certain = expected.sum(axis=axis, keepdims=True) >= enough
                back = np.argsort(directed)
                flagged |= np.take(end & certain, back, axis=axis) & empty
        return flagged

    def grown(self, flagged: Bool, seed: Sequence[int], order: Sequence[int]) -> tuple[Bool, ...]:
        """Sets around a combination whose product is flagged, first the axes that come first."""
        sets = [np.arange(n) == place for n, place in zip(flagged.shape, seed, strict=True)]
        for axis in order:
            inner = [np.ones_like(s) if d == axis else s for d, s in enumerate(sets)]
            block = flagged[np.ix_(*inner)]
            chosen = block.all(axis=_others(axis, flagged.ndim))
            ranks = self.ranks[axis]
            if ranks is not None and len(ranks) > _LONG_LIST:
                # Levels without records do not interrupt a stretch.
                broken = np.sort(ranks[self.used[axis] & ~chosen])
                place = np.searchsorted(broken, ranks[seed[axis]])
                after = broken[place] if place < len(broken) else len(ranks)
                before = broken[place - 1] if place else -1
                chosen &= (ranks > before) & (ranks < after)
            sets[axis] = chosen
        return tuple(sets)

    def filled(self, d: int, chosen: Bool) -> list[int]:
        """Levels of a set; with those between them that do not occur, where that closes gaps."""
        codes = np.flatnonzero(chosen).tolist()
        order = order_of(self.levels[d].key)
        if order is None or len(codes) < 2:
            return codes
        places = [place for place, code in enumerate(order) if chosen[code]]
        between = order[places[0] : places[-1] + 1]
        return sorted(between) if all(chosen[c] or not self.used[d][c] for c in between) else codes


def least_ratio(
    seen: Float64, expected: Float64, orders: Sequence[Sequence[int] | None]
) -> Float64:
    """Ratio of seen to expected records that an empty combination may have, were it possible.

    The smallest among the combinations that differ from it in one level, occur, and are expected;
    along an order, as far as the two nearest that occur tell, it falls on by the same factor with
    each level. At most 1.
    """
    occurs = (seen > 0) & (expected > 0)
    # One standard error above, or more: few records are no evidence that something is rare.
    high = seen + np.sqrt(seen) + 1.0
    ratio = np.divide(high, expected, out=np.full_like(expected, np.inf), where=occurs)
    least = np.ones_like(expected)
    for axis, order in enumerate(orders):
        least = np.minimum(least, ratio.min(axis=axis, keepdims=True))
        if order is None:
            continue
        lines, found = np.moveaxis(ratio, axis, 0), np.moveaxis(least, axis, 0)
        for directed in (order, order[::-1]):
            nearest, factor = np.full(lines.shape[1:], np.inf), np.ones(lines.shape[1:])
            for code in directed:
                there = np.isfinite(lines[code])
                fall = np.divide(
                    lines[code],
                    nearest,
                    out=np.ones_like(nearest),
                    where=there & (nearest < np.inf),
                )
                factor = np.where(there, np.minimum(fall, 1.0), factor)
                nearest = np.where(there, lines[code], nearest * factor)
                found[code] = np.where(there, found[code], np.minimum(found[code], nearest))
    return least


def _others(axis: int, n_axes: int) -> tuple[int, ...]:
    return tuple(other for other in range(n_axes) if other != axis)


def _impossible(zeros: Zeros, keys: Sequence[int], shape: tuple[int, ...]) -> Bool:
    """Combinations of some keys that are impossible already."""
    patterns = np.full((prod(shape), len(zeros.keys)), MISSING, dtype=np.int32)
    patterns[:, list(keys)] = np.indices(shape).reshape(len(keys), -1).T
    return zeros.forbids(patterns).reshape(shape)


def fitted(seen: Float64, allowed: Bool) -> Float64:
    """Fit counts to all margins of one dimension less, without the highest interaction.

    Combinations that are not `allowed` stay 0. Of two keys, with all allowed, it is the product of
    the margins over the total.
    """
    expected = np.where(allowed, 1.0, 0.0)
    # Of a combination that is impossible by the rules, records would not count.
    seen = np.where(allowed, seen, 0.0)
    if not seen.any():
        return np.zeros_like(expected)
    margins = [
        seen.sum(axis=axis if seen.ndim == 3 else _others(axis, 2), keepdims=True)
        for axis in range(seen.ndim)
    ]
    for _ in range(_SWEEPS):
        before = expected
        for axis, margin in enumerate(margins):
            over = axis if seen.ndim == 3 else _others(axis, 2)
            now = expected.sum(axis=over, keepdims=True)
            ratio = np.divide(margin, now, out=np.zeros_like(now), where=now > 0)
            expected = expected * ratio
        if np.abs(expected - before).max() <= _TOLERANCE * max(1.0, float(expected.max())):
            break
    return expected
